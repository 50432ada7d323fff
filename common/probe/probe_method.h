/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to try one kind of target, once at a time. Loop thread only.
 *
 * Contract of a method: `start` begins a run and never blocks; the run ends with exactly one call
 * of `done`, possibly before `start` returns, or with `cancel`, after which `done` does not come.
 * The method has no timeout of its own: the probe cancels.
 */
#ifndef PROBE_PROBE_METHOD_H
#define PROBE_PROBE_METHOD_H

#include "base/attr.h"
#include "base/err.h"
#include "probe/probe_state.h"

#include <stddef.h>

struct ev_loop;
struct probe_method;
struct probe_spec;

/* `words`: unless it passed, why not; borrowed. */
typedef void probe_done_fn(void *user, enum probe_outcome outcome, const char *words);

/* What the kernel tells of. */
enum change_kind {
    CHANGE_NONE,
    CHANGE_LINK,   /* rtnetlink: of this network namespace */
    CHANGE_DEVICE, /* uevents */
};

/* The first member of what a method keeps. */
struct probe_run {
    const struct probe_method *method;
    struct ev_loop *loop; /* borrowed */
    probe_done_fn *done;
    void *user;
};

struct probe_method {
    size_t run_bytes; /* of what it keeps, zeroed but for the run */
    /* Copies what it needs of `spec`. Errors: ERR_PARSE if its target makes no sense, ERR_LIMIT,
     * ERR_IO; `fini` is called then, too. */
    int (*init)(struct probe_run *run, const struct probe_spec *spec, struct err *e);
    void (*start)(struct probe_run *run);
    /* Returns what it waited for, or NULL; borrowed. NULL: no run outlives its start. */
    const char *(*cancel)(struct probe_run *run);
    void (*fini)(struct probe_run *run); /* also of a run under way; NULL: nothing to do */
    enum change_kind told_by;            /* the kernel says when it is worth to look sooner */
};

extern const struct probe_method probe_method_exec;
extern const struct probe_method probe_method_unix;
extern const struct probe_method probe_method_http;
extern const struct probe_method probe_method_netdev;
extern const struct probe_method probe_method_pci;
extern const struct probe_method probe_method_service; /* ovs_rpc.c */

/* ---- unix stream sockets --------------------------------------------------------------------- */

enum { UNIX_PATH_BYTES = 108 }; /* of sun_path, its terminator included */

/* PROBE_PASSED and a descriptor (owned: close it), or why not, in `words`. Never blocks. A full
 * backlog counts as silent: a stopped server's is, and so is one's whose answers were not waited
 * for. */
enum probe_outcome unix_connect(const char *path, int *out_fd,
                                char words[static PROBE_WORDS_BYTES]);

/* What to say of a file that may not be opened: whose it is, who we are, and the remedy. */
void unix_connect_denied(const char *path, char words[static PROBE_WORDS_BYTES]);

#endif
