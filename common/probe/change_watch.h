/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Word from the kernel that a network interface or a device changed. It says neither which nor how,
 * and may be lost: whoever hears it looks for himself, and looks from time to time anyhow. Loop
 * thread only.
 */
#ifndef PROBE_CHANGE_WATCH_H
#define PROBE_CHANGE_WATCH_H

#include "base/attr.h"
#include "base/err.h"

struct change_watch;
struct ev_loop;

enum change_kind {
    CHANGE_NONE,   /* nothing that the kernel tells */
    CHANGE_LINK,   /* rtnetlink: of this network namespace */
    CHANGE_DEVICE, /* uevents */
};

/* Must not free the watch. */
typedef void change_fn(void *user);

/* Of a kind other than CHANGE_NONE. Errors: ERR_NOMEM, ERR_IO: nobody tells us, as where the
 * service manager allows no netlink. */
NODISCARD int change_watch_new(struct ev_loop *loop, enum change_kind kind, change_fn *changed,
                               void *user, struct change_watch **out, struct err *e);
void change_watch_free(struct change_watch *watch); /* accepts NULL */

#endif
