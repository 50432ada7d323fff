/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that does the work: which it is, its configuration, and how it is run. It takes our
 * place by exec: the same process, its configuration on stdin as a memfd, so that there is nothing
 * to relay and nothing left behind when the runtime kills us. What must not take for ever is asked
 * of a child. All return 0 or the error's code.
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
    DELEGATE_VERSIONS_ENTRIES = 16,           /* a node has one delegate, or a few */
    DELEGATE_VERSIONS_MAX_BYTES = 128 << 10,  /* room for as many of the longest paths */
    DELEGATE_IDENTITY_BYTES = PATH_MAX + 160, /* a path and five numbers */
};

/* Hands the call over to the delegate. Returns only where it has not taken our place: *exit_status
 * is then that of its answer, which was passed on. */
int delegate_call(const struct cni_env *env, const struct cni_conf *conf, int *exit_status,
                  struct cni_error *error);

/* ---- the steps of that ----------------------------------------------------------------------- */

/*
 * Which plugins are behind the gate: the one in `delegate`, or what the file `delegateConf` holds
 * now. That file may be gone, renamed or broken when a pod is removed, and then DEL would fail for
 * good: the verbs that are not gated take the copy in `lastDelegate` instead. It may also have
 * become a list since the pod was added: DEL goes through all of it.
 */
struct delegate_source {
    struct buf file;           /* owned */
    struct json_slice plugins; /* one plugin's object, or a list; in `file` or in the conf */
    size_t count;              /* of plugins, at least 1; with DEL alone more */
};

/* Borrows `conf`; `out` is to be closed in either case. */
int delegate_source_open(const struct cni_conf *conf, enum cni_verb verb,
                         struct delegate_source *out, struct cni_error *error);
void delegate_source_close(struct delegate_source *source);
/* `index` < count. Borrowed. */
struct json_slice delegate_source_plugin(const struct delegate_source *source, size_t index);

/*
 * Appends the configuration of the plugin `delegate` to `out`, whose bound has to be
 * DELEGATE_CONF_MAX_BYTES: the original one with its own type, and from ours what the runtime put
 * there (name, cniVersion, prevResult, runtimeConfig, args, "cni.dev/...") and every key that
 * neither we nor the delegate know. Each member's bytes are as they were; of two of the same name
 * the last counts, and they are sorted, as the CNI library does it for a plugin of its own. A
 * delegate that is ourselves is refused.
 */
int delegate_conf_make(const struct cni_conf *conf, struct json_slice delegate, struct buf *out,
                       char out_type[static DELEGATE_TYPE_BYTES], struct cni_error *error);

/* Finds the plugin `type` along `path` (CNI_PATH): the first regular file of that name; empty and
 * relative elements are skipped, and finding ourselves is an error. */
int delegate_find(const char *type, const char *path, char out_file[static PATH_MAX],
                  struct cni_error *error);

/* Becomes the plugin. Returns only on failure: the error's code. */
int delegate_exec(const char *file, const struct buf *config, struct cni_error *error);

struct delegate_question {
    const char *file;
    const char *verb; /* CNI_COMMAND */
    const struct buf *config;
    int deadline_ms;
    bool is_quiet; /* what it says on stderr is not passed on */
};

struct delegate_answer {
    char text[DELEGATE_ANSWER_MAX_BYTES];
    size_t len;      /* if all of it, it may have said more, and was ended */
    int wait_status; /* as waitpid has it */
};

/* Runs it as a child, which dies with us: its answer is collected, what it says on stderr passed
 * on, and after the deadline it is ended with its process group, which is an error. Both go through
 * pipes of ours: nothing that it leaves behind keeps our caller waiting for the end of his. */
int delegate_run(const struct delegate_question *q, struct delegate_answer *out,
                 struct cni_error *error);

/* *out: does its answer to VERSION name 1.1.0 or later, so that it knows STATUS and GC? It is asked
 * once and remembered beside `readiness_file` for as long as it is the same program. One that
 * answers anything else is taken for an old one, and asked each time. */
int delegate_ask_versions(const char *file, const char *readiness_file, bool *out,
                          struct cni_error *error);

/* Passes its answer on to our stdout. *out_exit_status is its own. */
int delegate_ask_status(const char *file, const struct buf *config, int *out_exit_status,
                        struct cni_error *error);

/*
 * What delegates answered to VERSION, in a small file: an answer counts while the program is the
 * same file, by path, device, inode, size and times, looked at before it ran. A file that cannot be
 * read or written is no error; one that is not ours, or that others may write, is not believed.
 */
#define DELEGATE_VERSIONS_NAME "gate-delegates"

struct delegate_identity {
    char text[DELEGATE_IDENTITY_BYTES]; /* "": it could not be looked at */
};

void delegate_versions_identify(const char *file, struct delegate_identity *out);
NODISCARD bool delegate_versions_recall(const char *readiness_file,
                                        const struct delegate_identity *id, bool *out);
void delegate_versions_keep(const char *readiness_file, const struct delegate_identity *id,
                            bool knows_status);

#endif
