/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plugin prints on stdout: a result, a list of versions, or an error with exit status 1.
 * Nothing else ever goes there; notes go to stderr.
 */
#ifndef CNI_REPLY_H
#define CNI_REPLY_H

#include "base/attr.h"
#include "base/json.h"

/* Well-known error codes of the CNI spec, section "Error". */
enum cni_code {
    CNI_INCOMPATIBLE_VERSION = 1,
    CNI_UNSUPPORTED_FIELD = 2,
    CNI_UNKNOWN_CONTAINER = 3,
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

/* Each returns the exit status. `version` goes into cniVersion. */
int reply_error(const struct cni_error *error, const char *version);
int reply_versions(void);

int reply_bytes(const char *bytes, size_t len); /* as they are */

/* A previous result as it stands, with `version` in it if it has none; absent: an empty one. */
int reply_result(struct json_slice result, const char *version);

#endif
