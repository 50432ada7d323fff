/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet plugin as one thing: two sockets, three services, one ResourceSlice, all showing the
 * same verdict; and its options. Loop thread only.
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

#define DRA_CHECK_NS      (10 * NS_PER_SEC)
#define DRA_STOP_GRACE_NS NS_PER_SEC /* for what is under way */

/* ---- options --------------------------------------------------------------------------------- */

enum { SOCKET_PATH_BYTES = 108 /* of sockaddr_un, terminator included */ };

enum dra_mode { DRA_AUTO, DRA_ON, DRA_OFF };

/* Texts are owned by the program's config: free with option_fini. */
struct dra_options {
    int mode; /* enum dra_mode */
    char *driver;
    char *device;
    char *pool; /* NULL or "": the node's name */
    struct {
        char *kubelet_root;
        char *registry;        /* NULL or "": plugins_registry in there */
        char *plugin;          /* NULL or "": plugins/<driver> in there */
    } dirs;                    /* all absolute */
    char *lock_dir;            /* NULL or "": that of the plugin */
    int64_t health_timeout_ns; /* whole seconds, at least 3 */
    int taint_effect;          /* enum slice_effect */
    bool claim_conditions;
    struct option_list attributes;
    char *rolling_uid; /* NULL or "": no rolling updates */

    /* The result of dra_options_check. In a rolling update two instances share both directories, so
     * each has its Pod's UID in its names, or a hash of it where the UID does not fit. */
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

/* False for off, and for auto where there is no plugin registry. After the check. */
bool dra_options_enabled(const struct dra_options *o);

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
    struct events *events; /* also tell the pods of claims what they tell of the Node; or NULL */
    const char *node_name;
    const struct dra_options *options; /* checked */
    /* The host's own probes: the first 'pci:' or 'netdev:' among them names the DPU's function,
     * whose standard attributes the device gets. NULL: none. */
    const struct option_list *probes;
    const char *host_root; /* of /sys; "": none */
    bool is_second;        /* another agent leads, until dra_service_lead; needs a rolling UID */
    int64_t renew_interval_ns; /* verdicts go to the slice no faster */
    int64_t check_interval_ns; /* of the sockets */

    /* Does whatever makes the verdicts still work? Asked at each heartbeat. NULL: always. */
    bool (*is_monitor_alive)(void *user, struct mono now);
    /* The service has stopped: from the loop; may free it. Not NULL. */
    void (*on_stopped)(void *user);
    void *user;
};

/* For metrics and status; all borrowed from the service. */
struct dra_stats {
    const char *driver;
    bool is_registered;
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
 * another agent with this driver's name; if such an agent appears later, the service stops. Errors:
 * ERR_LIMIT (attributes), ERR_CONFLICT (the name is taken). */
NODISCARD int dra_service_start(const struct dra_config *config, struct dra_service **out,
                                struct err *e);

/* The agent that was the second one is now the only one. Errors: ERR_CONFLICT as above, ERR_IO. */
NODISCARD int dra_service_lead(struct dra_service *s, struct err *e);

/* One verdict to the health streams (at once) and to the slice, unless another agent leads. */
void dra_service_publish(struct dra_service *s, const struct readiness *verdict);

/* A last Unknown to every stream, sockets away, GOAWAY; what is under way gets DRA_STOP_GRACE_NS.
 * The slice stays. */
void dra_service_stop(struct dra_service *s);

/* At once. Accepts NULL. */
void dra_service_free(struct dra_service *s);

const struct dra_stats *dra_service_stats(const struct dra_service *s);

#endif
