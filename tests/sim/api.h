/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of the Kubernetes API server, and of the network to it: objects with versions and a
 * history, list and watch, and whatever may be wrong with either (faults.h). It knows nothing of
 * the agents but their names.
 */
#ifndef TESTS_SIM_API_H
#define TESTS_SIM_API_H

#include "tests/sim/world.h"

#include <jansson.h>

/*
 * One HTTP exchange between an agent and the model API server: the client's half is seam_curl.c,
 * the server's api.c. Each half lets go of it when it is done; it lives until both have, and until
 * no task points to it.
 */
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

/* The world ends: nothing that waits will happen. The clients are gone. */
void exchange_drop_tasks(struct world *w);

enum {
    API_OBJECTS_MAX = 256,
    API_HISTORY_MAX = 1024,
    API_STREAMS_MAX = 32,
    API_KEY_BYTES = 400,
};

#define API_LEASE "/apis/coordination.k8s.io/v1/namespaces/ovn-kubernetes/leases/ovn-dpu-w1"
#define API_NODE  "/api/v1/nodes/w1"

/* Trees are never edited once they are stored. */
struct api_object {
    char key[API_KEY_BYTES];
    json_t *tree;
};

struct api_change {
    int64_t at;
    uint64_t version;
    const char *type; /* "ADDED", "MODIFIED", "DELETED" */
    char key[API_KEY_BYTES];
    json_t *tree;
};

struct api_stream {
    struct exchange *exchange; /* NULL: free */
    char prefix[API_KEY_BYTES];
    char name[256];  /* of the one object; "": all */
    uint64_t sent;   /* changes up to this number have been sent */
    uint64_t from;   /* only versions above it count */
    bool is_stuck;   /* nothing comes through, and nobody says so */
    bool is_pumping; /* a task will send what is new */
    int64_t ends_at;
    int64_t bookmark_at;
};

struct api;

/* A change of an object as it happens. `before` and `after` are NULL where there is none. */
typedef void api_log_fn(void *user, const char *who, const char *key, const json_t *before,
                        const json_t *after);
/* A request that has arrived. */
typedef void api_request_fn(void *user, const char *who, const char *method, const char *path);

struct api {
    struct world *world;
    struct api_object objects[API_OBJECTS_MAX];
    size_t object_count;
    uint64_t version;
    uint64_t compacted; /* versions below it are gone from the history */
    uint64_t base;      /* the change that the history begins with */
    uint64_t next_uid;
    struct api_change history[API_HISTORY_MAX]; /* a ring */
    uint64_t changes;                           /* ever */
    json_t *shown;                              /* the tree last asked for as text, */
    char *shown_text;                           /* and that */
    struct api_stream streams[API_STREAMS_MAX];
    api_log_fn *log;
    api_request_fn *log_request;
    void *log_user;
};

/* The one API server; see world_get. */
struct api *api_get(void);
void api_set(struct api *api);

void api_init(struct api *api, struct world *w);
void api_fini(struct api *api);

/* ---- the store (api.c) ---- */

/* Borrowed; NULL: there is none. */
const json_t *api_find(const struct api *api, const char *key);
/* The tree as JSON, borrowed until the next call. What is written is asked for more than once: by
 * its writer, and by those who watch. */
const char *api_text(struct api *api, json_t *tree);
/* As it was `lag_ns` ago. Borrowed. */
const json_t *api_find_old(const struct api *api, const char *key, int64_t lag_ns);
/* Stores `tree` (taken) with a new version; returns what is stored, borrowed. `who` is for the
 * log. */
const json_t *api_store(struct api *api, const char *who, const char *key, json_t *tree);
void api_remove(struct api *api, const char *who, const char *key);
/* Everything as it was `lag_ns` ago, versions too: a backup of etcd is restored. */
void api_restore(struct api *api, int64_t lag_ns);
/* The history is gone: a watch can begin at the present version only. */
void api_compact(struct api *api);
/* A Node of this name with a new UID, and no leases that the old one owned. */
void api_make_node(struct api *api);

/* What becomes of a request. */
struct api_answer {
    int status;
    json_t *body; /* owned */
};
void api_perform(struct api *api, const char *who, const struct exchange *x, int64_t lag_ns,
                 struct api_answer *out);
json_t *api_status(int code, const char *reason, const char *message);
bool api_is_collection(const char *path, size_t len);

/* ---- watches (api_watch.c) ---- */

void api_watch_changed(struct api *api); /* something is to be sent */
/* What a fault does to the streams of `who` (NULL: all). */
enum api_cut { API_CUT_STUCK, API_CUT_RESET, API_CUT_END, API_CUT_GONE };
void api_watch_cut(struct api *api, const char *who, enum api_cut how);
/* Those that are stuck go on, with all they have missed. */
void api_watch_unstick(struct api *api);
/* Whether `who` has a watch on that object that works. */
bool api_watch_works(const struct api *api, const char *who, const char *key);

#endif
