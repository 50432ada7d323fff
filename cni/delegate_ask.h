/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the delegate is asked as a child: does it know STATUS and GC, what does it say to STATUS,
 * and DEL to a list's plugins before the last one that is called. Runtimes ask STATUS every few
 * seconds, and containerd without a deadline of its own, so each answer costs one run and has one.
 */
#ifndef CNI_DELEGATE_ASK_H
#define CNI_DELEGATE_ASK_H

#include "base/mem.h"
#include "cni/reply.h"

#include <stdbool.h>

enum {
    DELEGATE_VERSION_MS = 5000,
    /* Together well below the 30 s after which the kubelet takes the runtime itself for dead. */
    DELEGATE_STATUS_MS = 10000,
    /* Of one plugin in a list; the kubelet gives the runtime as much for all of them. */
    DELEGATE_DEL_MS = 120000,
};

/*
 * *out: does its answer to VERSION name 1.1.0 or later? It is asked once and remembered beside
 * `readiness_file` for as long as it is the same program. One that answers anything else is taken
 * for an old one, and asked each time. Returns 0, or the error's code if it cannot be run, is ended
 * by a signal or does not answer within DELEGATE_VERSION_MS.
 */
int delegate_ask_versions(const char *file, const char *readiness_file, bool *out,
                          struct cni_error *error);

/* Passes its answer on to our stdout. *out_exit_status is its own. Returns 0, or the error's code
 * if there is no answer: not within DELEGATE_STATUS_MS, too long, or ended by a signal. */
int delegate_ask_status(const char *file, const struct buf *config, int *out_exit_status,
                        struct cni_error *error);

/* The same for DEL, of a plugin that others follow: what it says of its success is passed over. */
int delegate_ask_del(const char *file, const struct buf *config, int *out_exit_status,
                     struct cni_error *error);

#endif
