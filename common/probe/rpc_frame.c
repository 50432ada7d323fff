/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rpc_frame.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void take_in_text(struct rpc_frame *f, char c)
{
    if (f->is_escaped) {
        f->is_escaped = false;
    } else if (c == '\\') {
        f->is_escaped = true;
    } else if (c == '"') {
        f->in_text = false;
    }
}

/* Returns whether the object ends here. */
static bool take(struct rpc_frame *f, char c)
{
    if (f->in_text) {
        take_in_text(f, c);
        return false;
    }
    if (c == '"') {
        f->in_text = true;
    } else if (c == '{' || c == '[') {
        f->depth++;
    } else if (c == '}' || c == ']') {
        f->depth--;
        return f->depth == 0;
    }
    return false;
}

enum rpc_frame_result rpc_frame_find(struct rpc_frame *f, const char *bytes, size_t len,
                                     size_t *out_len)
{
    while (f->scanned < len) {
        char c = bytes[f->scanned];
        if (f->depth == 0 && c != '{' && !is_blank(c)) {
            return RPC_FRAME_INVALID;
        }
        f->scanned++;
        if (take(f, c)) {
            *out_len = f->scanned;
            *f = (struct rpc_frame){.scanned = 0};
            return RPC_FRAME_DONE;
        }
    }
    return RPC_FRAME_MORE;
}
