/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/message.h"

/* protobuf-c writes through a struct of function pointers; ours appends to a buf. */
struct appender {
    ProtobufCBuffer base; /* first: protobuf-c hands this back to us */
    struct buf *out;
    struct err *e;
    int rc;
};

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *bytes)
{
    struct appender *a = (struct appender *)base;
    if (a->rc == 0) {
        a->rc = buf_append(a->out, bytes, len, a->e);
    }
}

int message_pack(const ProtobufCMessage *message, struct buf *out, struct err *e)
{
    struct appender a = {.base.append = append, .out = out, .e = e};
    buf_clear(out);
    (void)protobuf_c_message_pack_to_buffer(message, &a.base); /* a.rc tells */
    return a.rc;
}

void message_reply(struct grpc_call *call, const ProtobufCMessage *message)
{
    struct err e = ERR_INIT;
    struct buf out;
    buf_init(&out, GRPC_REPLY_MAX_BYTES);
    if (message_pack(message, &out, &e) == 0) {
        grpc_call_reply(call, buf_text(&out), out.len);
    } else {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%s", e.msg);
    }
    buf_fini(&out);
}
