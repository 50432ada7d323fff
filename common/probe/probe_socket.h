/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to a unix stream socket: well if somebody accepts connections there. A full backlog is a
 * failure: whoever does not accept does not serve. */
#ifndef PROBE_PROBE_SOCKET_H
#define PROBE_PROBE_SOCKET_H

#include "probe/probe_method.h"

/* Static: lives as long as the program. */
const struct probe_method *probe_socket_method(void);

#endif
