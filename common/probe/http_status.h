/* SPDX-License-Identifier: Apache-2.0 */
/* The first line of an HTTP/1 answer (RFC 9112, section 4). CORE. */
#ifndef PROBE_HTTP_STATUS_H
#define PROBE_HTTP_STATUS_H

#include <stddef.h>

enum http_status_outcome {
    HTTP_STATUS_INVALID, /* this is no HTTP/1 answer */
    HTTP_STATUS_MORE,    /* the line is not complete */
    HTTP_STATUS_DONE,    /* `out_status` is set, 100 to 599 */
};

enum { HTTP_STATUS_LINE_MAX_BYTES = 512 };

/* `bytes`: what was received so far. */
enum http_status_outcome http_status_parse(const char *bytes, size_t len, int *out_status);

#endif
