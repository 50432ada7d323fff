/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs on objects (all but watch), with the real server's semantics: preconditions, the two
 * kinds of 409, PUT that creates, no new resourceVersion for an update that changes nothing.
 * The caller holds the lock of the store.
 */
#ifndef STANDIN_API_H
#define STANDIN_API_H

#include "standin/api_result.h"
#include "standin/store.h"

struct api_call {
    struct api_target target;
    const char *fields; /* fieldSelector or NULL; checked */
    const char *labels; /* labelSelector or NULL; checked */
    uint64_t limit;     /* of a LIST's page; 0: all */
    uint64_t skip;      /* objects that its pages before had */
    const json_t *body; /* NULL if there was none */
    bool is_strategic;  /* the patch is a strategic merge patch */
    bool may_create;    /* for a PUT to a missing name */
};

void api_run(struct store *s, const struct api_call *call, struct api_result *r);

/* Creates a cluster-wide object with nothing but a name, as an administrator would. */
void api_seed(struct store *s, const char *plural, const char *name);

/* One round of owner-reference garbage collection: objects all of whose Node owners are gone or
 * have another UID are deleted, dangling references beside solid ones are removed. Returns whether
 * anything changed. */
bool api_collect_garbage(struct store *s);

#endif
