/* SPDX-License-Identifier: Apache-2.0 */
/* One request on the API port, from its first line to its answer: libmicrohttpd's callbacks. */
#ifndef STANDIN_HANDLER_H
#define STANDIN_HANDLER_H

#include <microhttpd.h>
#include <stddef.h>

/* `user` is the struct standin in all of them. */
enum MHD_Result handler_request(void *user, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *http_version, const char *upload,
                                size_t *upload_bytes, void **state);
void handler_completed(void *user, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode why);
void *handler_uri(void *user, const char *uri, struct MHD_Connection *connection);

#endif
