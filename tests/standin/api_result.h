/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to one API request: an HTTP status and a body, which for a failure is a
 * meta/v1 Status with the real server's reason words and message forms.
 */
#ifndef STANDIN_API_RESULT_H
#define STANDIN_API_RESULT_H

#include "base/attr.h"
#include "standin/api_kind.h"

struct api_result {
    int code;          /* HTTP */
    json_t *body;      /* owned */
    int retry_after_s; /* header Retry-After; negative: none */
};

#define API_RESULT_INIT                                                                            \
    {                                                                                              \
        .code = 0, .retry_after_s = -1                                                             \
    }

void api_result_fini(struct api_result *r);

/* Takes `body`. */
void api_result_ok(struct api_result *r, int code, json_t *body);

/* A failure Status. Returns false, so that "return api_fail(...)" is one line. */
bool api_fail(struct api_result *r, int code, const char *reason, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* The usual ones about one object; `name` may be "". All return false. */
bool api_fail_not_found(struct api_result *r, const struct api_kind *kind, const char *name);
bool api_fail_exists(struct api_result *r, const struct api_kind *kind, const char *name);
bool api_fail_conflict(struct api_result *r, const struct api_kind *kind, const char *name,
                       const char *why);
/* 422: `what` names the field. */
bool api_fail_invalid(struct api_result *r, const struct api_kind *kind, const char *name,
                      const char *what);

/* The Status of "too old resource version" (410). Returns owned. */
json_t *api_expired_status(uint64_t asked, uint64_t oldest);

#endif
