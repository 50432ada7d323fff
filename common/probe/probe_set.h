/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All probes of a program and what they amount to: runs them and reports each change. Loop thread
 * only.
 *
 * A probe runs its method at once, then again a pause after each run has ended, for ever; a run
 * that takes longer than the timeout is stopped and has failed. A pause of 5 s or more ends up to a
 * second early, together with those of other probes. Where the kernel tells of changes
 * the pause ends soon after one. Its timers are libev's own (CLOCK_MONOTONIC): no lease hangs on
 * them, and a probe need not have run during a suspend.
 */
#ifndef PROBE_PROBE_SET_H
#define PROBE_PROBE_SET_H

#include "base/err.h"
#include "probe/probe_spec.h"
#include "probe/probe_state.h"

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- one probe ------------------------------------------------------------------------------- */

struct probe;

/* Must not free the probe. */
typedef void probe_result_fn(void *user, const struct probe_result *result);

/* Copies `spec`, but for what that borrows. Errors: ERR_PARSE if its target makes no sense,
 * ERR_LIMIT, ERR_IO. */
NODISCARD int probe_new(struct ev_loop *loop, const struct probe_spec *spec, size_t index,
                        probe_result_fn *result, void *user, struct probe **out, struct err *e);
/* The first run; its result may come before this returns. */
void probe_start(struct probe *probe);
void probe_free(struct probe *probe); /* accepts NULL; ends a run under way */

/* ---- all of them ----------------------------------------------------------------------------- */

struct probe_set;

/* `message` is borrowed, "" unless unhealthy. Must not free the set. */
typedef void probe_set_change_fn(void *user, enum probe_health state, const char *message);

struct probe_set_config {
    char *const *probes; /* as written on the command line; borrowed for the call */
    size_t count;
    const struct probe_spec *defaults; /* what they do not say; borrowed for the call */
    /* They are host probes (probe_state.h), of which none asks a service: the first report tells
     * what is restored, and each later one that something changed. */
    bool is_of_host;
    probe_set_change_fn *change;
    void *user;
};

/* Errors: ERR_PARSE, ERR_LIMIT (more than PROBES_MAX), ERR_IO. */
NODISCARD int probe_set_new(struct ev_loop *loop, const struct probe_set_config *config,
                            struct probe_set **out, struct err *e);
/* Runs all probes for the first time. Without any, reports healthy at once. */
void probe_set_start(struct probe_set *set);
/* Borrowed. To be changed before the start only: by what a former process knew. */
struct probe_state *probe_set_state(struct probe_set *set);
void probe_set_free(struct probe_set *set); /* accepts NULL */

/* ---- how to try one kind of target ------------------------------------------------------------
 */

/* `start` begins a run and never blocks; the run ends with exactly one probe_end(), possibly before
 * `start` returns, or is stopped: a method has no timeout of its own. */
struct probe_method {
    size_t bytes; /* of what it keeps, zeroed but for the struct probe that it begins with */
    /* Errors: ERR_PARSE if the spec's target makes no sense, ERR_LIMIT, ERR_IO; `fini` is called
     * then, too. */
    int (*init)(struct probe *probe, struct err *e);
    void (*start)(struct probe *probe);
    /* Lets go of what a run holds, also of one that has ended. Returns what it waited for, or NULL;
     * borrowed. NULL: a run holds nothing. */
    const char *(*stop)(struct probe *probe);
    void (*fini)(struct probe *probe); /* no run is under way; NULL: nothing to do */
};

extern const struct probe_method probe_method_exec;
extern const struct probe_method probe_method_unix;
extern const struct probe_method probe_method_http;
extern const struct probe_method probe_method_sysfs;
extern const struct probe_method probe_method_service; /* ovs_rpc.c */
extern const struct probe_method probe_method_bgp;     /* bgp_probe.c */

/* The first member of what a method keeps. */
struct probe {
    const struct probe_method *method;
    struct ev_loop *loop; /* borrowed */
    struct probe_spec spec;
    size_t index;
    probe_result_fn *result;
    void *user;
    struct mono started; /* the run under way or the last one */
    bool has_answered;   /* the run waits for others only: their silence is not a failure of this */
    ev_timer pause;      /* until the next run */
    ev_timer timeout;    /* of the run under way */
    ev_io changes;       /* of netlink; fd -1: nobody tells */
};

/* Ends the run. */
void probe_end(struct probe *probe, struct probe_answer answer);

enum { UNIX_PATH_BYTES = 108 }; /* of sun_path, its terminator included */

/* PROBE_PASSED and a descriptor (owned: close it), or why not. Never blocks. A full backlog counts
 * as silent: a stopped server's is, and so is one's whose answers were not waited for. */
struct probe_answer unix_connect(const char *path, int *out_fd);

/* PROBE_DENIED for a file that may not be opened: whose it is, who we are, and the remedy. */
struct probe_answer unix_connect_denied(const char *path);

#endif
