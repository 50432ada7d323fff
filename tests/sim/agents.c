/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/agents.h"

#include "contract/names.h"
#include "contract/record.h"
#include "dpu-agent/lease_writer.h"
#include "host-agent/monitor.h"
#include "host-agent/record.h"
#include "kube/kube_client.h"
#include "loop/daemon.h"
#include "outputs/events.h"
#include "tests/sim/api.h"
#include "tests/sim/faults.h"
#include "tests/sim/oracle.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NODE  "w1"
#define LEASE NAMES_LEASE_PREFIX NODE

struct daemon {
    struct proc *proc;
};

struct host {
    struct proc proc;
    struct daemon daemon;
    struct kube_client *client;
    struct events *events;
    struct monitor *monitor;
    struct readiness_host_probes said;
    char record[AGENTS_PATH_BYTES];
    bool found_record; /* that was of use, when it started */
    int64_t duration_ns;
};

/* The DPU's function on the host's bus. */
struct function {
    bool is_gone;
    bool was_seen;    /* in this boot; forgotten with the record */
    bool look_is_due; /* the host could not look yet */
};

struct dpu {
    struct proc proc;
    struct kube_client *client;
    struct lease_writer *writer;
    bool is_healthy;
    bool is_ending; /* SIGTERM came */
};

static struct agents {
    struct world *world;
    struct agents_config config;
    struct machine host_machine;
    struct machine dpu_machine;
    struct host host;
    struct host second;
    struct dpu dpu;
    struct function function;
    struct proc gate; /* no agent: it has no loop */
} agents;             /* as the world's */

struct proc *agent_of_daemon(struct daemon *d)
{
    return d->proc;
}

struct proc *agents_host(void)
{
    return &agents.host.proc;
}

struct proc *agents_dpu(void)
{
    return &agents.dpu.proc;
}

const char *agents_record_path(void)
{
    return agents.host.record;
}

bool agents_host_found_record(void)
{
    return agents.host.found_record;
}

/* Runs `act` as this process. */
static struct proc *enter(struct proc *proc)
{
    struct proc *before = agents.world->current;
    agents.world->current = proc;
    return before;
}

static void leave(struct proc *before)
{
    agents.world->current = before;
}

static struct kube_client *make_client(struct ev_loop *loop)
{
    struct err e = ERR_INIT;
    struct kube_client *client = NULL;
    struct kube_conf conf = {.server = strdup("http://api.example"), .origin = strdup("test")};
    int rc = kube_client_new(loop, &conf, &client, &e);
    assert(rc == 0);
    return client;
}

/* ---- the host agent -------------------------------------------------------------------------- */

/* As host-agent/host_probes.c, whose probes are not simulated. */
static void look_at_function(struct host *host)
{
    struct readiness_host_probe *host_probe = &host->said.each[0];
    if (!agents.function.is_gone) {
        host_probe->says = HOST_PROBE_WELL;
        agents.function.was_seen = true;
    } else if (host_probe->says != HOST_PROBE_NEVER_WELL) {
        host_probe->says = HOST_PROBE_FAILED;
    }
    monitor_event(host->monitor, (struct verdict_event){.kind = VERDICT_HOST_PROBES,
                                                        .host_probes = &host->said,
                                                        .accusation = "it is gone"});
}

static void start_host_probe(struct host *host, const struct record *carry)
{
    const struct readiness_host_probes none = {.count = 1, .each = {{.probe = "pci"}}};
    bool is_known = carry && carry->readiness.host_probes.count == 1;
    agents.function.was_seen = agents.function.was_seen && host->found_record;
    host->said = is_known ? carry->readiness.host_probes : none;
    look_at_function(host);
}

/* Whether it can be read, and is legal: told without the product's own reader. */
static bool has_record(const struct host *host)
{
    char page[4096];
    struct record_read ignored;
    int fd = open(host->record, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, page, sizeof(page));
    if (fd >= 0) {
        (void)close(fd); /* read-only */
    }
    return len > 0 && !record_reader_decode(page, (size_t)len, &ignored);
}

static void start_monitor(struct host *host)
{
    struct err e = ERR_INIT;
    host->events = events_new(host->proc.loop, host->client, NODE);
    struct monitor_config config = {
        .daemon = &host->daemon,
        .client = host->client,
        .verdict = {.lease_ns = NAMES_LEASE_NAMESPACE,
                    .lease_name = LEASE,
                    .holder = NAMES_HOLDER_IDENTITY,
                    .renew_interval_ns = agents.config.interval_ns,
                    .duration_ns = host->duration_ns,
                    .api_outage_hold_ns = VERDICT_HOLD_UNLIMITED},
        .node = NODE,
        .readiness_file = host->record,
        .stale_hold_ns = agents.config.stale_hold_ns,
        .events = host->events,
        .has_condition = true,
    };
    struct record carry;
    host->found_record = has_record(host);
    bool carried = record_carry_read(host->record, NODE, &config.verdict, &carry, &e) == 0;
    host->monitor = monitor_new(&config, carried ? &carry : NULL);
    if (host == &agents.host) {
        start_host_probe(host, carried ? &carry : NULL);
    }
    monitor_start(host->monitor);
}

static void kill_host(struct proc *proc)
{
    struct host *host = proc == &agents.host.proc ? &agents.host : &agents.second;
    struct proc *before = enter(proc);
    monitor_free(host->monitor);
    events_free(host->events);
    kube_client_free(host->client);
    loop_free(proc->loop);
    host->monitor = NULL;
    host->events = NULL;
    host->client = NULL;
    proc->loop = NULL;
    proc->kill_after = -1;
    leave(before);
    tally_note("agent: %s killed", proc->name);
    world_tell(agents.world, "%s: killed", proc->name);
}

static void start_host(struct host *host)
{
    if (host->proc.loop) {
        return;
    }
    struct proc *before = enter(&host->proc);
    tally_note("agent: %s starts%s", host->proc.name, has_record(host) ? ", with a record" : "");
    world_tell(agents.world, "%s: starts", host->proc.name);
    host->proc.is_stopped = false; /* it was another process that was */
    host->proc.loop = loop_new(&host->proc);
    host->daemon.proc = &host->proc;
    host->client = make_client(host->proc.loop);
    start_monitor(host);
    leave(before);
}

void agents_start_host(void)
{
    start_host(&agents.host);
}

void agents_start_second(void)
{
    start_host(&agents.second);
}

void agents_kill_second(void)
{
    agents_kill(&agents.second.proc);
}

static void look_if_due(void *user)
{
    struct proc *proc = &agents.host.proc;
    if (agents.function.look_is_due && proc->loop && !world_runs(proc)) {
        world_at(agents.world, agents.world->now + SEC, look_if_due, NULL);
        return;
    }
    if (agents.function.look_is_due && proc->loop) {
        struct proc *before = enter(proc);
        look_at_function(&agents.host);
        leave(before);
    }
    agents.function.look_is_due = false; /* who starts looks for himself */
}

void agents_set_host_probe(bool is_failing)
{
    agents.function.is_gone = is_failing;
    agents.function.look_is_due = true;
    look_if_due(NULL);
}

void agents_forget_host_probe(void)
{
    agents.function.was_seen = false;
}

bool agents_host_probe_accuses(void)
{
    return agents.function.is_gone && agents.function.was_seen;
}

/* ---- the DPU's agent ------------------------------------------------------------------------- */

static void kill_dpu(struct proc *proc)
{
    struct proc *before = enter(proc);
    lease_writer_free(agents.dpu.writer);
    kube_client_free(agents.dpu.client);
    loop_free(proc->loop);
    agents.dpu.writer = NULL;
    agents.dpu.client = NULL;
    proc->loop = NULL;
    proc->kill_after = -1;
    leave(before);
    tally_note("agent: dpu killed");
    world_tell(agents.world, "dpu: killed");
}

static void on_renewed(void *user)
{
}

static void on_stopped(void *user)
{
    struct proc *proc = user;
    proc->kill_after = 0; /* when this callback has returned */
}

/* Outside of its loop: it may have been the last thing that it waited for. */
static void leave_dpu(struct proc *before)
{
    leave(before);
    if (agents.dpu.proc.kill_after == 0) {
        kill_dpu(&agents.dpu.proc);
    }
}

static void judge(void)
{
    if (world_runs(&agents.dpu.proc)) {
        struct proc *before = enter(&agents.dpu.proc);
        lease_writer_judge(agents.dpu.writer,
                           agents.dpu.is_healthy ? PROBE_HEALTHY : PROBE_UNHEALTHY,
                           agents.dpu.is_healthy ? "" : "probe ovs: no answer");
        leave_dpu(before);
    }
}

static void first_verdict(void *user)
{
    judge(); /* a probe that speaks twice says nothing new */
}

void agents_start_dpu(void)
{
    struct dpu *dpu = &agents.dpu;
    struct world *w = agents.world;
    struct err e = ERR_INIT;
    struct renewer_config config = {.lease_ns = NAMES_LEASE_NAMESPACE,
                                    .lease_name = LEASE,
                                    .holder = NAMES_HOLDER_IDENTITY,
                                    .node_name = NODE,
                                    .interval_ns = agents.config.interval_ns,
                                    .duration_ns = agents.config.duration_ns,
                                    .announce_shutdown = true,
                                    .is_companion = agents.config.is_companion,
                                    .seed = sim_random_next(&w->random)};
    const struct lease_writer_handlers handlers = {
        .renewed = on_renewed, .stopped = on_stopped, .user = &dpu->proc};
    if (dpu->proc.loop) {
        return;
    }
    struct proc *before = enter(&dpu->proc);
    tally_note("agent: dpu starts");
    world_tell(w, "dpu: starts");
    dpu->is_ending = false;
    dpu->proc.is_stopped = false; /* as above */
    dpu->proc.loop = loop_new(&dpu->proc);
    dpu->client = make_client(dpu->proc.loop);
    int rc = clock_boot_id(config.boot_id, &e);
    assert(rc == 0);
    dpu->writer = lease_writer_start(dpu->proc.loop, dpu->client, &config, &handlers);
    leave(before);
    world_at(w, w->now + world_between(w, MS, SEC), first_verdict, NULL);
}

void agents_set_healthy(bool is_healthy)
{
    agents.dpu.is_healthy = is_healthy;
    judge();
}

bool agents_are_healthy(void)
{
    return agents.dpu.is_healthy;
}

void agents_shut_dpu_down(void)
{
    struct proc *proc = &agents.dpu.proc;
    if (proc->loop && world_runs(proc)) {
        struct proc *before = enter(proc);
        agents.dpu.is_ending = true;
        lease_writer_stop(agents.dpu.writer);
        leave_dpu(before);
    }
}

bool agents_dpu_ends(void)
{
    return agents.dpu.proc.loop && agents.dpu.is_ending;
}

/* ---- all of them ----------------------------------------------------------------------------- */

int64_t agents_interval_ns(void)
{
    return agents.config.interval_ns;
}

void agents_kill(struct proc *proc)
{
    if (proc->loop) {
        proc->kill(proc);
    }
}

static void add(struct proc *proc, const char *name, struct machine *machine,
                void (*kill)(struct proc *proc))
{
    *proc = (struct proc){.name = name, .machine = machine, .kill_after = -1, .kill = kill};
    agents.world->procs[agents.world->proc_count++] = proc;
}

void agents_init(struct world *w, const struct agents_config *config)
{
    memset(&agents, 0, sizeof(agents));
    agents.world = w;
    agents.config = *config;
    agents.host.duration_ns = config->duration_ns;
    agents.second.duration_ns = config->duration_ns + 7 * SEC;
    agents.dpu.is_healthy = true;
    (void)snprintf(agents.host.record, sizeof(agents.host.record), "%s/readiness.json",
                   config->directory);
    (void)snprintf(agents.second.record, sizeof(agents.second.record), "%s/second.json",
                   config->directory);
    (void)unlink(agents.host.record);
    (void)unlink(agents.second.record);
    agents.gate = (struct proc){.name = "gate", .machine = &agents.host_machine};
    machine_boot(w, &agents.host_machine, "the host");
    machine_boot(w, &agents.dpu_machine, "the DPU");
    agents.dpu_machine.wall_offset_ns = world_between(w, -7200 * SEC, 7200 * SEC);
    add(&agents.host.proc, AGENTS_HOST, &agents.host_machine, kill_host);
    add(&agents.dpu.proc, AGENTS_DPU, &agents.dpu_machine, kill_dpu);
    add(&agents.second.proc, AGENTS_SECOND, &agents.host_machine, kill_host);
}

void agents_fini(void)
{
    agents_kill(&agents.host.proc);
    agents_kill(&agents.second.proc);
    agents_kill(&agents.dpu.proc);
    (void)unlink(agents.host.record);
    (void)unlink(agents.second.record);
}

bool agents_ask_gate(char reason[static AGENTS_TEXT_BYTES])
{
    struct record record;
    struct gate_decision decision;
    struct err e = ERR_INIT;
    struct proc *before = enter(&agents.gate);
    (void)record_file_judge(agents.host.record, &record, &decision, &e); /* it always decides */
    leave(before);
    (void)snprintf(reason, AGENTS_TEXT_BYTES, "%s", readiness_reason_name(decision.reason));
    return decision.admit;
}

/* ---- ovn-kubernetes' own check --------------------------------------------------------------- */

static struct ovnkube {
    struct api *api;
    int64_t interval_ns;
} ovnkube; /* as the world's */

/* With the whole DPU, or while our agent lives on. */
bool ovnkube_runs(void)
{
    return !faults_on(FAULT_DPU_REBOOT) &&
           !(faults_on(FAULT_DPU_DEAD) && faults_param(FAULT_DPU_DEAD) % 2 == 0) &&
           !(faults_on(FAULT_DPU_STOPPED) && faults_param(FAULT_DPU_STOPPED) % 2 == 0);
}

static bool can_write(void)
{
    return ovnkube_runs() && !faults_on(FAULT_API_DOWN) && !faults_on(FAULT_DPU_CUT) &&
           !faults_on(FAULT_NO_WRITES);
}

static bool is_foreign(const json_t *lease)
{
    const char *holder =
        json_string_value(json_object_get(json_object_get(lease, "spec"), "holderIdentity"));
    return holder && strcmp(holder, "somebody-else") == 0;
}

static void renew(void *user)
{
    struct world *w = world_get();
    const json_t *stored = api_lease(ovnkube.api);
    if (stored && can_write() && !is_foreign(stored)) {
        int64_t wall_ns = machine_wall_ns(w, agents_dpu()->machine);
        time_t seconds = (time_t)(wall_ns / SEC);
        char stamp[64];
        struct tm tm;
        size_t used = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
        (void)snprintf(stamp + used, sizeof(stamp) - used, ".%06dZ", (int)(wall_ns % SEC / 1000));
        json_t *lease = json_deep_copy(stored);
        json_t *spec = json_object_get(lease, "spec");
        if (!spec) {
            spec = json_object();
            json_object_set_new(lease, "spec", spec);
        }
        json_object_set_new(spec, "holderIdentity", json_string("ovnkube-dpu-node"));
        json_object_set_new(spec, "renewTime", json_string(stamp));
        api_put_lease(ovnkube.api, OVNKUBE, lease);
    }
    world_at(w, w->now + ovnkube.interval_ns + world_between(w, 0, ovnkube.interval_ns / 20), renew,
             NULL);
}

void ovnkube_start(struct api *api, int64_t interval_ns)
{
    ovnkube = (struct ovnkube){.api = api, .interval_ns = interval_ns};
    renew(NULL);
}
