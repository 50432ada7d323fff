/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet plugin as one thing: two sockets, three services, one ResourceSlice, all showing the
 * same verdict. Loop thread only.
 *
 *     dra_service_start(&config, &service, &e);
 *     dra_service_publish(service, &verdict);      whenever there is a verdict
 *     dra_service_stop(service);                   then on_stopped, then dra_service_free
 *
 * Where the kubelet's plugin registry does not exist yet, or somebody removed our sockets, they
 * come (back) within DRA_CHECK_NS. Nothing here ever blocks the loop or ends the program.
 */
#ifndef DRA_DRA_SERVICE_H
#define DRA_DRA_SERVICE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"
#include "contract/readiness.h"
#include "host-agent/dra/attribute.h"
#include "host-agent/dra/slice_plan.h"
#include "host-agent/dra/socket_names.h"

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct events;
struct kube_client;
struct dra_service;

#define DRA_CHECK_NS      (10 * NS_PER_SEC)
#define DRA_STOP_GRACE_NS NS_PER_SEC /* for what is under way */

/* Texts are borrowed for the service's life; the attributes are copied. */
struct dra_config {
    struct ev_loop *loop;
    struct kube_client *client;
    struct events *events; /* NULL: no pod is told */
    const char *node_name;
    const char *driver;
    const char *device;
    const char *pool; /* NULL or "": the node's name */
    struct socket_dirs dirs;
    const char *lock_dir;      /* NULL or "": that of the plugin */
    const char *rolling_uid;   /* NULL or "": no rolling updates */
    bool is_second;            /* another agent leads, until dra_service_lead; needs rolling_uid */
    int64_t health_timeout_ns; /* whole seconds, at least 3 */
    int64_t renew_interval_ns; /* verdicts go to the slice no faster */
    enum slice_effect taint_effect;
    int64_t check_interval_ns; /* 0: DRA_CHECK_NS */
    struct attribute_list attributes;

    /* Does whatever makes the verdicts still work? Asked at each heartbeat. NULL: always. */
    bool (*is_monitor_alive)(void *user, struct mono now);
    /* The service has stopped: from the loop; may free it. */
    void (*on_stopped)(void *user);
    void *user;
};

/* For metrics and status; texts borrowed from the service. */
struct dra_stats {
    const char *driver;
    bool is_registered;
    const char *refusal; /* why not, in the kubelet's words; "": it said nothing */
    bool is_slice_published;
    uint64_t registrations;
    uint64_t rejections;
    uint64_t health_streams;
    uint64_t health_reports;
    uint64_t claims_prepared;
    uint64_t claim_failures;
    uint64_t claims_unprepared;
    uint64_t slice_writes;
    uint64_t slice_failures;
};

/* Sockets that cannot be made now are tried again later; what is an error is a configuration that
 * can never work, or another agent with our driver's name: found later, it stops the service.
 * Errors: ERR_PARSE, ERR_LIMIT, ERR_NOMEM, ERR_IO, ERR_CONFLICT (the name is taken). */
NODISCARD int dra_service_start(const struct dra_config *config, struct dra_service **out,
                                struct err *e);

/* What was the second one is the only one now. Errors: ERR_CONFLICT as above, ERR_IO. */
NODISCARD int dra_service_lead(struct dra_service *s, struct err *e);

/* One verdict to the health streams (at once) and to the slice. */
void dra_service_publish(struct dra_service *s, const struct readiness *verdict);

/* The same for the streams only: the slice is another agent's to write. */
void dra_service_show(struct dra_service *s, const struct readiness *verdict);

/* This verdict, since its transition, to the pods that claim the device, by Events on them. */
void dra_service_tell(struct dra_service *s, const struct readiness *verdict);

/* A last Unknown to every stream, sockets away, GOAWAY; what is under way gets DRA_STOP_GRACE_NS.
 * The slice stays. */
void dra_service_stop(struct dra_service *s);

/* At once. Accepts NULL. */
void dra_service_free(struct dra_service *s);

struct dra_stats dra_service_stats(const struct dra_service *s);

#endif
