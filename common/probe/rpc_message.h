/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object of JSON-RPC 1.0 as OVSDB and unixctl speak it, read and answered as bytes. Slices are
 * borrowed from the text. CORE.
 */
#ifndef PROBE_RPC_MESSAGE_H
#define PROBE_RPC_MESSAGE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

enum { RPC_QUESTIONS_MAX = 4 }; /* of one connection */

struct rpc_question {
    const char *method; /* NULL: no question */
    const char *params_json;
};

enum rpc_kind {
    RPC_NOTICE, /* asks for nothing that we answer */
    RPC_ECHO,   /* are you there? It wants its own params back (RFC 7047, section 4.1.11) */
    RPC_REPLY,
};

struct rpc_message {
    enum rpc_kind kind;
    struct json_slice id;
    struct json_slice params; /* of RPC_ECHO */
    struct json_slice result; /* of RPC_REPLY; absent from an error of unixctl */
    struct json_slice error;  /* of RPC_REPLY; absent if it is null */
};

/* Reads one whole object. Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD int rpc_message_read(const char *text, size_t len, struct rpc_message *out,
                               struct err *e);
/* Whether it carries this number as its id. */
bool rpc_message_has_id(const struct rpc_message *m, size_t id);

/* Write into `out` and return how many bytes that took; 0 if it does not fit. Not terminated. */
size_t rpc_message_answer_echo(const struct rpc_message *echo, char *out, size_t out_bytes);
size_t rpc_message_ask(size_t id, const char *method, const char *params_json, char *out,
                       size_t out_bytes);

#endif
