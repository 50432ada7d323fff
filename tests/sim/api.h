/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server, which is the stand-in's (standin/store.h, standin/api.h), and a model of the
 * network to it, with whatever may be wrong with either (faults.h). It knows nothing of the agents
 * but their names.
 */
#ifndef TESTS_SIM_API_H
#define TESTS_SIM_API_H

#include "standin/api.h"
#include "tests/sim/world.h"

/*
 * One HTTP exchange between an agent and the model API server: the client's half is seam_curl.c,
 * the server's api.c. Each half lets go of it when it is done; it lives until both have, and until
 * no task points to it.
 */
enum { EXCHANGE_PATH_BYTES = 1024, EXCHANGE_FIELDS_BYTES = 256 };

/* So many API servers are behind the balancer, which sends each new connection of an agent to the
 * next of them. All have the same store. */
enum { API_SERVERS = 3 };

/* How it ends for the client; in seam_curl.c as curl's codes. */
enum exchange_end { EXCHANGE_OPEN, EXCHANGE_WHOLE, EXCHANGE_REFUSED, EXCHANGE_RESET };

struct exchange {
    struct proc *proc;
    char method[8];
    char path[EXCHANGE_PATH_BYTES];
    char *body; /* NULL: none */
    char content_type[64];
    int fd;
    int server;        /* of API_SERVERS: that to which its connection leads */
    bool is_connected; /* it has reached the server */
    bool is_own_error; /* the answer is what is wrong with that server */

    /* What the server makes of it. */
    struct api_target target;
    char fields[EXCHANGE_FIELDS_BYTES]; /* the field selector */

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
struct exchange *exchange_start(struct proc *proc, int server, const char *method, const char *path,
                                const char *body, const char *content_type);
void exchange_leave(struct exchange *x); /* the client wants no more of it */

/* The world ends: nothing that waits will happen. The clients are gone. */
void exchange_drop_tasks(struct world *w);

enum { API_STREAMS_MAX = 32 };

struct api_stream {
    struct exchange *exchange; /* NULL: free */
    uint64_t seen;             /* changes up to this version have been sent */
    bool is_stuck;             /* nothing comes through, and nobody says so */
    bool is_pumping;           /* a task will send what is new */
    int64_t ends_at;
    int64_t bookmark_at;
};

/* A change of the lease as it happens. `before` and `after` are NULL where there is none. */
typedef void api_log_fn(void *user, const char *who, const json_t *before, const json_t *after);
/* A request that has arrived. */
typedef void api_request_fn(void *user, const char *who, const char *method, const char *path);

struct api {
    struct world *world;
    struct store store;
    json_t *lease;    /* as the log knows it; NULL: there is none */
    json_t *shown;    /* the tree last asked for as text, */
    char *shown_text; /* and that */
    struct api_stream streams[API_STREAMS_MAX];
    api_log_fn *log;
    api_request_fn *log_request;
    void *log_user;
};

/* The one API server, the last that was made; see world_get. */
struct api *api_get(void);

void api_init(struct api *api, struct world *w);
void api_fini(struct api *api);

/* ---- the store ---- */

/* Borrowed until the next change; NULL: there is none. */
json_t *api_lease(const struct api *api);
/* Whether it was another one `lag_ns` ago, or none. */
bool api_lease_was_other(const struct api *api, int64_t lag_ns);
/* Stores `lease` (taken) in place of the one that is there, whatever a real server would say. */
void api_put_lease(struct api *api, const char *who, json_t *lease);
void api_delete_lease(struct api *api, const char *who);
/* Everything as it was `lag_ns` ago, versions too: a backup of etcd is restored. */
void api_restore(struct api *api, int64_t lag_ns);
/* A Node of this name with a new UID. */
void api_make_node(struct api *api);
/* What the Node of before owned goes. */
void api_collect(struct api *api);

/* ---- watches ---- */

/* What a fault does to the streams of `who` (NULL: all). */
enum api_cut { API_CUT_STUCK, API_CUT_RESET, API_CUT_END, API_CUT_GONE };
void api_watch_cut(struct api *api, const char *who, enum api_cut how);
/* Those that are stuck go on, with all they have missed. */
void api_watch_unstick(struct api *api);
/* The streams of the server that fails (FAULT_SERVER) end, or go silent; afterwards they go on. */
void api_server_begins_to_fail(struct api *api);
void api_server_is_well(struct api *api);
/* Whether `who` has a watch on the lease that works. */
bool api_watch_works(const struct api *api, const char *who);

#endif
