/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "tests/sim/agents.h"
#include "tests/sim/api.h"
#include "tests/sim/faults.h"
#include "tests/sim/oracle.h"

#include <jansson.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * One run: the real shells of both agents against the model API server, with a list of faults,
 * under the eyes of the oracle. A run is a pure function of its seed and its list.
 */
struct sim_case {
    uint64_t seed;
    int64_t span_ns;
    bool has_list; /* else it is drawn from the seed */
    struct fault_list faults;
};

struct sim_result {
    char failure[WORLD_FAILURE_BYTES]; /* "" if there was none */
    char rule[24];                     /* of the oracle's that failed */
    struct tally tally;
};

enum {
    PAGE_BYTES = 4096,
    GATE_SHARE = 16, /* one reading in so many is dpu-gate's, too */
    REQUESTS_OF_DEATH = 4,
    COMPANION_SHARE = 4, /* one world in so many has another writer, too */
};

#define LATE_MOST_NS (100 * MS)  /* a death, found after the lease ran out */
#define SETTLE_NS    (300 * SEC) /* after the last fault: all has to be well again by then, */
#define IDLE_NS      (800 * SEC) /* and by then even the longest time limit of the oracle's is over */

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
    uint64_t asked[2]; /* about the lease: by the DPU, by the host */
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

/* The list of faults that the case stands for. */
static void sim_draw(struct sim_case *c)
{
    struct agents_config config;
    choose_timers(c->seed, &config);
    if (!c->has_list) {
        faults_draw(&c->faults, c->seed, config.interval_ns, config.duration_ns,
                    1000 * SEC + c->span_ns - SETTLE_NS);
        c->has_list = true;
    }
}

/* ---- what the oracle sees -------------------------------------------------------------------- */

static void log_change(void *user, const char *who, const json_t *before, const json_t *after)
{
    struct run *run = user;
    const char *stamp =
        json_string_value(json_object_get(json_object_get(after, "spec"), "renewTime"));
    world_tell(&run->world, "api: %s %s the lease, %s", who,
               !after    ? "deletes"
               : !before ? "creates"
                         : "writes",
               stamp ? stamp : "-");
    oracle_lease(run->oracle, run->world.now, who, before, after);
}

/* "leases", "nodes/status"; those of the kubelet apart. */
static void note_request(const char *who, const char *method, const char *path)
{
    static const char *const resources[] = {"leases", "nodes", "events"};
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
    run->asked[strcmp(who, AGENTS_HOST) == 0] += strstr(path, "/leases") != NULL;
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
        .host_boot_ns = machine_boot_ns(w, agents_host()->machine),
        .host_boot_id = agents_host()->machine->boot_id,
        .dpu_boot_id = agents_dpu()->machine->boot_id,
        .dpu_runs = world_runs(agents_dpu()) && (!run->agents.is_companion || ovnkube_runs()),
        .dpu_healthy = agents_are_healthy() && !faults_on(FAULT_DPU_SHUTDOWN),
        .dpu_link = !faults_on(FAULT_DPU_CUT),
        .host_runs = world_runs(agents_host()),
        .host_writes = can_write_record(),
        .host_link = !faults_on(FAULT_HOST_CUT) && !faults_on(FAULT_UNAUTHORIZED),
        .host_watches = api_watch_works(&run->api, AGENTS_HOST),
        .api_up = !faults_on(FAULT_API_DOWN),
        .api_writes = !faults_on(FAULT_NO_WRITES),
        .api_forbids = faults_on(FAULT_WRITE_DENIED),
        .api_tells =
            !faults_on(FAULT_LOST_ANSWERS) && !faults_on(FAULT_UNSURE) && !faults_on(FAULT_GARBAGE),
        .api_reads_well = !faults_on(FAULT_SLOW) && !faults_on(FAULT_HOST_SLOW) &&
                          !faults_on(FAULT_GARBAGE) && !faults_on(FAULT_STALE) &&
                          !faults_on(FAULT_THROTTLED),
        .api_lags = faults_on(FAULT_STALE),
        .api_serves_watches = !faults_on(FAULT_NO_WATCHES) && !faults_on(FAULT_WATCH_DENIED) &&
                              !faults_on(FAULT_GONE),
        .lease_is_edited = faults_on(FAULT_FOREIGN) || faults_on(FAULT_HOSTILE) ||
                           faults_on(FAULT_WEBHOOK) || faults_on(FAULT_SECOND_HOST),
        .host_probe_accuses = agents_host_probe_accuses(),
        .api_server_fails = faults_on(FAULT_SERVER),
        .host_starves = faults_on(FAULT_STARVED),
        .is_calm = faults_are_but(FAULT_SERVER),
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
    if (run->dpu_wall_ns != agents_dpu()->machine->wall_offset_ns) {
        run->dpu_wall_ns = agents_dpu()->machine->wall_offset_ns;
        oracle_clock(run->oracle, run->world.now, false);
    }
    if (run->host_wall_ns != agents_host()->machine->wall_offset_ns) {
        run->host_wall_ns = agents_host()->machine->wall_offset_ns;
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
    if (run->oracle->failure[0] != '\0') {
        world_fail(&run->world, "%s", run->oracle->failure);
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static void set_up(struct run *run, const struct sim_case *c, const char *directory, bool is_traced)
{
    struct world *w = &run->world;
    world_init(w, c->seed);
    w->is_traced = is_traced;
    world_set(w);
    api_init(&run->api, w);
    run->api.log = log_change;
    run->api.log_request = log_request;
    run->api.log_user = run;
    if (run->agents.interval_ns == 0) {
        choose_timers(c->seed, &run->agents);
    }
    run->agents.directory = directory;
    run->oracle = oracle_new(&(struct oracle_config){.interval_ns = run->agents.interval_ns,
                                                     .duration_ns = run->agents.duration_ns,
                                                     .stale_hold_ns = run->agents.stale_hold_ns,
                                                     .is_companion = run->agents.is_companion});
    agents_init(w, &run->agents);
    faults_plan(&c->faults);
    agents_start_host();
    agents_start_dpu();
    if (run->agents.is_companion) {
        ovnkube_start(&run->api, run->agents.interval_ns);
    }
}

static void tear_down(struct run *run)
{
    agents_fini();
    exchange_drop_tasks(&run->world);
    api_fini(&run->api);
    oracle_free(run->oracle);
    world_set(NULL);
    free(run);
}

/* Where nothing has been wrong for long, nothing new comes. */
static int64_t end_of(const struct sim_case *c)
{
    int64_t end = 1000 * SEC + c->span_ns;
    int64_t healed = 0;
    for (size_t i = 0; i < c->faults.count; i++) {
        healed = c->faults.items[i].until > healed ? c->faults.items[i].until : healed;
    }
    return healed + IDLE_NS < end ? healed + IDLE_NS : end;
}

/* `directory` is for the records. */
static void sim_run(const struct sim_case *c, const char *directory, bool is_traced,
                    struct sim_result *out)
{
    struct run *run = calloc(1, sizeof(*run));
    *out = (struct sim_result){.failure = ""};
    tally_use(&out->tally);
    set_up(run, c, directory, is_traced);
    struct world *w = &run->world;
    int64_t end = end_of(c);
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
    (void)snprintf(out->failure, sizeof(out->failure), "%s", w->failure);
    (void)snprintf(out->rule, sizeof(out->rule), "%s", run->oracle->rule);
    tear_down(run);
}

/* ---- the shortest list of faults that still breaks the same rule ----------------------------- */

/* Without `count` faults from `first` on; false if that fails no more, or otherwise. */
static bool do_without(struct sim_case *c, size_t first, size_t count, const char *rule,
                       const char *directory)
{
    struct sim_result result;
    struct sim_case *shorter = malloc(sizeof(*shorter));
    if (!shorter) {
        return false;
    }
    *shorter = *c;
    shorter->faults.count -= count;
    memmove(&shorter->faults.items[first], &shorter->faults.items[first + count],
            (shorter->faults.count - first) * sizeof(shorter->faults.items[0]));
    sim_run(shorter, directory, false, &result);
    bool fails = result.failure[0] != '\0' && strcmp(result.rule, rule) == 0;
    if (fails) {
        *c = *shorter;
    }
    free(shorter);
    return fails;
}

/* By halves, quarters ... and one by one, until nothing can be left out. */
static void shrink(struct sim_case *c, const char *rule, const char *directory)
{
    size_t part = c->faults.count / 2;
    while (part > 0) {
        bool is_shorter = false;
        for (size_t first = 0; first + part <= c->faults.count;) {
            if (do_without(c, first, part, rule, directory)) {
                is_shorter = true;
            } else {
                first += part;
            }
        }
        part = is_shorter && part == 1 ? 1 : part / 2;
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/*
 * sim check CORPUS COUNTS         each line of the corpus. COUNTS names what all together have to
 *                                 exercise (world.h): fails where one is missing
 * sim soak CORPUS SECONDS RUNS    as many new seeds as fit; what fails goes into the corpus
 * sim replay SEED MINUTES [FAULT]...   one run with its story
 * sim figures                     what a pair and a death cost, for some timers; fails where that
 *                                 is too much
 *
 * A line of the corpus is "SEED MINUTES [FAULT]..."; without faults they are drawn from the seed.
 * In a story, the log of the agents is between what happens. Check and soak use all processors.
 */

enum { MINUTES = 60, LINE_BYTES = FAULTS_TEXT_BYTES + 64, WORKERS_MAX = 64 };

/* What a process has done. */
struct total {
    uint64_t runs;
    uint64_t failures;
    int64_t virtual_ns;
    struct tally tally;
};

/* A process and its share: each `workers`th line or seed, from the one of its number on. */
struct worker {
    const char *corpus;
    const char *directory; /* of the records */
    uint64_t number;
    uint64_t workers;
    struct total *total; /* shared with the parent */
};

/* One run. Where it fails, says how to see that again, in as few faults as will do, and adds it to
 * `failed`, if that is not NULL. */
static void run(struct worker *worker, struct sim_case *c, const char *failed)
{
    struct sim_result r;
    char faults[FAULTS_TEXT_BYTES];
    sim_draw(c);
    sim_run(c, worker->directory, false, &r);
    worker->total->runs++;
    worker->total->virtual_ns += end_of(c) - 1000 * SEC;
    tally_add(&worker->total->tally, &r.tally);
    if (r.failure[0] == '\0') {
        return;
    }
    worker->total->failures++;
    shrink(c, r.rule, worker->directory);
    faults_print(&c->faults, faults);
    (void)printf("seed %llu: %s\n  again: sim replay %llu %lld %s\n", (unsigned long long)c->seed,
                 r.failure, (unsigned long long)c->seed, (long long)(c->span_ns / SEC / 60),
                 faults);
    FILE *f = failed ? fopen(failed, "a") : NULL;
    if (f) {
        (void)fprintf(f, "%llu %lld %s # %s\n", (unsigned long long)c->seed,
                      (long long)(c->span_ns / SEC / 60), faults, r.rule);
        (void)fclose(f); /* it is printed, too */
    }
}

/* False for a line that says nothing. */
static bool parse_line(char *line, struct sim_case *out)
{
    char *at = line;
    line[strcspn(line, "#\n")] = '\0';
    memset(out, 0, sizeof(*out));
    out->seed = strtoull(line, &at, 10);
    if (at == line) {
        return false;
    }
    out->span_ns = strtoll(at, &at, 10) * 60 * SEC;
    at += strspn(at, " ");
    out->has_list = *at != '\0';
    if (out->has_list && !faults_parse(at, &out->faults)) {
        (void)fprintf(stderr, "sim: no faults: '%s'\n", at);
        exit(2);
    }
    return true;
}

static void run_corpus(struct worker *worker)
{
    char line[LINE_BYTES];
    struct sim_case c;
    FILE *f = fopen(worker->corpus, "r");
    if (!f) {
        perror(worker->corpus);
        exit(2);
    }
    for (uint64_t i = 0; fgets(line, sizeof(line), f);) {
        if (parse_line(line, &c) && i++ % worker->workers == worker->number) {
            run(worker, &c, NULL);
        }
    }
    (void)fclose(f); /* read-only */
}

static void run_new(struct worker *worker, uint64_t first, int64_t seconds, uint64_t runs)
{
    time_t end = time(NULL) + seconds;
    for (uint64_t i = worker->number; i < runs && time(NULL) < end; i += worker->workers) {
        struct sim_case c = {.seed = first + i, .span_ns = MINUTES * 60 * SEC};
        run(worker, &c, worker->corpus);
    }
}

/* Twice the same. */
static bool is_repeatable(const char *directory)
{
    struct sim_result results[2];
    for (size_t i = 0; i < 2; i++) {
        struct sim_case c = {.seed = 7, .span_ns = 15 * 60 * SEC};
        sim_draw(&c);
        sim_run(&c, directory, false, &results[i]);
    }
    return memcmp(&results[0], &results[1], sizeof(results[0])) == 0;
}

struct plan {
    const char *corpus;
    bool is_soak;
    int64_t seconds; /* of a soak */
    uint64_t runs;
    uint64_t first; /* seed */
};

/* Does not return: all that checks a process at its end sees it end. */
static void work(const struct plan *plan, struct worker worker, const char *directory)
{
    char own[64];
    (void)snprintf(own, sizeof(own), "%s.%llu", directory, (unsigned long long)worker.number);
    (void)mkdir(own, 0700); /* without it the first run fails */
    worker.corpus = plan->corpus;
    worker.directory = own;
    if (plan->is_soak) {
        run_new(&worker, plan->first, plan->seconds, plan->runs);
    } else {
        run_corpus(&worker);
    }
    worker.total->failures += rmdir(own) != 0; /* something was left behind */
    exit(0);
}

/* On all processors. NULL: there is no memory. */
static struct total *carry_out(const struct plan *plan, const char *directory)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t workers = processors > WORKERS_MAX ? WORKERS_MAX : (uint64_t)processors;
    struct total *each = mmap(NULL, WORKERS_MAX * sizeof(*each), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    if (each == MAP_FAILED) {
        return NULL;
    }
    (void)fflush(stdout);
    for (uint64_t i = 0; i < workers; i++) {
        if (fork() == 0) {
            work(plan, (struct worker){.number = i, .workers = workers, .total = &each[i]},
                 directory);
        }
    }
    while (wait(&status) > 0) {
        each[0].failures += status != 0; /* it crashed, and its last run did not count */
    }
    for (uint64_t i = 1; i < workers; i++) {
        each[0].runs += each[i].runs;
        each[0].failures += each[i].failures;
        each[0].virtual_ns += each[i].virtual_ns;
        tally_add(&each[0].tally, &each[i].tally);
    }
    return each;
}

/* COUNTS may be NULL: then nothing has to be exercised. */
static int run_all(const struct plan *plan, const char *counts, const char *directory)
{
    bool is_well = is_repeatable(directory);
    if (!is_well) {
        (void)printf("seed 7 gives one run and then another\n");
    }
    const struct total *all = carry_out(plan, directory);
    if (!all) {
        return 2;
    }
    tally_print(&all->tally);
    (void)printf("%llu runs, %.1f h of virtual time, %llu failures\n",
                 (unsigned long long)all->runs, (double)all->virtual_ns / 3600e9,
                 (unsigned long long)all->failures);
    if (counts && !tally_has_all(&all->tally, counts)) {
        (void)printf("where so little happens nothing is proven\n");
        is_well = false;
    }
    return is_well && all->failures == 0 ? 0 : 1;
}

static uint64_t new_seed(void)
{
    uint32_t seed = 0;
    return getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed) ? seed : (uint64_t)time(NULL);
}

static int replay(int argc, char **argv, const char *directory)
{
    char line[LINE_BYTES];
    size_t used = 0;
    struct sim_result r;
    struct sim_case *c = malloc(sizeof(*c));
    for (int i = 2; i < argc && used < sizeof(line); i++) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s ", argv[i]);
    }
    if (!c || !parse_line(line, c)) {
        return 2;
    }
    log_setup(LOG_INFO, LOG_TEXT, "");
    log_set_fd(STDOUT_FILENO);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* in turn with the log */
    sim_draw(c);
    sim_run(c, directory, true, &r);
    (void)printf("%s\n", r.failure[0] != '\0' ? r.failure : "all is well");
    free(c);
    return r.failure[0] != '\0' ? 1 : 0;
}

struct figures {
    uint64_t of_pair;  /* requests about the lease in 100 s */
    uint64_t of_death; /* the host's, from the death to the verdict */
    int64_t late_ns;   /* the verdict, after the lease ran out */
};

/* The DPU dies at 1300 s. */
static void take_figures(struct run *run, struct figures *out)
{
    struct world *w = &run->world;
    uint64_t begun = 0;
    *out = (struct figures){.late_ns = INT64_MAX};
    while (w->now < 3000 * SEC && out->late_ns == INT64_MAX) {
        if (w->now < 1200 * SEC) {
            begun = run->asked[0] + run->asked[1];
        }
        if (w->now < 1300 * SEC) {
            out->of_pair = run->asked[0] + run->asked[1] - begun;
            out->of_death = run->asked[1];
            world_step(w, w->now + 100 * MS);
            continue;
        }
        world_step(w, w->now + 5 * MS);
        look(run);
        read_as_gate(run);
        if (strcmp(oracle_told(run->oracle).state, "NotReady") == 0) {
            out->late_ns =
                machine_boot_ns(w, agents_host()->machine) - run->oracle->record.lease_until_ns;
        }
    }
    out->of_death = run->asked[1] - out->of_death;
}

/* Where nothing else is wrong, and the network takes up to 60 ms both ways. False if that is later
 * or dearer than it may be. */
static bool show_figures(int64_t interval_ms, int64_t duration_s, const char *directory)
{
    struct sim_case c = {.seed = 1};
    struct figures f;
    struct run *run = calloc(1, sizeof(*run));
    run->agents = (struct agents_config){.interval_ns = interval_ms * MS,
                                         .duration_ns = duration_s * SEC,
                                         .stale_hold_ns = 300 * SEC};
    bool is_well = faults_parse("dpu-dead@1300+2000:0", &c.faults);
    set_up(run, &c, directory, false);
    take_figures(run, &f);
    tear_down(run);
    double of_interval = (double)f.of_pair * (double)interval_ms / 100e3;
    is_well = is_well && f.late_ns <= LATE_MOST_NS && of_interval < 1.05 &&
              f.of_death <= REQUESTS_OF_DEATH;
    (void)printf("%4.1f s / %2lld s: a living pair %.2f requests an interval; a death is found "
                 "%.3f s after the lease ran out, by %llu requests%s\n",
                 (double)interval_ms / 1e3, (long long)duration_s, of_interval,
                 (double)f.late_ns / 1e9, (unsigned long long)f.of_death,
                 is_well ? "" : ": TOO MUCH");
    return is_well;
}

static int figures(const char *directory)
{
    static const struct {
        int64_t interval_ms, duration_s;
    } rows[] = {{10000, 40}, {20000, 65}, {1000, 4}, {400, 1}};
    bool is_well = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        is_well &= show_figures(rows[i].interval_ms, rows[i].duration_s, directory);
    }
    return is_well ? 0 : 1;
}

int main(int argc, char **argv)
{
    char in_memory[] = "/dev/shm/sim-XXXXXX";
    char on_disk[] = "/tmp/sim-XXXXXX";
    const char *directory = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
    int status = 2;
    json_object_seed(1); /* the same order each time */
    log_setup(LOG_ERROR, LOG_TEXT, "");
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!directory) {
        perror("sim: making a directory");
    } else if (argc == 4 && strcmp(argv[1], "check") == 0) {
        status = run_all(&(struct plan){.corpus = argv[2]}, argv[3], directory);
    } else if (argc == 5 && strcmp(argv[1], "soak") == 0) {
        struct plan plan = {.corpus = argv[2],
                            .is_soak = true,
                            .seconds = strtoll(argv[3], NULL, 10),
                            .runs = strtoull(argv[4], NULL, 10),
                            .first = new_seed()};
        status = run_all(&plan, NULL, directory);
    } else if (argc == 2 && strcmp(argv[1], "figures") == 0) {
        status = figures(directory);
    } else if (argc >= 4 && strcmp(argv[1], "replay") == 0) {
        status = replay(argc, argv, directory);
    } else {
        (void)fprintf(stderr, "usage: sim check CORPUS COUNTS | soak CORPUS SECONDS RUNS | replay "
                              "SEED MINUTES [FAULT]... | figures\n");
    }
    if (directory && rmdir(directory) != 0) { /* only the records may be left, and go */
        perror("sim: something was left behind");
        status = status == 0 ? 1 : status;
    }
    return status;
}
