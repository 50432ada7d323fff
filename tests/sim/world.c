/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/world.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_NS (INT64_C(1790000000) * SEC) /* the wall clock at true time 0 */

static struct world *the_world; /* see the header */

struct world *world_get(void)
{
    return the_world;
}

void world_set(struct world *w)
{
    the_world = w;
}

void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->random.state = seed;
    w->now = 1000 * SEC;
    w->next_fd = WORLD_FIRST_FD;
}

int64_t world_between(struct world *w, int64_t least, int64_t most)
{
    return sim_random_between(&w->random, least, most);
}

bool world_one_in(struct world *w, int64_t n)
{
    return sim_random_one_in(&w->random, n);
}

void world_fail(struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (w->failure[0] != '\0') {
        return;
    }
    int used = snprintf(w->failure, sizeof(w->failure), "at %.3f s: ", (double)w->now / 1e9);
    va_start(ap, fmt);
    (void)vsnprintf(w->failure + used, sizeof(w->failure) - (size_t)used, fmt, ap);
    va_end(ap);
    world_tell(w, "FAILED: %s", w->failure);
}

void world_tell(const struct world *w, const char *fmt, ...)
{
    if (w->is_traced) {
        va_list ap;
        va_start(ap, fmt);
        (void)printf("%10.3f  ", (double)w->now / 1e9);
        (void)vprintf(fmt, ap);
        (void)printf("\n");
        va_end(ap);
    }
}

/* ---- clocks ---------------------------------------------------------------------------------- */

int64_t machine_boot_ns(const struct world *w, const struct machine *m)
{
    return w->now - m->booted_at;
}

int64_t machine_monotonic_ns(const struct world *w, const struct machine *m)
{
    int64_t until = m->suspended_at < w->now ? m->suspended_at : w->now;
    return until - m->booted_at - m->suspended_ns;
}

int64_t machine_wall_ns(const struct world *w, const struct machine *m)
{
    return EPOCH_NS + w->now + m->wall_offset_ns;
}

void machine_boot(struct world *w, struct machine *m, const char *name)
{
    uint64_t id = sim_random_next(&w->random);
    m->name = name;
    m->booted_at = w->now - world_between(w, 5 * SEC, 500 * SEC);
    m->suspended_ns = 0;
    m->suspended_at = NEVER;
    (void)snprintf(m->boot_id, sizeof(m->boot_id), "%08x-%04x-4000-8000-%012llx",
                   (unsigned)(id >> 32), (unsigned)(id >> 16 & 0xffff),
                   (unsigned long long)(id & 0xffffffffffff));
}

/* ---- tasks ----------------------------------------------------------------------------------- */

void world_at(struct world *w, int64_t at, world_task_fn *run, void *user)
{
    if (w->task_count == WORLD_TASKS_MAX) {
        world_fail(w, "more than %d things are to happen", (int)WORLD_TASKS_MAX);
        return;
    }
    size_t i = w->task_count++;
    at = at < w->now ? w->now : at;
    for (; i > 0 && w->tasks[i - 1].at <= at; i--) {
        w->tasks[i] = w->tasks[i - 1];
    }
    w->tasks[i] = (struct world_task){at, run, user};
}

static int64_t next_task(const struct world *w)
{
    return w->task_count > 0 ? w->tasks[w->task_count - 1].at : NEVER;
}

/* ---- steps ----------------------------------------------------------------------------------- */

bool world_runs(const struct proc *proc)
{
    return proc->loop && !proc->is_stopped && !proc->is_starved &&
           proc->machine->suspended_at == NEVER;
}

static int64_t next_time(const struct world *w, int64_t end)
{
    int64_t next = next_task(w) < end ? next_task(w) : end;
    for (size_t i = 0; i < w->proc_count; i++) {
        if (world_runs(w->procs[i])) {
            int64_t due = loop_due(w->procs[i]->loop);
            next = due < next ? due : next;
        }
    }
    return next;
}

void world_step(struct world *w, int64_t end)
{
    int64_t next = next_time(w, end);
    w->now = next > w->now ? next : w->now;
    while (next_task(w) <= w->now) {
        struct world_task task = w->tasks[--w->task_count];
        task.run(task.user);
    }
    for (size_t i = 0; i < w->proc_count; i++) {
        struct proc *proc = w->procs[i];
        if (world_runs(proc)) {
            w->current = proc;
            loop_run(proc->loop);
            w->current = NULL;
        }
    }
}

/* ---- what happened --------------------------------------------------------------------------- */

static struct tally *the_tally; /* as the world's */

void tally_use(struct tally *t)
{
    the_tally = t;
}

static size_t find(const struct tally *t, const char *name)
{
    size_t i = 0;
    while (i < t->used && strcmp(t->entries[i].name, name) != 0) {
        i++;
    }
    return i;
}

static void count(struct tally *t, const char *name, uint64_t many)
{
    size_t i = find(t, name);
    assert(i < TALLY_NAMES);
    if (i == t->used) {
        (void)snprintf(t->entries[t->used++].name, TALLY_NAME_BYTES, "%s", name);
    }
    t->entries[i].count += many;
}

void tally_note(const char *fmt, ...)
{
    char name[TALLY_NAME_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    if (the_tally) {
        count(the_tally, name, 1);
    }
}

void tally_add(struct tally *sum, const struct tally *t)
{
    for (size_t i = 0; i < t->used; i++) {
        count(sum, t->entries[i].name, t->entries[i].count);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tally_entry *)a)->name, ((const struct tally_entry *)b)->name);
}

void tally_print(const struct tally *t)
{
    struct tally sorted = *t;
    qsort(sorted.entries, sorted.used, sizeof(sorted.entries[0]), by_name);
    for (size_t i = 0; i < sorted.used; i++) {
        (void)printf("%10llu  %s\n", (unsigned long long)sorted.entries[i].count,
                     sorted.entries[i].name);
    }
}

bool tally_has_all(const struct tally *t, const char *path)
{
    char line[256];
    bool has_all = true;
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        return false;
    }
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#' && find(t, line) == t->used) {
            (void)printf("%10d  %s\n", 0, line);
            has_all = false;
        }
    }
    (void)fclose(f); /* read-only */
    return has_all;
}
