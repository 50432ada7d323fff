/* SPDX-License-Identifier: Apache-2.0 */
/* Sending an answer: whole, cut short, byte by byte, or as a watch. */
#ifndef STANDIN_REPLY_H
#define STANDIN_REPLY_H

#include "standin/api_result.h"
#include "standin/standin.h"
#include "standin/watch.h"

#include <microhttpd.h>

struct reply {
    int code;
    const char *content_type;
    int retry_after_s; /* negative: none */
    int64_t cut_bytes; /* close after so many; negative: send all */
    int64_t byte_ms;   /* pause after each byte; 0: none */
};

/* Takes `text` (malloc'ed). */
enum MHD_Result reply_text(struct standin *s, struct MHD_Connection *connection,
                           const struct standin_conn *conn, const struct reply *reply, char *text);

enum MHD_Result reply_watch(struct standin *s, struct MHD_Connection *connection,
                            struct watch *watch);

/* CN of the client's certificate if one was presented and verified: true. */
bool reply_client_name(struct MHD_Connection *connection, char *out, size_t out_bytes);

#endif
