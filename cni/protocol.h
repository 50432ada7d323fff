/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a runtime: the environment, the configuration on stdin, what is printed on stdout.
 * Orders, texts and codes are those of the CNI library's plugin skeleton.
 */
#ifndef CNI_PROTOCOL_H
#define CNI_PROTOCOL_H

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <limits.h>
#include <stdbool.h>

/* Well-known error codes of the CNI spec, section "Error". */
enum cni_code {
    CNI_INCOMPATIBLE_VERSION = 1,
    CNI_INVALID_ENVIRONMENT = 4,
    CNI_IO_FAILURE = 5,
    CNI_DECODING_FAILURE = 6,
    CNI_INVALID_CONFIG = 7,
    CNI_INVALID_NETNS = 8,
    CNI_TRY_AGAIN_LATER = 11,
    CNI_NOT_AVAILABLE = 50,
    CNI_LIMITED_CONNECTIVITY = 51,
};

enum cni_verb {
    CNI_VERB_UNKNOWN,
    CNI_ADD,
    CNI_DEL,
    CNI_CHECK,
    CNI_GC,
    CNI_STATUS,
    CNI_VERSION,
};

enum {
    CNI_MSG_BYTES = 1024,
    CNI_DETAILS_BYTES = 1024,
    /* Of stdin, and of delegateConf. Runtimes take messages of at most 16 MiB over CRI: what comes
     * out of one is not larger. */
    CONF_MAX_BYTES = 16 << 20,
    CONF_VERSION_BYTES = 64, /* of cniVersion; what is longer is cut, and no version that exists */
};

/*
 * Wrapping: `delegate` holds the other plugin's configuration, or `delegateConf` names a file that
 * does, read at each call so that it never drifts from what its owner writes. `lastDelegate` is
 * a copy of what that file held, for when it is gone. Without `delegate` and `delegateConf` we are
 * chained. Our other keys: `readinessFile`, `statusCode` (50 or 51), and `chained`, a note of who
 * wrote the list.
 *
 * Functions that return a code return 0, or that of the error, which then is `code`.
 */
struct cni_call {
    enum cni_verb verb;
    const char *command; /* CNI_COMMAND; these are borrowed from the environment, "" if unset */
    const char *container_id;
    const char *netns;
    const char *ifname;
    const char *path;
    bool netns_override; /* CNI_NETNS_OVERRIDE is 1 or TRUE */

    struct buf text;                  /* owned: stdin */
    struct json_slice object;         /* in it */
    char version[CONF_VERSION_BYTES]; /* cniVersion or its default */
    char readiness_file[PATH_MAX];
    int status_code; /* for verbs that are gated */
    bool is_wrapping;

    char delegate_path[PATH_MAX]; /* delegateConf */
    struct buf delegate_file;     /* owned: what it holds now */
    struct json_slice plugins;    /* behind the gate: one plugin's object, or a list */
    size_t plugin_count;          /* at least 1; with DEL alone more */

    int code; /* of the error; 0: none */
    char msg[CNI_MSG_BYTES];
    char details[CNI_DETAILS_BYTES]; /* "" is left out */
    int exit_status;                 /* without an error */
};

/* Makes the call's error and returns its code, so that "return cni_fail(...)" is one line. */
int cni_fail(struct cni_call *c, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Adds details to the error, and returns its code. */
int cni_explain(struct cni_call *c, const char *details);
void cni_call_fini(struct cni_call *c); /* accepts a zeroed one */

/* Is this a verb that asks the readiness record? */
bool cni_is_gated(enum cni_verb verb);

/* ---- answers --------------------------------------------------------------------------------- */

/* The answers on stdout, where nothing else goes. Each function returns the exit status. */
int reply_error(const struct cni_call *c);
int reply_versions(void);

int reply_bytes(const char *bytes, size_t len); /* as they are */

/* A previous result as it stands, with the call's version in it if it has none; absent: an empty
 * one. */
int reply_result(const struct cni_call *c, struct json_slice result);

/* ---- versions of the spec -------------------------------------------------------------------- */

#define CNI_VERSION_CURRENT "1.1.0"
#define CNI_VERSION_DEFAULT "0.1.0" /* of a configuration without cniVersion */

/* All released versions, oldest first, with `between` in between. */
#define CNI_VERSIONS(between)                                                                      \
    "0.1.0" between "0.2.0" between "0.3.0" between "0.3.1" between "0.4.0" between                \
    "1.0.0" between CNI_VERSION_CURRENT

/* *out: `version` >= `least`. Errors: ERR_PARSE in the words of the CNI library. */
NODISCARD int cni_version_at_least(const char *version, const char *least, bool *out,
                                   struct err *e);

/* ---- environment and configuration ----------------------------------------------------------- */

/* Checks in the order of the CNI library's skeleton. Returns a code. */
int cni_read_env(struct cni_call *c);

/* Reads all of `fd`; checks size, syntax and network name, by the rules of Go's JSON reader.
 * Ignores what dpu-gate does not need, so that it fails no cleanup. Returns a code. */
int conf_read(struct cni_call *c, int fd);

/* May the verb be used with this configuration's version, and do we speak it? Returns a code. */
int conf_check_version(struct cni_call *c);

/* Our own keys, as far as the verb needs them; after the version, so that a runtime is first told
 * of that. Returns a code. */
int conf_read_options(struct cni_call *c);

/* Is this key none of ours, in letters of either case? */
bool conf_is_foreign_key(struct json_slice key);

/* Has somebody dropped our keys on the way? Multus stores a list that its configuration names by
 * path as a Go type, which knows `type` and an `ipam` (always there, empty if there is none), and
 * reads that back at DEL (pkg/multus/multus.go, saveDelegates). A configuration that was written
 * has no empty `ipam`. */
bool conf_is_stripped(const struct cni_call *c);

/* ---- the delegate ---------------------------------------------------------------------------- */

/* Hands the call over to it. Returns only if it has not replaced this process: a code, the exit
 * status of the answer that was passed on. */
int delegate_call(struct cni_call *c);

#endif
