/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `/bin/sh -c COMMAND` in a process group of its own: well if it exits with status 0. The last
 * line it writes (of at most PROBE_EXEC_OUTPUT_BYTES) is the reason of a failure. The whole group
 * is killed when the command has ended and when it is cancelled, so nothing that it started in the
 * background outlives the run. A command that cannot be killed fails the following runs until it is
 * gone, so that never more than one of it exists. */
#ifndef PROBE_PROBE_EXEC_H
#define PROBE_PROBE_EXEC_H

#include "probe/probe_method.h"

enum { PROBE_EXEC_OUTPUT_BYTES = 2048 };
/* Static: lives as long as the program. */
const struct probe_method *probe_exec_method(void);

#endif
