/* SPDX-License-Identifier: Apache-2.0 */
/* Any stream, cut anywhere: the first byte says how long each piece is. Its objects must be those
 * of the stream in one piece. Of each reply, each question of each service makes a pass, or words
 * that say why not. Of ovnkube's time stamp, the first answer may vouch by its age, and no later
 * one without a change. */
#include "probe/ovs_rpc.c" /* nobody else calls it */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>

/* Returns something that depends on it. */
static uint64_t check_answer(const struct probe_answer *a)
{
    char clean[PROBE_WORDS_BYTES];
    size_t len = strnlen(a->words, PROBE_WORDS_BYTES);
    check(a->outcome == PROBE_PASSED || a->outcome == PROBE_WRONG || a->outcome == PROBE_UNKNOWN);
    check(len < PROBE_WORDS_BYTES && (len > 0 || a->outcome == PROBE_PASSED));
    text_sanitize(clean, sizeof(clean), a->words, len);
    check(text_equal(clean, a->words) || a->outcome == PROBE_PASSED); /* a value is as it came */
    return 1000 * (uint64_t)a->outcome + len;
}

/* At the first look, and at a second one that is the same. */
static uint64_t judge_chassis(const json_t *reply)
{
    struct service_chassis memory = {.is_known = false};
    uint64_t seen = 0;
    for (int look = 0; look < 2; look++) {
        const struct probe_answer answer = service_chassis_step(&memory, "dpu-1", reply);
        check(answer.outcome != PROBE_UNKNOWN);
        seen = seen * 31 + check_answer(&answer);
    }
    return seen;
}

static bool has_its_own_judge(const struct service_question *q)
{
    return q->expected == ANSWER_IDS || q->expected == ANSWER_CHASSIS;
}

static uint64_t judge_all(const json_t *reply, bool *has_passed)
{
    const json_t *rows = find_rows(json_object_get(reply, "result"), 0);
    const json_t *ids = json_object_get(json_array_get(rows, 0), "external_ids");
    const struct probe_answer bridges = judge_bridges(ids, "br-int\n");
    uint64_t seen = judge_chassis(reply) * 31 + check_answer(&bridges);
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        const struct service *s = &services[i];
        for (size_t q = 0; q < SERVICE_QUESTIONS_MAX && s->questions[q].method; q++) {
            if (has_its_own_judge(&s->questions[q])) {
                continue;
            }
            const struct probe_answer answer =
                service_judge(&s->questions[q], "br-int", ids, reply);
            check(answer.outcome != PROBE_UNKNOWN);
            seen = seen * 31 + check_answer(&answer);
            *has_passed |= answer.outcome == PROBE_PASSED;
        }
    }
    return seen;
}

/* The same answer again and again. */
static bool follow_beat(const json_t *reply)
{
    struct service_beat beat = {.limit_ns = 10 * NS_PER_SEC};
    const struct wall wall_now = {.ns = 1005 * NS_PER_SEC};
    bool has_passed = false;
    for (int64_t at_s = 0; at_s <= 30; at_s += 5) {
        const struct mono now = {.ns = (100 + at_s) * NS_PER_SEC};
        const struct probe_answer answer =
            service_beat_step(&beat, services[SERVICE_COUNT - 1].questions, reply, now, wall_now);
        (void)check_answer(&answer);
        check(at_s < 10 || answer.outcome == PROBE_WRONG);
        has_passed |= answer.outcome == PROBE_PASSED;
    }
    return has_passed;
}

/* A hash over the objects, in order. */
static uint64_t digest(const char *bytes, size_t len, size_t piece, bool *has_passed)
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
        uint64_t seen = kind == RPC_REPLY ? judge_all(m, has_passed) : kind;
        *has_passed |= kind == RPC_REPLY && follow_beat(m);
        hash = (hash ^ (took * 1099511628211u) ^ seen) * 1099511628211u;
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
        bool has_passed = false;
        uint64_t in_pieces = digest(stream, size - 1, data[0] % 97 + 1, &has_passed);
        check(in_pieces == digest(stream, size - 1, size, &has_passed));
        fuzz_tell(has_passed);
    }
    return 0;
}
