/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time, the machines that live in it, and what runs on them. The product is unknown here.
 *
 * There is one world at a time, because the seams (seams.c, seam_curl.c) stand in for functions
 * that have no argument to pass it by. All times are int64 ns of true time, shown by no clock.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "tests/sim/sim_random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEC   INT64_C(1000000000)
#define MS    INT64_C(1000000)
#define NEVER INT64_MAX

enum {
    WORLD_PROCS_MAX = 4,
    WORLD_TASKS_MAX = 4096,
    WORLD_FAILURE_BYTES = 1024,
    WORLD_FIRST_FD = 1000000,
    BOOT_ID_BYTES = 37,
};

struct ev_loop; /* seams.c */

struct machine {
    const char *name;
    int64_t booted_at;
    int64_t suspended_ns;   /* in this boot, before the present one */
    int64_t suspended_at;   /* NEVER: it is awake */
    int64_t wall_offset_ns; /* its wall clock - true time */
    char boot_id[BOOT_ID_BYTES];
};

/* An agent's process. */
struct proc {
    const char *name;
    struct machine *machine;
    struct ev_loop *loop; /* NULL: it does not run */
    bool is_stopped;      /* SIGSTOP, paused */
    bool is_starved;      /* others have the CPU */
    int kill_after;       /* callbacks from now; -1: nobody kills it */
    unsigned starts;      /* of its kind, up to now */
    void (*kill)(struct proc *proc);
};

typedef void world_task_fn(void *user);

struct world_task {
    int64_t at;
    world_task_fn *run;
    void *user;
};

struct world {
    int64_t now;
    struct sim_random random;
    struct world_task tasks[WORLD_TASKS_MAX]; /* the next one last; of equal times the older one */
    size_t task_count;
    struct proc *procs[WORLD_PROCS_MAX];
    size_t proc_count;
    struct proc *current; /* whose callback runs */
    int next_fd;          /* of exchanges: no real ones */
    bool is_traced;
    char failure[WORLD_FAILURE_BYTES]; /* "" while all is well */
};

/* The world that the seams see. */
struct world *world_get(void);
void world_set(struct world *w);

void world_init(struct world *w, uint64_t seed);
void world_at(struct world *w, int64_t at, world_task_fn *run, void *user);
/* Goes to the next thing that is due, no later than `end`, and does all that is due then. */
void world_step(struct world *w, int64_t end);

bool world_runs(const struct proc *proc); /* it exists, and gets the CPU */

int64_t world_between(struct world *w, int64_t least, int64_t most);
bool world_one_in(struct world *w, int64_t n);

/* The clocks of a machine. */
int64_t machine_boot_ns(const struct world *w, const struct machine *m);
int64_t machine_monotonic_ns(const struct world *w, const struct machine *m); /* not in suspend */
int64_t machine_wall_ns(const struct world *w, const struct machine *m);
void machine_boot(struct world *w, struct machine *m, const char *name);

/* The first failure counts. */
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One line of the story, if wanted. */
void world_tell(const struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* seams.c: the loop of a process. */
struct ev_loop *loop_new(struct proc *proc);
void loop_free(struct ev_loop *loop);
int64_t loop_due(const struct ev_loop *loop); /* true time of the next callback */
void loop_run(struct ev_loop *loop);          /* all callbacks that are due */
void loop_feed(struct ev_loop *loop, int fd); /* it became readable; -1: all of them */

/*
 * What runs have exercised, by name: a run that is green because nothing happened in it proves
 * nothing. It is counted where product and simulation meet, each time that something really comes
 * through there. tests/sim/counts says what the corpus has to exercise.
 */
enum { TALLY_NAMES = 256, TALLY_NAME_BYTES = 64 };

/* Plain: it may be copied between processes, and compared with memcmp. */
struct tally {
    struct tally_entry {
        char name[TALLY_NAME_BYTES];
        uint64_t count;
    } entries[TALLY_NAMES];
    size_t used;
};

/* Where tally_note counts from now on; as the world's. NULL: nowhere. Borrowed. */
void tally_use(struct tally *t);
void tally_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void tally_add(struct tally *sum, const struct tally *t);
void tally_print(const struct tally *t); /* sorted by name, one a line */
/* Prints each name in the file `path`, one a line, that was not counted; true if there is none. */
bool tally_has_all(const struct tally *t, const char *path);

#endif
