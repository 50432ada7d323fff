/* SPDX-License-Identifier: Apache-2.0 */
/* Where a daemon of OVS or OVN takes commands: DIR/NAME.PID.ctl, by the number in DIR/NAME.pid.
 * Never by a pattern: who is killed leaves his socket behind, beside that of his successor. */
#ifndef PROBE_UNIXCTL_PATH_H
#define PROBE_UNIXCTL_PATH_H

#include "probe/outcome.h"
#include "probe/unix_connect.h"

/* PROBE_PASSED and the path, or PROBE_MISSING, PROBE_DENIED, PROBE_UNABLE or PROBE_WRONG with
 * `words`. */
enum probe_outcome unixctl_path_find(const char *dir, const char *daemon,
                                     char out[static UNIX_CONNECT_PATH_BYTES],
                                     char words[static PROBE_WORDS_BYTES]);

#endif
