/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One open watch: a chunked stream of events from a resourceVersion on, with bookmarks, a time
 * limit, and injected disturbances. Runs in the thread of its connection.
 *
 * Injections, through the control endpoint, reach all watches open at that time (or those of that
 * user): "end", an orderly one; "cut", closes without the last chunk; "expire", an ERROR event 410,
 * then an end.
 */
#ifndef STANDIN_WATCH_H
#define STANDIN_WATCH_H

#include "standin/standin.h"

struct watch;

struct watch_request {
    struct api_target target;
    const char *fields; /* borrowed for the call */
    const char *labels;
    const char *version; /* resourceVersion or NULL */
    bool bookmarks;
    int64_t timeout_s; /* <= 0: the server's default */
    const char *user;
};

/* NULL with the refusal in `r`. Locked. */
struct watch *watch_open(struct standin *s, const struct standin_conn *conn,
                         const struct watch_request *request, struct api_result *r);

/* libmicrohttpd's content reader and its end. Take the lock themselves. */
ssize_t watch_read(void *watch, uint64_t pos, char *out, size_t max);
void watch_close(void *watch);

#endif
