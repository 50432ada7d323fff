/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control endpoint: plain HTTP and JSON on a port of its own, for tests and the demo.
 *
 *   GET  /state              resourceVersion, openWatches
 *   GET  /faults  POST /faults {rule}  DELETE /faults               see fault.h
 *   POST /watches {"action": ...}                                   see watch.h
 *   POST /watches/new {"mute": true}           watches opened from now on stay silent
 *   POST /connections {"action": "drop"|"freeze"}  those open now: closed / half-open
 *   POST /listener {"open": bool}              false: connections refused, all dropped
 *   POST /compact {"via": "event"|"http"}      history up to now is gone
 *   POST /snapshot   POST /restore             an etcd backup brought back
 *   POST /clock {"offsetSeconds": N}           of the Date header
 *   POST /rules {rules}                        see auth.h; null: everything is allowed
 */
#ifndef STANDIN_CONTROL_H
#define STANDIN_CONTROL_H

#include "standin/server.h"

struct control {
    struct standin *standin;
    struct server *server;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

/* Listens on any free port of 127.0.0.1. Errors: ERR_IO. */
NODISCARD int control_start(struct control *control, struct server *server, struct err *e);
void control_stop(struct control *control);

#endif
