/* SPDX-License-Identifier: Apache-2.0 */
/* Any stream, cut anywhere: the first byte says how long each piece is. Its objects must be those
 * of the stream in one piece, and whatever they hold, reading them stays within bounds. */
#include "probe/ovs_rpc.c" /* nobody else calls it */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Reads one object with everything we have; returns something that depends on what was read. */
static uint64_t look(enum rpc_kind kind, const json_t *m)
{
    static const struct service_question value = {
        .method = "transact", .expected = ANSWER_VALUE, .wanted = "options", .key = "key"};
    if (kind != RPC_REPLY) {
        return kind;
    }
    uint64_t seen =
        10 + (service_judge(services[0].questions, "br-int", m).outcome == PROBE_PASSED);
    const struct probe_answer answer = service_judge(&value, "", m);
    return answer.outcome == PROBE_PASSED ? seen + 1000 + strlen(answer.words) : seen;
}

/* A hash over the objects, in order. */
static uint64_t digest(const char *bytes, size_t len, size_t piece)
{
    uint64_t hash = 1469598103934665603u;
    size_t given = 0;
    for (;;) {
        json_t *m;
        size_t took;
        enum rpc_kind kind = rpc_message_read(bytes, given, given == len, &m, &took);
        if (kind == RPC_INVALID || (kind == RPC_MORE && given == len)) {
            return hash;
        }
        if (kind == RPC_MORE) {
            given = given + piece < len ? given + piece : len;
            continue;
        }
        check(took > 0 && took <= given && bytes[took - 1] == '}');
        hash = (hash ^ (took * 1099511628211u) ^ look(kind, m)) * 1099511628211u;
        json_decref(m);
        bytes += took;
        len -= took;
        given -= took;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1) {
        const char *stream = (const char *)data + 1;
        size_t piece = data[0] % 97 + 1;
        json_t *m;
        size_t took;
        enum rpc_kind kind = rpc_message_read(stream, size - 1, true, &m, &took);
        fuzz_tell(kind == RPC_REPLY);
        json_decref(m);
        check(digest(stream, size - 1, piece) == digest(stream, size - 1, size));
    }
    return 0;
}
