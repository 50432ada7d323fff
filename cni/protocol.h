/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CNI between a runtime and a plugin: the environment, the configuration on stdin, what is printed
 * on stdout. Orders, texts and codes are those of the CNI library's plugin skeleton.
 */
#ifndef CNI_PROTOCOL_H
#define CNI_PROTOCOL_H

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <limits.h>
#include <stdbool.h>

/* ---- errors and answers ---------------------------------------------------------------------- */

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

enum { CNI_MSG_BYTES = 1024, CNI_DETAILS_BYTES = 1024 };

struct cni_error {
    int code; /* 0: none */
    char msg[CNI_MSG_BYTES];
    char details[CNI_DETAILS_BYTES]; /* "" is left out */
};

/* Fills `error` and returns its code, so that "return cni_fail(...)" is one line. */
int cni_fail(struct cni_error *error, int code, const char *details, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* What a plugin prints on stdout; nothing else ever goes there. Each returns the exit status.
 * `version` goes into cniVersion. */
int reply_error(const struct cni_error *error, const char *version);
int reply_versions(void);

int reply_bytes(const char *bytes, size_t len); /* as they are */

/* A previous result as it stands, with `version` in it if it has none; absent: an empty one. */
int reply_result(struct json_slice result, const char *version);

/* ---- versions of the spec -------------------------------------------------------------------- */

/* All released versions of the spec, oldest first; NULL ends the list. */
extern const char *const cni_versions[];

#define CNI_VERSION_CURRENT "1.1.0"
#define CNI_VERSION_DEFAULT "0.1.0" /* of a configuration without cniVersion */

bool cni_version_is_supported(const char *version);

/* *out: `version` >= `least`. Errors: ERR_PARSE in the words of the CNI library. */
NODISCARD int cni_version_at_least(const char *version, const char *least, bool *out,
                                   struct err *e);

/* ---- environment ----------------------------------------------------------------------------- */

enum cni_verb {
    CNI_VERB_UNKNOWN,
    CNI_ADD,
    CNI_DEL,
    CNI_CHECK,
    CNI_GC,
    CNI_STATUS,
    CNI_VERSION,
};

struct cni_env {
    enum cni_verb verb;
    const char *command; /* CNI_COMMAND; these are borrowed from the environment, "" if unset */
    const char *container_id;
    const char *netns;
    const char *ifname;
    const char *path;
    bool netns_override; /* CNI_NETNS_OVERRIDE is 1 or TRUE */
};

/* Checks in the order of the CNI library's skeleton. Returns 0 or the error's code. */
int cni_env_read(struct cni_env *out, struct cni_error *error);

/* Also the rule for a network name: starts alphanumeric, then alphanumerics, '_', '.', '-'. */
bool cni_env_is_identifier(const char *text);

/* ---- configuration --------------------------------------------------------------------------- */

/*
 * The network configuration on stdin. It is checked by the rules of Go's JSON reader, and what we
 * do not need is not looked at: a verb that cleans up must not fail for it.
 *
 * Wrapping: `delegate` holds the other plugin's configuration, or `delegateConf` names a file that
 * does, read at each call so that it never drifts from what its owner writes. `lastDelegate` is
 * a copy of what that file held, for when it is gone. Without `delegate` and `delegateConf` we are
 * chained. Our other keys: `readinessFile`, `statusCode` (50 or 51).
 */
enum {
    /* Of stdin, and of delegateConf. Runtimes take messages of at most 16 MiB over CRI: what comes
     * out of one is not larger. */
    CONF_MAX_BYTES = 16 << 20,
    CONF_VERSION_BYTES = 64, /* of cniVersion; what is longer is cut, and no version that exists */
};

struct cni_conf {
    struct buf text;                  /* owned: stdin */
    struct json_slice object;         /* in it */
    char version[CONF_VERSION_BYTES]; /* cniVersion or its default */
    char readiness_file[PATH_MAX];
    int status_code; /* for verbs that are gated */
    bool is_wrapping;
};

/* Reads all of `fd`; checks size, syntax and network name, in the skeleton's order and words.
 * Returns 0 or the error's code; the conf is to be finished in either case. */
int conf_read(int fd, struct cni_conf *out, struct cni_error *error);
void conf_fini(struct cni_conf *conf); /* accepts a zeroed one */

/* May this verb be used with this configuration's version, and do we speak it? */
int conf_check_version(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error);

/* Our own keys, as far as the verb needs them; after the version, so that a runtime is first told
 * of that. */
int conf_read_options(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error);

/* Is this key one of ours, in letters of either case? */
bool conf_owns_key(struct json_slice key);

#endif
