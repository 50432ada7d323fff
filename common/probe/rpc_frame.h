/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where one JSON object ends in a stream of objects that stand back to back, without length or
 * newline: the framing of OVSDB (RFC 7047, section 4) and of unixctl. It remembers how far it
 * looked, so that each byte is looked at once however the stream is cut. What it finds need not be
 * JSON: rpc_message.h checks. CORE.
 */
#ifndef PROBE_RPC_FRAME_H
#define PROBE_RPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>

struct rpc_frame {
    size_t scanned; /* of the bytes given */
    size_t depth;   /* of open brackets */
    bool in_text;
    bool is_escaped; /* the next byte of the text */
};

enum rpc_frame_result {
    RPC_FRAME_MORE,
    RPC_FRAME_DONE,    /* the first *out_len bytes hold one object, and blanks before it */
    RPC_FRAME_INVALID, /* what comes is no object */
};

/* `bytes`: all that came since the end of the last object; the same ones again, and more, after
 * RPC_FRAME_MORE. After RPC_FRAME_DONE `f` is ready for the next one. Starts zeroed. */
enum rpc_frame_result rpc_frame_find(struct rpc_frame *f, const char *bytes, size_t len,
                                     size_t *out_len);

#endif
