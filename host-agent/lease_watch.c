/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/lease_watch.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "kube/kube_answer.h"
#include "kube/kube_core.h"
#include "kube/kube_watch.h"

#include <unistd.h>

#define LOG_DENIED_AGAIN_NS (600 * NS_PER_SEC)
#define DENIED_LASTS_NS     (5 * NS_PER_SEC) /* shorter, it may be a server that has just started */

enum {
    PATH_BYTES = 640,
    MARK_TEXT_BYTES = RFC3339_BYTES + 24,
    READ_LASTS_MS = 30000, /* the answer to a read is welcome so long */
    MARK_LASTS_MS = 12000, /* a request of a mark on a slow server, at most */
};

struct lease_watch {
    struct kube_client *client;
    struct lease_watch_config config;
    char path[PATH_BYTES];
    struct kube_watch *watch;
    struct kube_call *confirm;      /* the read that is waited for; or NULL */
    struct kube_call *late_confirm; /* one that goes on; or NULL */
    uint32_t read_due_ms;           /* how long a read is waited for */
    struct kube_call *mark_call;    /* the request of the mark under way */
    uint32_t mark_due_ms;           /* how long it is waited for */
    bool is_trial;                  /* that mark */
    bool is_dry;                    /* its PATCH writes nothing */
    struct mark mark;
    char mark_text[MARK_TEXT_BYTES];       /* of that mark: never used before */
    char mark_failure[KUBE_MESSAGE_BYTES]; /* of its PATCH */
    uint64_t newest;                       /* version of the lease as it was last shown */
    struct renewal_origin origin;
    struct mono denied_since; /* the watch, each time since; 0: it is not */
    bool failing;             /* the last we heard of the watch was a failure */
    bool is_lost;             /* the last read got no answer about the lease, a denial included */
    struct log_repeat complaint;
    struct log_repeat watch_complaint;
    struct log_repeat mistrust;
    struct log_repeat unreadable;
    struct log_repeat no_mark;
    struct log_repeat bumped;
    struct log_repeat same_name;
    bool has_complained; /* of the watch, since it last worked */
    struct lease_watch_stats stats;
};

static void tell(struct lease_watch *w, struct verdict_event event)
{
    w->config.on_event(w->config.user, event, NULL);
}

/* ---- who renewed it -------------------------------------------------------------------------- */

static void tell_renewer(struct lease_watch *w, const json_t *object, struct lease_view *view)
{
    const char *writer = lease_renewed_by(object);
    if (origin_leave_out_host(&w->origin, view, writer)) {
        log_limited(&w->bumped, LOG_AGAIN_NS, LOG_WARN, "lease",
                    "%s wrote the renewTime of lease %s/%s, as ovn-kubernetes' own health check on "
                    "the host does at each start. It is no renewal by the DPU and does not count. "
                    "docs/upstream.md says with which versions of ovn-kubernetes that check can be "
                    "turned off on the host: with 1.3.0 that would stop all Pods",
                    writer ? "this host" : "another program than dpu-agent", w->config.ns,
                    w->config.name);
    }
    if (w->origin.is_regular && writer) {
        log_limited(
            &w->same_name, LOG_SELDOM_NS, LOG_WARN, "lease",
            "the DPU renews lease %s/%s under the name of this host, '%s', as ovn-kubernetes' own "
            "health check on the host would at its start: give the DPU its own host name",
            w->config.ns, w->config.name, w->origin.host);
    }
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void tell_unreadable(struct lease_watch *w, struct verdict_event how, const char *why)
{
    log_limited(&w->unreadable, LOG_AGAIN_NS, LOG_WARN, "lease", "lease %s/%s cannot be read: %s",
                w->config.ns, w->config.name, why);
    how.kind = VERDICT_LEASE_UNREADABLE;
    how.failure = why;
    tell(w, how);
}

/* Returns false where the API server shows something else than a lease; the verdict is told. */
static bool read_lease(struct lease_watch *w, const json_t *object, struct verdict_event how,
                       struct lease_view *out)
{
    struct err e = ERR_INIT;
    int rc = lease_read(object, out, &e);
    if (rc == 0 && (!text_equal(out->name, w->config.name) || !text_equal(out->ns, w->config.ns))) {
        rc = err_set(&e, ERR_PARSE, "the API server answered with another lease");
    }
    if (rc != 0) {
        tell_unreadable(w, how, e.msg);
        return false;
    }
    w->newest = kube_object_version(object);
    tell_renewer(w, object, out);
    return true;
}

/* Tells of a lease, or that there is none (NULL). `how`: the source, and when its request was sent.
 * False: it is something else. */
static bool tell_state(struct lease_watch *w, const json_t *object, struct verdict_event how,
                       struct lease_view *out)
{
    how.kind = VERDICT_LEASE_ABSENT;
    if (object && !read_lease(w, object, how, out)) {
        return false;
    }
    if (object) {
        how.kind = VERDICT_LEASE_OBSERVED;
        how.lease = out;
    }
    w->config.on_event(w->config.user, how, object);
    return true;
}

static bool is_absent(const struct kube_response *r)
{
    return r->outcome == KUBE_ANSWERED && kube_is_not_found(r);
}

/* The answer to a GET of the lease: an answer is an answer, whatever it is worth. */
static void tell_read(struct lease_watch *w, const struct kube_response *r,
                      enum verdict_source source)
{
    struct verdict_event how = {.source = source, .started_at = r->sent_at};
    struct lease_view lease;
    bool was_lost = w->is_lost;
    w->is_lost = r->outcome == KUBE_NO_CONTACT;
    if (w->is_lost) {
        log_limited(&w->complaint, LOG_AGAIN_NS, LOG_WARN, "lease",
                    "reading lease %s/%s: %s, will retry", w->config.ns, w->config.name,
                    r->message);
        how.kind = VERDICT_READ_FAILED;
        how.failure = r->message;
        tell(w, how);
        return;
    }
    if (was_lost) {
        kube_watch_hope(w->watch);
    }
    if (is_absent(r) || (r->code == 0 && r->body)) {
        (void)tell_state(w, r->code == 0 ? r->body : NULL, how, &lease);
    } else {
        tell_unreadable(w, how, r->message);
    }
}

/* ---- list and watch -------------------------------------------------------------------------- */

/* The watch brings something: it is no longer denied or failing. True if it was. */
static bool watch_works(struct lease_watch *w)
{
    bool was_broken = w->failing;
    if (was_broken && w->has_complained) {
        log_info("lease", "watching lease %s/%s again", w->config.ns, w->config.name);
    }
    w->has_complained = false;
    w->failing = false;
    w->stats.is_polling = false;
    w->denied_since = (struct mono){0};
    return was_broken;
}

static void on_object(void *user, const json_t *object, struct mono sent_at)
{
    struct lease_watch *w = user;
    bool is_listed = sent_at.ns != 0;
    struct verdict_event how = {.source = is_listed ? VERDICT_BY_READ : VERDICT_BY_WATCH,
                                .started_at = sent_at};
    struct lease_view lease;
    if (!is_listed) { /* a list alone does not mean that we may watch */
        (void)watch_works(w);
    }
    (void)tell_state(w, object, how, &lease);
}

static void on_contact(void *user)
{
    struct lease_watch *w = user;
    if (watch_works(w)) {
        tell(w, (struct verdict_event){.kind = VERDICT_WATCH_WORKS});
    }
}

/* A denial is believed when it lasts. */
static void note_denial(struct lease_watch *w, const struct kube_response *r)
{
    struct mono now = clock_mono_now();
    bool lasts = w->denied_since.ns != 0 && mono_since(now, w->denied_since) >= DENIED_LASTS_NS;
    w->denied_since = w->denied_since.ns != 0 ? w->denied_since : now;
    if (lasts && !w->stats.is_polling) {
        log_warn("lease",
                 "%s: polling every %s instead of watching; to detect changes without delay, grant "
                 "list and watch on leases.coordination.k8s.io",
                 r->message, text_span(w->config.renew_interval_ns).text);
        w->stats.is_polling = true;
        w->has_complained = true;
    }
}

/* Says nothing of reads: the verdict asks for one, whose outcome tells of contact, and then for one
 * in each interval. */
static void on_failure(void *user, const struct kube_response *r)
{
    struct lease_watch *w = user;
    if (r->http_status == 403) {
        note_denial(w, r);
    } else {
        w->denied_since = (struct mono){0};
    }
    w->failing = true;
    if (!w->stats.is_polling &&
        log_limited(&w->watch_complaint, LOG_AGAIN_NS, LOG_WARN, "lease",
                    "watching lease %s/%s: %s, reading it instead, will retry", w->config.ns,
                    w->config.name, r->message)) {
        w->has_complained = true;
    }
    tell(w, (struct verdict_event){.kind = VERDICT_WATCH_BROKEN});
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* A name server or an API server that is slow: what came too late for the verdict is told as any
 * other read, and the next ones are waited for. */
static void on_confirmed(void *user, const struct kube_response *r)
{
    struct lease_watch *w = user;
    bool is_answer = r->outcome != KUBE_NO_CONTACT;
    int64_t took_ms = mono_since(r->received_at, r->sent_at) / NS_PER_MS;
    if (is_answer) {
        w->read_due_ms = kube_patience_learn(w->read_due_ms, !r->is_late, took_ms,
                                             w->config.deadline_ms, READ_LASTS_MS);
    }
    if (r->is_late) {
        tell_read(w, r, VERDICT_BY_READ);
        return;
    }
    w->confirm = NULL;
    w->stats.confirmed += is_answer;
    w->stats.confirm_failed += !is_answer;
    tell_read(w, r, VERDICT_BY_CONFIRM);
}

void lease_watch_confirm(struct lease_watch *w)
{
    if (w->confirm) {
        return;
    }
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_FRESH, /* evidence */
                                         .priority = KUBE_URGENT,
                                         .path = w->path,
                                         .deadline_ms = READ_LASTS_MS,
                                         .awaited_ms = w->read_due_ms,
                                         .late = &w->late_confirm,
                                         .least_version = w->newest};
    w->confirm = kube_client_start(w->client, &request, on_confirmed, w);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void send_mark(struct lease_watch *w);

static enum mark_answer answer_to_read(const struct kube_response *r)
{
    if (is_absent(r)) {
        return MARK_NOT_FOUND;
    }
    if (r->outcome == KUBE_NO_CONTACT) {
        return MARK_NO_ANSWER;
    }
    return r->code == 0 ? MARK_LEASE : MARK_GARBLED;
}

static enum mark_answer answer_to_patch(const struct kube_response *r)
{
    int status = r->http_status;
    if (kube_is_unreachable(r)) {
        return MARK_UNSENT;
    }
    if (status < 400 && status != 0) {
        return r->code == 0 ? MARK_LEASE : MARK_GARBLED;
    }
    switch (status) {
    case 0:
    case 504: /* whoever waited for the answer had none either */
        return MARK_NO_ANSWER;
    case 404:
        return MARK_NOT_FOUND;
    case 409:
        return MARK_CONFLICTS;
    case 401:
    case 429:
        return MARK_FAILS;
    default:
        return status >= 500 ? MARK_FAILS : MARK_FORBIDS;
    }
}

static bool has_mark(const struct lease_watch *w, const json_t *lease)
{
    const json_t *annotations = json_object_get(json_object_get(lease, "metadata"), "annotations");
    return text_equal(json_text_get(annotations, NAMES_ANNOTATION_HOST_CHECKED), w->mark_text);
}

/* Whether the host may write its lease is known before a DPU dies, and is told once; a DPU that
 * renews meanwhile does not hide it. */
static void log_mark(struct lease_watch *w)
{
    bool is_denied = w->mark.patched == MARK_FORBIDS && w->mark.outcome != MARK_TAKEN;
    bool has_written = w->stats.marks[MARK_TAKEN] > 0 && !w->stats.may_not_write;
    w->stats.marks[w->mark.outcome]++;
    if (is_denied && !has_written) { /* else it may be a server that has just started */
        log_limited(&w->no_mark, LOG_DENIED_AGAIN_NS, LOG_WARN, "lease",
                    "marking lease %s/%s: %s: grant patch on leases.coordination.k8s.io; until "
                    "then the host decides by reads alone",
                    w->config.ns, w->config.name, w->mark_failure);
    } else if (w->mark.outcome == MARK_TAKEN && w->stats.may_not_write) {
        log_info("lease", "the API server takes marks on lease %s/%s again", w->config.ns,
                 w->config.name);
        log_repeat_reset(&w->no_mark);
    }
    w->stats.may_not_write = is_denied || (w->stats.may_not_write && w->mark.outcome != MARK_TAKEN);
}

/* Tells what a GET of the mark shows as it comes, and of a PATCH only what cannot be read: the rest
 * goes with the mark's end. Returns what the answer is worth. */
static enum mark_answer tell_answer(struct lease_watch *w, enum mark_answer answer,
                                    const struct kube_response *r, struct lease_view *lease)
{
    const struct verdict_event how = {.source = VERDICT_BY_MARK, .started_at = r->sent_at};
    bool is_patch = w->mark.action == MARK_PATCH;
    if (answer == MARK_LEASE) {
        bool is_lease =
            is_patch ? read_lease(w, r->body, how, lease) : tell_state(w, r->body, how, lease);
        return is_lease ? MARK_LEASE : MARK_GARBLED;
    }
    if (answer == MARK_NOT_FOUND && !is_patch) {
        (void)tell_state(w, NULL, how, lease);
    }
    return answer;
}

static void on_mark_answered(void *user, const struct kube_response *r)
{
    struct lease_watch *w = user;
    struct lease_view lease = {.duration_s = 0};
    bool is_patch = w->mark.action == MARK_PATCH;
    bool is_slow = r->transport_error == KUBE_TRANSPORT_TIMEOUT ||
                   r->transport_error == KUBE_TRANSPORT_RESOLVE;
    enum mark_answer answer = is_patch ? answer_to_patch(r) : answer_to_read(r);
    w->mark_call = NULL;
    if (w->is_dry && r->http_status == 400) { /* of a webhook that supports no dryRun: write */
        w->is_dry = false;
        answer = MARK_CONFLICTS;
    }
    w->mark_due_ms = kube_patience_learn(
        w->mark_due_ms, !is_slow,
        is_slow ? w->mark_due_ms : mono_since(r->received_at, r->sent_at) / NS_PER_MS,
        w->config.deadline_ms, MARK_LASTS_MS);
    if (is_patch) {
        text_format(w->mark_failure, sizeof(w->mark_failure), "%s", r->message);
    }
    answer = tell_answer(w, answer, r, &lease);
    if (w->mark_call) { /* what was told has asked for a mark, which ends this trial */
        return;
    }
    bool has_text = answer == MARK_LEASE && has_mark(w, r->body);
    if (mark_step(&w->mark, answer, &lease, has_text, r->sent_at) != MARK_END) {
        send_mark(w);
        return;
    }
    const struct verdict_event end = {
        .kind = VERDICT_MARK,
        .source = VERDICT_BY_MARK,
        .outcome = w->mark.outcome,
        .is_trial = w->is_trial,
        .started_at = w->mark.proof_at,
        .failure = r->message[0] != '\0' ? r->message : w->mark_failure,
        .lease = is_patch && answer == MARK_LEASE && !w->is_trial ? &lease : NULL,
    };
    log_mark(w);
    w->config.on_event(w->config.user, end, end.lease ? r->body : NULL);
}

/* What the read after a PATCH has to show, unless its server lags: a conflict says that the lease
 * has another version than the PATCH was for. */
static uint64_t version_after(const struct lease_watch *w)
{
    uint64_t passed = w->mark.patched == MARK_CONFLICTS ? mark_version(w->mark.version) + 1 : 0;
    return passed > w->newest ? passed : w->newest;
}

/* The next request of the mark. */
static void send_mark(struct lease_watch *w)
{
    bool is_patch = w->mark.action == MARK_PATCH;
    bool is_slow = w->mark_due_ms > w->config.deadline_ms; /* more writes would not help it */
    char path[PATH_BYTES];
    text_format(path, sizeof(path), "%s%s", w->path, is_patch && w->is_dry ? "?dryRun=All" : "");
    CLEANUP(json)
    json_t *body =
        is_patch ? json_pack("{s:{s:s,s:{s:s}}}", "metadata", "resourceVersion", w->mark.version,
                             "annotations", NAMES_ANNOTATION_HOST_CHECKED, w->mark_text)
                 : NULL;
    const struct kube_request request = {.method = is_patch ? KUBE_MERGE_PATCH : KUBE_GET,
                                         .channel = KUBE_FRESH,
                                         .priority = w->is_trial ? KUBE_ORDINARY : KUBE_URGENT,
                                         .path = path,
                                         .body = body,
                                         .is_repeatable = is_patch && !is_slow,
                                         .least_version = is_patch ? 0 : version_after(w),
                                         .deadline_ms = w->mark_due_ms};
    w->mark_call = kube_client_start(w->client, &request, on_mark_answered, w);
}

void lease_watch_mark(struct lease_watch *w, const struct lease_view *lease, bool is_trial)
{
    if (w->mark_call && !w->is_trial) {
        return;
    }
    kube_call_cancel(TAKE(w->mark_call));
    struct mono started = clock_mono_now();
    text_format(w->mark_text, sizeof(w->mark_text), "%s/%lld",
                rfc3339_text(clock_wall_now(), true).text, (long long)started.ns);
    w->is_trial = is_trial;
    w->is_dry = is_trial;
    mark_start(&w->mark, lease, started);
    send_mark(w);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct lease_watch *lease_watch_start(struct kube_client *client,
                                      const struct lease_watch_config *config)
{
    struct lease_watch *w = MEM_NEW(struct lease_watch);
    char collection[PATH_BYTES];
    w->client = client;
    w->config = *config;
    w->read_due_ms = config->deadline_ms;
    w->mark_due_ms = config->deadline_ms;
    text_format(collection, sizeof(collection), "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
                config->ns);
    text_format(w->path, sizeof(w->path), "%s/%s", collection, config->name);
    if (gethostname(w->origin.host, sizeof(w->origin.host) - 1) != 0) {
        w->origin.host[0] = '\0';
    }
    const struct kube_watch_config watch = {
        .collection_path = collection,
        .name = config->name,
        .newest = &w->newest,
        .opened = &w->stats.watches,
        .on_object = on_object,
        .on_contact = on_contact,
        .on_failure = on_failure,
        .user = w,
    };
    w->watch = kube_watch_start(client, &watch);
    return w;
}

void lease_watch_stop(struct lease_watch *w)
{
    if (w) {
        kube_call_cancel(w->confirm);
        kube_call_cancel(w->late_confirm);
        kube_call_cancel(w->mark_call);
        kube_watch_stop(w->watch);
        free(w);
    }
}

void lease_watch_restart(struct lease_watch *w)
{
    if (!w->failing) {
        log_limited(&w->mistrust, LOG_AGAIN_NS, LOG_INFO, "lease",
                    "a read showed a change that the watch had missed: opening a new watch");
        kube_watch_restart(w->watch);
    }
}

const struct lease_watch_stats *lease_watch_stats(const struct lease_watch *w)
{
    return &w->stats;
}

void lease_watch_saw(struct lease_watch *w, const json_t *lease, struct mono sent_at, bool is_patch)
{
    struct lease_view view;
    bool is_trial_over = is_patch && (!w->mark_call || w->is_trial);
    struct verdict_event how = {.source = is_trial_over ? VERDICT_BY_MARK : VERDICT_BY_KEEPER,
                                .started_at = sent_at};
    if (read_lease(w, lease, how, &view)) {
        kube_call_cancel(is_trial_over ? TAKE(w->mark_call) : NULL);
        how.kind = VERDICT_MARK;
        how.outcome = MARK_TAKEN;
        how.lease = &view;
        w->config.on_event(w->config.user, how, lease);
    }
}
