/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to a JSON-RPC server on a unix socket: question, answer, the next question, end.
 * It has no clock: whoever starts it sets one deadline over all of it and cancels. The server's own
 * echo is answered, its notices are passed over. Loop thread only; allocates nothing once made.
 *
 * A hostile server costs no more than RPC_CALL_TOTAL_BYTES read, in pieces of what is there, and
 * RPC_CALL_INBOX_BYTES held.
 */
#ifndef PROBE_RPC_CALL_H
#define PROBE_RPC_CALL_H

#include "base/attr.h"
#include "base/err.h"
#include "probe/outcome.h"
#include "probe/rpc_message.h"

#include <stddef.h>

enum {
    RPC_CALL_OUTBOX_BYTES = 2048,      /* a question, and answered echoes */
    RPC_CALL_INBOX_BYTES = 64 << 10,   /* the largest object */
    RPC_CALL_TOTAL_BYTES = 1024 << 10, /* of one call */
};

struct ev_loop;
struct rpc_call;

/* Looks at the answer to the question `index`. PROBE_PASSED: go on; else the call ends so, with
 * `words`. */
typedef enum probe_outcome rpc_judge_fn(void *user, size_t index, const struct rpc_message *reply,
                                        char words[static PROBE_WORDS_BYTES]);
/* Exactly once per start, possibly before that returns, unless cancelled. `words` are borrowed, ""
 * with PROBE_PASSED. Must not free the call; may start it anew. */
typedef void rpc_done_fn(void *user, enum probe_outcome outcome, const char *words);

struct rpc_call_config {
    struct rpc_question questions[RPC_QUESTIONS_MAX]; /* texts are borrowed for its life */
    rpc_judge_fn *judge;
    rpc_done_fn *done;
    void *user;
};

/* Copies `config`. Errors: ERR_NOMEM, ERR_LIMIT for a question that is too long. */
NODISCARD int rpc_call_new(struct ev_loop *loop, const struct rpc_call_config *config,
                           struct rpc_call **out, struct err *e);
void rpc_call_start(struct rpc_call *call, const char *path);
/* Ends what is under way, without `done`. Returns the method whose answer was awaited; borrowed. */
const char *rpc_call_cancel(struct rpc_call *call);
void rpc_call_free(struct rpc_call *call); /* accepts NULL, and one under way */

#endif
