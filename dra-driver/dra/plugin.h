/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services that a kubelet calls: pluginregistration.Registration, DRAPlugin v1, and
 * DRAResourceHealth v1 and v1alpha1. Knows no clock and no socket.
 *
 * Registration: the kubelet dials the registration socket whenever it sees it (also after each of
 * its own restarts), asks GetInfo with a deadline of one second, and tells the outcome with
 * NotifyRegistrationStatus. After a rejection, which is logged in the kubelet's own words, it tries
 * again by itself.
 *
 * There is nothing to set up for a DPU that already carries the node's traffic, so Prepare and
 * Unprepare are idempotent. Prepare looks each claim up at the API server, in parallel and without
 * blocking, stores it and answers, with exactly one entry per claim: a kubelet treats a missing
 * one as failure, as it does one too many, and asks again for one with an error. If the device is
 * not shared, Prepare rejects a second claim while the first is prepared. Unprepare never asks
 * anybody, because the claim may be gone, and always succeeds.
 *
 * In a rolling update two of us answer one after the other, by a lock on the same file that
 * Kubernetes' own plugin helper takes; the lookups come before. It never blocks: without the lock
 * the answer is "try again".
 *
 * Health: one stream per kubelet, all fed from the latest verdict. A new stream gets a report at
 * once, every change goes out at once, and in between the report is repeated three times per
 * timeout, because the kubelet reads an older one as Unknown, but only when it happens to look
 * (KEP-4680). A kubelet keeps what all instances of a driver say in one place, and empties it when
 * the stream of any of them ends: so the instance that goes on repeats its report at a quick pace
 * around that moment, and the one that goes says no last Unknown over it.
 */
#ifndef DRA_PLUGIN_H
#define DRA_PLUGIN_H

#include "base/file.h"
#include "base/log.h"
#include "dra-driver/dra/claim.h"
#include "dra-driver/dra/dra_service.h"
#include "dra-driver/grpc/grpc_server.h"

#include <stdbool.h>

enum {
    PLUGIN_CLAIMS_MAX = 256, /* in one request */
    PLUGIN_REFUSAL_BYTES = 512,
    HEALTH_STREAMS_MAX = 32,
    HEALTH_MESSAGE_BYTES = 1025, /* a kubelet cuts longer ones, in the middle of a character */
    PLUGIN_METHODS = 6,
};

/* The numbers of the wire. */
enum health_status { HEALTH_UNKNOWN = 0, HEALTH_HEALTHY = 1, HEALTH_UNHEALTHY = 2 };

struct health_report {
    enum health_status status;
    char message[HEALTH_MESSAGE_BYTES];
};

/* A verdict as health for the kubelet: Ready is Healthy, NotReady is Unhealthy; Unknown, and Ready
 * without a health check, is Unknown. The message is the reason and the verdict's sentence. */
struct health_report health_report_of(const struct readiness *verdict);

#define PLUGIN_QUICK_NS (50 * NS_PER_MS)

/* Caller-owned. Zero-initialise, fill the first part, and plugin_init. All borrowed. It ends with
 * its servers: what is under way is given up with their connections. */
struct plugin {
    const struct dra_config *config;
    const struct dra_device *device;
    struct claim_events *claims; /* looks whether what is in another's way is still there */
    struct file_lock lock;       /* in rolling updates it is held while an answer is made */

    void (*on_registered)(struct plugin *p); /* by the kubelet; NULL: nobody is told */
    struct dra_stats stats;
    char refusal[PLUGIN_REFUSAL_BYTES]; /* of the kubelet, made printable; "": it did not */
    struct log_repeat rejections;       /* a kubelet tries again for ever */
    struct log_repeat failures;
    struct log_repeat crowded; /* the store */

    struct health_report report;
    struct mono quick_until; /* reports are repeated at PLUGIN_QUICK_NS */
    bool is_stopped;
    struct wall wall; /* of the last call from the owner */
    struct mono next_beat;
    struct grpc_call *streams[HEALTH_STREAMS_MAX]; /* NULL: free */
};

/* Of either socket; the user is the plugin. */
extern const struct grpc_method plugin_methods[PLUGIN_METHODS];

/* Until the first verdict the device is Unknown. */
void plugin_init(struct plugin *p);

/* The verdict has changed (or is confirmed): out to every stream. */
void plugin_publish(struct plugin *p, const struct readiness *verdict, struct mono now,
                    struct wall wall);

/* At next_beat, or any time. */
void plugin_tick(struct plugin *p, struct mono now, struct wall wall);

/* Another instance has gone, or is going: reports are repeated quickly until then. */
void plugin_hurry(struct plugin *p, struct mono now, struct mono until);

/* No more reports, and no new streams: another instance makes them. */
void plugin_hush(struct plugin *p);

/* The end of every stream; later ones are refused. Unless plugin_hush() was called, a last Unknown
 * goes before: a kubelet tells pods of a report, not of a stream's end. */
void plugin_stop(struct plugin *p, struct wall wall);

#endif
