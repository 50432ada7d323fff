/* SPDX-License-Identifier: Apache-2.0 */
/* Any stream, cut anywhere: the first byte says how long each piece is. Its objects must be those
 * of the stream in one piece, and whatever they hold, reading them stays within bounds. */
#include "probe/ovsdb_reply.h"
#include "probe/rpc_frame.h"
#include "probe/rpc_message.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Reads one object with everything we have; returns something that depends on what was read. */
static uint64_t look(const char *text, size_t len)
{
    struct rpc_message m;
    char words[PROBE_WORDS_BYTES];
    char value[32];
    char out[256];
    if (rpc_message_read(text, len, &m, NULL) != 0) {
        return 1;
    }
    if (m.kind == RPC_ECHO) {
        return 2 + rpc_message_answer_echo(&m, out, sizeof(out));
    }
    if (m.kind != RPC_REPLY) {
        return 3;
    }
    uint64_t seen = rpc_message_has_id(&m, 0);
    seen = 2 * seen + (ovsdb_reply_has(&m, "Open_vSwitch", words) == PROBE_PASSED);
    if (ovsdb_reply_value(&m, "options", "key", value, sizeof(value), words) == PROBE_PASSED) {
        seen += 1000 + strlen(value);
    }
    return seen;
}

/* A hash over the objects, in order. */
static uint64_t digest(const char *bytes, size_t len, size_t piece)
{
    struct rpc_frame frame = {.scanned = 0};
    uint64_t hash = 1469598103934665603u;
    size_t given = 0;
    for (;;) {
        size_t object_len;
        switch (rpc_frame_find(&frame, bytes, given, &object_len)) {
        case RPC_FRAME_INVALID:
            return hash;
        case RPC_FRAME_DONE:
            if (object_len == 0 || object_len > given || bytes[object_len - 1] == '"') {
                abort();
            }
            hash =
                (hash ^ (object_len * 1099511628211u) ^ look(bytes, object_len)) * 1099511628211u;
            bytes += object_len;
            len -= object_len;
            given -= object_len;
            break;
        case RPC_FRAME_MORE:
            if (given == len) {
                return hash;
            }
            given = given + piece < len ? given + piece : len;
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1) {
        const char *stream = (const char *)data + 1;
        size_t piece = data[0] % 97 + 1;
        struct rpc_frame frame = {.scanned = 0};
        size_t object_len;
        fuzz_tell(rpc_frame_find(&frame, stream, size - 1, &object_len) == RPC_FRAME_DONE &&
                  look(stream, object_len) > 1);
        if (digest(stream, size - 1, piece) != digest(stream, size - 1, size)) {
            abort();
        }
    }
    return 0;
}
