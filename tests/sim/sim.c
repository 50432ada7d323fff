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
    int64_t lasted_ns;
    uint64_t faults;
    uint64_t renewals;
    uint64_t flips;
    uint64_t requests;
    uint64_t callbacks;
    struct tally tally;
};

/* The list of faults that the case stands for. */
void sim_draw(struct sim_case *c);
/* `directory` is for the records. */
void sim_run(const struct sim_case *c, const char *directory, bool is_traced,
             struct sim_result *out);

enum {
    PAGE_BYTES = 4096,
    GATE_SHARE = 16, /* one reading in so many is dpu-gate's, too */
    REQUESTS_OF_DEATH = 4,
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

/* ---- what the oracle sees -------------------------------------------------------------------- */

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
        .host_watches = api_watch_works(&run->api, AGENTS_HOST, API_LEASE),
        .api_up = !faults_on(FAULT_API_DOWN),
        .api_writes = !faults_on(FAULT_NO_WRITES),
        .api_forbids = faults_on(FAULT_WRITE_DENIED),
        .api_tells =
            !faults_on(FAULT_LOST_ANSWERS) && !faults_on(FAULT_UNSURE) && !faults_on(FAULT_GARBAGE),
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
    api_set(&run->api);
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
    api_make_node(&run->api);
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
    out->renewals = run->oracle->renewals;
    out->flips = run->oracle->flips;
    out->requests = run->oracle->requests;
    out->callbacks = w->callbacks;
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
 * sim check CORPUS SECONDS COUNTS   each line of the corpus, then new seeds for so long
 * sim soak CORPUS SECONDS RUNS COUNTS   as many as fit, on all processors; what fails goes into
 *                                   the corpus
 * sim replay SEED MINUTES [FAULT]...   one run with its story
 * sim figures   what a pair and a death cost, for some timers; fails where that is too much
 *
 * A line of the corpus is "SEED MINUTES [FAULT]..."; without faults they are drawn from the seed.
 * COUNTS names what all runs together have to exercise (world.h); a name that check does not come
 * to fails it. What follows a # is for people. In a story, the log of the agents is between what
 * happens.
 */

enum { MINUTES = 60, LINE_BYTES = FAULTS_TEXT_BYTES + 64, WORKERS_MAX = 64 };

struct totals {
    uint64_t runs;
    uint64_t faults;
    uint64_t flips;
    uint64_t renewals;
    uint64_t requests;
    uint64_t false_ready;
    uint64_t false_not_ready;
    uint64_t other;
    int64_t virtual_ns;
    int64_t first_failure_ns; /* of virtual time; 0: none */
    struct tally tally;
};

static int64_t seconds_now(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

static bool is_one_of(const char *word, const char *words)
{
    const char *at = strstr(words, word);
    return at && (at[strlen(word)] == ' ' || at[strlen(word)] == '\0');
}

static void count(struct totals *t, const struct sim_result *r)
{
    t->runs++;
    t->faults += r->faults;
    t->flips += r->flips;
    t->renewals += r->renewals;
    t->requests += r->requests;
    t->virtual_ns += r->lasted_ns;
    tally_add(&t->tally, &r->tally);
    if (r->failure[0] == '\0') {
        return;
    }
    if (is_one_of(r->rule, "late report stale")) {
        t->false_ready++;
    } else if (is_one_of(r->rule, "early regular hold back")) {
        t->false_not_ready++;
    } else {
        t->other++;
    }
    if (t->first_failure_ns == 0) {
        t->first_failure_ns = t->virtual_ns;
    }
}

static void add(struct totals *sum, const struct totals *t)
{
    sum->runs += t->runs;
    sum->faults += t->faults;
    sum->flips += t->flips;
    sum->renewals += t->renewals;
    sum->requests += t->requests;
    sum->false_ready += t->false_ready;
    sum->false_not_ready += t->false_not_ready;
    sum->other += t->other;
    sum->virtual_ns += t->virtual_ns;
    tally_add(&sum->tally, &t->tally);
    if (t->first_failure_ns != 0 &&
        (sum->first_failure_ns == 0 || t->first_failure_ns < sum->first_failure_ns)) {
        sum->first_failure_ns = t->first_failure_ns;
    }
}

static void print(const struct totals *t)
{
    tally_print(&t->tally);
    (void)printf("%llu runs, %.1f h of virtual time, %llu faults, %llu flips, %llu renewals, %llu "
                 "requests; false Ready %llu, false NotReady %llu, other failures %llu; ",
                 (unsigned long long)t->runs, (double)t->virtual_ns / 3600e9,
                 (unsigned long long)t->faults, (unsigned long long)t->flips,
                 (unsigned long long)t->renewals, (unsigned long long)t->requests,
                 (unsigned long long)t->false_ready, (unsigned long long)t->false_not_ready,
                 (unsigned long long)t->other);
    if (t->first_failure_ns != 0) {
        (void)printf("first failure after %.2f h of virtual time\n",
                     (double)t->first_failure_ns / 3600e9);
    } else {
        (void)printf("no failure\n");
    }
}

/* One run. Returns whether all was well; else says how to see it again, in as few faults as will
 * do, and adds that to `corpus`, if there is one. */
static bool run(struct sim_case *c, const char *directory, const char *corpus, struct totals *t)
{
    struct sim_result r;
    char faults[FAULTS_TEXT_BYTES];
    sim_draw(c);
    sim_run(c, directory, false, &r);
    count(t, &r);
    if (r.failure[0] == '\0') {
        return true;
    }
    (void)printf("seed %llu: %s\n", (unsigned long long)c->seed, r.failure);
    shrink(c, r.rule, directory);
    faults_print(&c->faults, faults);
    (void)printf("  again: sim replay %llu %lld %s\n", (unsigned long long)c->seed,
                 (long long)(c->span_ns / SEC / 60), faults);
    FILE *f = corpus ? fopen(corpus, "a") : NULL;
    if (f) {
        (void)fprintf(f, "%llu %lld %s # %s\n", (unsigned long long)c->seed,
                      (long long)(c->span_ns / SEC / 60), faults, r.rule);
        (void)fclose(f); /* it is printed, too */
    }
    return false;
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

static bool run_corpus(const char *path, const char *directory, struct totals *t)
{
    char line[LINE_BYTES];
    bool is_well = true;
    struct sim_case *c = malloc(sizeof(*c));
    FILE *f = fopen(path, "r");
    if (!f || !c) {
        (void)fprintf(stderr, "sim: cannot read '%s'\n", path);
        exit(2);
    }
    while (fgets(line, sizeof(line), f)) {
        if (parse_line(line, c)) {
            is_well = run(c, directory, NULL, t) && is_well;
        }
    }
    (void)fclose(f);
    free(c);
    return is_well;
}

/* Seeds from `first` on, until the time or the number of runs is over. */
static bool run_new(uint64_t first, uint64_t stride, int64_t seconds, uint64_t runs,
                    const char *directory, const char *corpus, struct totals *t)
{
    bool is_well = true;
    int64_t end = seconds_now() + seconds;
    struct sim_case *c = malloc(sizeof(*c));
    for (uint64_t seed = first; c && runs > 0 && seconds_now() < end; seed += stride, runs--) {
        memset(c, 0, sizeof(*c));
        c->seed = seed;
        c->span_ns = MINUTES * 60 * SEC;
        is_well = run(c, directory, corpus, t) && is_well;
    }
    free(c);
    return is_well;
}

static uint64_t new_seed(void)
{
    uint32_t seed = 0;
    return getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed) ? seed : (uint64_t)time(NULL);
}

/* Twice the same. */
static bool is_repeatable(const char *directory)
{
    struct sim_result results[2];
    for (size_t i = 0; i < 2; i++) {
        struct sim_case *c = calloc(1, sizeof(*c));
        if (!c) {
            return false;
        }
        c->seed = 7;
        c->span_ns = MINUTES * 60 * SEC;
        sim_draw(c);
        sim_run(c, directory, false, &results[i]);
        free(c);
    }
    bool is_same = results[0].callbacks == results[1].callbacks &&
                   results[0].requests == results[1].requests &&
                   results[0].flips == results[1].flips &&
                   memcmp(&results[0].tally, &results[1].tally, sizeof(results[0].tally)) == 0;
    if (!is_same) {
        (void)printf("seed 7 gives one run and then another\n");
    }
    return is_same;
}

static int check(const char *corpus, int64_t seconds, const char *counts, const char *directory)
{
    struct totals t = {0};
    uint64_t first = new_seed();
    bool is_well = is_repeatable(directory) && run_corpus(corpus, directory, &t);
    if (seconds > 0) {
        (void)printf("new seeds from %llu on\n", (unsigned long long)first);
        is_well = run_new(first, 1, seconds, UINT64_MAX, directory, NULL, &t) && is_well;
    }
    print(&t);
    if (t.flips < t.runs || !tally_has_all(&t.tally, counts)) {
        (void)printf("where so little happens nothing is proven\n");
        return 1;
    }
    return is_well ? 0 : 1;
}

static int soak(const char *corpus, int64_t seconds, uint64_t runs, const char *counts,
                const char *directory)
{
    long workers = sysconf(_SC_NPROCESSORS_ONLN);
    struct totals sum = {0};
    struct totals *each = mmap(NULL, WORKERS_MAX * sizeof(*each), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t first = new_seed();
    int64_t begin = seconds_now();
    workers = workers < 1 ? 1 : workers > WORKERS_MAX ? WORKERS_MAX : workers;
    if (each == MAP_FAILED) {
        return 2;
    }
    (void)printf("seeds from %llu on, in %ld processes\n", (unsigned long long)first, workers);
    for (long i = 0; i < workers; i++) {
        if (fork() == 0) {
            char own[64] = "";
            uint64_t share = runs / (uint64_t)workers + 1;
            (void)snprintf(own, sizeof(own), "%s.%ld", directory, i);
            (void)mkdir(own, 0700); /* without it the first run fails */
            (void)run_new(first + (uint64_t)i, (uint64_t)workers, seconds, share, own, corpus,
                          &each[i]);
            each[i].other += rmdir(own) != 0; /* something was left behind */
            _exit(0);
        }
    }
    int status;
    while (wait(&status) > 0) {
        sum.other += status != 0; /* it crashed, and its last run did not count */
    }
    for (long i = 0; i < workers; i++) {
        add(&sum, &each[i]);
    }
    print(&sum);
    (void)tally_has_all(&sum.tally, counts); /* a short one does not come to all */
    int64_t lasted = seconds_now() - begin;
    (void)printf("%lld s; at this pace %.0f million renewals in a night of 8 h\n",
                 (long long)lasted,
                 (double)sum.renewals / (double)(lasted > 0 ? lasted : 1) * 8 * 3600 / 1e6);
    return sum.false_ready + sum.false_not_ready + sum.other == 0 ? 0 : 1;
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
static bool show_figures(int64_t interval_ms, int64_t duration_s, const char *faults,
                         int64_t late_most_ms, const char *directory)
{
    struct sim_case c = {.seed = 1};
    struct figures f;
    struct run *run = calloc(1, sizeof(*run));
    run->agents = (struct agents_config){.interval_ns = interval_ms * MS,
                                         .duration_ns = duration_s * SEC,
                                         .stale_hold_ns = 300 * SEC};
    bool is_away = strchr(faults, ' ') != NULL;
    bool is_well = faults_parse(faults, &c.faults);
    set_up(run, &c, directory, false);
    take_figures(run, &f);
    tear_down(run);
    double of_interval = (double)f.of_pair * (double)interval_ms / 100e3;
    is_well = is_well && f.late_ns <= late_most_ms * MS && of_interval < 1.05 &&
              (is_away || f.of_death <= REQUESTS_OF_DEATH);
    (void)printf("%4.1f s / %2lld s%s: a living pair %.2f requests an interval; a death is found "
                 "%.3f s after the lease ran out, by %llu requests%s\n",
                 (double)interval_ms / 1e3, (long long)duration_s, is_away ? ", host away" : "",
                 of_interval, (double)f.late_ns / 1e9, (unsigned long long)f.of_death,
                 is_well ? "" : ": TOO MUCH");
    return is_well;
}

/* The host agent is away for 25 of each 35 s, from the death on. */
static void absences(char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "dpu-dead@1300+2000:0");
    for (int at = 1301; at < 2000; at += 35) {
        used += (size_t)snprintf(out + used, bytes - used, " host-dead@%d+25:1", at);
    }
}

static int figures(const char *directory)
{
    static const struct {
        int64_t interval_ms, duration_s;
    } rows[] = {{10000, 40}, {20000, 65}, {1000, 4}, {400, 1}};
    char away[FAULTS_TEXT_BYTES];
    bool is_well = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        is_well &= show_figures(rows[i].interval_ms, rows[i].duration_s, "dpu-dead@1300+2000:0",
                                100, directory);
    }
    is_well &= show_figures(10000, 40, "dpu-dead@1300+2000:0 host-dead@1301+60:1", 45000,
                            directory); /* R, 20 s, after it is back */
    absences(away, sizeof(away));
    is_well &= show_figures(10000, 40, away, 200000, directory);
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
    } else if (argc == 5 && strcmp(argv[1], "check") == 0) {
        status = check(argv[2], strtoll(argv[3], NULL, 10), argv[4], directory);
    } else if (argc == 6 && strcmp(argv[1], "soak") == 0) {
        status = soak(argv[2], strtoll(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), argv[5],
                      directory);
    } else if (argc == 2 && strcmp(argv[1], "figures") == 0) {
        status = figures(directory);
    } else if (argc >= 4 && strcmp(argv[1], "replay") == 0) {
        status = replay(argc, argv, directory);
    } else {
        (void)fprintf(stderr, "usage: sim check CORPUS SECONDS COUNTS | soak CORPUS SECONDS RUNS "
                              "COUNTS | replay SEED MINUTES [FAULT]... | figures\n");
    }
    if (directory && rmdir(directory) != 0) { /* only the records may be left, and go */
        perror("sim: something was left behind");
        status = status == 0 ? 1 : status;
    }
    return status;
}
