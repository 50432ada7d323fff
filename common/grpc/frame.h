/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire pieces of gRPC that lie above HTTP/2: length-prefixed messages and percent-encoded
 * status messages (gRPC over HTTP2, PROTOCOL-HTTP2.md). Pure.
 *
 * A message is one flag byte (0 plain, 1 compressed), its length as 32 bit big endian, and its
 * bytes. HTTP/2 may cut that anywhere, so the deframer keeps only the prefix and the number of
 * bytes still to come; the payload stays where the caller has it.
 */
#ifndef GRPC_FRAME_H
#define GRPC_FRAME_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRPC_PREFIX_BYTES = 5 };

/* Status codes of gRPC; only those we send or have to tell apart. */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
};

/* "OK", "UNIMPLEMENTED" ...; "CODE" for one that is not in the list. */
const char *grpc_status_name(int status);

/* Zero-initialise, set max_bytes, then feed. */
struct grpc_deframer {
    uint32_t max_bytes; /* of one message */
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint8_t prefix_len;  /* bytes of the prefix seen so far */
    uint32_t to_come;    /* payload bytes still missing, once the prefix is complete */
    bool payload_is_due; /* the prefix is complete, the message is not */
};

enum grpc_deframed {
    GRPC_NEED_MORE,  /* all input is consumed */
    GRPC_PAYLOAD,    /* `payload`, `payload_len`: the next bytes of the message */
    GRPC_MESSAGE,    /* the message is complete (also an empty one) */
    GRPC_COMPRESSED, /* refused: the compressed flag is set. The deframer is finished */
    GRPC_BAD_FLAG,   /* refused: a flag byte other than 0 and 1. Finished */
    GRPC_TOO_LARGE,  /* refused: more than max_bytes are announced. Finished */
};

struct grpc_slice {
    const uint8_t *bytes; /* borrowed from the input */
    size_t len;
};

/* Takes what it can from the front of `input` (which shrinks) and says what that was. Call it until
 * GRPC_NEED_MORE or a refusal. `out_payload` is set for GRPC_PAYLOAD only. */
enum grpc_deframed grpc_deframe(struct grpc_deframer *d, struct grpc_slice *input,
                                struct grpc_slice *out_payload);

/* True between two messages: the stream may end here. */
bool grpc_deframer_is_idle(const struct grpc_deframer *d);

/* The prefix of an uncompressed message. */
void grpc_write_prefix(uint32_t message_len, uint8_t out[static GRPC_PREFIX_BYTES]);

/* Encodes everything outside 0x20..0x7e, and '%', as %XX. Cut to fit, neither within an escape nor
 * within a UTF-8 sequence; always terminates. */
void grpc_percent_encode(const char *text, char *out, size_t out_bytes);

/* The inverse; what is no valid escape stays as it is. Cut to fit; always terminates. */
void grpc_percent_decode(const char *text, size_t len, char *out, size_t out_bytes);

#endif
