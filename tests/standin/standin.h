/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state of one stand-in API server, and waiting on it.
 *
 * libmicrohttpd runs one thread per connection, so that a handler may simply block (delay, hang,
 * watch). One lock guards everything below; `changed` is broadcast at every change. A test tool:
 * simplicity before throughput.
 */
#ifndef STANDIN_STANDIN_H
#define STANDIN_STANDIN_H

#include "standin/api.h"

#include <pthread.h>

/*
 * Who is asking, and may they? By rules:
 *
 *   {"users": [{"name": "dpu", "token": "T", "impersonates": ["other"]}],
 *    "rules": [{"users": ["dpu"], "verbs": ["get", "update"], "resources": ["leases"],
 *               "namespaces": ["ovn-kubernetes"]}]}
 *
 * users may also name the groups of one that another acts as; "*" or an absent namespaces/resources
 * means any. Subresources are written "resourceclaims/status".
 */
struct auth {
    json_t *rules; /* owned; NULL: nothing is allowed */
};

struct auth_user {
    char name[API_NAME_BYTES];
    const json_t *groups; /* that another acts in; borrowed, NULL: none */
};

/* Takes `rules`. */
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

/* False, with a 403 in the real server's words; `name` is the request's or its field selector's. */
bool auth_fail(const struct auth_user *user, const struct api_target *target, const char *name,
               struct api_result *r);

/* Answers a SelfSubjectAccessReview. */
void auth_review(const struct auth *a, const struct auth_user *user, const json_t *review,
                 struct api_result *r);

/*
 * Faults on request: a list of JSON rules, the first that fits a request is applied to it.
 *
 *   {"match": {"verb": "update", "resource": "leases", "user": "...", "name": "..."},
 *    "action": "status", "code": 503, "count": 3, ...}
 *
 * All members of match are optional; each may be a text or a list of texts. `count` limits how
 * often it applies (absent: for ever). Actions and their members:
 *   status  code, reason, message, retryAfter (seconds)
 *   delay   ms, then goes on as usual
 *   hang    never answers
 *   cut     closes the connection after `bytes` of the body (0, the default: before any answer)
 *   answer  code (200), contentType (application/json), body
 *   patch   merges `patch` into what is written, as an admission webhook does
 *   slow    the usual answer, one byte every `ms`
 */
/* Takes a copy of `rule` into `rules`, an array; each gets "hits". False if it makes no sense. */
bool fault_add(json_t *rules, const json_t *rule);

/* The rule for this request, counted as a hit; owned (json_decref), or NULL. */
json_t *fault_take(const json_t *rules, const struct api_target *target, const char *user,
                   const char *name);

/*
 * The witness of the tests: one JSON line per request, written when its answer is decided. Fields:
 * bootNs (CLOCK_BOOTTIME), time, user, verb, resource, namespace, name, path, code, reason, fault,
 * conn (which TCP connection).
 */
struct audit_entry {
    const char *user;
    const struct api_target *target; /* kind NULL: not a resource */
    const char *path;                /* with its query */
    int code;                        /* 0: no answer was sent */
    const char *reason;              /* "" if none */
    const char *fault;               /* the injected action, or NULL */
    uint64_t conn;
};

void audit_write(FILE *audit, const struct audit_entry *entry);

/* One TCP connection of a client. */
struct standin_conn {
    uint64_t id; /* counts up from 1 */
    int fd;      /* borrowed from libmicrohttpd */
    struct standin_conn *next;
};

struct standin {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    struct store store;
    struct auth auth;
    json_t *faults;     /* array of rules; owned */
    FILE *audit;        /* owned; NULL: none is kept */
    json_t *injections; /* into watches: array of specs; each watch knows how far it has got */
    struct standin_conn *conns;
    uint64_t last_conn;    /* id given last */
    uint64_t dropped_upto; /* connections up to this id are to be closed */
    uint64_t frozen_upto;  /* ... are half-open: nothing is sent on them any more */
    int64_t date_offset_s; /* added to the Date header */
    bool stopping;
};

void standin_init(struct standin *s, uint64_t first_version);
void standin_fini(struct standin *s);

void standin_lock(struct standin *s);
void standin_unlock(struct standin *s);
void standin_changed(struct standin *s);

/* The connections open now are closed / frozen. Locked. */
void standin_drop_connections(struct standin *s);
void standin_freeze_connections(struct standin *s);
bool standin_is_frozen(const struct standin *s, const struct standin_conn *conn);

/*
 * Waits, giving up the lock, for a change or until `wait_ms` are over. Returns false if there is
 * nothing to wait for any more: the connection is dropped, the client gone, the server stopping.
 */
bool standin_wait(struct standin *s, const struct standin_conn *conn, int64_t wait_ms);

/* Waits the whole time, or for ever if `wait_ms` is negative; false as above. */
bool standin_sleep(struct standin *s, const struct standin_conn *conn, int64_t wait_ms);

/* CLOCK_MONOTONIC. */
int64_t standin_now_ms(void);

#endif
