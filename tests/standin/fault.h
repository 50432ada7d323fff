/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on request: a list of JSON rules, the first that fits a request is applied to it.
 *
 *   {"match": {"verb": "update", "resource": "leases", "user": "...", "name": "..."},
 *    "action": "status", "code": 503, "count": 3, "skip": 1, "after": false, ...}
 *
 * All members of match are optional; each may be a text or a list of texts. `count` limits how
 * often it applies (absent: for ever), `skip` lets the first ones pass, `after` applies it when the
 * request has been carried out, so that only the answer is lost. Actions and their members:
 *   status  code, reason, message, retryAfter (seconds)
 *   delay   ms, then goes on as usual
 *   hang    never answers
 *   cut     closes the connection after `bytes` of the body (0, the default: before any answer)
 *   answer  code (200), contentType (application/json), body, and `fill`: so many 'x' after it
 *   patch   merges `patch` into what is written, as an admission webhook does
 *   slow    the usual answer, one byte every `ms`
 */
#ifndef STANDIN_FAULT_H
#define STANDIN_FAULT_H

#include "standin/api_kind.h"

struct fault_list {
    json_t *rules; /* array; each gets "id" and "hits" */
    json_int_t last_id;
};

void fault_init(struct fault_list *f);
void fault_fini(struct fault_list *f);

/* Takes `rule`. Returns its id, or 0 if it makes no sense. */
json_int_t fault_add(struct fault_list *f, json_t *rule);

void fault_clear(struct fault_list *f);

/* The rule for this request in this phase, counted as a hit; owned (json_decref), or NULL. */
json_t *fault_take(struct fault_list *f, const struct api_target *target, const char *user,
                   const char *name, bool after);

#endif
