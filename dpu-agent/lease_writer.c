/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/lease_writer.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "kube/kube_answer.h"
#include "loop/daemon.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 640 };

#define MOD "lease"

#define LATE_NS (10 * NS_PER_SEC) /* a wake-up this late is a stall */

/* A Date has whole seconds and is as old as the answer's way: less than this is no news. */
#define SKEW_NOTABLE_NS (5 * NS_PER_SEC)

struct lease_writer {
    struct renewer renewer;
    struct boot_timer *timer;
    struct kube_client *client;
    struct kube_call *call;    /* the request that is waited for; or NULL */
    struct kube_call *late;    /* one that goes on; or NULL */
    json_t *tree;              /* of the last answer; NULL: none */
    struct lease_text shown;   /* that answer, or one like it */
    struct lease_text renewal; /* the PUT that was made of it */
    struct lease_writer_handlers handlers;
    char path[PATH_BYTES];
    char sent_stamp[NAMES_STAMP_BYTES]; /* of the write under way; "": it is no renewal */
    bool has_failed;                    /* the last request */
    struct lease_writer_stats stats;
    bool skewed;
    int64_t skew_ns;              /* as last logged */
    struct renewer_update update; /* too large for a stack frame of each callback */
};

static void step_renewer(struct lease_writer *w, const struct renewer_event *event);

/* ---- answers -------------------------------------------------------------------------------- */

/* Judges nothing: renewals count by the host's own clock. But certificates and tokens do not. */
static void note_skew(struct lease_writer *w, const struct kube_response *response)
{
    if (!response->has_server_date) {
        return;
    }
    int64_t skew_ns = wall_since(response->received_wall, response->server_date);
    int64_t size_ns = skew_ns < 0 ? mono_ns_sub(0, skew_ns) : skew_ns;
    int64_t change_ns = mono_ns_sub(skew_ns, w->skew_ns);
    bool skewed = size_ns > SKEW_NOTABLE_NS;
    bool news =
        skewed && (!w->skewed || change_ns > SKEW_NOTABLE_NS || change_ns < -SKEW_NOTABLE_NS);
    if (news) {
        log_warn(MOD,
                 "this machine's clock is %s %s the API server's: heartbeats do not depend on it, "
                 "but certificates and tokens do",
                 text_span(size_ns / NS_PER_SEC * NS_PER_SEC).text,
                 skew_ns > 0 ? "ahead of" : "behind");
        w->skew_ns = skew_ns;
    } else if (w->skewed && !skewed) {
        log_info(MOD, "this machine's clock agrees with the API server's again");
    }
    w->skewed = skewed;
}

static void name_agent(const struct lease_writer *w, json_t *lease)
{
    const struct renewer_config *c = &w->renewer.config;
    const struct lease_agent agent = {
        .boot_id = c->boot_id,
        .version = c->version,
        .has_no_probe = c->has_no_probe,
        .is_companion = c->is_companion,
    };
    lease_set_agent(lease, &agent);
}

/* A renewal is a renewTime that has changed: the host sees nothing of any other success. */
static int check_renewed(const struct lease_writer *w, const struct lease_view *view, struct err *e)
{
    bool is_kept =
        text_is_empty(view->renew_stamp) || text_equal(view->renew_stamp, w->renewer.lease_stamp);
    if (w->sent_stamp[0] == '\0' || !is_kept) {
        return 0;
    }
    return err_set(e, ERR_PARSE,
                   "the agent wrote renewTime '%s', but the API server stored '%s': check "
                   "admission webhooks on leases",
                   w->sent_stamp, view->renew_stamp);
}

/* An answer that differs from the last one in its version, and in the renewTime that was just sent:
 * the usual one. */
static bool knows_answer(const void *user, const char *text, size_t len)
{
    const struct lease_writer *w = user;
    return lease_text_matches(&w->shown, text, len, w->sent_stamp);
}

/* Who manages which field is no part of a PUT: where that says nothing of it, the API server goes
 * on keeping track, which is a part of the renewal's cost there, and a third of its bytes. Whoever
 * renews alone has it cleared once: no write after that is kept track of, and the host knows our
 * renewals by their sign. */
static void take_out_managers(const struct lease_writer *w, json_t *lease)
{
    json_t *meta = json_object_get(lease, "metadata");
    bool is_kept = json_array_size(json_object_get(meta, "managedFields")) > 0;
    (void)json_object_del(meta, "managedFields"); /* if any */
    if (is_kept && !w->renewer.config.is_companion) {
        (void)json_object_set_new(meta, "managedFields", json_pack("[{}]"));
    }
}

/* Keeps the answer's tree, with what is said in each PUT of ours. */
static void keep_tree(struct lease_writer *w, const struct kube_response *response)
{
    lease_text_fini(&w->renewal);
    (void)lease_text_keep(&w->shown, response->raw ? response->raw : "", response->raw_len);
    name_agent(w, response->body);
    json_decref(w->tree);
    w->tree = json_incref(response->body);
    take_out_managers(w, w->tree);
}

static int adopt_answer(struct lease_writer *w, const struct kube_response *response,
                        struct lease_view *view, struct err *e)
{
    bool is_known = !response->body && response->raw;
    if (!response->body && !is_known) {
        return err_set(e, ERR_PARSE, "the answer is not a lease");
    }
    if (is_known) {
        lease_text_show(&w->shown, response->raw, w->tree);
    }
    int rc = lease_read(is_known ? w->tree : response->body, view, e);
    if (rc != 0) {
        return rc;
    }
    if (!is_known) {
        keep_tree(w, response);
    }
    return response->is_late ? 0 : check_renewed(w, view, e);
}

/* Why a request failed. */
static const struct {
    enum kube_transport_error lost;
    int http_status;
    const char *cause;
} failures[LEASE_FAILURES] = {
    {KUBE_TRANSPORT_OTHER, 0, "no_answer"}, /* it broke off, or could not be sent */
    {KUBE_TRANSPORT_TIMEOUT, 0, "timeout"},
    {KUBE_TRANSPORT_RESOLVE, 0, "resolve"},
    {KUBE_TRANSPORT_CONNECT, 0, "connect"},
    {KUBE_TRANSPORT_TLS, 0, "tls"},
    {KUBE_TRANSPORT_OK, 401, "unauthorized"},
    {KUBE_TRANSPORT_OK, 403, "forbidden"},
    {KUBE_TRANSPORT_OK, 404, "not_found"}, /* the host has not made the lease yet */
    {KUBE_TRANSPORT_OK, 409, "conflict"},  /* the next try reads it first */
    {KUBE_TRANSPORT_OK, 429, "throttled"},
    {KUBE_TRANSPORT_OK, 500, "server_error"}, /* and above */
    {KUBE_TRANSPORT_OK, 0, "other"},
};

const char *lease_failure_cause(size_t failure)
{
    return failures[failure].cause;
}

static size_t failure_of(const struct kube_response *response)
{
    int http_status = response->http_status < 500 ? response->http_status : 500;
    enum kube_transport_error lost = response->transport_error;
    if (lost == KUBE_TRANSPORT_OK && http_status == 0) {
        lost = KUBE_TRANSPORT_OTHER;
    }
    size_t i = 0;
    while (i < LEASE_FAILURES - 1 &&
           (failures[i].lost != lost ||
            (lost == KUBE_TRANSPORT_OK && failures[i].http_status != http_status))) {
        i++;
    }
    return i;
}

static void observe_duration(struct lease_writer *w, const struct kube_response *response)
{
    metrics_histogram_observe(&w->stats.durations,
                              mono_since(response->received_at, response->sent_at));
}

/* `code`: 0 if the answer holds a lease. */
static void count_answer(struct lease_writer *w, const struct kube_response *response, int code)
{
    w->has_failed = code != 0;
    if (w->has_failed) {
        w->stats.failures[failure_of(response)]++;
    } else if (w->sent_stamp[0] != '\0') {
        observe_duration(w, response);
    }
}

/* 0: none was sent. */
static struct wall sent_time(const struct lease_writer *w)
{
    struct wall t;
    bool is_sent = rfc3339_parse(w->sent_stamp, strlen(w->sent_stamp), &t, NULL) == 0;
    return is_sent ? t : (struct wall){0};
}

/* A late answer, to a request that was told of as not answered, is of use if it shows the lease, or
 * that it has another version. */
static void on_answer(void *user, const struct kube_response *response)
{
    struct lease_writer *w = user;
    bool is_late = response->is_late;
    uint64_t before = w->stats.renewals;
    struct lease_view view;
    struct err e = ERR_INIT;
    struct renewer_event event = {.kind = is_late ? RENEWER_LATE : RENEWER_ANSWER,
                                  .now = response->received_at,
                                  .code = response->code,
                                  .http_status = response->http_status,
                                  .retry_after_ms = response->retry_after_ns / NS_PER_MS,
                                  .is_unreachable = kube_is_unreachable(response),
                                  .message = response->message,
                                  .sent_time = sent_time(w)};
    w->call = is_late ? w->call : NULL;
    note_skew(w, response);
    if (event.code == 0) {
        event.code = adopt_answer(w, response, &view, &e);
        event.message = e.msg;
        event.lease = event.code == 0 ? &view : NULL;
    }
    if (is_late && event.code != 0 && event.code != ERR_CONFLICT) {
        return;
    }
    if (is_late) {
        w->stats.late += event.code == 0;
    } else {
        count_answer(w, response, event.code);
    }
    step_renewer(w, &event);
    if (is_late && w->stats.renewals != before) {
        observe_duration(w, response);
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

/* A renewal of a lease that names its agent. */
static void edit_lease(struct lease_writer *w, json_t *lease)
{
    lease_set_renewal(lease, clock_wall_now(), w->renewer.config.holder);
    const char *stamp = json_text_get(json_object_get(lease, "spec"), "renewTime");
    text_format(w->sent_stamp, sizeof(w->sent_stamp), "%s", stamp ? stamp : "");
}

/* The body of a PUT, owned (free): our renewal, or `report` where that is not NULL. Made of a copy:
 * what a request that failed would have changed must not ride along with the next one. A report
 * after a lost renewal would renew the lease. */
static char *write_lease(struct lease_writer *w, const struct renewer_update *report)
{
    CLEANUP(json) json_t *lease = json_deep_copy(w->tree);
    if (report) {
        lease_set_health(lease, report->health, report->message, clock_wall_now());
    } else {
        edit_lease(w, lease);
    }
    return json_text_dump(lease);
}

/* The renewal: that of before with another version and time, borrowed from the writer; or, if it
 * cannot be renewed in place, one made of the tree: `*made`, which the caller then owns (free). */
static const char *renew_text(struct lease_writer *w, char **made)
{
    const char *version = json_text_get(json_object_get(w->tree, "metadata"), "resourceVersion");
    const struct rfc3339_text stamp = lease_next_stamp(w->tree, clock_wall_now());
    if (version && lease_text_renew(&w->renewal, version, stamp.text)) {
        text_format(w->sent_stamp, sizeof(w->sent_stamp), "%s", stamp.text);
        return w->renewal.text;
    }
    *made = write_lease(w, NULL);
    if (w->shown.text) {
        (void)lease_text_keep(&w->renewal, *made, strlen(*made)); /* else each is made anew */
    }
    return *made;
}

/* What the read of the Node left of the deadline for making a lease, in ms: both requests together
 * take no longer than any other, so that nothing keeps us from looking for it. */
static uint32_t making_ms(const struct lease_writer *w, struct mono now)
{
    int64_t passed_ns = mono_since(now, w->renewer.sent_at);
    int64_t left_ns = renewer_deadline_ns(&w->renewer) - passed_ns;
    return (uint32_t)mono_ns_max(left_ns / NS_PER_MS, 1);
}

static void make_lease(struct lease_writer *w, const char *node_uid, struct mono now)
{
    const struct renewer_config *c = &w->renewer.config;
    const struct lease_owner owner = {.node_name = c->node_name, .node_uid = node_uid};
    char path[PATH_BYTES];
    CLEANUP(json)
    json_t *lease = lease_new(c->lease_ns, c->lease_name, c->holder,
                              (uint32_t)(c->duration_ns / NS_PER_SEC), owner);
    name_agent(w, lease);
    edit_lease(w, lease);
    text_format(path, sizeof(path), "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
                c->lease_ns);
    const struct kube_request request = {.method = KUBE_POST,
                                         .channel = KUBE_CONTROL,
                                         .path = path,
                                         .body = lease,
                                         .deadline_ms = making_ms(w, now)};
    w->call = kube_client_start(w->client, &request, on_answer, w);
}

static void on_node(void *user, const struct kube_response *response)
{
    struct lease_writer *w = user;
    struct kube_response failed = *response;
    const char *uid = kube_object_uid(response->body);
    if (response->code == 0 && uid) {
        make_lease(w, uid, response->received_at);
        return;
    }
    if (response->code == 0) {
        failed.code = ERR_PARSE;
        text_format(failed.message, sizeof(failed.message), "the answer is not a Node with a UID");
    }
    on_answer(w, &failed);
}

/* Makes the lease as upstream's DPU side does: a GET of the Node for its UID, which the owner
 * reference needs, then a POST with a first renewal. Without the UID none is made: it would outlive
 * its Node. */
static void start_making(struct lease_writer *w, uint32_t deadline_ms)
{
    char path[PATH_BYTES];
    text_format(path, sizeof(path), KUBE_NODES "/%s", w->renewer.config.node_name);
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .path = path,
                                         .deadline_ms = (deadline_ms + 1) / 2};
    w->call = kube_client_start(w->client, &request, on_node, w);
}

/* What a read has to show, unless its server lags: after a conflict another version than the
 * tree's. */
static uint64_t least_version(const struct lease_writer *w)
{
    return kube_object_version(w->tree) + (w->renewer.conflicts > 0);
}

static void send_request(struct lease_writer *w, const struct renewer_update *update)
{
    CLEANUP(free) char *made = NULL;
    struct kube_request request = {
        .method = update->action == RENEWER_GET ? KUBE_GET : KUBE_PUT,
        .channel = update->fresh ? KUBE_FRESH : KUBE_CONTROL,
        .priority = KUBE_URGENT,
        .path = w->path,
        .deadline_ms = update->lasts_ms,
        .awaited_ms = update->deadline_ms,
        .late = &w->late,
        .least_version = update->action == RENEWER_GET ? least_version(w) : 0,
        .knows = knows_answer,
    };
    w->sent_stamp[0] = '\0';
    w->stats.retries += w->has_failed;
    if (update->action == RENEWER_CREATE) {
        start_making(w, update->deadline_ms);
        return;
    }
    if (update->action == RENEWER_PUT_HEALTH) {
        request.text = made = write_lease(w, update);
    } else if (request.method == KUBE_PUT) {
        request.text = renew_text(w, &made);
    }
    w->call = kube_client_start(w->client, &request, on_answer, w);
}

static void step_renewer(struct lease_writer *w, const struct renewer_event *event)
{
    const struct renewer_update *update = &w->update;
    renewer_step(&w->renewer, event, &w->update);
    if (update->cancel) {
        kube_call_cancel(TAKE(w->call));
        kube_call_cancel(w->late);
    }
    for (size_t i = 0; i < update->note_count; i++) {
        log_write(update->notes[i].level, MOD, "%s", update->notes[i].text);
    }
    boot_timer_arm(w->timer, update->wake_at);
    if (update->renewed) {
        w->stats.renewals++;
        w->stats.renewed_at = w->renewer.renewed_at;
        log_debug(MOD, "renewed, resourceVersion '%s'",
                  json_text_get(json_object_get(w->tree, "metadata"), "resourceVersion"));
        w->handlers.renewed(w->handlers.user);
    }
    if (update->action != RENEWER_NONE) {
        send_request(w, update);
    }
    if (update->stopped) {
        w->handlers.stopped(w->handlers.user);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_timer(void *user)
{
    const struct renewer_event event = {.kind = RENEWER_TICK, .now = clock_mono_now()};
    step_renewer(user, &event);
}

struct lease_writer *lease_writer_start(struct ev_loop *loop, struct kube_client *client,
                                        const struct renewer_config *config,
                                        const struct lease_writer_handlers *handlers)
{
    struct lease_writer *w = MEM_NEW(struct lease_writer);
    w->handlers = *handlers;
    w->stats.interval_ns = config->interval_ns;
    renewer_init(&w->renewer, config);
    w->client = client;
    text_format(w->path, sizeof(w->path), "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                config->lease_ns, config->lease_name);
    w->timer = boot_timer_new(loop, on_timer, w);
    on_timer(w);
    return w;
}

void lease_writer_free(struct lease_writer *w)
{
    if (w) {
        kube_call_cancel(w->call);
        kube_call_cancel(w->late);
        boot_timer_free(w->timer);
        json_decref(w->tree);
        lease_text_fini(&w->shown);
        lease_text_fini(&w->renewal);
        free(w);
    }
}

const struct lease_writer_stats *lease_writer_stats(const struct lease_writer *w)
{
    return &w->stats;
}

const char *lease_writer_phase(const struct lease_writer *w)
{
    return renewer_phase_name(&w->renewer);
}

bool lease_writer_makes_progress(const struct lease_writer *w, struct mono now)
{
    return !mono_reached(now, mono_add(w->update.wake_at, LATE_NS));
}

void lease_writer_judge(struct lease_writer *w, enum probe_health health, const char *message)
{
    const struct renewer_event event = {
        .kind = RENEWER_HEALTH, .now = clock_mono_now(), .health = health, .message = message};
    step_renewer(w, &event);
}

void lease_writer_stop(struct lease_writer *w)
{
    const struct renewer_event event = {.kind = RENEWER_STOP, .now = clock_mono_now()};
    step_renewer(w, &event);
}
