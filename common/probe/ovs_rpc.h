/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the daemons and databases of OVS and OVN over JSON-RPC 1.0 on a unix socket: one connection
 * per run, one question after another. Ignores the server's own requests. By default OVS sends no
 * echo request on a unix socket, so none waits for our answer.
 *
 * A hostile server costs no more than RPC_TOTAL_BYTES read, in pieces of what is there, and the
 * tree of RPC_INBOX_BYTES of JSON.
 */
#ifndef PROBE_OVS_RPC_H
#define PROBE_OVS_RPC_H

#include "base/time.h"
#include "probe/probe_spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RPC_QUESTION_BYTES = 512,
    RPC_INBOX_BYTES = 64 << 10,   /* the largest object */
    RPC_TOTAL_BYTES = 1024 << 10, /* of one connection */
};

/* ---- messages -------------------------------------------------------------------------------- */

enum rpc_kind {
    RPC_MORE,    /* no whole object yet */
    RPC_INVALID, /* what comes is no object of JSON-RPC */
    RPC_NOTICE,  /* a request or a notice: asks for nothing that we answer */
    RPC_REPLY,   /* its error is absent or null, unless it is one */
};

/* Reads the first of the objects that stand back to back, without length or newline (RFC 7047,
 * section 4). `bytes` is all that came since the last one, and the end of the stream with `is_end`.
 * With RPC_NOTICE and above it took `*out_len` bytes, and *out is owned: json_decref; below it is
 * NULL. */
enum rpc_kind rpc_message_read(const char *bytes, size_t len, bool is_end, json_t **out,
                               size_t *out_len);

/* What `reply` says to `question`, unless that is of a beat. PROBE_PASSED, with the value that was
 * asked for in `words`, if any; or PROBE_WRONG, and why. `bridge`: what ovs-vswitchd must have. */
enum probe_outcome service_judge(const struct service_question *question, const char *bridge,
                                 const json_t *reply, char words[static PROBE_WORDS_BYTES]);

/* ovnkube writes the time to its northbound database every 30 s, northd copies it to the southbound
 * one: while it changes, all of them work. It is judged by its changes on our own clock; only the
 * first value may vouch by its age, so that a restart of ours waits for no change. */
struct service_beat {
    int64_t limit_ns; /* without a change */
    char last[PROBE_WORDS_BYTES];
    bool has_begun;       /* to be watched */
    bool was_alive;       /* it changed, or was young when it was first seen */
    struct mono alive_at; /* or when it was first looked at */
};

/* `reply` is the answer to `question`. PROBE_UNKNOWN until the first value has changed
 * or had its time to. */
enum probe_outcome service_beat_step(struct service_beat *beat,
                                     const struct service_question *question, const json_t *reply,
                                     struct mono now, struct wall wall_now,
                                     char words[static PROBE_WORDS_BYTES]);

#endif
