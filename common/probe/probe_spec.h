/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe as an administrator writes it: what to try, how often, and when it counts. CORE.
 *
 *     ovsdb | vswitchd[:BRIDGE] | ovn-nb | ovn-sb | ovn-northd | ovn-controller[:CHASSIS] | ovnkube
 *     exec:COMMAND | unix:/PATH | http://HOST[:PORT][/PATH] | https://...
 *     netdev:NAME[,NAME...] | pci:ADDRESS | bgp:/PATH
 *     interval=2s,timeout=1s,failures=2,successes=1;exec:COMMAND
 *     refused=5s,silent=30s,missing=15s,wrong=15s;vswitchd:br-ex
 *     status=204,ca=/etc/ssl/ours.pem;https://localhost:9410/
 *     least=1,carrier=up;netdev:NAME,NAME
 *
 * "ovn-kubernetes" stands for all services. A service has defaults of its own, and so have netdev
 * and pci: what is missing shows at once and counts after three seconds, or at once. A
 * command may hold any character: settings are looked for only where the text does not begin with a
 * kind.
 */
#ifndef PROBE_PROBE_SPEC_H
#define PROBE_PROBE_SPEC_H

#include "base/err.h"
#include "probe/probe_state.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- services -------------------------------------------------------------------------------- */

/*
 * The services of a DPU that runs ovn-kubernetes: where each listens, what it is asked and how much
 * patience it deserves. A connect proves nothing (the kernel accepts for a stopped daemon), the
 * database outlives its daemon, and who is connected to a frozen database still says so: hence one
 * question to each.
 */
enum { SERVICE_COUNT = 7, SERVICE_QUESTIONS_MAX = 8 };

enum service_answer {
    ANSWER_LINE,    /* a text with `wanted` on a line of its own; NULL: with the bridge */
    ANSWER_NO_LINE, /* a text without */
    ANSWER_SERVES,  /* rows of _Server's Database: `wanted` is served, and has its schema */
    ANSWER_VALUE,   /* a row whose map `wanted` has a short text for `key`, or none */
    ANSWER_BEAT,    /* the same; the text changes */
    ANSWER_IDS,     /* OVS's external_ids, for the questions that follow */
    ANSWER_BRIDGES, /* a text with a line for each bridge that they map a network to */
    ANSWER_CHASSIS, /* the rows of the chassis that they name: it follows. Its params are made */
};

/* Where questions are taken. */
struct service_place {
    bool is_of_ovs;     /* in the directory of OVS, else in that of OVN */
    const char *socket; /* NULL: NAME.PID.ctl by the pid file of `daemon` */
    const char *daemon; /* NULL: its socket is gone when it has ended */
};

struct service_question {
    const char *method; /* NULL: no question */
    const char *params_json;
    enum service_answer expected;
    const char *wanted;
    const char *key;
    /* NULL: the service itself. Another's failure is not the service's: the run passes. */
    const struct service_place *at;
    const char *if_unknown; /* what it means that a daemon does not know the command; or NULL */
};

struct service {
    const char *name;
    const struct service_place *place;
    const char *target_what; /* what may be named behind a colon; NULL: nothing */
    const char *target;      /* if it is not; NULL: "" */
    struct service_question questions[SERVICE_QUESTIONS_MAX]; /* the last one is none */
    int64_t interval_ns;
    int64_t timeout_ns; /* of one run */
    int64_t patience_ns[PROBE_OUTCOME_COUNT];
};

extern const struct service services[SERVICE_COUNT]; /* in the order in which one needs the other */

/* ---- a probe --------------------------------------------------------------------------------- */

enum { SERVICE_TARGET_BYTES = 64, PROBE_TARGET_BYTES = 1024, PROBE_FILE_BYTES = 256 };

enum probe_kind {
    PROBE_EXEC,
    PROBE_UNIX,
    PROBE_HTTP,
    PROBE_SERVICE,
    PROBE_NETDEV,
    PROBE_PCI,
    PROBE_BGP
};

struct probe_spec {
    enum probe_kind kind;
    char name[PROBE_TARGET_BYTES + 8]; /* as written, without the settings */
    char target[PROBE_TARGET_BYTES];   /* the command, the path, a bridge, a chassis */
    int64_t interval_ns;               /* pause between two runs */
    int64_t retry_ns;                  /* the same after one that did not pass */
    int64_t timeout_ns;
    struct probe_thresholds thresholds;
    const struct service *service;  /* of PROBE_SERVICE */
    int64_t beat_limit_ns;          /* of a service with a beat */
    int64_t http_status;            /* that is well; 0: any 2xx */
    char ca_file[PROBE_FILE_BYTES]; /* "": the system's authorities */
    bool wants_carrier;             /* of PROBE_NETDEV */
    int64_t at_least;               /* of PROBE_NETDEV and PROBE_BGP: so many of them; 0: all */
    const char *root;               /* of /sys; "": none; borrowed from the defaults */
    const char *ovs_run_dir;        /* borrowed from the defaults */
    const char *ovn_run_dir;
};

/* Says of which probe the message is, without a password that its text may hold; returns `rc`. */
int probe_spec_refuse(const char *text, int rc, struct err *e);

/* Asks the database of OVS for the name of the node that this DPU serves: external_ids, key
 * host-k8s-nodename. The result that passed has it for its reason, "" if there is none. */
struct probe_spec probe_spec_of_node_name(const char *ovs_run_dir);

/* How many probes `text` stands for. */
size_t probe_spec_count(const char *text);

/* Reads the probe `index` of those that `text` stands for; what it does not say comes from the
 * service or from `defaults` (which may be `out`). Errors: ERR_PARSE, ERR_LIMIT, naming the probe.
 */
NODISCARD int probe_spec_parse(const char *text, size_t index, const struct probe_spec *defaults,
                               struct probe_spec *out, struct err *e);

#endif
