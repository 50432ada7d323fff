/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin behind dpu-gate: which one it is, its configuration, and how dpu-gate runs it. It
 * replaces dpu-gate by exec, with its configuration on stdin as a memfd: dpu-gate relays nothing,
 * and leaves nothing behind when the runtime kills it. A call with a time limit runs in a child
 * instead.
 */
#ifndef CNI_DELEGATE_H
#define CNI_DELEGATE_H

#include "cni/protocol.h"

/* Hands the call over to the delegate. Returns only if the delegate has not replaced this process:
 * a code, the exit status of the answer that was passed on. */
int delegate_call(struct cni_call *c);

#endif
