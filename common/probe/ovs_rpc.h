/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemons and databases of OVS and OVN answer, over JSON-RPC 1.0 on a unix socket: one
 * connection per run, question after question. The server's own echo is answered, its notices are
 * passed over. Loop thread only.
 *
 * A hostile server costs no more than RPC_TOTAL_BYTES read, in pieces of what is there, and the
 * tree of RPC_INBOX_BYTES of JSON.
 */
#ifndef PROBE_OVS_RPC_H
#define PROBE_OVS_RPC_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"
#include "probe/probe_spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;

enum {
    RPC_OUTBOX_BYTES = 2048,      /* a question, and answered echoes */
    RPC_INBOX_BYTES = 64 << 10,   /* the largest object */
    RPC_TOTAL_BYTES = 1024 << 10, /* of one connection */
};

/* ---- the name of the node -------------------------------------------------------------------- */

/* Asks the database of OVS for the name of the node that this DPU serves: external_ids, key
 * host-k8s-nodename. One deadline over it all. */
struct ovsdb_ask;

enum { OVSDB_ASK_VALUE_BYTES = 256 }; /* a longer value is a wrong answer */

/* With PROBE_PASSED `text` is the name, "" if there is none; else it says why not. Borrowed. Must
 * not free the ask; may start it anew. */
typedef void ovsdb_ask_fn(void *user, enum probe_outcome outcome, const char *text);

/* `socket` is a path; copied. Errors: ERR_LIMIT. */
NODISCARD int ovsdb_ask_new(struct ev_loop *loop, const char *socket, int64_t timeout_ns,
                            ovsdb_ask_fn *done, void *user, struct ovsdb_ask **out, struct err *e);
/* Asks once, not while it asks already; `done` may come before this returns. */
void ovsdb_ask_start(struct ovsdb_ask *ask);
void ovsdb_ask_free(struct ovsdb_ask *ask); /* accepts NULL, and one under way */

/* ---- messages -------------------------------------------------------------------------------- */

enum rpc_kind {
    RPC_MORE,    /* no whole object yet */
    RPC_INVALID, /* what comes is no object of JSON-RPC */
    RPC_NOTICE,  /* asks for nothing that we answer */
    RPC_ECHO,    /* are you there? It wants its own params back (RFC 7047, section 4.1.11) */
    RPC_REPLY,
};

struct rpc_message {
    json_t *object; /* owned: json_decref; the rest is borrowed from it */
    json_t *id;
    json_t *params; /* of RPC_ECHO */
    json_t *result; /* of RPC_REPLY; NULL in an error of unixctl */
    json_t *error;  /* of RPC_REPLY; NULL if there is none */
};

static inline void cleanup_rpc_message(struct rpc_message *m)
{
    json_decref(m->object);
}

/* Reads the first of the objects that stand back to back, without length or newline (RFC 7047,
 * section 4). `bytes` is all that came since the last one, and the end of the stream with `is_end`.
 * With RPC_NOTICE and above it took `*out_len` bytes; below `out` holds nothing. */
enum rpc_kind rpc_message_read(const char *bytes, size_t len, bool is_end, struct rpc_message *out,
                               size_t *out_len);

/* The answer to question `index`: PROBE_PASSED, or PROBE_WRONG with `words`. `bridge`: what
 * ovs-vswitchd must have. */
enum probe_outcome service_judge(const struct service *service, size_t index, const char *bridge,
                                 const struct rpc_message *reply,
                                 char words[static PROBE_WORDS_BYTES]);

/* The answer to a select of the map `column` of a table with one row: PROBE_PASSED and the value of
 * `key`, "" if there is none; else PROBE_WRONG with `words`, also where it does not fit. */
enum probe_outcome ovsdb_reply_value(const struct rpc_message *reply, const char *column,
                                     const char *key, char *out, size_t out_bytes,
                                     char words[static PROBE_WORDS_BYTES]);

/* ovnkube writes the time to its northbound database every 30 s, northd copies it to the southbound
 * one: while it changes, all of them work. It is judged by its changes on our own clock; only the
 * first value may vouch by its age, so that a restart of ours waits for no change. */
struct service_beat {
    int64_t limit_ns; /* without a change */
    char last[32];
    bool has_begun;       /* to be watched */
    bool was_alive;       /* it changed, or was young when it was first seen */
    struct mono alive_at; /* or when it was first looked at */
};

/* `reply` is the answer of the southbound database. PROBE_UNKNOWN until the first value has changed
 * or had its time to. */
enum probe_outcome service_beat_step(struct service_beat *beat, const struct rpc_message *reply,
                                     struct mono now, struct wall wall_now,
                                     char words[static PROBE_WORDS_BYTES]);

#endif
