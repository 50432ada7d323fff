/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to try one kind of target, once at a time. Loop thread only.
 *
 * Contract of a method: `start` begins a run and never blocks; the run ends with exactly one call
 * of `done`, possibly before `start` returns, or with `cancel`, after which `done` does not come.
 * The method has no timeout of its own: the probe cancels. `destroy` accepts NULL and a run under
 * way.
 */
#ifndef PROBE_PROBE_METHOD_H
#define PROBE_PROBE_METHOD_H

#include "base/err.h"
#include "probe/change_watch.h"
#include "probe/outcome.h"

struct ev_loop;
struct probe_spec;

/* `words`: unless it passed, why not; borrowed. */
typedef void probe_done_fn(void *user, enum probe_outcome outcome, const char *words);

struct probe_method {
    /* Copies what it needs of `spec`. Errors: ERR_PARSE if its target makes no sense, ERR_LIMIT,
     * ERR_NOMEM, ERR_IO. */
    int (*create)(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e);
    void (*start)(void *self);
    const char *(*cancel)(void *self); /* returns what it waited for, or NULL; borrowed */
    void (*destroy)(void *self);
    enum change_kind told_by; /* the kernel says when it is worth to look sooner */
};

#endif
