/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/lease_writer.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "kube/kube_answer.h"
#include "kube/kube_sync.h"
#include "loop/daemon.h"

#include <stdlib.h>

enum { PATH_BYTES = 640 };

#define MOD "lease"

#define LATE_NS (10 * NS_PER_SEC) /* a wake-up this late is a stall */

/* A Date has whole seconds and is as old as the answer's way: less than this is no news. */
#define SKEW_NOTABLE_NS (5 * NS_PER_SEC)

struct lease_writer {
    struct renewer renewer;
    struct boot_timer *timer;
    struct kube_question question; /* the request under way, if none is for a new lease */
    struct kube_client *client;
    struct kube_call *making; /* the request under way for a lease that is gone; or NULL */
    uint32_t making_ms;
    json_t *tree; /* of the last answer; NULL: none */
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
    char span[32];
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
        text_from_duration(size_ns / NS_PER_SEC * NS_PER_SEC, span, sizeof(span));
        log_warn(MOD,
                 "our clock is %s %s that of the API server: the heartbeat does not mind, but "
                 "certificates and tokens may",
                 span, skew_ns > 0 ? "ahead of" : "behind");
        w->skew_ns = skew_ns;
    } else if (w->skewed && !skewed) {
        log_info(MOD, "our clock agrees with that of the API server again");
    }
    w->skewed = skewed;
}

/* Keeps the answer's tree, but for who manages which field. The API server keeps that by itself
 * where a PUT says nothing of it, and it is a third of the PUT. */
static int adopt_answer(struct lease_writer *w, const struct kube_response *response,
                        struct lease_view *view, struct err *e)
{
    if (!response->body) {
        return err_set(e, ERR_PARSE, "the answer holds no lease");
    }
    int rc = lease_read(response->body, view, e);
    if (rc != 0) {
        return rc;
    }
    json_decref(w->tree);
    w->tree = json_incref(response->body);
    (void)json_object_del(json_object_get(w->tree, "metadata"), "managedFields"); /* if any */
    return 0;
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
                   "the API server took '%s' and answers with renewTime '%s' (an admission "
                   "webhook?)",
                   w->sent_stamp, view->renew_stamp);
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

/* `code`: 0 if the answer holds a lease. */
static void count_answer(struct lease_writer *w, const struct kube_response *response, int code)
{
    bool failed = code != 0;
    if (failed) {
        w->stats.failures[failure_of(response)]++;
    } else if (w->sent_stamp[0] != '\0') {
        metrics_histogram_observe(&w->stats.durations,
                                  mono_since(response->received_at, response->sent_at));
    }
    w->has_failed = failed;
}

static void on_answer(void *user, const struct kube_response *response)
{
    struct lease_writer *w = user;
    struct lease_view view;
    struct err e = ERR_INIT;
    char stamp[NAMES_STAMP_BYTES];
    text_format(stamp, sizeof(stamp), "%s", w->sent_stamp);
    note_skew(w, response);
    struct renewer_event event = {.kind = RENEWER_ANSWER,
                                  .now = response->received_at,
                                  .code = response->code,
                                  .http_status = response->http_status,
                                  .retry_after_ms = response->retry_after_ms,
                                  .message = response->message,
                                  .sent_stamp = stamp};
    if (event.code == 0) {
        event.code = adopt_answer(w, response, &view, &e);
        if (event.code == 0) {
            event.code = check_renewed(w, &view, &e);
        }
        event.message = e.msg;
        event.lease = event.code == 0 ? &view : NULL;
    }
    count_answer(w, response, event.code);
    step_renewer(w, &event);
}

/* The answer to a request that was told of as not answered: of use if it shows the lease,
 * or that it has another version. */
static void on_late(void *user, const struct kube_response *response)
{
    struct lease_writer *w = user;
    struct lease_view view;
    note_skew(w, response);
    bool is_conflict = response->code == ERR_CONFLICT;
    if (!is_conflict && (response->code != 0 || adopt_answer(w, response, &view, NULL) != 0)) {
        return;
    }
    const struct renewer_event event = {.kind = RENEWER_LATE,
                                        .now = response->received_at,
                                        .code = response->code,
                                        .http_status = response->http_status,
                                        .lease = is_conflict ? NULL : &view};
    uint64_t before = w->stats.renewals;
    step_renewer(w, &event);
    if (w->stats.renewals != before) {
        metrics_histogram_observe(&w->stats.durations,
                                  mono_since(response->received_at, response->sent_at));
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Our renewal, or `report` where that is not NULL. */
static int edit_lease(struct lease_writer *w, json_t *lease, const struct renewer_update *report,
                      struct err *e)
{
    const struct renewer_config *c = &w->renewer.config;
    const struct lease_agent agent = {
        .boot_id = c->boot_id, .version = c->version, .has_no_probe = c->has_no_probe};
    struct wall now = clock_wall_now();
    int rc = report ? lease_set_health(lease, report->health, report->message, now, e)
                    : lease_set_renewal(lease, now, c->holder, e);
    if (rc != 0 || (rc = lease_set_agent(lease, &agent, e)) != 0) {
        return rc;
    }
    const char *stamp = json_text_get(json_object_get(lease, "spec"), "renewTime");
    text_format(w->sent_stamp, sizeof(w->sent_stamp), "%s", stamp && !report ? stamp : "");
    return 0;
}

static void on_made(void *user, const struct kube_response *response)
{
    struct lease_writer *w = user;
    w->making = NULL;
    on_answer(w, response);
}

static int make_lease(struct lease_writer *w, const char *node_uid, struct err *e)
{
    const struct renewer_config *c = &w->renewer.config;
    const struct lease_owner owner = {.node_name = c->node_name, .node_uid = node_uid};
    char path[PATH_BYTES];
    CLEANUP(json)
    json_t *lease = lease_new(c->lease_ns, c->lease_name, c->holder,
                              (uint32_t)(c->duration_ns / NS_PER_SEC), owner);
    int rc = edit_lease(w, lease, NULL, e);
    if (rc != 0) {
        return rc;
    }
    text_format(path, sizeof(path), "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
                c->lease_ns);
    const struct kube_request request = {.method = KUBE_POST,
                                         .channel = KUBE_CONTROL,
                                         .path = path,
                                         .body = lease,
                                         .deadline_ms = w->making_ms};
    return kube_client_start(w->client, &request, on_made, w, &w->making, e);
}

static void on_node(void *user, const struct kube_response *response)
{
    struct lease_writer *w = user;
    struct kube_response failed = *response;
    struct err e = ERR_INIT;
    const char *uid = kube_object_uid(response->body);
    w->making = NULL;
    if (response->code == 0) {
        failed.code = uid ? make_lease(w, uid, &e)
                          : err_set(&e, ERR_PARSE, "the answer shows no Node with a UID");
        text_format(failed.message, sizeof(failed.message), "%s", e.msg); /* may be cut */
    }
    if (failed.code != 0) {
        on_answer(w, &failed);
    }
}

/* Makes the lease as upstream's DPU side does: a GET of the Node for its UID, which the owner
 * reference needs, then a POST with a first renewal. Without the UID none is made: it would outlive
 * its Node. */
static int start_making(struct lease_writer *w, uint32_t deadline_ms, struct err *e)
{
    char path[PATH_BYTES];
    w->making_ms = deadline_ms / 2 > 0 ? deadline_ms / 2 : 1; /* each of both */
    text_format(path, sizeof(path), KUBE_NODES "/%s", w->renewer.config.node_name);
    const struct kube_request request = {
        .method = KUBE_GET, .channel = KUBE_CONTROL, .path = path, .deadline_ms = w->making_ms};
    return kube_client_start(w->client, &request, on_node, w, &w->making, e);
}

static int send_request(struct lease_writer *w, const struct renewer_update *update, struct err *e)
{
    CLEANUP(json) json_t *lease = NULL;
    struct kube_request request = {
        .method = update->action == RENEWER_GET ? KUBE_GET : KUBE_PUT,
        .channel = update->fresh ? KUBE_FRESH : KUBE_CONTROL,
        .priority = KUBE_URGENT,
        .path = w->path,
        .deadline_ms = update->lasts_ms,
    };
    w->sent_stamp[0] = '\0';
    w->stats.retries += w->has_failed;
    if (update->action == RENEWER_CREATE) {
        return start_making(w, update->deadline_ms, e);
    }
    if (request.method == KUBE_PUT) {
        /* A copy: what a request that failed would have changed must not ride along with the next
         * one. A report after a lost renewal would renew the lease. */
        lease = json_deep_copy(w->tree);
        int rc = edit_lease(w, lease, update->action == RENEWER_PUT_HEALTH ? update : NULL, e);
        if (rc != 0) {
            return rc;
        }
        request.body = lease;
    }
    return kube_question_ask(&w->question, &request, update->deadline_ms, e);
}

static void log_notes(const struct renewer_update *update)
{
    static const enum log_level levels[] = {
        [RENEWER_INFO] = LOG_INFO, [RENEWER_WARN] = LOG_WARN, [RENEWER_ERROR] = LOG_ERROR};
    for (size_t i = 0; i < update->note_count; i++) {
        log_write(levels[update->notes[i].severity], MOD, "%s", update->notes[i].text);
    }
}

/* Performs one update. Returns the request's error if it could not even be started. */
static int perform_update(struct lease_writer *w, struct err *e)
{
    const struct renewer_update *update = &w->update;
    if (update->cancel) {
        kube_question_drop(&w->question);
        kube_call_cancel(TAKE(w->making));
    }
    log_notes(update);
    boot_timer_arm(w->timer, update->wake_at);
    if (update->renewed) {
        w->stats.renewals++;
        w->stats.renewed_at = w->renewer.renewed_at;
        log_debug(MOD, "renewed, resourceVersion '%s'",
                  json_text_get(json_object_get(w->tree, "metadata"), "resourceVersion"));
        w->handlers.renewed(w->handlers.user);
    }
    return update->action == RENEWER_NONE ? 0 : send_request(w, update, e);
}

static void step_renewer(struct lease_writer *w, const struct renewer_event *event)
{
    struct err e = ERR_INIT;
    renewer_step(&w->renewer, event, &w->update);
    int rc = perform_update(w, &e);
    while (rc != 0) {
        /* The renewer backs off after this, so the loop ends. */
        struct err failed = e;
        struct renewer_event unsent = {.kind = RENEWER_ANSWER,
                                       .now = event->now,
                                       .code = rc,
                                       .retry_after_ms = -1,
                                       .message = failed.msg};
        renewer_step(&w->renewer, &unsent, &w->update);
        rc = perform_update(w, &e);
    }
    if (w->update.stopped) {
        w->handlers.stopped(w->handlers.user);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_timer(void *user)
{
    const struct renewer_event event = {.kind = RENEWER_TICK, .now = clock_mono_now()};
    step_renewer(user, &event);
}

struct lease_writer *lease_writer_new(struct ev_loop *loop, struct kube_client *client,
                                      const struct renewer_config *config,
                                      const struct lease_writer_handlers *handlers)
{
    struct lease_writer *w = MEM_NEW(struct lease_writer);
    w->handlers = *handlers;
    w->stats.interval_ns = config->interval_ns;
    renewer_init(&w->renewer, config);
    kube_question_init(&w->question, loop, client, on_answer, on_late, w);
    w->client = client;
    text_format(w->path, sizeof(w->path), "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                config->lease_ns, config->lease_name);
    w->timer = boot_timer_new(loop, on_timer, w);
    return w;
}

void lease_writer_free(struct lease_writer *w)
{
    if (w) {
        kube_question_drop(&w->question);
        kube_call_cancel(TAKE(w->making));
        boot_timer_free(w->timer);
        json_decref(w->tree);
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

void lease_writer_start(struct lease_writer *w)
{
    on_timer(w);
}

void lease_writer_judge(struct lease_writer *w, enum probe_health verdict, const char *message)
{
    const struct renewer_event event = {
        .kind = RENEWER_VERDICT, .now = clock_mono_now(), .verdict = verdict, .message = message};
    step_renewer(w, &event);
}

void lease_writer_stop(struct lease_writer *w)
{
    const struct renewer_event event = {.kind = RENEWER_STOP, .now = clock_mono_now()};
    step_renewer(w, &event);
}
