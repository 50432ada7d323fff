/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is asking, and may they? Without rules everybody is "system:admin" and may do all. Rules:
 *
 *   {"users": [{"name": "dpu", "token": "T", "groups": ["g"], "impersonates": ["other"]}],
 *    "rules": [{"users": ["dpu"], "verbs": ["get", "update"], "resources": ["leases"],
 *               "namespaces": ["ovn-kubernetes"]}]}
 *
 * users may also name groups; "*" or an absent namespaces/resources means any. Subresources are
 * written "resourceclaims/status".
 */
#ifndef STANDIN_AUTH_H
#define STANDIN_AUTH_H

#include "standin/api_result.h"

struct auth {
    json_t *rules; /* owned; NULL: everything is allowed */
};

struct auth_user {
    char name[API_NAME_BYTES];
    const json_t *groups; /* borrowed from the rules until they are replaced; NULL: none */
};

void auth_init(struct auth *a);
void auth_fini(struct auth *a);

/* Takes `rules` (NULL: everything is allowed). */
void auth_set_rules(struct auth *a, json_t *rules);

/* `authorization` is the header or NULL, `cert_name` the CN of a verified client certificate or
 * NULL. False with a 401. */
bool auth_identify(const struct auth *a, const char *authorization, const char *cert_name,
                   struct auth_user *out, struct api_result *r);

/* Makes `user` the one that it asks to act as, with these groups (borrowed). False with a 403. */
bool auth_impersonate(const struct auth *a, struct auth_user *user, const char *as,
                      const json_t *groups, struct api_result *r);

bool auth_allows(const struct auth *a, const struct auth_user *user,
                 const struct api_target *target);

/* A 403 in the real server's words; `name` is that of the request or of its field selector. Always
 * false. */
bool auth_fail(const struct auth_user *user, const struct api_target *target, const char *name,
               struct api_result *r);

/* Answers a SelfSubjectAccessReview. */
void auth_review(const struct auth *a, const struct auth_user *user, const json_t *review,
                 struct api_result *r);

#endif
