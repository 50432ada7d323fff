/* SPDX-License-Identifier: Apache-2.0 */
/* GETs http://HOST[:PORT][/PATH]: well if the status is 2xx. Speaks plain HTTP/1.1 itself and reads
 * no further than the status line. HOST is an address or "localhost": a probe of the local machine
 * must not depend on a resolver that may depend on the very dataplane under test. */
#ifndef PROBE_PROBE_HTTP_H
#define PROBE_PROBE_HTTP_H

#include "probe/probe_method.h"

/* Static: lives as long as the program. */
const struct probe_method *probe_http_method(void);

#endif
