/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a former dpu-host-agent of this boot wrote down: read once at start, so that a restart
 * neither makes a dead DPU look alive nor a living one dead.
 */
#ifndef HOST_AGENT_RECORD_CARRY_H
#define HOST_AGENT_RECORD_CARRY_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/expiry.h"

/* The record at `path`, if it is this boot's, this node's and about the same lease.
 * Errors: ERR_NOTFOUND (there is none), ERR_IO, ERR_PARSE, ERR_GONE (another boot, node or lease),
 * each with the reason: none of them is a reason not to start. */
NODISCARD int record_carry_read(const char *path, const char *node,
                                const struct expiry_config *config, struct expiry_carry *out,
                                struct err *e);

/*
 * A record that ends its reader once is not believed a second time: from a successful
 * record_carry_read on, a crash (SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL) leaves a mark beside the
 * record, and the next record_carry_read answers ERR_GONE and takes the mark away.
 * record_carry_settled ends that, once the DPU has been seen anew. One carried record a process: a
 * signal handler has nothing but globals.
 */
void record_carry_settled(void);

#endif
