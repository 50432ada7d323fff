/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-gate's configuration, as text.
 *
 * A source with one plugin is wrapped: dpu-gate reads it itself at each call (delegateConf), so
 * what the runtime has to know of it is in the list, network name and capabilities, and a copy of
 * it (lastDelegate), by which pods are removed once it is gone. A source with several is chained:
 * dpu-gate first, then the source's own plugins and list keys, byte for byte; `chained` names them.
 *
 * A wrapped source of cniVersion 1.1.0 gives a .conf, which Multus passes on whole where its own
 * file names it by path. Of a list it drops all but the type at STATUS and DEL; but only a list can
 * have two versions: 1.0.0, which containerd 1.7 can read, and 1.1.0, without which no runtime
 * calls STATUS. So all else gives a list (docs/cni.md).
 *
 * What others have added behind the gate stays, unless the source brings it, too.
 */
#ifndef INSTALL_CONFLIST_H
#define INSTALL_CONFLIST_H

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>

/* Of a source: many times what any plugin's configuration has. */
enum { CONFLIST_MAX_BYTES = 1 << 20 };

struct conflist_request {
    const char *source_path; /* absolute, as the runtime sees it */
    const char *standing;    /* what is to be replaced; NULL for none, or not believed */
    size_t standing_len;
    const char *readiness_file; /* absolute */
    bool wants_list;            /* whatever the source is */
};

/* `source` NULL: it does not exist (yet); the gate then answers STATUS with 50, and all that came
 * from the source is what stands. Appends to `out`. Errors: ERR_PARSE if the source is no network
 * configuration, or holds dpu-gate itself; ERR_LIMIT. */
NODISCARD int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                            struct buf *out, struct err *e);

/* Does this configuration have dpu-gate as its first plugin? False for what cannot be parsed. */
bool conflist_is_gated(const char *text, size_t len);

/* Has it a list of plugins? Runtimes read one from a .conflist alone. */
bool conflist_is_list(const char *text, size_t len);

/* How many plugins it has. */
size_t conflist_count(const char *text, size_t len);

/* Do both mean the same, in whatever order of members, blanks and spelling of numbers? Installers
 * write with what they have, such as jq, and would do so again after each of our writes. */
bool conflist_says_same(const struct buf *a, const struct buf *b);

/* ---- whose it is ----------------------------------------------------------------------------- */

enum { CONFLIST_NETWORK_BYTES = 256, CONFLIST_TYPES_BYTES = 200 };

/* The network of a configuration; without one that of ovn-kubernetes. */
void conflist_network(const char *text, size_t len, char out[static CONFLIST_NETWORK_BYTES]);

/* Is it of that network? Or was it, before somebody made a list of it: its plugin then still has
 * the name. */
bool conflist_is_of_network(const char *text, size_t len, const char *network);

/* The types of its plugins, for people: the first few. "": it has none. */
void conflist_types(const char *text, size_t len, char out[static CONFLIST_TYPES_BYTES]);

#endif
