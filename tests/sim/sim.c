/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim.h"

#include "tests/sim/agents.h"
#include "tests/sim/api.h"
#include "tests/sim/oracle.h"
#include "tests/sim/ovnkube.h"
#include "tests/sim/seam_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE_BYTES = 4096,
    GATE_SHARE = 16,     /* one reading in so many is dpu-gate's, too */
    COMPANION_SHARE = 4, /* one world in so many has another writer, too */
};

#define SETTLE_NS (300 * SEC) /* after the last fault: all has to be well again by then */

/* Everything of a run. */
struct run {
    struct world world;
    struct api api;
    struct oracle *oracle;
    struct agents_config agents;
    unsigned host_starts; /* that the oracle knows */
    unsigned dpu_starts;
    int64_t dpu_wall_ns;
    int64_t host_wall_ns;
};

static const struct {
    int64_t interval_ms;
    int64_t duration_s;
} timers[] = {{10000, 40}, {1000, 4}, {10000, 12}, {5000, 15}, {2000, 60}};

static void choose_timers(uint64_t seed, struct agents_config *out)
{
    struct sim_random r = {seed ^ UINT64_C(0x71e5)};
    size_t i = (size_t)sim_random_between(&r, 0, 4);
    out->interval_ns = timers[i].interval_ms * MS;
    out->duration_ns = timers[i].duration_s * SEC;
    out->stale_hold_ns = 300 * SEC;
    r.state = seed ^ UINT64_C(0x35b); /* by which what once failed has none */
    out->is_companion = sim_random_one_in(&r, COMPANION_SHARE);
}

void sim_draw(struct sim_case *c)
{
    struct agents_config config;
    choose_timers(c->seed, &config);
    if (!c->has_list) {
        faults_draw(&c->faults, c->seed, config.interval_ns, config.duration_ns,
                    1000 * SEC + c->span_ns - SETTLE_NS);
        c->has_list = true;
    }
}

/* ---- what the oracle sees ---------------------------------------------------------------------
 */

static void log_change(void *user, const char *who, const char *key, const json_t *before,
                       const json_t *after)
{
    struct run *run = user;
    if (strcmp(key, API_LEASE) == 0) {
        const char *stamp =
            json_string_value(json_object_get(json_object_get(after, "spec"), "renewTime"));
        world_tell(&run->world, "api: %s %s the lease, %s", who,
                   !after    ? "deletes"
                   : !before ? "creates"
                             : "writes",
                   stamp ? stamp : "-");
        oracle_lease(run->oracle, run->world.now, who, before, after);
    }
}

/* "leases", "nodes/status"; those of the kubelet apart. */
static void note_request(const char *who, const char *method, const char *path)
{
    static const char *const resources[] = {"leases", "nodes", "events", "resourceslices"};
    const char *list = strcmp(method, "GET") == 0 && strchr(path, '?') ? "LIST" : method;
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
        const char *at = strstr(path, resources[i]);
        if (at) {
            tally_note("request: %s %s %s%s", who, list, resources[i],
                       strstr(path, "/status") ? "/status" : "");
            return;
        }
    }
}

static void log_request(void *user, const char *who, const char *method, const char *path)
{
    struct run *run = user;
    world_tell(&run->world, "api: %s: %s %.100s", who, method, path);
    note_request(who, method, path);
    oracle_request(run->oracle, run->world.now, who, method);
}

static bool can_write_record(void)
{
    enum seam_file_fault fault = seam_file_fault();
    return fault == SEAM_FILE_NONE ||
           (fault == SEAM_FILE_FULL && access(agents_record_path(), F_OK) == 0);
}

static struct oracle_truth truth_of(struct run *run)
{
    const struct world *w = &run->world;
    return (struct oracle_truth){
        .now = w->now,
        .host_boot_ns = machine_boot_ns(w, agents_host_machine()),
        .host_boot_id = agents_host_machine()->boot_id,
        .dpu_boot_id = agents_dpu_machine()->boot_id,
        .dpu_runs = world_runs(agents_dpu()) && (!run->agents.is_companion || ovnkube_runs()),
        .dpu_healthy = agents_are_healthy() && !faults_on(FAULT_DPU_SHUTDOWN),
        .dpu_link = !faults_on(FAULT_DPU_CUT),
        .host_runs = world_runs(agents_host()),
        .host_writes = can_write_record(),
        .host_link = !faults_on(FAULT_HOST_CUT) && !faults_on(FAULT_UNAUTHORIZED),
        .host_watches = api_watch_works(&run->api, AGENTS_HOST, API_LEASE),
        .api_up = !faults_on(FAULT_API_DOWN),
        .api_writes = !faults_on(FAULT_NO_WRITES),
        .api_forbids = faults_on(FAULT_WRITE_DENIED),
        .api_tells = !faults_on(FAULT_LOST_ANSWERS) && !faults_on(FAULT_UNSURE),
        .api_reads_well = !faults_on(FAULT_SLOW) && !faults_on(FAULT_GARBAGE) &&
                          !faults_on(FAULT_STALE) && !faults_on(FAULT_THROTTLED),
        .api_lags = faults_on(FAULT_STALE),
        .api_serves_watches = !faults_on(FAULT_NO_WATCHES) && !faults_on(FAULT_WATCH_DENIED) &&
                              !faults_on(FAULT_GONE),
        .lease_is_edited = faults_on(FAULT_FOREIGN) || faults_on(FAULT_HOSTILE) ||
                           faults_on(FAULT_WEBHOOK) || faults_on(FAULT_SECOND_HOST),
        .host_probe_accuses = agents_host_probe_accuses(),
        .is_calm = faults_are_over(),
    };
}

static size_t read_record(char page[static PAGE_BYTES + 1])
{
    int fd = open(agents_record_path(), O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, page, PAGE_BYTES + 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    return got < 0 ? 0 : (size_t)got;
}

static void note_pause(const struct proc *proc)
{
    if (proc->loop && !world_runs(proc)) {
        tally_note("agent: %s %s", proc->name,
                   proc->is_stopped   ? "stopped"
                   : proc->is_starved ? "starved"
                                      : "suspended");
    }
}

static void look(struct run *run)
{
    struct oracle_truth truth = truth_of(run);
    if (run->host_starts != agents_host()->starts) {
        run->host_starts = agents_host()->starts;
        oracle_started(run->oracle, run->world.now, true, agents_host_found_record());
    }
    if (run->dpu_starts != agents_dpu()->starts) {
        run->dpu_starts = agents_dpu()->starts;
        oracle_started(run->oracle, run->world.now, false, false);
    }
    if (run->dpu_wall_ns != agents_dpu_machine()->wall_offset_ns) {
        run->dpu_wall_ns = agents_dpu_machine()->wall_offset_ns;
        oracle_clock(run->oracle, run->world.now, false);
    }
    if (run->host_wall_ns != agents_host_machine()->wall_offset_ns) {
        run->host_wall_ns = agents_host_machine()->wall_offset_ns;
        oracle_clock(run->oracle, run->world.now, true);
    }
    oracle_look(run->oracle, &truth);
    note_pause(agents_host());
    note_pause(agents_dpu());
}

static void read_as_gate(struct run *run)
{
    char page[PAGE_BYTES + 1];
    char reason[AGENTS_TEXT_BYTES];
    struct oracle_truth truth = truth_of(run);
    size_t len = read_record(page);
    bool is_right = oracle_read(run->oracle, &truth, len > 0 ? page : NULL, len);
    struct oracle_told told = oracle_told(run->oracle);
    tally_note("told: %s %s %s", told.state, told.reason, told.admits ? "admits" : "refuses");
    if (is_right && world_one_in(&run->world, GATE_SHARE)) {
        oracle_gate(run->oracle, &truth, agents_ask_gate(reason), reason);
    }
    if (oracle_failure(run->oracle)[0] != '\0') {
        world_fail(&run->world, "%s", oracle_failure(run->oracle));
    }
}

/* ---- the run ----------------------------------------------------------------------------------
 */

static void set_up(struct run *run, const struct sim_case *c, const char *directory, bool is_traced)
{
    struct world *w = &run->world;
    world_init(w, c->seed);
    w->is_traced = is_traced;
    world_set(w);
    api_init(&run->api, w);
    api_set(&run->api);
    run->api.log = log_change;
    run->api.log_request = log_request;
    run->api.log_user = run;
    choose_timers(c->seed, &run->agents);
    run->agents.directory = directory;
    run->oracle = oracle_new(&(struct oracle_config){.interval_ns = run->agents.interval_ns,
                                                     .duration_ns = run->agents.duration_ns,
                                                     .stale_hold_ns = run->agents.stale_hold_ns,
                                                     .is_companion = run->agents.is_companion});
    api_make_node(&run->api);
    agents_init(w, &run->agents);
    faults_plan(&c->faults);
    agents_start_host();
    agents_start_dpu();
    if (run->agents.is_companion) {
        ovnkube_start(&run->api, run->agents.interval_ns);
    }
}

void sim_run(const struct sim_case *c, const char *directory, bool is_traced,
             struct sim_result *out)
{
    struct run *run = calloc(1, sizeof(*run));
    *out = (struct sim_result){.failure = ""};
    tally_use(&out->tally);
    set_up(run, c, directory, is_traced);
    struct world *w = &run->world;
    int64_t end = w->now + c->span_ns;
    int64_t reading = w->now;
    while (w->now < end && w->failure[0] == '\0') {
        world_step(w, reading);
        look(run);
        if (w->now >= reading) { /* a reader comes by */
            read_as_gate(run);
            reading = w->now + world_between(w, MS, run->agents.interval_ns / 4);
        }
    }
    tally_use(NULL);
    out->lasted_ns = w->now - 1000 * SEC;
    out->faults = c->faults.count;
    out->renewals = oracle_renewals(run->oracle);
    out->flips = oracle_flips(run->oracle);
    out->requests = oracle_requests(run->oracle);
    out->callbacks = w->callbacks;
    (void)snprintf(out->failure, sizeof(out->failure), "%s", w->failure);
    (void)snprintf(out->rule, sizeof(out->rule), "%s", oracle_rule(run->oracle));
    agents_fini();
    exchange_drop_tasks(w);
    api_fini(&run->api);
    oracle_free(run->oracle);
    world_set(NULL);
    free(run);
}
