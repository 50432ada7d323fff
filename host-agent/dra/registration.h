/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pluginregistration.Registration: how the kubelet's plugin watcher learns who we are.
 *
 * It dials the registration socket whenever it sees it (also after each of its own restarts), asks
 * GetInfo with a deadline of one second, and tells the outcome with NotifyRegistrationStatus. Both
 * are answered at once, whatever else we are busy with. A rejection is logged in the kubelet's own
 * words; it will try again by itself.
 */
#ifndef DRA_REGISTRATION_H
#define DRA_REGISTRATION_H

#include "base/attr.h"
#include "base/err.h"
#include "base/log.h"
#include "host-agent/grpc/conn.h"

#include <stdbool.h>
#include <stdint.h>

enum { REGISTRATION_REFUSAL_BYTES = 512 };

/* Caller-owned; counters are for metrics. Zero-initialise and fill the first two. */
struct registration {
    const char *driver;                       /* borrowed */
    const char *endpoint;                     /* path of the DRA socket; borrowed */
    bool is_registered;                       /* as the kubelet last said */
    char refusal[REGISTRATION_REFUSAL_BYTES]; /* its words, made printable; "": it did not */
    uint64_t asked;                           /* GetInfo */
    uint64_t accepted;                        /* NotifyRegistrationStatus(true) */
    uint64_t rejected;                        /* NotifyRegistrationStatus(false) */
    struct log_repeat rejections;             /* a kubelet tries again for ever */
};

/* Adds the two methods; `r` is borrowed for the router's life. */
void registration_serve(struct registration *r, struct grpc_router *router);

#endif
