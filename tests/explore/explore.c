/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All schedules of few faults on both cores as they are.
 *
 *   explore run FAULTS POINTS [SETTING]
 *       each schedule of up to so many faults within so many points of time, breadth first; of all
 *       settings by default
 *   explore check FAULTS POINTS
 *       the same, and everything has to be exercised, each rule of the verdict among it
 *   explore far FAULTS SECONDS
 *       until no world is new, or for so long of each beginning
 *   explore replay SETTING ROOT POINTS [FAULT@POINT]...
 *       one schedule, told as a story
 *
 * A fault begins at a point of time, and one that lasts ends at any later one; at each point at
 * most one of them begins or ends. Worlds that meet (canon.c) are followed once, from the earliest
 * point and with the fewest faults. So the first failure that is found is as short as one can be.
 *
 * A world begins calm; or with a host agent that is new, which is a fault; or with a DPU that is
 * dead, too, which are two.
 *
 * Exit status: 0: nothing was found; 1: a failure, with its story, or what was never exercised;
 * 2: it could not be tried.
 */
#include "tests/explore/world.h"

#include "base/text.h"
#include "base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct setting settings[] = {
    {.name = "10/40",
     .interval_ns = 10 * NS_PER_SEC,
     .duration_ns = 40 * NS_PER_SEC,
     .stale_hold_ns = 60 * NS_PER_SEC,
     .step_ns = 10 * NS_PER_SEC,
     .first_ns = 5 * NS_PER_SEC,
     .jitter_pc = 100},
    {.name = "5/30",
     .interval_ns = 5 * NS_PER_SEC,
     .duration_ns = 30 * NS_PER_SEC,
     .stale_hold_ns = 30 * NS_PER_SEC,
     .step_ns = 5 * NS_PER_SEC,
     .first_ns = 1 * NS_PER_SEC,
     .jitter_pc = 30},
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]), NOTHING = FAULTS, PATH_MAX_STEPS = 256 };

static void *need(void *memory)
{
    if (!memory) {
        (void)fprintf(stderr, "explore: out of memory\n");
        exit(2);
    }
    return memory;
}

/* ---- what was seen --------------------------------------------------------------------------- */

/* Open addressing. The last byte of `b` is not the digest's: it is 1 more than the fewest faults
 * with which the world was reached; 0: an empty place. */
struct seen {
    struct digest *entries;
    size_t size; /* a power of two */
    size_t used;
};

enum { FAULTS_MASK = 0xff };

static bool is_empty(const struct digest *entry)
{
    return (entry->b & FAULTS_MASK) == 0;
}

static struct digest *seen_find(struct digest *entries, size_t size, struct digest digest)
{
    size_t i = digest.a & (size - 1);
    while (!is_empty(&entries[i]) &&
           (entries[i].a != digest.a || (entries[i].b ^ digest.b) > FAULTS_MASK)) {
        i = (i + 1) & (size - 1);
    }
    return &entries[i];
}

static void seen_grow(struct seen *s)
{
    size_t size = s->size == 0 ? 1 << 16 : 2 * s->size;
    struct digest *entries = need(calloc(size, sizeof(*entries)));
    for (size_t i = 0; i < s->size; i++) {
        if (!is_empty(&s->entries[i])) {
            *seen_find(entries, size, s->entries[i]) = s->entries[i];
        }
    }
    free(s->entries);
    s->entries = entries;
    s->size = size;
}

/* Whether it is to be followed: it is new, or was reached with more faults. */
static bool seen_add(struct seen *s, struct digest digest, uint8_t faults)
{
    if (2 * (s->used + 1) > s->size) {
        seen_grow(s);
    }
    struct digest *entry = seen_find(s->entries, s->size, digest);
    bool is_new = is_empty(entry);
    if (!is_new && (entry->b & FAULTS_MASK) <= faults + 1U) {
        return false;
    }
    s->used += is_new;
    *entry = (struct digest){digest.a, (digest.b & ~(uint64_t)FAULTS_MASK) | (faults + 1U)};
    return true;
}

/* ---- what is to be followed ------------------------------------------------------------------ */

/* How a world was reached: for the story. */
struct node {
    uint32_t parent;
    uint8_t toggled; /* a fault, or NOTHING */
    uint8_t faults;  /* that began on the way */
};

/* Worlds of one point of time, packed: as the difference to the first of all worlds, whose zeros
 * are counted. */
struct layer {
    uint8_t *bytes;
    size_t used;
    size_t size;
    uint32_t *nodes;
    size_t *offsets;
    size_t count;
    size_t room;
};

static const uint64_t *base_words; /* of the first world */

enum { WORLD_WORDS = sizeof(struct world) / sizeof(uint64_t) };
_Static_assert(sizeof(struct world) % sizeof(uint64_t) == 0, "a world is whole words");

typedef uint64_t __attribute__((may_alias)) world_word;

static void layer_put(struct layer *l, const struct world *w, uint32_t node)
{
    const world_word *words = (const world_word *)w;
    if (l->size - l->used < 2 * sizeof(struct world)) {
        l->size = l->size * 2 + 4 * sizeof(struct world);
        l->bytes = need(realloc(l->bytes, l->size));
    }
    if (l->count == l->room) {
        l->room = l->room * 2 + 64;
        l->nodes = need(realloc(l->nodes, l->room * sizeof(*l->nodes)));
        l->offsets = need(realloc(l->offsets, l->room * sizeof(*l->offsets)));
    }
    l->nodes[l->count] = node;
    l->offsets[l->count++] = l->used;
    for (size_t i = 0; i < WORLD_WORDS;) {
        size_t from = i;
        while (i < WORLD_WORDS && words[i] == base_words[i]) {
            i++;
        }
        uint16_t same = (uint16_t)(i - from);
        from = i;
        while (i < WORLD_WORDS && words[i] != base_words[i]) {
            i++;
        }
        uint16_t other = (uint16_t)(i - from);
        memcpy(l->bytes + l->used, &same, sizeof(same));
        memcpy(l->bytes + l->used + sizeof(same), &other, sizeof(other));
        l->used += sizeof(same) + sizeof(other);
        memcpy(l->bytes + l->used, words + from, other * sizeof(uint64_t));
        l->used += other * sizeof(uint64_t);
    }
}

static void layer_get(const struct layer *l, size_t index, struct world *out)
{
    world_word *words = (world_word *)out;
    const uint8_t *at = l->bytes + l->offsets[index];
    memcpy(out, base_words, sizeof(*out));
    for (size_t i = 0; i < WORLD_WORDS;) {
        uint16_t same;
        uint16_t other;
        memcpy(&same, at, sizeof(same));
        memcpy(&other, at + sizeof(same), sizeof(other));
        at += sizeof(same) + sizeof(other);
        i += same;
        memcpy(words + i, at, other * sizeof(uint64_t));
        at += other * sizeof(uint64_t);
        i += other;
    }
}

static void layer_clear(struct layer *l)
{
    l->used = 0;
    l->count = 0;
}

static void layer_free(struct layer *l)
{
    free(l->bytes);
    free(l->nodes);
    free(l->offsets);
}

/* ---- what was exercised ---------------------------------------------------------------------- */

/* What no schedule here leads to: these are other settings, or the simulator's. */
static const enum verdict_rule not_here[] = {
    RULE_STALLED,               /* each wake-up is in time */
    RULE_DURATION_SHORTENED,    /* the duration is one */
    RULE_HOLD_IS_OVER,          /* a hold has no end by default */
    RULE_FAILS + MARK_CONFLICT, /* neither is a failure */
    RULE_FAILS + MARK_TAKEN,
};

_Static_assert(sizeof(struct tally) % sizeof(uint64_t) == 0, "a tally is counts");

static void tally_add(struct tally *sum, const struct tally *t)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)t;
    for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++) {
        to[i] += from[i];
    }
}

static bool tell_count(uint64_t many, const char *kind, const char *name, bool is_needed)
{
    if (many > 0 || is_needed) {
        (void)printf("%12llu  %s: %s\n", (unsigned long long)many, kind, name);
    }
    return many > 0 || !is_needed;
}

static bool is_here(enum verdict_rule rule)
{
    for (size_t i = 0; i < sizeof(not_here) / sizeof(not_here[0]); i++) {
        if (not_here[i] == rule) {
            return false;
        }
    }
    return true;
}

/* False: something that has to be exercised was not. */
static bool tally_tell(const struct tally *t)
{
    bool has_all = true;
    for (uint32_t i = 0; i < FAULTS; i++) {
        has_all &= tell_count(t->began[i], "begins", fault_name((enum fault)i), true);
    }
    for (uint32_t i = 0; i < FAULTS_THAT_LAST; i++) {
        has_all &= tell_count(t->ended[i], "ends", fault_name((enum fault)i), true);
    }
    for (uint32_t i = 0; i < MARK_OUTCOMES; i++) {
        const char *name = mark_outcome_name((enum mark_outcome)i);
        has_all &= tell_count(t->marks[i], "mark", name, true);
        has_all &= tell_count(t->trials[i], "trial", name, true);
    }
    for (uint32_t i = 0; i < REASON_COUNT; i++) {
        const char *name = readiness_reason_name((enum readiness_reason)i);
        (void)tell_count(t->told[i][0], "refused", name, false);
        (void)tell_count(t->told[i][1], "admitted", name, false);
    }
    for (uint32_t i = 0; i < VERDICT_RULES; i++) {
        const struct verdict_trace trace = {.steps = {{.rule = (enum verdict_rule)i}}, .count = 1};
        char text[VERDICT_RULE_BYTES];
        if (t->rules[i] > 0 || is_here((enum verdict_rule)i)) {
            verdict_trace_text(&trace, 0, text);
            has_all &= tell_count(t->rules[i], "rule", text, true);
        }
    }
    has_all &= tell_count(t->reboots, "told", "a reboot of the DPU", true);
    has_all &= tell_count(t->carried, "started", "with a record that counts", true);
    return has_all;
}

/* ---- the search ------------------------------------------------------------------------------ */

struct search {
    struct explorer e;
    struct seen seen;
    struct node *nodes;
    size_t node_count;
    size_t node_room;
    struct layer layers[2]; /* of this point of time, and of the next */
    uint32_t faults_most;
    bool is_fixed; /* no world of the last point of time was new */
    uint64_t transitions;
    uint32_t failed; /* the node of the failure */
};

static uint32_t add_node(struct search *s, struct node node)
{
    if (s->node_count == s->node_room) {
        s->node_room = s->node_room * 2 + 1024;
        s->nodes = need(realloc(s->nodes, s->node_room * sizeof(*s->nodes)));
    }
    s->nodes[s->node_count] = node;
    return (uint32_t)s->node_count++;
}

/* From one point of time to the next. */
static void step(struct explorer *e, struct world *w, uint32_t toggled)
{
    if (toggled != NOTHING) {
        world_toggle(e, w, (enum fault)toggled);
    }
    world_run(e, w, w->now + e->setting->step_ns);
    if (e->failure[0] == '\0') {
        world_point(e, w);
    }
}

/* Takes `w` on. `next` is NULL at the last point of time: nothing follows. False: a failure was
 * found. */
static bool follow(struct search *s, struct world *w, uint32_t parent, uint32_t toggled,
                   struct layer *next)
{
    struct node node = {
        .parent = parent, .toggled = (uint8_t)toggled, .faults = s->nodes[parent].faults};
    if (toggled != NOTHING && !world_has(w, (enum fault)toggled)) {
        node.faults++;
    }
    step(&s->e, w, toggled);
    s->transitions++;
    bool is_new =
        s->e.failure[0] == '\0' && seen_add(&s->seen, canon_digest(&s->e, w), node.faults);
    if (is_new) {
        judge_gate(&s->e, w);
    }
    if (s->e.failure[0] != '\0') {
        s->failed = add_node(s, node);
        return false;
    }
    s->is_fixed = s->is_fixed && !is_new;
    if (is_new && next) {
        layer_put(next, w, add_node(s, node));
    }
    return true;
}

/* Each of its futures, the last of them in place. */
static bool expand(struct search *s, struct world *w, uint32_t node, struct layer *next)
{
    static struct world copy;
    bool has_left = s->nodes[node].faults < s->faults_most;
    for (uint32_t fault = 0; fault < FAULTS; fault++) {
        bool ends = world_has(w, (enum fault)fault);
        if ((ends || has_left) && world_can_toggle(w, (enum fault)fault)) {
            copy = *w;
            if (!follow(s, &copy, node, fault, next)) {
                return false;
            }
        }
    }
    return follow(s, w, node, NOTHING, next);
}

static uint32_t path_to(const struct search *s, uint32_t node, uint8_t *out_path)
{
    uint32_t count = 0;
    while (s->nodes[node].parent != node && count < PATH_MAX_STEPS) {
        out_path[count++] = s->nodes[node].toggled;
        node = s->nodes[node].parent;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        uint8_t swap = out_path[i];
        out_path[i] = out_path[count - 1 - i];
        out_path[count - 1 - i] = swap;
    }
    return count;
}

static bool tell_story(struct explorer *e, enum root root, const uint8_t *path, uint32_t count)
{
    static struct world w;
    e->is_told = false;
    world_init(e, &w, root);
    e->is_told = true;
    for (uint32_t i = 0; i < count && e->failure[0] == '\0'; i++) {
        step(e, &w, path[i]);
        judge_gate(e, &w);
    }
    if (e->failure[0] != '\0') {
        world_tell(e, &w, "WRONG: %s", e->failure);
    }
    return e->failure[0] == '\0';
}

static void report_failure(const struct search *s, enum root root)
{
    static struct explorer e;
    uint8_t path[PATH_MAX_STEPS];
    uint32_t count = path_to(s, s->failed, path);
    explorer_init(&e, s->e.setting);
    (void)printf("explore replay %s %s %u", e.setting->name, root_name(root), count);
    for (uint32_t i = 0; i < count; i++) {
        if (path[i] != NOTHING) {
            (void)printf(" %s@%u", fault_name((enum fault)path[i]), i);
        }
    }
    (void)printf("\n");
    (void)tell_story(&e, root, path, count);
}

static double cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail */
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
}

/* Until `points` are over, no world is new, or `end_s` of CPU time have passed. */
static bool search_root(struct search *s, enum root root, uint32_t points, double end_s)
{
    static struct world first;
    static struct world w;
    world_init(&s->e, &first, root);
    base_words = need(malloc(sizeof(first)));
    memcpy((void *)base_words, &first, sizeof(first));
    s->node_count = 0;
    uint32_t top = add_node(s, (struct node){.toggled = NOTHING, .faults = (uint8_t)root});
    layer_clear(&s->layers[0]);
    layer_put(&s->layers[0], &first, top);
    bool is_well = s->e.failure[0] == '\0';
    s->failed = top;
    uint32_t point = 0;
    s->is_fixed = false;
    for (; is_well && !s->is_fixed && point < points && cpu_s() < end_s; point++) {
        struct layer *now = &s->layers[point % 2];
        struct layer *next = &s->layers[(point + 1) % 2];
        layer_clear(next);
        s->is_fixed = true;
        for (size_t i = 0; is_well && i < now->count; i++) {
            layer_get(now, i, &w);
            is_well = expand(s, &w, now->nodes[i], point + 1 < points ? next : NULL);
        }
    }
    if (!is_well) {
        report_failure(s, root);
    } else {
        (void)printf("%s, %s, up to %u faults: all of the first %u points of time%s\n",
                     s->e.setting->name, root_name(root), s->faults_most, point,
                     s->is_fixed ? ", and no world after them is new" : "");
    }
    free((void *)base_words);
    return is_well;
}

/* Adds what was exercised to `sum`. `seconds`: of each beginning; 0: no limit. */
static bool search_all(const struct setting *setting, uint32_t faults, uint32_t points,
                       uint32_t seconds, struct tally *sum)
{
    static struct search s;
    s = (struct search){.faults_most = faults};
    explorer_init(&s.e, setting);
    bool is_well = true;
    for (uint32_t root = 0; is_well && root < ROOTS; root++) {
        is_well = search_root(&s, (enum root)root, points,
                              seconds == 0 ? 1e18 : cpu_s() + (double)seconds);
    }
    (void)printf(
        "%s: %zu worlds, %llu transitions, %llu steps of the verdict, %llu of the renewer, "
        "%.1f s of CPU\n",
        setting->name, s.seen.used, (unsigned long long)s.transitions,
        (unsigned long long)s.e.verdict_steps, (unsigned long long)s.e.renewer_steps, cpu_s());
    tally_add(sum, &s.e.tally);
    layer_free(&s.layers[0]);
    layer_free(&s.layers[1]);
    free(s.nodes);
    free(s.seen.entries);
    return is_well;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int usage(void)
{
    (void)fprintf(stderr, "usage: explore run FAULTS POINTS [SETTING]\n"
                          "       explore check FAULTS POINTS\n"
                          "       explore far FAULTS SECONDS\n"
                          "       explore replay SETTING ROOT POINTS [FAULT@POINT]...\n");
    return 2;
}

static bool read_number(const char *text, size_t len, uint32_t most, uint32_t *out)
{
    uint64_t number;
    if (text_to_u64(text, len, &number, NULL) != 0 || number > most) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static const struct setting *setting_of(const char *name)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        if (text_equal(settings[i].name, name)) {
            return &settings[i];
        }
    }
    return NULL;
}

/* A process for each setting; all count into memory that they share. */
static int run_settings(uint32_t faults, uint32_t points, uint32_t seconds, bool is_checked)
{
    bool is_well = true;
    struct tally *tallies = mmap(NULL, SETTINGS * sizeof(*tallies), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct tally sum = {.reboots = 0};
    if (tallies == MAP_FAILED) {
        perror("explore: memory that is shared");
        return 2;
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            bool was_well = search_all(&settings[i], faults, points, seconds, &tallies[i]);
            (void)fflush(stdout);
            _exit(!was_well);
        }
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        int status = 0;
        is_well &= wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        tally_add(&sum, &tallies[i]);
    }
    if (is_checked && is_well && !tally_tell(&sum)) {
        (void)printf("a run in which one of these is 0 proves nothing\n");
        is_well = false;
    }
    return !is_well;
}

static int run(int argc, char **argv)
{
    uint32_t faults;
    uint32_t limit;
    bool is_far = text_equal(argv[1], "far");
    if (argc < 4 || !read_number(argv[2], strlen(argv[2]), 8, &faults) ||
        !read_number(argv[3], strlen(argv[3]), is_far ? 86400 : PATH_MAX_STEPS, &limit)) {
        return usage();
    }
    if (argc > 4) {
        static struct tally tally;
        const struct setting *setting = setting_of(argv[4]);
        return !setting ? usage() : !search_all(setting, faults, limit, 0, &tally);
    }
    return run_settings(faults, is_far ? PATH_MAX_STEPS : limit, is_far ? limit : 0,
                        text_equal(argv[1], "check"));
}

static bool read_fault(const char *word, uint32_t steps, uint8_t *path)
{
    const char *at = strchr(word, '@');
    uint32_t point;
    if (!at || !read_number(at + 1, strlen(at + 1), steps, &point)) {
        return false;
    }
    for (uint32_t fault = 0; fault < FAULTS; fault++) {
        const char *name = fault_name((enum fault)fault);
        if (strlen(name) == (size_t)(at - word) && strncmp(name, word, strlen(name)) == 0) {
            path[point] = (uint8_t)fault;
            return true;
        }
    }
    return false;
}

static int replay(int argc, char **argv)
{
    static struct explorer e;
    uint8_t path[PATH_MAX_STEPS + 1];
    uint32_t steps;
    uint32_t root = 0;
    const struct setting *setting = argc < 5 ? NULL : setting_of(argv[2]);
    if (!setting || !read_number(argv[4], strlen(argv[4]), PATH_MAX_STEPS, &steps)) {
        return usage();
    }
    while (root < ROOTS && !text_equal(root_name((enum root)root), argv[3])) {
        root++;
    }
    memset(path, NOTHING, sizeof(path));
    for (int i = 5; i < argc; i++) {
        if (!read_fault(argv[i], steps, path)) {
            return usage();
        }
    }
    if (root == ROOTS) {
        return usage();
    }
    explorer_init(&e, setting);
    return !tell_story(&e, (enum root)root, path, steps);
}

int main(int argc, char **argv)
{
    if (argc > 1 && (text_equal(argv[1], "run") || text_equal(argv[1], "check") ||
                     text_equal(argv[1], "far"))) {
        return run(argc, argv);
    }
    if (argc > 1 && text_equal(argv[1], "replay")) {
        return replay(argc, argv);
    }
    return usage();
}
