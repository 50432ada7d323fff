/* SPDX-License-Identifier: Apache-2.0 */
/* A node's CNI directory: dpu-gate's configuration in it, and what else is there. */
#ifndef INSTALL_WIRING_H
#define INSTALL_WIRING_H

#include "base/err.h"
#include "base/mem.h"
#include "host-agent/install/cni_install.h"
#include "host-agent/install/contest.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { WIRING_NAME_BYTES = 256 };

/* What is there, and what is wanted. */
struct wiring {
    char ours[WIRING_NAME_BYTES];      /* of dpu-gate: a .conf or a .conflist */
    char source[WIRING_NAME_BYTES];    /* the plugin's behind it; "": there is none */
    char bypass[WIRING_NAME_BYTES];    /* sorts before ours, and does not call dpu-gate; "": none */
    struct buf plan;                   /* owned: what `ours` has to say */
    bool stands;                       /* it says so already */
    char differs[CONTEST_WORDS_BYTES]; /* if not: what became of it, and who else is there */
};

/*
 * By the source as it is now. Where its file is not there, another one that configures the network
 * is the source: somebody renamed it, or made a list of it. Writes nothing; `out` is to be given
 * back in any case. Errors: ERR_PARSE naming what is wrong with the source, ERR_IO.
 */
NODISCARD int wiring_look(const struct cni_options *o, const char *readiness_file,
                          struct wiring *out, struct err *e);

/* Writes what is wanted, unless it stands, and then removes dpu-gate's file of the other form, if
 * no other configuration names that: Multus would still read it. Errors: ERR_IO. */
NODISCARD int wiring_write(const struct cni_options *o, const struct wiring *w, struct err *e);

void wiring_fini(struct wiring *w); /* accepts a zeroed one */

static inline void cleanup_wiring(struct wiring *w)
{
    wiring_fini(w);
}

/* Removes dpu-gate's configuration in both forms; it not being there is fine. Errors: ERR_PARSE if
 * a file of that name is somebody else's, ERR_IO. */
NODISCARD int wiring_remove(const struct cni_options *o, struct err *e);

/* Warns of what sorts before ours; nothing for "". */
void wiring_warn_of_bypass(const struct cni_options *o, const struct wiring *w);

/* ---- files ----------------------------------------------------------------------------------- */

/* The names of dpu-gate's file begin so. It sorts before the source, because a runtime takes the
 * first configuration by name. */
const char *wiring_stem(const struct cni_options *o);

/* A file of the directory. */
void wiring_join(const char *dir, const char *name, char out[static PATH_MAX]);

/* Also writes the same bytes under another owner or mode. What killed attempts left beside it a
 * minute ago or more is removed. Errors: ERR_IO. */
NODISCARD int wiring_put_file(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                              struct err *e);

/* It not being there is fine. Errors: ERR_IO. */
NODISCARD int wiring_remove_file(const char *path, struct err *e);

/* The first configuration by name whose first plugin is dpu-gate. "": there is none. */
void wiring_find_gate(const struct cni_options *o, char out[static WIRING_NAME_BYTES]);

#endif
