/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[FAULT_KINDS] = {
    [FAULT_API_DOWN] = "api-down",
    [FAULT_HOST_CUT] = "host-cut",
    [FAULT_DPU_CUT] = "dpu-cut",
    [FAULT_NO_WRITES] = "no-writes",
    [FAULT_NO_WATCHES] = "no-watches",
    [FAULT_WATCH_STUCK] = "watch-stuck",
    [FAULT_WATCH_DENIED] = "watch-denied",
    [FAULT_COMPACTION] = "compaction",
    [FAULT_GONE] = "gone",
    [FAULT_RESTORE] = "restore",
    [FAULT_WEBHOOK] = "webhook",
    [FAULT_SLOW] = "slow",
    [FAULT_GARBAGE] = "garbage",
    [FAULT_LOST_ANSWERS] = "lost-answers",
    [FAULT_STALE] = "stale",
    [FAULT_THROTTLED] = "throttled",
    [FAULT_UNAUTHORIZED] = "unauthorized",
    [FAULT_TOUCHES] = "touches",
    [FAULT_DELETE] = "delete",
    [FAULT_NEW_NODE] = "new-node",
    [FAULT_FOREIGN] = "foreign",
    [FAULT_HOSTILE] = "hostile",
    [FAULT_DPU_DEAD] = "dpu-dead",
    [FAULT_DPU_STOPPED] = "dpu-stopped",
    [FAULT_DPU_UNHEALTHY] = "dpu-unhealthy",
    [FAULT_DPU_SHUTDOWN] = "dpu-shutdown",
    [FAULT_DPU_CLOCK] = "dpu-clock",
    [FAULT_HOST_DEAD] = "host-dead",
    [FAULT_HOST_STOPPED] = "host-stopped",
    [FAULT_HOST_SUSPEND] = "host-suspend",
    [FAULT_HOST_REBOOT] = "host-reboot",
    [FAULT_HOST_CLOCK] = "host-clock",
    [FAULT_SECOND_HOST] = "second-host",
    [FAULT_WRITE_DENIED] = "write-denied",
    [FAULT_RECORD_LOST] = "record-lost",
    [FAULT_DPU_REBOOT] = "dpu-reboot",
    [FAULT_HOST_PROBE] = "host-probe",
    [FAULT_FILES] = "files",
    [FAULT_STARVED] = "starved",
    [FAULT_UNSURE] = "unsure",
};

const char *faults_name(enum fault_kind kind)
{
    return names[kind];
}

/* ---- drawing ----------------------------------------------------------------------------------
 */

static int64_t draw_length(struct sim_random *r, int64_t interval_ns, int64_t duration_ns)
{
    switch (sim_random_between(r, 0, 3)) {
    case 0:
        return sim_random_between(r, 100 * MS, interval_ns + SEC);
    case 1:
        return sim_random_between(r, interval_ns, duration_ns + interval_ns);
    case 2:
        return sim_random_between(r, interval_ns, 2 * duration_ns);
    default:
        return sim_random_between(r, duration_ns, 8 * duration_ns);
    }
}

/* Of a generator of its own, so that the seeds of the corpus go on to mean what they meant. */
static void draw_host_probe(struct fault_list *list, uint64_t seed, int64_t interval_ns,
                            int64_t duration_ns, int64_t end)
{
    struct sim_random r = {seed ^ UINT64_C(0xe4e5)};
    int64_t many = sim_random_between(&r, 0, 3);
    for (int64_t i = 0; i < many && list->count < FAULTS_MAX; i++) {
        struct fault *f = &list->items[list->count++];
        f->kind = FAULT_HOST_PROBE;
        f->at = sim_random_between(&r, 1060 * SEC, end) / MS * MS;
        f->until = (f->at + draw_length(&r, interval_ns, duration_ns)) / MS * MS;
        f->param = 0;
    }
}

/* The same for what came later; half of it into what is there. */
static void draw_more(struct fault_list *list, uint64_t seed, int64_t interval_ns,
                      int64_t duration_ns, int64_t end)
{
    struct sim_random r = {seed ^ UINT64_C(0xf11e5)};
    int64_t many = sim_random_between(&r, 0, 6);
    for (int64_t i = 0; i < many && list->count < FAULTS_MAX; i++) {
        const struct fault *other =
            &list->items[sim_random_between(&r, 0, (int64_t)list->count - 1)];
        struct fault *f = &list->items[list->count++];
        int64_t at = sim_random_one_in(&r, 2) ? sim_random_between(&r, other->at, other->until)
                                              : sim_random_between(&r, 1060 * SEC, end);
        f->kind = (enum fault_kind)sim_random_between(&r, FAULT_FILES, FAULT_KINDS - 1);
        f->at = at / MS * MS;
        f->until = (f->at + draw_length(&r, interval_ns, duration_ns)) / MS * MS;
        f->param = sim_random_between(&r, 0, 999);
    }
}

/* Bursts of one to five faults that begin near each other, and calm between them. */
void faults_draw(struct fault_list *list, uint64_t seed, int64_t interval_ns, int64_t duration_ns,
                 int64_t end)
{
    struct sim_random r = {seed ^ UINT64_C(0x5eed)};
    int64_t at = sim_random_between(&r, 1060 * SEC, 1120 * SEC);
    *list = (struct fault_list){.count = 0};
    while (at < end && list->count + 5 < FAULTS_MAX) {
        int64_t many = sim_random_one_in(&r, 2) ? 1 : sim_random_between(&r, 2, 5);
        int64_t latest = at;
        for (int64_t i = 0; i < many; i++) {
            struct fault *f = &list->items[list->count++];
            f->kind = (enum fault_kind)sim_random_between(&r, 0, FAULT_HOST_PROBE - 1);
            f->at = (at + sim_random_between(&r, 0, 2 * duration_ns)) / MS * MS;
            f->until = (f->at + draw_length(&r, interval_ns, duration_ns)) / MS * MS;
            f->param = sim_random_between(&r, 0, 999);
            latest = f->until > latest ? f->until : latest;
        }
        at = latest + sim_random_between(&r, interval_ns, 6 * duration_ns + 60 * SEC);
    }
    draw_host_probe(list, seed, interval_ns, duration_ns, end);
    draw_more(list, seed, interval_ns, duration_ns, end);
}

/* ---- as text ----------------------------------------------------------------------------------
 */

void faults_print(const struct fault_list *list, char out[static FAULTS_TEXT_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < list->count && used < FAULTS_TEXT_BYTES; i++) {
        const struct fault *f = &list->items[i];
        used += (size_t)snprintf(out + used, FAULTS_TEXT_BYTES - used, "%s%s@%.3f+%.3f:%d",
                                 i == 0 ? "" : " ", names[f->kind], (double)f->at / 1e9,
                                 (double)(f->until - f->at) / 1e9, (int)f->param);
    }
}

static bool parse_one(const char *word, struct fault *out)
{
    char name[32];
    double at;
    double length;
    int param;
    if (sscanf(word, "%31[^@]@%lf+%lf:%d", name, &at, &length, &param) != 4) {
        return false;
    }
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        if (strcmp(names[kind], name) == 0) {
            out->kind = (enum fault_kind)kind;
            out->at = (int64_t)(at * 1e3 + 0.5) * MS;
            out->until = out->at + (int64_t)(length * 1e3 + 0.5) * MS;
            out->param = param;
            return true;
        }
    }
    return false;
}

bool faults_parse(const char *text, struct fault_list *out)
{
    char copy[FAULTS_TEXT_BYTES];
    char *rest = copy;
    char *word;
    out->count = 0;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    while ((word = strsep(&rest, " \n")) != NULL) {
        if (word[0] == '\0') {
            continue;
        }
        if (out->count == FAULTS_MAX || !parse_one(word, &out->items[out->count++])) {
            return false;
        }
    }
    return true;
}
