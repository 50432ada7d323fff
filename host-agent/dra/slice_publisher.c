/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_publisher.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/slice_look.h"
#include "host-agent/dra/slice_publisher_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- when ---- */

void publisher_set_due(struct slice_publisher *p, struct mono due)
{
    p->due = due;
    p->config.on_rearm(p->config.user);
}

void publisher_back_off(struct slice_publisher *p, struct mono now, int64_t told_ns)
{
    p->stats.failures++;
    publisher_set_due(p, slice_pace_failed(&p->pace, told_ns, now));
}

void publisher_fail(struct slice_publisher *p, const char *what,
                    const struct kube_response *response)
{
    /* What is forbidden stays so until an admin acts: ask and complain seldom. */
    bool is_denied = response->code == ERR_AUTH;
    publisher_back_off(p, response->received_at,
                       is_denied ? SLICE_RETRY_MAX_NS
                                 : mono_ns_mul(response->retry_after_ms, NS_PER_MS));
    if (log_repeat_due(&p->warnings, response->received_at,
                       is_denied ? PUBLISHER_DENIED_WARN_NS : LOG_AGAIN_NS)) {
        log_warn("dra", "%s: %s%s, will retry%s", what, response->message,
                 is_denied ? "; rbac/host-agent-dra.yaml gives that right" : "", p->warnings.more);
    }
}

/* ---- requests ---- */

const char *publisher_collection(const struct slice_publisher *p,
                                 char out[static PUBLISHER_PATH_BYTES])
{
    text_format(out, PUBLISHER_PATH_BYTES, "/apis/resource.k8s.io/%s/resourceslices",
                slice_version_name(p->version));
    return out;
}

void publisher_send(struct slice_publisher *p, enum kube_method method, const char *path,
                    const json_t *body, kube_done_fn *done, struct mono now)
{
    struct err e = ERR_INIT;
    struct kube_request request = {
        .method = method, .channel = KUBE_CONTROL, .path = path, .body = body};
    publisher_set_due(p, MONO_NEVER); /* the answer decides what comes next */
    if (kube_client_start(p->config.client, &request, done, p, &p->call, &e) != 0) {
        p->call = NULL;
        publisher_back_off(p, now, 0);
        if (log_repeat_due(&p->warnings, now, LOG_AGAIN_NS)) {
            log_warn("dra", "asking for '%s': %s, will retry%s", path, e.msg, p->warnings.more);
        }
    }
}

/* ---- what is known ---- */

void publisher_take(struct slice_publisher *p, json_t *slice)
{
    p->is_name_taken = slice && !slice_is_ours(&p->config.spec, slice);
    json_decref(p->existing);
    p->existing = slice;
    if (slice_is_ending(slice) && !p->is_name_taken &&
        log_repeat_due(&p->ending, clock_mono_now(), LOG_AGAIN_NS)) {
        log_info("dra",
                 "our ResourceSlice '%s' is being removed by somebody else and a finalizer holds "
                 "it: it is written anew when it is gone%s",
                 p->name, p->ending.more);
    }
}

void publisher_keep(struct slice_publisher *p, const json_t *object)
{
    publisher_take(p, slice_copy(object, p->version));
}

static void forget_answer(struct slice_publisher *p)
{
    json_decref(TAKE(p->answer));
}

void publisher_find_version(struct slice_publisher *p, struct mono now)
{
    kube_watch_stop(TAKE(p->watch));
    p->is_watch_denied = false;
    p->has_version = false;
    p->version = SLICE_V1;
    p->is_listed = false;
    publisher_take(p, NULL);
    forget_answer(p);
    publisher_back_off(p, now, 0);
}

/* ---- writing ---- */

/* Returns true if that is news: then there is something else to write. */
static bool tell_dropped(struct slice_publisher *p, struct slice_dropped dropped, struct mono now)
{
    bool has_taints = dropped.taints && !p->dropped.taints;
    bool has_sharing = dropped.multiple_allocations && !p->dropped.multiple_allocations;
    if (has_taints && log_repeat_due(&p->dropped_taints, now, PUBLISHER_DENIED_WARN_NS)) {
        log_warn("dra", "the API server drops device taints: enable its feature gate "
                        "DRADeviceTaints. Until then an unhealthy DPU is taken out of the slice");
    }
    if (has_sharing && log_repeat_due(&p->dropped_sharing, now, PUBLISHER_DENIED_WARN_NS)) {
        log_warn("dra", "the API server drops allowMultipleAllocations: enable its feature gate "
                        "DRAConsumableCapacity. Until then one claim at a time can hold the DPU");
    }
    if (has_taints || has_sharing) {
        p->dropped_again = mono_add(now, SLICE_DROPPED_AGAIN_NS);
    }
    p->dropped.taints |= dropped.taints;
    p->dropped.multiple_allocations |= dropped.multiple_allocations;
    return has_taints || has_sharing;
}

/* The server's last word on what we wrote for this verdict: not to be argued with. */
static void keep_answer(struct slice_publisher *p, struct mono now)
{
    CLEANUP(json)
    json_t *wanted =
        slice_plan(&p->config.spec, &p->pace.tried, p->version, p->dropped, p->existing);
    forget_answer(p);
    if (wanted && json_equal(wanted, p->existing)) {
        return;
    }
    p->answer = json_incref(p->existing);
    p->answer_taint = p->pace.tried;
    if (log_repeat_due(&p->altered, now, LOG_AGAIN_NS)) {
        log_warn("dra",
                 "the API server (or a webhook) makes something else of our ResourceSlice '%s', "
                 "leaving it so%s",
                 p->name, p->altered.more);
    }
}

static void take_written(struct slice_publisher *p, const json_t *sent,
                         const struct kube_response *response)
{
    json_t *written = slice_copy(response->body, p->version);
    p->stats.writes++;
    slice_pace_worked(&p->pace);
    p->is_unsure = p->is_unsure && !json_equal(written, p->existing);
    publisher_take(p, written);
    struct slice_dropped dropped = slice_find_dropped(sent, response->body, p->version);
    if (!tell_dropped(p, dropped, response->received_at)) {
        slice_pace_stands(&p->pace, &p->pace.tried);
        keep_answer(p, response->received_at);
    }
    if (p->is_unsure) {
        publisher_set_due(p, mono_add(response->received_at, SLICE_REPAIR_MIN_NS));
    } else {
        publisher_step(p, response->received_at);
    }
}

static void on_written(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    CLEANUP(json) json_t *sent = TAKE(p->sent);
    p->call = NULL;
    if (response->http_status == 409) { /* Conflict or AlreadyExists: somebody was faster */
        p->is_unsure = true;
        publisher_back_off(p, response->received_at, 0); /* who may still be writing */
    } else if (response->http_status == 404 && !text_equal(response->reason, "NotFound")) {
        publisher_find_version(p, response->received_at);
    } else if (response->http_status == 404) { /* removed under our PUT */
        publisher_keep(p, NULL);
        publisher_back_off(p, response->received_at, 0);
    } else if (response->code != 0 || !response->body) {
        publisher_fail(p, "writing our ResourceSlice", response);
    } else {
        take_written(p, sent, response);
    }
}

/* Takes `slice`. */
static void write_slice(struct slice_publisher *p, json_t *slice, struct mono now)
{
    char base[PUBLISHER_PATH_BYTES];
    char path[PUBLISHER_PATH_BYTES + 512];
    if (p->existing) {
        text_format(path, sizeof(path), "%s/%s", publisher_collection(p, base), p->name);
    } else {
        text_format(path, sizeof(path), "%s", publisher_collection(p, base));
    }
    p->sent = slice;
    if (slice_pace_wrote(&p->pace, &p->taint, now) &&
        log_repeat_due(&p->undone, now, LOG_AGAIN_NS)) {
        log_info("dra", "our ResourceSlice was %s by somebody else: writing it again%s",
                 p->existing ? "changed" : "removed", p->undone.more);
    }
    publisher_send(p, p->existing ? KUBE_PUT : KUBE_POST, path, slice, on_written, now);
    if (!p->call) {
        json_decref(TAKE(p->sent));
    }
}

/* However it went, the next removal is later: a slice that a finalizer holds, or that comes back,
 * is no reason to hurry, nor to neglect our own. */
static void on_deleted(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    bool is_gone = response->code == 0 || response->http_status == 404;
    p->call = NULL;
    if (is_gone) {
        p->is_listed = false; /* there may be more */
    } else {
        p->stats.failures++;
    }
    if (log_repeat_due(&p->removed, response->received_at, LOG_AGAIN_NS)) {
        log_info("dra", "removing the obsolete ResourceSlice '%s': %s%s", p->obsolete,
                 is_gone ? "done" : response->message, p->removed.more);
    }
    publisher_step(p, response->received_at);
}

static void delete_obsolete(struct slice_publisher *p, struct mono now)
{
    char base[PUBLISHER_PATH_BYTES];
    char path[PUBLISHER_PATH_BYTES + 512];
    text_format(path, sizeof(path), "%s/%s", publisher_collection(p, base), p->obsolete);
    p->removal_at = mono_add(now, slice_pace_doubled_ns(&p->pace, SLICE_REPAIR_MIN_NS, p->removals,
                                                        SLICE_REPAIR_MAX_NS));
    p->removals++;
    publisher_send(p, KUBE_DELETE, path, NULL, on_deleted, now);
}

/* Nothing to write: until the watch, a verdict, or the time of something else. */
static void rest(struct slice_publisher *p, struct mono now)
{
    struct mono next = p->obsolete[0] != '\0' ? p->removal_at : MONO_NEVER;
    slice_pace_worked(&p->pace);
    slice_pace_stands(&p->pace, &p->taint);
    if (p->is_watch_denied) {
        p->is_list_due = true;
        next = mono_min(next, mono_add(now, SLICE_POLL_NS));
    }
    publisher_set_due(p, next);
}

/* Driver and node of a slice cannot be changed, and what is another's is not for us to remove. */
static void wait_for_name(struct slice_publisher *p, struct mono now)
{
    p->stats.is_published = false;
    if (mono_is_never(p->due)) {
        p->is_list_due = true;
        publisher_set_due(p, mono_add(now, SLICE_POLL_NS));
    }
    if (log_repeat_due(&p->warnings, now, PUBLISHER_DENIED_WARN_NS)) {
        log_warn(
            "dra",
            "ResourceSlice '%s' is of another driver or node, leaving it: there is no slice of "
            "ours until it is gone%s",
            p->name, p->warnings.more);
    }
}

static bool is_same_taint(const struct slice_taint *a, const struct slice_taint *b)
{
    return a->is_set == b->is_set && text_equal(a->value, b->value);
}

/* The server left our write for this very verdict so. */
static bool is_its_last_word(const struct slice_publisher *p)
{
    return p->answer && is_same_taint(&p->answer_taint, &p->taint) &&
           slice_says_same(p->answer, p->existing);
}

/* Writes what differs, when it is time; otherwise rests. */
static void reconcile(struct slice_publisher *p, struct mono now)
{
    if (p->is_name_taken) {
        wait_for_name(p, now);
        return;
    }
    CLEANUP(json)
    json_t *slice = slice_plan(&p->config.spec, &p->taint, p->version, p->dropped, p->existing);
    if (!slice) {
        publisher_back_off(p, now, 0);
        return;
    }
    p->stats.is_published = p->existing && json_equal(slice, p->existing);
    if (p->stats.is_published || is_its_last_word(p)) {
        rest(p, now);
        return;
    }
    struct mono next = slice_pace_next(&p->pace, &p->taint, now);
    if (mono_reached(now, next)) {
        write_slice(p, TAKE(slice), now);
    } else {
        publisher_set_due(p, next);
    }
}

void publisher_step(struct slice_publisher *p, struct mono now)
{
    if (p->call || !p->has_taint) {
        return;
    }
    if (!p->has_node) {
        publisher_ask_node(p, now);
    } else if (!p->is_listed) {
        publisher_ask_list(p, now);
    } else if (p->is_unsure) {
        publisher_ask_slice(p, now);
    } else if (p->obsolete[0] != '\0' && mono_reached(now, p->removal_at)) {
        delete_obsolete(p, now);
    } else {
        reconcile(p, now);
    }
}

/* ---- life ---- */

int slice_publisher_new(const struct slice_publisher_config *config, struct slice_publisher **out,
                        struct err *e)
{
    struct slice_publisher *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    p->config = *config;
    p->has_node = config->spec.node_uid != NULL;
    p->due = MONO_NEVER;
    slice_pace_init(&p->pace, config->renew_interval_ns, (uint64_t)clock_mono_now().ns);
    slice_make_name(config->spec.driver, config->spec.node_name, p->name);
    *out = p;
    return 0;
}

void slice_publisher_free(struct slice_publisher *p)
{
    if (!p) {
        return;
    }
    kube_call_cancel(p->call);
    kube_watch_stop(p->watch);
    json_decref(p->sent);
    json_decref(p->existing);
    json_decref(p->answer);
    free(p);
}

void slice_publisher_publish(struct slice_publisher *p, const struct slice_taint *taint,
                             struct mono now)
{
    bool is_first = !p->has_taint;
    bool is_news = !is_first && !is_same_taint(&p->taint, taint);
    p->has_taint = true;
    p->taint = *taint;
    if (is_news && mono_reached(now, p->dropped_again)) {
        p->dropped = (struct slice_dropped){.taints = false}; /* the server may keep them now */
    }
    /* Also while backing off; but only what is to be written changes, not what is to be read. */
    if (is_first || (is_news && p->has_node && p->is_listed && !p->is_unsure)) {
        publisher_step(p, now);
    }
}

struct mono slice_publisher_next_tick(const struct slice_publisher *p)
{
    return p->due;
}

void slice_publisher_tick(struct slice_publisher *p, struct mono now)
{
    if (!mono_reached(now, p->due)) {
        return;
    }
    p->due = MONO_NEVER;
    if (p->is_list_due) {
        p->is_list_due = false;
        p->is_listed = false;
    }
    publisher_step(p, now);
}

struct slice_stats slice_publisher_stats(const struct slice_publisher *p)
{
    return p->stats;
}
