/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs on objects (all but watch), with the real server's semantics: preconditions, the two
 * kinds of 409, PUT that creates, no new resourceVersion for an update that changes nothing; its
 * selectors ("a=b,c=d"), patches and owner-reference garbage collection; and its failures, with
 * the real server's reason words and message forms. The caller holds the lock of the store.
 */
#ifndef STANDIN_API_H
#define STANDIN_API_H

#include "standin/store.h"

/* The answer to one request: for a failure the body is a meta/v1 Status. */
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

/* The object of a bookmark. Returns owned. */
json_t *api_bookmark(const struct api_target *target, uint64_t version);

/* The Status of "too old resource version" (410). Returns owned. */
json_t *api_expired_status(uint64_t asked, uint64_t oldest);

/* False with a 400 if a selector has a form or field that this kind does not support. */
bool select_check(const struct api_kind *kind, const char *fields, const char *labels,
                  struct api_result *r);

/* The next change after *seen that matches; *seen is its version then. NULL: there is none, and
 * *seen is that of the store. Borrowed until the next change. */
const struct store_event *select_next(const struct store *s, const struct api_target *target,
                                      const char *fields, uint64_t *seen);

/* Copies the value of metadata.name in a field selector: authorisation by name uses it. */
void select_name(const char *fields, char out[static API_NAME_BYTES]);

/* RFC 7386; strategic: but for "conditions", whose items are merged by their type. */
void merge_patch(json_t *target, const json_t *patch, bool is_strategic);

struct api_call {
    struct api_target target;
    const char *fields;  /* fieldSelector or NULL; checked */
    const char *labels;  /* labelSelector or NULL; checked */
    uint64_t limit;      /* of a LIST's page; 0: all */
    uint64_t skip;       /* objects that its pages before had */
    json_t *body;        /* borrowed; NULL if there was none */
    bool is_strategic;   /* the patch is a strategic merge patch */
    bool is_dry;         /* a change of what exists: dryRun=All */
    bool may_create;     /* for a PUT to a missing name */
    const char *manager; /* the client's name; NULL: no account is kept of who writes what */
};

void api_run(struct store *s, const struct api_call *call, struct api_result *r);

/* Creates a cluster-wide object with nothing but a name, as an administrator would. */
void api_seed(struct store *s, const char *plural, const char *name);

/* One round of owner-reference garbage collection: objects all of whose Node owners are gone or
 * have another UID are deleted, dangling references beside solid ones are removed. Returns whether
 * anything changed. */
bool api_collect_garbage(struct store *s);

#endif
