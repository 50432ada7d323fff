/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf messages into bytes and answers. */
#ifndef DRA_MESSAGE_H
#define DRA_MESSAGE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"
#include "host-agent/grpc/conn.h"

#include <protobuf-c/protobuf-c.h>

/* Replaces the content of `out`. Errors: ERR_LIMIT, ERR_NOMEM. */
NODISCARD int message_pack(const ProtobufCMessage *message, struct buf *out, struct err *e);

/* Answers a unary call with the message, or with RESOURCE_EXHAUSTED if that cannot be done. */
void message_reply(struct grpc_call *call, const ProtobufCMessage *message);

#endif
