/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a unix stream socket, and why there is none. Never blocks. */
#ifndef PROBE_UNIX_CONNECT_H
#define PROBE_UNIX_CONNECT_H

#include "probe/outcome.h"

enum { UNIX_CONNECT_PATH_BYTES = 108 }; /* of sun_path, its terminator included */

/* PROBE_PASSED and a descriptor (owned: close it), or why not, in `words`. A full backlog counts as
 * silent: a stopped server's is, and so is one's whose answers were not waited for. */
enum probe_outcome unix_connect(const char *path, int *out_fd,
                                char words[static PROBE_WORDS_BYTES]);

/* What to say of a file that may not be opened: whose it is, who we are, and the remedy. */
void unix_connect_denied(const char *path, char words[static PROBE_WORDS_BYTES]);

#endif
