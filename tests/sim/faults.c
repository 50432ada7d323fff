/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/faults.h"

#include "base/time.h"

#include "tests/sim/agents.h"
#include "tests/sim/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    [FAULT_HOST_SLOW] = "host-slow",
    [FAULT_DPU_SLOW] = "dpu-slow",
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
    [FAULT_SERVER] = "server",
};

static const char *faults_name(enum fault_kind kind)
{
    return names[kind];
}

/* ---- drawing --------------------------------------------------------------------------------- */

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
            f->kind = (enum fault_kind)sim_random_between(&r, 0, FAULT_KINDS - 1);
            f->at = (at + sim_random_between(&r, 0, 2 * duration_ns)) / MS * MS;
            f->until = (f->at + draw_length(&r, interval_ns, duration_ns)) / MS * MS;
            f->param = sim_random_between(&r, 0, 999);
            latest = f->until > latest ? f->until : latest;
        }
        at = latest + sim_random_between(&r, interval_ns, 6 * duration_ns + 60 * SEC);
    }
}

/* ---- as text --------------------------------------------------------------------------------- */

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

/* ---- what begins and ends with each: those that a request meets are asked for in api.c ------- */

#define TOUCH_LEAST_NS (200 * MS)

/* Of the CPU, while others have it, and while a starved one does. */
#define HUNGRY_NS (3 * SEC)
#define FED_NS    (100 * MS)

static struct active {
    int count[FAULT_KINDS];
    int total;
    int64_t param[FAULT_KINDS];
    int64_t began[FAULT_KINDS];
} active; /* as the world's */

bool faults_on(enum fault_kind kind)
{
    return active.count[kind] > 0;
}

void faults_struck(enum fault_kind kind)
{
    tally_note("fault: %s", faults_name(kind));
}

bool faults_are_over(void)
{
    return active.total == 0;
}

int64_t faults_param(enum fault_kind kind)
{
    return active.param[kind];
}

int64_t faults_began(enum fault_kind kind)
{
    return active.began[kind];
}

bool faults_are_but(enum fault_kind kind)
{
    return active.total == active.count[kind];
}

/* ---- on the lease ---------------------------------------------------------------------------- */

static bool can_write(void)
{
    return !faults_on(FAULT_API_DOWN) && !faults_on(FAULT_NO_WRITES);
}

/* NULL where there is none, or nobody can write it. */
static json_t *edit_lease(void)
{
    const json_t *lease = can_write() ? api_lease(api_get()) : NULL;
    return lease ? json_deep_copy(lease) : NULL;
}

/* As ovn-kubernetes' own check does on the host at its start: no renewal beside a sign. */
static void write_as_upstreams_host(void)
{
    json_t *lease = edit_lease();
    json_t *notes = json_object_get(json_object_get(lease, "metadata"), "annotations");
    if (json_object_get(notes, "dpu.k8s.ovn.org/renew-time")) {
        const struct wall now = {machine_wall_ns(world_get(), agents_host()->machine)};
        json_object_set_new(json_object_get(lease, "spec"), "renewTime",
                            json_string(rfc3339_text(now, true).text));
        tally_note("lease: renewTime written by upstream's host");
        api_put_lease(api_get(), "admin", lease);
    } else {
        json_decref(lease);
    }
}

static void touch(void *user)
{
    struct world *w = world_get();
    json_t *lease = edit_lease();
    char text[24];
    if (lease) {
        (void)snprintf(text, sizeof(text), "%lld", (long long)w->now);
        json_t *metadata = json_object_get(lease, "metadata");
        if (!json_object_get(metadata, "labels")) {
            json_object_set_new(metadata, "labels", json_object());
        }
        json_object_set_new(json_object_get(metadata, "labels"), "touched", json_string(text));
        api_put_lease(api_get(), "admin", lease);
    }
    if (faults_on(FAULT_TOUCHES)) {
        int64_t most = (faults_param(FAULT_TOUCHES) + 1) * 20 * MS;
        world_at(w, w->now + world_between(w, TOUCH_LEAST_NS, TOUCH_LEAST_NS + most), touch, NULL);
    }
}

/* Another holder, who renews as we do. At the end the admin gives the lease back. */
static void renew_foreign(void *user)
{
    struct world *w = world_get();
    json_t *lease = edit_lease();
    char stamp[64];
    if (lease) {
        (void)snprintf(stamp, sizeof(stamp), "2026-01-01T00:%02d:%02d.%06dZ",
                       (int)(w->now / SEC / 60 % 60), (int)(w->now / SEC % 60),
                       (int)(w->now / 1000 % 1000000));
        json_t *spec = json_object_get(lease, "spec");
        json_object_set_new(spec, "holderIdentity",
                            json_string(faults_on(FAULT_FOREIGN) ? "somebody-else" : ""));
        json_object_set_new(spec, "renewTime", json_string(stamp));
        api_put_lease(api_get(), "foreigner", lease);
    }
    if (faults_on(FAULT_FOREIGN) || !can_write()) {
        world_at(w, w->now + 10 * SEC, renew_foreign, NULL);
    }
}

/* What a backup brought back of a foreigner who is gone. */
static void give_back(void *user)
{
    const json_t *lease = api_lease(api_get());
    const char *holder =
        json_string_value(json_object_get(json_object_get(lease, "spec"), "holderIdentity"));
    if (holder && strcmp(holder, "somebody-else") == 0 && !faults_on(FAULT_FOREIGN)) {
        renew_foreign(user);
    }
}

static void write_nonsense(int64_t what)
{
    static const struct {
        const char *in; /* NULL: the lease itself */
        const char *key;
        const char *value; /* NULL: none */
    } rows[] = {
        {"spec", "leaseDurationSeconds", "1"},
        {"spec", "leaseDurationSeconds", "2147483647"},
        {"spec", "leaseDurationSeconds", NULL},
        {"spec", "renewTime", NULL},
        {"spec", "renewTime", "\"9999-12-31T23:59:59.999999Z\""},
        {"metadata", "annotations", "{\"dpu.k8s.ovn.org/health\":\"perhaps \\u0001 ?\"}"},
        {"metadata", "annotations", "{\"dpu.k8s.ovn.org/health\":7}"},
        {"metadata", "ownerReferences", "[{\"kind\":\"Pod\"}]"},
        {NULL, "spec", NULL},
        {"spec", "holderIdentity", "\"\""},
    };
    static char large[40000];
    size_t row = (size_t)what % 10;
    json_t *lease = edit_lease();
    if (!lease) {
        return;
    }
    json_t *at = rows[row].in ? json_object_get(lease, rows[row].in) : lease;
    if (rows[row].value) {
        json_object_set_new(at, rows[row].key, json_loads(rows[row].value, JSON_DECODE_ANY, NULL));
    } else {
        json_object_del(at, rows[row].key);
    }
    if (row == 5) {
        memset(large, 'x', sizeof(large) - 1);
        json_object_set_new(json_object_get(at, "annotations"), "dpu.k8s.ovn.org/health-message",
                            json_string(large));
    }
    api_put_lease(api_get(), "vandal", lease);
}

static void collect_garbage(void *user)
{
    if (api_lease(api_get())) {
        faults_struck(FAULT_NEW_NODE);
    }
    api_collect(api_get());
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void step_clock(struct machine *m, int64_t param)
{
    struct world *w = world_get();
    int64_t most = param % 2 == 0 ? 60 * SEC : 3600 * SEC;
    m->wall_offset_ns += world_between(w, -most, most);
}

static void cut_streams(const char *who, int64_t param)
{
    api_watch_cut(api_get(), who, param % 3 == 0 ? API_CUT_RESET : API_CUT_STUCK);
}

static void reboot_host(void)
{
    struct world *w = world_get();
    agents_kill(agents_host());
    agents_kill_second();
    (void)unlink(agents_record_path());
    machine_boot(w, agents_host()->machine, "the host");
    agents_host()->machine->booted_at = w->now;
    agents_forget_host_probe();
}

static void reboot_dpu(void)
{
    struct world *w = world_get();
    agents_kill(agents_dpu());
    machine_boot(w, agents_dpu()->machine, "the DPU");
    agents_dpu()->machine->booted_at = w->now;
}

static bool is_starved(bool is_dpu)
{
    int64_t who = faults_param(FAULT_STARVED) % 3;
    return faults_on(FAULT_STARVED) && (who == 2 || (who == 1) == is_dpu);
}

static void starve(void *user)
{
    struct world *w = world_get();
    struct proc *proc = user;
    proc->is_starved = !proc->is_starved && is_starved(proc == agents_dpu());
    if (proc->is_starved && proc->loop) {
        faults_struck(FAULT_STARVED);
    }
    if (proc == agents_dpu() && !proc->is_starved) {
        agents_set_healthy(agents_are_healthy()); /* what the probes said meanwhile */
    }
    if (faults_on(FAULT_STARVED)) {
        world_at(w, w->now + world_between(w, MS, proc->is_starved ? HUNGRY_NS : FED_NS), starve,
                 proc);
    }
}

/* Whether there is something that it changes at once. The others wait for a request. */
static bool meets_something(const struct fault *f)
{
    const struct api *api = api_get();
    const json_t *lease = api_lease(api);
    switch ((int)f->kind) {
    case FAULT_DPU_DEAD:
    case FAULT_DPU_STOPPED:
    case FAULT_DPU_SHUTDOWN:
    case FAULT_DPU_CLOCK:
    case FAULT_DPU_REBOOT:
        return world_runs(agents_dpu());
    case FAULT_DPU_UNHEALTHY:
        return world_runs(agents_dpu()) && agents_are_healthy();
    case FAULT_HOST_DEAD:
    case FAULT_HOST_STOPPED:
    case FAULT_HOST_SUSPEND:
    case FAULT_HOST_REBOOT:
    case FAULT_HOST_CLOCK:
    case FAULT_SECOND_HOST:
    case FAULT_HOST_PROBE:
        return world_runs(agents_host());
    case FAULT_RECORD_LOST:
        return access(agents_record_path(), F_OK) == 0;
    case FAULT_WATCH_STUCK:
    case FAULT_COMPACTION:
        return api_watch_works(api, AGENTS_HOST);
    case FAULT_RESTORE:
        return lease && api_lease_was_other(api, (f->param % 60 + 1) * SEC);
    case FAULT_DELETE:
        return lease != NULL;
    case FAULT_TOUCHES:
    case FAULT_FOREIGN:
    case FAULT_HOSTILE:
        return lease && can_write();
    default:
        return false;
    }
}

static void begin_at_server(const struct fault *f)
{
    struct api *api = api_get();
    switch ((int)f->kind) {
    case FAULT_API_DOWN:
        cut_streams(NULL, f->param);
        break;
    case FAULT_HOST_CUT:
        cut_streams(AGENTS_HOST, f->param);
        cut_streams(AGENTS_SECOND, f->param);
        break;
    case FAULT_NO_WATCHES:
    case FAULT_WATCH_DENIED:
        api_watch_cut(api, NULL, f->param % 2 == 0 ? API_CUT_END : API_CUT_RESET);
        break;
    case FAULT_WATCH_STUCK:
        api_watch_cut(api, NULL, API_CUT_STUCK);
        break;
    case FAULT_COMPACTION:
    case FAULT_GONE:
        store_compact(&api->store);
        api_watch_cut(api, NULL, f->param % 2 == 0 ? API_CUT_GONE : API_CUT_END);
        break;
    case FAULT_RESTORE:
        api_restore(api, (f->param % 60 + 1) * SEC);
        world_at(api->world, api->world->now + 5 * SEC, give_back, NULL);
        api_watch_cut(api, NULL, f->param % 2 == 0 ? API_CUT_RESET : API_CUT_STUCK);
        break;
    case FAULT_DELETE:
        api_delete_lease(api, "admin");
        break;
    case FAULT_NEW_NODE:
        api_make_node(api);
        world_at(api->world, api->world->now + f->param % 30 * SEC, collect_garbage, NULL);
        break;
    case FAULT_TOUCHES:
        write_as_upstreams_host();
        touch(NULL);
        break;
    case FAULT_FOREIGN:
        renew_foreign(NULL);
        break;
    case FAULT_HOSTILE:
        write_nonsense(f->param);
        break;
    case FAULT_SERVER:
        api_server_begins_to_fail(api);
        break;
    default:
        break;
    }
}

static void begin_at_agents(const struct fault *f)
{
    switch ((int)f->kind) {
    case FAULT_DPU_DEAD:
        agents_kill(agents_dpu());
        break;
    case FAULT_DPU_STOPPED:
        agents_dpu()->is_stopped = true;
        break;
    case FAULT_DPU_UNHEALTHY:
        agents_set_healthy(false);
        break;
    case FAULT_DPU_SHUTDOWN:
        agents_shut_dpu_down();
        break;
    case FAULT_DPU_CLOCK:
        step_clock(agents_dpu()->machine, f->param);
        break;
    case FAULT_HOST_DEAD: /* between any two callbacks */
        if (world_runs(agents_host()) && f->param % 2 == 0) {
            agents_host()->kill_after = (int)(f->param % 7);
        } else {
            agents_kill(agents_host());
        }
        break;
    case FAULT_HOST_STOPPED:
        agents_host()->is_stopped = true;
        break;
    case FAULT_HOST_SUSPEND:
        if (agents_host()->machine->suspended_at == NEVER) {
            agents_host()->machine->suspended_at = world_get()->now;
        }
        break;
    case FAULT_HOST_REBOOT:
        reboot_host();
        break;
    case FAULT_HOST_CLOCK:
        step_clock(agents_host()->machine, f->param);
        break;
    case FAULT_SECOND_HOST:
        agents_start_second();
        break;
    case FAULT_HOST_PROBE:
        agents_set_host_probe(true);
        break;
    case FAULT_DPU_REBOOT:
        reboot_dpu();
        break;
    case FAULT_STARVED:
        starve(agents_host());
        starve(agents_dpu());
        break;
    case FAULT_RECORD_LOST:
        (void)unlink(agents_record_path());
        if (agents_host()->loop) {
            loop_feed(agents_host()->loop, -1); /* inotify */
        }
        break;
    default:
        break;
    }
}

static void resume(void)
{
    struct machine *m = agents_host()->machine;
    if (m->suspended_at != NEVER) {
        m->suspended_ns += world_get()->now - m->suspended_at;
        m->suspended_at = NEVER;
    }
}

/* Whoever was told to end may take his time, or be stopped on the way: the next waits for him. */
static void restart_dpu(void *user)
{
    struct world *w = world_get();
    if (faults_on(FAULT_DPU_DEAD) || faults_on(FAULT_DPU_SHUTDOWN) || faults_on(FAULT_DPU_REBOOT)) {
        return; /* its end comes back here */
    }
    if (agents_dpu_ends()) {
        world_at(w, w->now + 100 * MS, restart_dpu, user);
        return;
    }
    agents_start_dpu();
}

/* With the last of its kind. */
static void end_all(const struct fault *f)
{
    switch ((int)f->kind) {
    case FAULT_API_DOWN:
    case FAULT_HOST_CUT:
    case FAULT_WATCH_STUCK:
        if (f->param % 5 == 0) {
            api_watch_unstick(api_get()); /* it was only slow */
        }
        break;
    case FAULT_DPU_STOPPED:
        agents_dpu()->is_stopped = false;
        agents_set_healthy(agents_are_healthy()); /* what the probes said meanwhile */
        break;
    case FAULT_DPU_UNHEALTHY:
        agents_set_healthy(true);
        break;
    case FAULT_HOST_DEAD:
        if (agents_host()->kill_after >= 0) { /* it was stopped before its end came */
            agents_kill(agents_host());
        }
        break;
    case FAULT_HOST_STOPPED:
        agents_host()->is_stopped = false;
        break;
    case FAULT_HOST_SUSPEND:
        resume();
        break;
    case FAULT_SECOND_HOST:
        agents_kill_second();
        break;
    case FAULT_STARVED:
        starve(agents_host());
        starve(agents_dpu());
        break;
    case FAULT_HOST_PROBE:
        agents_set_host_probe(false);
        break;
    case FAULT_SERVER:
        api_server_is_well(api_get());
        break;
    default:
        break;
    }
    restart_dpu(NULL);
    if (!faults_on(FAULT_HOST_DEAD) && !faults_on(FAULT_HOST_REBOOT) &&
        !faults_on(FAULT_HOST_SUSPEND) && agents_host()->kill_after < 0) {
        agents_start_host();
    }
}

static void begin(void *user)
{
    const struct fault *f = user;
    world_tell(world_get(), "fault: %s:%d until %.3f", faults_name(f->kind), (int)f->param,
               (double)f->until / 1e9);
    active.count[f->kind]++;
    active.total++;
    active.param[f->kind] = f->param;
    active.began[f->kind] = world_get()->now;
    if (meets_something(f)) {
        faults_struck(f->kind);
    }
    begin_at_server(f);
    begin_at_agents(f);
}

static void end(void *user)
{
    const struct fault *f = user;
    world_tell(world_get(), "fault: %s is over", faults_name(f->kind));
    active.total--;
    if (--active.count[f->kind] == 0) {
        end_all(f);
    }
}

void faults_plan(const struct fault_list *list)
{
    struct world *w = world_get();
    memset(&active, 0, sizeof(active));
    for (size_t i = 0; i < list->count; i++) {
        world_at(w, list->items[i].at, begin, (void *)&list->items[i]);
        world_at(w, list->items[i].until, end, (void *)&list->items[i]);
    }
}
