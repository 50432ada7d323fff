/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP exchange between an agent and the model API server: the client's half is seam_curl.c,
 * the server's api.c. Each half lets go of it when it is done; it lives until both have, and until
 * no task points to it.
 */
#ifndef TESTS_SIM_EXCHANGE_H
#define TESTS_SIM_EXCHANGE_H

#include "tests/sim/world.h"

enum { EXCHANGE_PATH_BYTES = 1024 };

/* How it ends for the client; in seam_curl.c as curl's codes. */
enum exchange_end { EXCHANGE_OPEN, EXCHANGE_WHOLE, EXCHANGE_REFUSED, EXCHANGE_RESET };

struct exchange {
    struct proc *proc;
    char method[8];
    char path[EXCHANGE_PATH_BYTES];
    char *body; /* NULL: none */
    char content_type[64];
    bool is_fresh;
    int fd;
    bool is_connected; /* it has reached the server */

    /* What has come back and was not taken yet. */
    int status; /* 0: no head yet */
    char type[64];
    int retry_after_s; /* -1: none */
    int64_t date_ns;   /* wall clock of the server */
    char *bytes;
    size_t len;
    size_t capacity;
    enum exchange_end end;

    bool is_client_gone;
    bool is_server_done;
    int tasks; /* that point to it */
};

/* The client's half. Copies the texts. */
struct exchange *exchange_start(struct proc *proc, const char *method, const char *path,
                                const char *body, const char *content_type, bool is_fresh);
void exchange_leave(struct exchange *x); /* the client wants no more of it */

/* The server's half: wakes the client up. */
void exchange_head(struct exchange *x, int status, const char *type, int retry_after_s);
void exchange_write(struct exchange *x, const char *bytes, size_t len);
void exchange_finish(struct exchange *x, enum exchange_end end); /* the last word */

/* A task that points to it. */
void exchange_later(struct exchange *x, int64_t at, void (*run)(struct exchange *x));
/* The world ends: nothing that waits will happen. The clients are gone. */
void exchange_drop_tasks(struct world *w);

#endif
