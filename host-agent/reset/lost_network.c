/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/lost_network.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "grpc/grpc_unary.h"
#include "host-agent/reset/pod_teller.h"
#include "host-agent/reset/reset.h"
#include "host-agent/reset/sandbox_scan.h"
#include "loop/daemon.h"

#include <stdlib.h>
#include <string.h>

struct lost_network {
    struct lost_network_config config;
    struct reset core;
    struct sandbox_scan *scan;
    struct pod_teller *teller; /* NULL: no client */
    struct boot_timer *scan_timer;
    struct boot_timer *stop_timer;
    struct grpc_unary *stop;     /* the call under way, or NULL */
    struct cri_sandbox stopping; /* whom it is about */
    size_t unseen;               /* in the scan under way */
    char why_unseen[POD_NET_WORDS_BYTES];
    struct mono tell_at; /* at the latest, what was found; MONO_NEVER: it was told */
    bool has_looked;
    struct log_repeat blind;
    struct log_repeat blind_to_some;
    struct lost_network_stats stats;
};

static void step(struct lost_network *l, const struct reset_event *event, const char *words);

/* ---- telling --------------------------------------------------------------------------------- */

static const char *what_comes(const struct lost_network *l)
{
    return l->config.mode == LOST_NETWORK_RESTART
               ? "it gets a new sandbox once the DPU has settled, unless its restartPolicy is "
                 "Never, or OnFailure in a Job"
               : "delete the pod to give it a new one";
}

static void tell(struct lost_network *l, const struct cri_sandbox *s, const char *reason,
                 const char *note)
{
    if (l->teller) {
        pod_teller_tell(l->teller, s, reason, note);
    }
}

static void tell_lost(struct lost_network *l, const struct cri_sandbox *s, const char *words)
{
    char note[POD_TELLER_NOTE_BYTES];
    l->stats.found++;
    log_warn("reset", "pod %s/%s has lost its network: %s; sandbox %.13s", s->ns, s->name, words,
             s->id);
    text_format(note, sizeof(note), "the pod has lost its network: %s; %s", words, what_comes(l));
    tell(l, s, POD_TELLER_LOST, note);
}

/* How many are lost by their devices, and the names of the first few. */
static size_t describe(const struct lost_network *l, char out[static LOST_NETWORK_WORDS_BYTES])
{
    enum { NAMED = 3 };
    size_t used = 0;
    size_t named = 0;
    size_t count = 0;
    out[0] = '\0';
    for (size_t i = 0; i < l->core.count; i++) {
        const struct reset_sandbox *r = &l->core.sandboxes[i];
        if (r->state == RESET_SUSPECT || !r->is_by_device) {
            continue;
        }
        count++;
        const struct cri_sandbox *s = named < NAMED ? sandbox_scan_find(l->scan, r->id) : NULL;
        if (s) {
            text_format(out + used, LOST_NETWORK_WORDS_BYTES - used, "%s%.40s/%.50s",
                        named > 0 ? ", " : "", s->ns, s->name);
            used = strlen(out);
            named++;
        }
    }
    if (count > named) {
        text_format(out + used, LOST_NETWORK_WORDS_BYTES - used, " and %zu more", count - named);
    }
    return count;
}

static void tell_count(struct lost_network *l)
{
    char names[LOST_NETWORK_WORDS_BYTES];
    l->tell_at = MONO_NEVER;
    size_t count = describe(l, names);
    l->config.on_change(l->config.user, count, names);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void end_stop(struct lost_network *l, const struct err *why)
{
    const struct cri_sandbox *s = &l->stopping;
    const struct reset_event event = {
        .kind = RESET_DONE, .now = clock_mono_now(), .id = s->id, .is_stopped = !why};
    l->stats.stops += !why;
    l->stats.stop_failures += why != NULL;
    if (why) {
        log_warn("reset", "stopping sandbox %.13s of pod %s/%s: %s, will retry", s->id, s->ns,
                 s->name, why->msg);
    } else {
        log_info("reset", "stopped sandbox %.13s of pod %s/%s: the kubelet makes a new one", s->id,
                 s->ns, s->name);
        tell(l, s, POD_TELLER_STOPPED,
             "the sandbox that lost its network was stopped: the kubelet makes a new one");
    }
    step(l, &event, "");
}

static void on_stopped(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct lost_network *l = user;
    (void)message;
    (void)len;
    l->stop = NULL;
    end_stop(l, why);
}

static void stop(struct lost_network *l, const char *id)
{
    struct err e = ERR_INIT;
    struct cri_request request;
    const struct cri_sandbox *s = sandbox_scan_find(l->scan, id);
    text_format(l->stopping.id, sizeof(l->stopping.id), "%s", id);
    if (!s) {
        (void)err_set(&e, ERR_NOTFOUND, "it is not there any more"); /* handed on below */
        end_stop(l, &e);
        return;
    }
    l->stopping = *s;
    cri_ask_stop(id, &request);
    const struct grpc_unary_plan plan = {
        .path = l->config.socket,
        .method = CRI_METHOD_STOP,
        .message = {.bytes = request.bytes, .len = request.len},
        .timeout_ns = LOST_NETWORK_STOP_NS,
        .done = on_stopped,
        .user = l,
    };
    if (grpc_unary_start(l->config.loop, &plan, &l->stop, &e) != 0) {
        l->stop = NULL;
        end_stop(l, &e);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

static enum reset_evidence meaning_of(enum pod_net_evidence evidence)
{
    static const enum reset_evidence meanings[] = {[POD_NET_UNSEEN] = RESET_UNCLEAR,
                                                   [POD_NET_UNKNOWN] = RESET_UNCLEAR,
                                                   [POD_NET_WHOLE] = RESET_WHOLE,
                                                   [POD_NET_AWAY] = RESET_UNCLEAR,
                                                   [POD_NET_LOST] = RESET_GONE};
    return meanings[evidence];
}

/* The look comes last: nothing is between it and the stop. */
static void on_answer(void *user, enum reset_policy policy, const char *why)
{
    struct lost_network *l = user;
    const struct cri_sandbox *s = &l->stopping;
    struct pod_net_finding finding;
    sandbox_scan_look(l->scan, s->id, &finding);
    const struct reset_event event = {.kind = RESET_ANSWER,
                                      .now = clock_mono_now(),
                                      .id = s->id,
                                      .evidence = meaning_of(finding.evidence),
                                      .policy = policy};
    if (policy == RESET_POLICY_NEVER) {
        log_warn("reset", "pod %s/%s is not stopped: %s", s->ns, s->name, why);
    }
    step(l, &event, "");
}

static void ask(struct lost_network *l, const char *id)
{
    const struct cri_sandbox *s = sandbox_scan_find(l->scan, id);
    text_format(l->stopping.id, sizeof(l->stopping.id), "%s", id);
    if (!s || !l->teller) {
        on_answer(l, RESET_POLICY_UNKNOWN, "");
        return;
    }
    l->stopping = *s;
    pod_teller_ask(l->teller, s);
}

/* ---- the core -------------------------------------------------------------------------------- */

static void step(struct lost_network *l, const struct reset_event *event, const char *words)
{
    struct reset_update update;
    const struct cri_sandbox *s;
    reset_step(&l->core, event, &update);
    l->stats.lost = l->core.lost;
    s = update.turn != RESET_NO_TURN ? sandbox_scan_find(l->scan, event->id) : NULL;
    if (s && update.turn == RESET_TURN_LOST) {
        tell_lost(l, s, words);
    } else if (s) {
        log_info("reset", "pod %s/%s has its network again", s->ns, s->name);
    }
    if (update.count_changed) {
        tell_count(l);
    }
    boot_timer_arm(l->stop_timer, update.wake_at);
    if (update.ask || update.stop) {
        char id[RESET_ID_BYTES];
        text_format(id, sizeof(id), "%s", update.ask ? update.ask : update.stop);
        update.ask ? ask(l, id) : stop(l, id);
    }
}

static void on_stop_timer(void *user)
{
    const struct reset_event event = {.kind = RESET_TICK, .now = clock_mono_now()};
    step(user, &event, "");
}

void lost_network_publish(struct lost_network *l, const struct readiness *verdict)
{
    const struct reset_event event = {
        .kind = RESET_DPU, .now = clock_mono_now(), .is_ready = verdict->state == READINESS_READY};
    step(l, &event, "");
}

/* ---- looking --------------------------------------------------------------------------------- */

static void on_sandbox(void *user, const struct cri_sandbox *s,
                       const struct pod_net_finding *finding)
{
    struct lost_network *l = user;
    const struct reset_event event = {.kind = RESET_SEEN,
                                      .now = clock_mono_now(),
                                      .id = s->id,
                                      .made = s->made,
                                      .evidence = meaning_of(finding->evidence),
                                      .is_by_device = finding->is_by_device};
    if (finding->evidence == POD_NET_UNSEEN && l->unseen++ == 0) {
        text_format(l->why_unseen, sizeof(l->why_unseen), "pod %.50s: %.100s", s->name,
                    finding->words);
    }
    step(l, &event, finding->words);
}

/* Twice in a row: a sandbox that ends in the middle of a look is none to speak of. */
static void note_unseen(struct lost_network *l, struct mono now)
{
    bool was_blind = l->stats.unseen > 0;
    l->stats.unseen = l->unseen;
    if (l->stats.unseen == 0) {
        log_repeat_reset(&l->blind_to_some);
    } else if (was_blind && log_repeat_due(&l->blind_to_some, now, LOG_AGAIN_NS)) {
        log_warn("reset", "the networks of %zu of %zu pods cannot be looked at, such as %s%s",
                 l->unseen, l->stats.sandboxes, l->why_unseen, l->blind_to_some.more);
    }
}

static void on_scanned(void *user, const struct err *why)
{
    struct lost_network *l = user;
    const struct reset_event event = {.kind = RESET_SCANNED, .now = clock_mono_now()};
    l->stats.sandboxes = sandbox_scan_count(l->scan);
    l->stats.scans += !why;
    l->stats.scan_failures += why != NULL;
    if (why) {
        if (log_repeat_due(&l->blind, event.now, LOG_AGAIN_NS)) {
            log_warn("reset", "looking at the pods' networks: %s, will retry%s", why->msg,
                     l->blind.more);
        }
        return;
    }
    log_repeat_reset(&l->blind);
    note_unseen(l, event.now);
    if (!l->has_looked) {
        l->has_looked = true;
        l->tell_at = mono_add(event.now, l->config.debounce_ns);
    }
    step(l, &event, "");
    if (mono_reached(event.now, l->tell_at)) {
        tell_count(l);
    }
}

static void on_scan_timer(void *user)
{
    struct lost_network *l = user;
    l->unseen = 0;
    boot_timer_arm(l->scan_timer, mono_add(clock_mono_now(), l->config.scan_ns));
    sandbox_scan_run(l->scan);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int start_parts(struct lost_network *l, struct err *e)
{
    const struct lost_network_config *c = &l->config;
    const struct sandbox_scan_config scan = {.loop = c->loop,
                                             .socket = c->socket,
                                             .root = c->root,
                                             .each = on_sandbox,
                                             .done = on_scanned,
                                             .user = l};
    const struct pod_teller_config teller = {.client = c->client,
                                             .node = c->node,
                                             .has_events = c->has_events,
                                             .on_answer = on_answer,
                                             .user = l};
    int rc = sandbox_scan_new(&scan, &l->scan, e);
    if (rc != 0 || (c->client && (rc = pod_teller_new(&teller, &l->teller, e)) != 0)) {
        return rc;
    }
    l->stop_timer = boot_timer_new(c->loop, on_stop_timer, l);
    l->scan_timer = boot_timer_new(c->loop, on_scan_timer, l);
    return 0;
}

int lost_network_start(const struct lost_network_config *config, struct lost_network **out,
                       struct err *e)
{
    struct lost_network *l = calloc(1, sizeof(*l));
    if (!l) {
        return err_no_memory(e);
    }
    const struct reset_config core = {.debounce_ns = config->debounce_ns,
                                      .settle_ns = config->settle_ns,
                                      .gap_ns = config->gap_ns,
                                      .stops = config->mode == LOST_NETWORK_RESTART,
                                      .seed = (uint64_t)clock_wall_now().ns};
    l->config = *config;
    l->tell_at = MONO_NEVER;
    reset_init(&l->core, &core);
    int rc = start_parts(l, e);
    if (rc != 0) {
        lost_network_free(l);
        return rc;
    }
    boot_timer_arm(l->scan_timer, clock_mono_now());
    *out = l;
    return 0;
}

void lost_network_free(struct lost_network *l)
{
    if (l) {
        grpc_unary_cancel(l->stop);
        boot_timer_free(l->scan_timer);
        boot_timer_free(l->stop_timer);
        pod_teller_free(l->teller);
        sandbox_scan_free(l->scan);
        free(l);
    }
}

struct lost_network_stats lost_network_stats(const struct lost_network *l)
{
    return l->stats;
}
