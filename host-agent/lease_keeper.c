/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/lease_keeper.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"

#include <ev.h>
#include <string.h>

#define RETRY_BASE_NS (500 * NS_PER_MS)
#define RETRY_MAX_NS  (15 * NS_PER_SEC)
#define LOG_UNDONE_NS (3600 * NS_PER_SEC)

enum {
    PATH_BYTES = 640,
    /* How rarely it repairs what is undone each time: rare enough to harm nobody, and soon enough
     * after the other one has gone (the old pod of an update). */
    PAUSE_MAX_DURATIONS = 5,
    FREE_REPAIRS = 2, /* in a row, without a pause: people edit a few things at a time */
    UNDONE_MOST = 32, /* doubled so often, any pause is at its most */
};

struct lease_keeper {
    struct kube_client *client;
    struct ev_loop *loop;
    char ns[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    char node[NAMES_K8S_NAME_BYTES];
    char holder[NAMES_HOLDER_BYTES];
    uint32_t duration_s;
    void (*on_written)(void *user, const json_t *lease, struct mono sent_at);
    void *user;

    char node_uid[NAMES_UID_BYTES]; /* as last read; "" before */
    struct kube_call *call;         /* the one request under way */
    ev_timer retry;
    bool is_gone;                    /* the lease, as we were told last */
    bool look_again;                 /* something changed while we were at work */
    bool is_pausing;                 /* `retry` waits for `repair_at`, nothing has failed */
    bool is_creating;                /* by the write under way */
    bool is_denied;                  /* the last try to create it was forbidden */
    bool has_node;                   /* the next try may do without reading the Node */
    struct mono wrote_at;            /* our last write; 0: none */
    char wrote_uid[NAMES_UID_BYTES]; /* and of which lease; "" */
    struct mono created_at;          /* the same of a new lease */
    struct mono repair_at;           /* no repair before */
    uint32_t undone;                 /* repairs in a row that somebody took back */
    struct backoff backoff;
    struct backoff recreate; /* of leases that do not last */
    struct log_repeat trouble;
    bool has_complained; /* of trouble that lasts */
    struct log_repeat foreign;
    struct log_repeat other_duration;
    uint32_t told_duration_s; /* the last of the lease's that was told of */
    struct log_repeat drift;
    struct log_repeat written;
    struct log_repeat undone_words;
    uint64_t writes; /* that succeeded */
};

static void read_node(struct lease_keeper *k);

static struct lease_owner owner(const struct lease_keeper *k)
{
    return (struct lease_owner){.node_name = k->node, .node_uid = k->node_uid};
}

static bool is_busy(const struct lease_keeper *k)
{
    return k->call || ev_is_active(&k->retry);
}

static int64_t duration_ns(const struct lease_keeper *k)
{
    return mono_ns_mul(NS_PER_SEC, k->duration_s);
}

/* A quarter of the duration, 1 to 5 s. */
static uint32_t deadline_ms(const struct lease_keeper *k)
{
    uint32_t quarter_ms = k->duration_s < 20 ? k->duration_s * 250 : 5000;
    return quarter_ms < 1000 ? 1000 : quarter_ms;
}

static void try_in(struct lease_keeper *k, int64_t wait_ns)
{
    ev_timer_stop(k->loop, &k->retry);
    ev_now_update(k->loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&k->retry, (double)wait_ns / 1e9, 0.);
    ev_timer_start(k->loop, &k->retry);
}

static void retry_later(struct lease_keeper *k, const char *doing, const char *why)
{
    if (log_repeat_due(&k->trouble, clock_mono_now(), LOG_AGAIN_NS)) {
        log_warn("keeper", "%s: %s, will retry%s", doing, why, k->trouble.more);
        k->has_complained = true;
    }
    try_in(k, backoff_next_ns(&k->backoff, 0));
}

static void done(struct lease_keeper *k)
{
    if (k->has_complained) {
        log_info("keeper", "lease %s/%s is in shape again", k->ns, k->name);
        k->has_complained = false;
    }
    backoff_reset(&k->backoff);
    if (k->look_again) {
        k->look_again = false;
        read_node(k);
    }
}

/* One request. A write does not wait for its turn: the reads before it did, and what they showed
 * would be old. Nor does a read while the lease is gone, for a living DPU may be refused, unless
 * something has failed. A lease that is short has no time for a request that hangs. */
static void send(struct lease_keeper *k, enum kube_method method, const char *path,
                 const json_t *body, kube_done_fn *then)
{
    struct err e = ERR_INIT;
    ev_timer_stop(k->loop, &k->retry);
    k->is_pausing = false;
    bool waits = method == KUBE_GET && (!k->is_gone || k->backoff.failures > 0);
    const struct kube_request request = {.method = method,
                                         .channel = KUBE_CONTROL,
                                         .priority = waits ? KUBE_ORDINARY : KUBE_URGENT,
                                         .deadline_ms = deadline_ms(k),
                                         .path = path,
                                         .body = body};
    if (kube_client_start(k->client, &request, then, k, &k->call, &e) != 0) {
        retry_later(k, "keeping the lease", e.msg);
    }
}

static void lease_path(const struct lease_keeper *k, bool with_name, char out[static PATH_BYTES])
{
    text_format(out, PATH_BYTES, "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", k->ns,
                with_name ? "/" : "", with_name ? k->name : ""); /* sized for both names */
}

/* ---- who undoes what we write ---------------------------------------------------------------- */

static bool has_drifted(struct lease_keeper *k, const json_t *lease);

/* Waits until it may repair again. */
static void wait_to_repair(struct lease_keeper *k, struct mono now)
{
    k->is_pausing = true;
    try_in(k, mono_since(k->repair_at, now));
}

static int64_t pause_ns(const struct lease_keeper *k)
{
    int64_t most_ns = mono_ns_mul(duration_ns(k), PAUSE_MAX_DURATIONS);
    int64_t wait_ns = k->undone < FREE_REPAIRS ? 0 : duration_ns(k);
    for (uint32_t i = FREE_REPAIRS; i < k->undone && wait_ns < most_ns; i++) {
        wait_ns = mono_ns_mul(wait_ns, 2);
    }
    return wait_ns < most_ns ? wait_ns : most_ns;
}

static const char *uid_of(const json_t *object)
{
    return json_text_get(json_object_get(object, "metadata"), "uid");
}

/* A lease that somebody made anew is none that he took our repair back from. */
static bool may_repair(const struct lease_keeper *k, const json_t *lease, struct mono now)
{
    return !text_equal(uid_of(lease), k->wrote_uid) || !mono_before(now, k->repair_at);
}

/* Two keepers that disagree, or a webhook that changes what we write, would go on for ever: what
 * does not last is repaired ever more rarely. */
static void note_write(struct lease_keeper *k, const json_t *answer, struct mono now)
{
    const char *uid = uid_of(answer);
    int64_t recent_ns = pause_ns(k) > duration_ns(k) ? pause_ns(k) : duration_ns(k);
    bool is_changed = has_drifted(k, answer);
    bool is_undone =
        text_equal(uid, k->wrote_uid) && mono_since(now, k->wrote_at) < mono_ns_mul(recent_ns, 2);
    if (is_changed) {
        k->undone = UNDONE_MOST;
    } else if (!is_undone) {
        k->undone = 0;
    } else if (k->undone < UNDONE_MOST) {
        k->undone++;
    }
    text_format(k->wrote_uid, sizeof(k->wrote_uid), "%s", uid ? uid : ""); /* cut: never equal */
    k->wrote_at = now;
    k->repair_at = mono_add(now, pause_ns(k));
    if (k->undone > 1 && log_repeat_due(&k->undone_words, now, LOG_UNDONE_NS)) {
        log_warn("keeper", "lease %s/%s: %s; it is repaired at most every %d s while that lasts%s",
                 k->ns, k->name,
                 is_changed ? "the API server stores something else than we write (an admission "
                              "webhook?)"
                            : "somebody takes our repairs back (an agent with other options?)",
                 (int)k->duration_s * PAUSE_MAX_DURATIONS, k->undone_words.more);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* For good, as far as one can tell: not a conflict, not a server that is busy or gone. */
static bool is_forbidden(const struct kube_response *r)
{
    return r->http_status >= 400 && r->http_status < 500 && r->http_status != 401 &&
           r->http_status != 409 && r->http_status != 429;
}

static void on_write_done(void *user, const struct kube_response *r)
{
    struct lease_keeper *k = user;
    k->call = NULL;
    if (k->is_creating && r->http_status != 0) {
        k->is_denied = is_forbidden(r);
    }
    if (r->code != 0) {
        /* On a conflict or "not found" somebody else wrote, created or deleted it: look again. A
         * namespace that does not exist comes here too, and says so. */
        k->has_node = r->code == ERR_CONFLICT;
        retry_later(k, "writing the lease", r->message);
        return;
    }
    k->writes++;
    k->is_gone = false;
    note_write(k, r->body, r->received_at);
    if (r->http_status == 201) {
        k->created_at = r->received_at;
        k->look_again = false; /* it was gone; now it is there */
    }
    if (log_repeat_due(&k->written, r->received_at, LOG_AGAIN_NS)) {
        log_info("keeper", "lease %s/%s was %s%s", k->ns, k->name,
                 r->http_status == 201 ? "created" : "repaired", k->written.more);
    }
    k->on_written(k->user, r->body, r->sent_at);
    done(k);
}

static void create_lease(struct lease_keeper *k)
{
    char path[PATH_BYTES];
    CLEANUP(json) json_t *lease = lease_new(k->ns, k->name, k->holder, k->duration_s, owner(k));
    lease_path(k, false, path);
    k->is_creating = true;
    send(k, KUBE_POST, path, lease, on_write_done);
}

static void report_foreign_holder(struct lease_keeper *k, const json_t *lease)
{
    struct lease_view view;
    if (lease_read(lease, &view, NULL) == 0 &&
        log_repeat_due(&k->foreign, clock_mono_now(), LOG_AGAIN_NS)) {
        log_error("keeper",
                  "lease %s/%s is held by '%s', not by '%s': its renewals do not count. Two "
                  "clusters or DPUs with one lease name? Delete the lease if it is a leftover%s",
                  k->ns, k->name, view.holder, k->holder, k->foreign.more);
    }
}

/* Once for each: whoever sets it otherwise goes on. */
static void report_duration(struct lease_keeper *k, const json_t *lease)
{
    struct lease_view view;
    if (lease_read(lease, &view, NULL) != 0 || view.duration_s == k->told_duration_s ||
        view.duration_s == 0 ||
        !log_repeat_due(&k->other_duration, clock_mono_now(), LOG_AGAIN_NS)) {
        return;
    }
    k->told_duration_s = view.duration_s;
    log_warn("keeper",
             "lease %s/%s says that it lasts %u s, but here it is %u s: set "
             "dpu-node-lease-duration alike on both sides",
             k->ns, k->name, (unsigned)view.duration_s, (unsigned)k->duration_s);
}

static bool has_drifted(struct lease_keeper *k, const json_t *lease)
{
    struct lease_drift drift = lease_check(lease, k->holder, k->duration_s, owner(k));
    if (drift.holder_foreign) {
        report_foreign_holder(k, lease);
        return false; /* left alone as a whole */
    }
    if (drift.duration) {
        report_duration(k, lease);
    }
    return drift.duration || drift.owner || drift.holder_empty;
}

static void repair_lease(struct lease_keeper *k, json_t *lease)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    if (lease_repair(lease, k->holder, k->duration_s, owner(k), &e) != 0) {
        retry_later(k, "repairing the lease", e.msg);
        return;
    }
    lease_path(k, true, path);
    k->is_creating = false;
    send(k, KUBE_PUT, path, lease, on_write_done);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void on_lease_read(void *user, const struct kube_response *r)
{
    struct lease_keeper *k = user;
    k->call = NULL;
    k->is_gone = k->is_gone && r->code != 0;
    if (r->code == ERR_NOTFOUND) {
        create_lease(k);
    } else if (r->code != 0) {
        retry_later(k, "reading the lease", r->message);
    } else if (!has_drifted(k, r->body)) {
        done(k);
    } else if (!may_repair(k, r->body, r->received_at)) {
        wait_to_repair(k, r->received_at);
    } else {
        repair_lease(k, r->body);
    }
}

static void read_lease(struct lease_keeper *k)
{
    char path[PATH_BYTES];
    lease_path(k, true, path);
    send(k, KUBE_GET, path, NULL, on_lease_read);
}

static void on_node_read(void *user, const struct kube_response *r)
{
    struct lease_keeper *k = user;
    k->call = NULL;
    const char *uid = json_text_get(json_object_get(r->body, "metadata"), "uid");
    if (r->code == ERR_NOTFOUND) {
        retry_later(k, "looking for the Node that owns the lease",
                    "it does not exist yet (is --node-name right?)");
        return;
    }
    if (r->code != 0 || text_is_empty(uid) || strlen(uid) >= sizeof(k->node_uid)) {
        retry_later(k, "reading the Node that owns the lease",
                    r->code != 0 ? r->message : "it has no usable uid");
        return;
    }
    text_format(k->node_uid, sizeof(k->node_uid), "%s", uid);
    read_lease(k);
}

static void read_node(struct lease_keeper *k)
{
    char path[PATH_BYTES];
    text_format(path, sizeof(path), "/api/v1/nodes/%s", k->node);
    send(k, KUBE_GET, path, NULL, on_node_read);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct lease_keeper *k = timer->data;
    (void)loop;
    (void)events;
    if (k->has_node) {
        k->has_node = false;
        read_lease(k);
    } else {
        read_node(k);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int lease_keeper_start(struct ev_loop *loop, struct kube_client *client,
                       const struct lease_keeper_config *config, struct lease_keeper **out,
                       struct err *e)
{
    struct lease_keeper *k = calloc(1, sizeof(*k));
    if (!k) {
        return err_no_memory(e);
    }
    k->client = client;
    k->loop = loop;
    k->duration_s = config->duration_s;
    k->on_written = config->on_written;
    k->user = config->user;
    if (!text_copy(k->ns, sizeof(k->ns), config->ns) ||
        !text_copy(k->name, sizeof(k->name), config->name) ||
        !text_copy(k->node, sizeof(k->node), config->node) ||
        !text_copy(k->holder, sizeof(k->holder), config->holder)) {
        free(k);
        return err_set(e, ERR_LIMIT, "a name of the lease is too long");
    }
    /* A lease that is gone is missed by a DPU that lives, and hides one that is dead. */
    int64_t half_ns = duration_ns(k) / 2;
    backoff_init(&k->backoff, RETRY_BASE_NS, half_ns < RETRY_MAX_NS ? half_ns : RETRY_MAX_NS,
                 (uint64_t)clock_wall_now().ns);
    backoff_init(&k->recreate, RETRY_BASE_NS, RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    ev_timer_init(&k->retry, on_retry, 0., 0.);
    k->retry.data = k;
    read_node(k);
    *out = k;
    return 0;
}

void lease_keeper_stop(struct lease_keeper *k)
{
    if (k) {
        ev_timer_stop(k->loop, &k->retry);
        kube_call_cancel(k->call);
        free(k);
    }
}

bool lease_keeper_is_denied(const struct lease_keeper *k)
{
    return k->is_denied;
}

uint64_t lease_keeper_writes(const struct lease_keeper *k)
{
    return k->writes;
}

void lease_keeper_repair(struct lease_keeper *k)
{
    struct mono now = clock_mono_now();
    k->is_gone = true;
    if (is_busy(k) && !k->is_pausing) {
        k->look_again = true;
        return;
    }
    if (k->created_at.ns == 0 || mono_since(now, k->created_at) > duration_ns(k)) {
        backoff_reset(&k->recreate);
        read_node(k);
        return;
    }
    k->is_pausing = false;
    try_in(k, backoff_next_ns(&k->recreate, 0)); /* what we created does not last */
}

void lease_keeper_look(struct lease_keeper *k, const json_t *lease)
{
    struct mono now = clock_mono_now();
    if ((is_busy(k) && !k->is_pausing) || !has_drifted(k, lease)) {
        return;
    }
    if (!may_repair(k, lease, now)) {
        wait_to_repair(k, now);
        return;
    }
    if (log_repeat_due(&k->drift, now, LOG_AGAIN_NS)) {
        log_warn("keeper", "lease %s/%s was changed by somebody, repairing it%s", k->ns, k->name,
                 k->drift.more);
    }
    read_node(k);
}
