/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that does the work: which it is, its configuration, and how it is run. It takes our
 * place by exec: the same process, its configuration on stdin as a memfd, so that there is nothing
 * to relay and nothing left behind when the runtime kills us. What must not take for ever is asked
 * of a child. All that return an int return a code (cni/protocol.h).
 */
#ifndef CNI_DELEGATE_H
#define CNI_DELEGATE_H

#include "cni/protocol.h"

#include <limits.h>

enum {
    DELEGATE_TYPE_BYTES = NAME_MAX + 1,               /* it is the name of a file */
    DELEGATE_CONF_MAX_BYTES = 2 * CONF_MAX_BYTES + 2, /* both parts, and brackets */
    DELEGATE_BUSY_TRIES = 20, /* "text file busy" is an installer at work: wait for it */
    DELEGATE_BUSY_PAUSE_MS = 100,
    /* Of an answer: a list of versions, or an error whose text goes into the Node's condition. */
    DELEGATE_ANSWER_MAX_BYTES = 64 << 10,
    DELEGATE_WORDS_MAX_BYTES = 64 << 10, /* of its stderr; what goes beyond is dropped */
    DELEGATE_VERSION_MS = 5000,
    /* Together well below the 30 s after which the kubelet takes the runtime itself for dead:
     * runtimes ask STATUS every few seconds, and containerd without a deadline of its own. */
    DELEGATE_STATUS_MS = 10000,
    /* Of one plugin in a list; the kubelet gives the runtime as much for all of them. */
    DELEGATE_DEL_MS = 120000,
};

/* Hands the call over to the delegate. Returns only where it has not taken our place: the call's
 * exit status is then that of its answer, which was passed on. */
int delegate_call(struct cni_call *c);

/* ---- the steps of that ----------------------------------------------------------------------- */

/*
 * Finds which plugins are behind the gate: the one in `delegate`, or what the file `delegateConf`
 * holds now. That file may be gone, renamed or broken when a pod is removed, and then DEL would
 * fail for good: the verbs that are not gated take the copy in `lastDelegate` instead. It may also
 * have become a list since the pod was added: DEL goes through all of it.
 */
int delegate_find_plugins(struct cni_call *c);
/* `index` < c->plugin_count. Borrowed. */
struct json_slice delegate_plugin(const struct cni_call *c, size_t index);

/*
 * Appends the configuration of the plugin `delegate` to `out`, whose bound has to be
 * DELEGATE_CONF_MAX_BYTES: the original one with its own type, and from ours what the runtime put
 * there (name, cniVersion, prevResult, runtimeConfig, args, "cni.dev/...") and every key that
 * neither we nor the delegate know. Each member's bytes are as they were; of two of the same name
 * the last counts, and they are sorted, as the CNI library does it for a plugin of its own. A
 * delegate that is ourselves is refused.
 */
int delegate_conf_make(struct cni_call *c, struct json_slice delegate, struct buf *out,
                       char out_type[static DELEGATE_TYPE_BYTES]);

/* Finds the plugin `type` along CNI_PATH: the first regular file of that name; empty and relative
 * elements are skipped, and finding ourselves is an error. */
int delegate_find(struct cni_call *c, const char *type, char out_file[static PATH_MAX]);

/* Becomes the plugin. Returns only on failure. */
int delegate_exec(struct cni_call *c, const char *file, const struct buf *config);

struct delegate_question {
    const char *file;
    const char *verb; /* CNI_COMMAND */
    const struct buf *config;
    int deadline_ms;
    bool is_quiet; /* what it says on stderr is not passed on */

    /* The answer. */
    char text[DELEGATE_ANSWER_MAX_BYTES];
    size_t len;      /* if all of it, it may have said more, and was ended */
    int wait_status; /* as waitpid has it */
};

/* Runs it as a child, which dies with us: its answer is collected, what it says on stderr passed
 * on, and after the deadline it is ended with its process group, which is an error. Both go through
 * pipes of ours: nothing that it leaves behind keeps our caller waiting for the end of his. */
int delegate_ask(struct cni_call *c, struct delegate_question *q);

/* *out: does its answer to VERSION name 1.1.0 or later, so that it knows STATUS and GC? One that
 * answers anything else is taken for an old one. */
int delegate_ask_versions(struct cni_call *c, const char *file, bool *out);

/* Passes its answer on to our stdout, and its exit status to the call's. An error of one that does
 * not know STATUS is none. */
int delegate_ask_status(struct cni_call *c, const char *file, const struct buf *config);

#endif
