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

#include "base/attr.h"
#include "base/err.h"

struct ev_loop;

/* `failure`: NULL if the target is well, else why not; borrowed. */
typedef void probe_done_fn(void *user, const char *failure);

struct probe_method {
    /* Copies `target`. Errors: ERR_PARSE if it makes no sense, ERR_NOMEM, ERR_IO. */
    int (*create)(struct ev_loop *loop, const char *target, probe_done_fn *done, void *user,
                  void **out, struct err *e);
    void (*start)(void *self);
    void (*cancel)(void *self);
    void (*destroy)(void *self);
};

#endif
