/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The witness of the tests: one JSON line per request, written when its answer is decided. Fields:
 * bootNs (CLOCK_BOOTTIME), time, user, verb, resource, namespace, name, path, code, reason, fault,
 * conn (which TCP connection), bytes (of the request's body).
 */
#ifndef STANDIN_AUDIT_H
#define STANDIN_AUDIT_H

#include "standin/api_kind.h"

#include <stdio.h>

struct audit {
    FILE *file; /* owned; NULL: none is kept */
};

struct audit_entry {
    const char *user;
    const struct api_target *target; /* kind NULL: not a resource */
    const char *path;                /* with its query */
    int code;                        /* 0: no answer was sent */
    const char *reason;              /* "" if none */
    const char *fault;               /* the injected action, or NULL */
    uint64_t conn;
    size_t bytes;
};

void audit_init(struct audit *a);
void audit_fini(struct audit *a);
void audit_write(struct audit *a, const struct audit_entry *entry);

#endif
