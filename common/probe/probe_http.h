/* SPDX-License-Identifier: Apache-2.0 */
/* GETs http://HOST[:PORT][/PATH] or https://...: well by its status alone, the body is not read.
 * HOST is an address or "localhost": a probe of the local machine must not depend on a resolver
 * that may depend on the very dataplane under test. No proxy, no redirects. */
#ifndef PROBE_PROBE_HTTP_H
#define PROBE_PROBE_HTTP_H

#include "probe/probe_method.h"

enum { PROBE_HTTP_HEADER_MAX_BYTES = 64 << 10 };

/* Static: lives as long as the program. */
const struct probe_method *probe_http_method(void);

#endif
