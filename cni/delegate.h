/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that does the work: which it is, its configuration, and how it is run. It takes our
 * place by exec: the same process, its configuration on stdin as a memfd, so that there is nothing
 * to relay and nothing left behind when the runtime kills us. What must not take for ever is asked
 * of a child.
 */
#ifndef CNI_DELEGATE_H
#define CNI_DELEGATE_H

#include "cni/protocol.h"

/* Hands the call over to the delegate. Returns a code, and only where it has not taken our place:
 * the call's exit status is then that of its answer, which was passed on. */
int delegate_call(struct cni_call *c);

#endif
