/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer to each question of each service: it passes, or there are words that say why not. Of a
 * beat the first answer may vouch by its age, and no later one without a change. */
#include "probe/ovs_rpc.c" /* nobody else calls it */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_answer(const struct probe_answer *a)
{
    char clean[PROBE_WORDS_BYTES];
    size_t len = strnlen(a->words, PROBE_WORDS_BYTES);
    check(a->outcome == PROBE_PASSED || a->outcome == PROBE_WRONG || a->outcome == PROBE_UNKNOWN);
    check(len < PROBE_WORDS_BYTES && (len > 0 || a->outcome == PROBE_PASSED));
    text_sanitize(clean, sizeof(clean), a->words, len);
    check(text_equal(clean, a->words) || a->outcome == PROBE_PASSED); /* a value is as it came */
}

static bool judge_all(const json_t *reply)
{
    bool has_passed = false;
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        const struct service *s = &services[i];
        for (size_t q = 0; q < SERVICE_QUESTIONS_MAX && s->questions[q].method; q++) {
            const struct probe_answer answer = service_judge(&s->questions[q], "br-int", reply);
            check(answer.outcome != PROBE_UNKNOWN);
            check_answer(&answer);
            has_passed |= answer.outcome == PROBE_PASSED;
        }
    }
    return has_passed;
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
        check_answer(&answer);
        check(at_s < 10 || answer.outcome == PROBE_WRONG);
        has_passed |= answer.outcome == PROBE_PASSED;
    }
    return has_passed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *reply;
    size_t took;
    enum rpc_kind kind = rpc_message_read((const char *)data, size, true, &reply, &took);
    if (kind == RPC_REPLY) {
        bool has_passed = judge_all(reply);
        fuzz_tell(follow_beat(reply) || has_passed);
    }
    json_decref(reply);
    return 0;
}
