/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim check CORPUS SECONDS COUNTS   each line of the corpus, then new seeds for so long
 * sim soak CORPUS SECONDS RUNS COUNTS   as many as fit, on all processors; what fails goes into
 *                                   the corpus
 * sim replay SEED MINUTES [FAULT]...   one run with its story
 *
 * A line of the corpus is "SEED MINUTES [FAULT]..."; without faults they are drawn from the seed.
 * COUNTS names what all runs together have to exercise (tally.h); a name that check does not come
 * to fails it. What follows a # is for people. In a story, the log of the agents is between what
 * happens.
 */
#include "base/log.h"
#include "tests/sim/shrink.h"
#include "tests/sim/sim.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
    } else if (argc >= 4 && strcmp(argv[1], "replay") == 0) {
        status = replay(argc, argv, directory);
    } else {
        (void)fprintf(stderr, "usage: sim check CORPUS SECONDS COUNTS | soak CORPUS SECONDS RUNS "
                              "COUNTS | replay SEED MINUTES [FAULT]...\n");
    }
    if (directory && rmdir(directory) != 0) { /* only the records may be left, and go */
        perror("sim: something was left behind");
        status = status == 0 ? 1 : status;
    }
    return status;
}
