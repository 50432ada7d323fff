/* SPDX-License-Identifier: Apache-2.0 */
/* An answer's header fields by name, from the lines that CURLOPT_HEADERFUNCTION is given: libcurl's
 * own way, curl_easy_header(), is not in all versions that we run with. */
#ifndef LOOP_CURL_HEAD_H
#define LOOP_CURL_HEAD_H

#include "base/mem.h"

#include <stdbool.h>

enum { CURL_HEAD_MAX_BYTES = 64 << 10 }; /* of all lines */

/* Keeps one line, with its end. A status line begins anew: what came before was an interim answer,
 * or one on a connection that died. Trailers of the body follow the head. `head` begins zeroed.
 * False: there are too many; none is lost so far. */
NODISCARD bool curl_head_add(struct buf *head, const char *line, size_t len);

/* The first field of that name (RFC 9110, section 5.1: in upper or lower case), without the blanks
 * around its value, cut to fit. False, and "", if there is none. */
bool curl_head_find(const struct buf *head, const char *name, char *out, size_t out_bytes);

#endif
