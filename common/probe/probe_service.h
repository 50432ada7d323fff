/* SPDX-License-Identifier: Apache-2.0 */
/* Asks one service of OVS or OVN in its own language: service.h says which, and what is well. */
#ifndef PROBE_PROBE_SERVICE_H
#define PROBE_PROBE_SERVICE_H

#include "probe/probe_method.h"

/* Static: lives as long as the program. */
const struct probe_method *probe_service_method(void);

#endif
