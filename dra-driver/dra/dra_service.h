/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet plugin as one thing: two sockets, three services, one ResourceSlice, all showing the
 * same verdict; and its options. Loop thread only.
 *
 * In a rolling update two instances serve the kubelet, and one leads: the one that holds the
 * driver's lock. Only that keeps slice, claims and Events, and clears up after instances that were
 * killed.
 *
 *     dra_service_start(&config, &service, &e);
 *     dra_service_publish(service, &verdict);      whenever there is a verdict
 *     dra_service_stop(service);                   then on_stopped, then dra_service_free
 *
 * If the kubelet's plugin registry does not exist yet, or somebody removed the sockets, the service
 * creates them within `check_interval_ns`. It never blocks the loop or ends the program.
 */
#ifndef DRA_DRA_SERVICE_H
#define DRA_DRA_SERVICE_H

#include "base/err.h"
#include "base/time.h"
#include "contract/readiness.h"
#include "loop/option.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct events;
struct kube_client;
struct kube_sync_stats;
struct dra_service;

#define DRA_CHECK_NS        (10 * NS_PER_SEC)
#define DRA_STOP_GRACE_NS   NS_PER_SEC        /* for what is under way */
#define DRA_UNREGISTERED_NS (30 * NS_PER_SEC) /* then a warning says so */
/* An instance that waits takes over so soon after the one that leads let go of it, which serves on
 * for longer than that; and it repeats its report quickly for longer than that one's end takes. */
#define DRA_LEAD_POLL_NS (100 * NS_PER_MS)
#define DRA_HANDOVER_NS  (500 * NS_PER_MS)
/* Asked to stop, an instance of a rolling update looks for another one for so long, and serves on
 * until that one is registered, for so long at most. */
#define DRA_LEAVE_MIN_NS (500 * NS_PER_MS)
#define DRA_LEAVE_MAX_NS (20 * NS_PER_SEC)
#define DRA_QUICK_NS     (5 * NS_PER_SEC)

/* ---- options --------------------------------------------------------------------------------- */

enum { SOCKET_PATH_BYTES = 108 /* of sockaddr_un, terminator included */ };

/* Texts are owned by the program's config: free with option_fini. */
struct dra_options {
    char *driver;
    char *device;
    char *pool;                /* NULL or "": the node's name */
    char *kubelet_root;        /* absolute; it holds plugins and plugins_registry */
    char *plugin_dir;          /* in there; NULL or "": plugins/<driver> */
    int64_t health_timeout_ns; /* whole seconds, at least 3 */
    int taint_effect;          /* enum slice_effect */
    bool claim_conditions;
    struct option_list attributes;
    char *rolling_uid; /* NULL or "": no rolling updates */

    /* The result of dra_options_check. In a rolling update two instances share both directories, so
     * each has its Pod's UID in its names, or a hash of it where the UID does not fit
     * (dra/instance.h). */
    struct {
        char registry_dir[SOCKET_PATH_BYTES];
        char plugin_dir[SOCKET_PATH_BYTES];
        char registration[SOCKET_PATH_BYTES];
        char dra[SOCKET_PATH_BYTES];
    } names;
};

/* Checks what a table cannot, and names the sockets. Errors: ERR_PARSE, ERR_LIMIT, naming the
 * option. */
NODISCARD int dra_options_check(struct dra_options *o, struct err *e);

/* The sockets of another instance, whose rolling UID that is. After the check. */
bool dra_options_name_sockets(const struct dra_options *o, const char *uid,
                              char out_registration[static SOCKET_PATH_BYTES],
                              char out_dra[static SOCKET_PATH_BYTES]);

/* ---- the service ----------------------------------------------------------------------------- */

enum slice_effect {
    SLICE_EFFECT_NO_SCHEDULE, /* not given to new claims */
    SLICE_EFFECT_NO_EXECUTE,  /* and pods that use it are evicted */
    SLICE_EFFECT_NONE,        /* information only */
    SLICE_EFFECT_OFF,         /* no taint at all */
};

/* The device that plugin, slice and claims serve. All borrowed. */
struct dra_device {
    const char *driver;
    const char *node_name;
    const char *pool; /* not always the node */
    const char *name;
    json_t *attributes; /* {name: {"string": text}}; NULL: none */
    enum slice_effect effect;
};

/* Borrowed for the service's life. */
struct dra_config {
    struct ev_loop *loop;
    struct kube_client *client;
    struct events *events; /* of pods only; NULL: none */
    const char *node_name;
    const char *record_path; /* of the verdicts: instances of one driver show one record */
    const struct dra_options *options; /* checked */
    const char *host_root;             /* of /sys; "": none */
    int64_t check_interval_ns;         /* of the sockets */

    /* Before a verdict is repeated: publishes another one if its time is over, which a process that
     * slept may not know yet. NULL: it never is. */
    void (*look)(void *user);
    /* The service has stopped: from the loop; may free it. Not NULL. */
    void (*on_stopped)(void *user);
    void *user;
};

/* For metrics and status; all borrowed from the service. */
struct dra_stats {
    const char *driver;
    bool is_registered;
    bool is_refused;         /* it stopped: the driver's name is another program's */
    bool is_leading;         /* it keeps slice, claims and Events, not another instance */
    const char *refusal;     /* why not, in the kubelet's words; "": it said nothing */
    bool is_slice_published; /* the server has what we want */
    uint64_t registrations;
    uint64_t rejections;
    uint64_t health_streams;
    uint64_t health_reports;
    uint64_t claims_prepared;
    uint64_t claim_failures;
    uint64_t claims_unprepared;
    const struct kube_sync_stats *slice;
};

/* Retries sockets that it cannot create now. Fails for a configuration that can never work, or
 * another driver of this name; if such a driver appears later, the service stops. Errors: ERR_LIMIT
 * (attributes), ERR_CONFLICT (the name is taken). */
NODISCARD int dra_service_start(const struct dra_config *config, struct dra_service **out,
                                struct err *e);

/* One verdict to the health streams, at once; and to slice, claims and Events, if this instance
 * leads and the kubelet has registered it: nothing is on offer that no kubelet would prepare. The
 * first 'pci:' or 'netdev:' among the verdict's host probes names the DPU's function, whose
 * standard attributes the device gets. */
void dra_service_publish(struct dra_service *s, const struct readiness *verdict);

/* Sockets away, GOAWAY; what is under way gets DRA_STOP_GRACE_NS. Streams get a last Unknown
 * before, unless another instance is registered, which leads from then on. The slice stays. */
void dra_service_stop(struct dra_service *s);

/* At once. Accepts NULL. */
void dra_service_free(struct dra_service *s);

const struct dra_stats *dra_service_stats(const struct dra_service *s);

#endif
