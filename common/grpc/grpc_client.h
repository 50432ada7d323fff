/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One gRPC call, client side, without its socket: bytes in, bytes out. HTTP/2 is nghttp2's. A
 * client serves one call and is then thrown away with its connection. Not thread-safe.
 */
#ifndef GRPC_GRPC_CLIENT_H
#define GRPC_GRPC_CLIENT_H

#include "base/attr.h"
#include "base/err.h"
#include "grpc/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_CLIENT_REQUEST_MAX_BYTES = 64 << 10,
    GRPC_CLIENT_REPLY_MAX_BYTES = 4 << 20,
    GRPC_CLIENT_TEXT_BYTES = 1024,
};

struct grpc_client;

/* Each message of the answer; borrowed. Must not free the client. */
typedef void grpc_client_message_fn(void *user, const uint8_t *message, size_t len);

/* `method` is "/package.Service/Method"; `message` is copied. Errors: ERR_NOMEM, ERR_LIMIT. */
NODISCARD int grpc_client_new(const char *method, const void *message, size_t len,
                              grpc_client_message_fn *on_message, void *user,
                              struct grpc_client **out, struct err *e);
void grpc_client_free(struct grpc_client *c); /* accepts NULL */

/* Errors: ERR_PARSE, ERR_LIMIT, ERR_NOMEM: the connection is of no more use. */
NODISCARD int grpc_client_recv(struct grpc_client *c, const uint8_t *bytes, size_t len,
                               struct err *e);
/* The next bytes to write, borrowed until grpc_client_sent; `out_len` 0: none. */
NODISCARD int grpc_client_output(struct grpc_client *c, const uint8_t **out_bytes, size_t *out_len,
                                 struct err *e);
void grpc_client_sent(struct grpc_client *c, size_t count);

/* True once the call is over: then status and text (decoded) are known. */
bool grpc_client_is_over(const struct grpc_client *c);
int grpc_client_status(const struct grpc_client *c); /* enum grpc_status, or another code */
const char *grpc_client_text(const struct grpc_client *c);

#endif
