/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/lost_network.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "grpc/unix_flight.h"
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
    struct unix_flight *stop;    /* the call under way, or NULL */
    struct cri_sandbox stopping; /* whom it is about */
    struct mono tell_at;         /* at the latest, what was found; MONO_NEVER: it was told */
    bool has_looked;
    struct log_repeat blind;
    struct lost_network_stats stats;
};

static void step(struct lost_network *l, const struct reset_event *event, const char *words);

/* ---- telling --------------------------------------------------------------------------------- */

static const char *what_comes(const struct lost_network *l)
{
    return l->config.mode == LOST_NETWORK_RESTART
               ? "it gets a new sandbox once the DPU has settled, unless its restartPolicy is Never"
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

/* The names of the first few, and how many they are. */
static void describe(const struct lost_network *l, char out[static LOST_NETWORK_WORDS_BYTES])
{
    enum { NAMED = 3 };
    size_t used = 0;
    size_t named = 0;
    out[0] = '\0';
    for (size_t i = 0; i < l->core.count && named < NAMED; i++) {
        const struct reset_sandbox *r = &l->core.sandboxes[i];
        const struct cri_sandbox *s = sandbox_scan_find(l->scan, r->id);
        if (r->state != RESET_SUSPECT && s) {
            text_format(out + used, LOST_NETWORK_WORDS_BYTES - used, "%s%.40s/%.50s",
                        named > 0 ? ", " : "", s->ns, s->name);
            used = strlen(out);
            named++;
        }
    }
    if (l->core.lost > named) {
        text_format(out + used, LOST_NETWORK_WORDS_BYTES - used, " and %zu more",
                    l->core.lost - named);
    }
}

static void tell_count(struct lost_network *l)
{
    char names[LOST_NETWORK_WORDS_BYTES];
    l->tell_at = MONO_NEVER;
    describe(l, names);
    l->config.on_change(l->config.user, l->core.lost, names);
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
    const struct unix_flight_plan plan = {
        .path = l->config.socket,
        .method = CRI_METHOD_STOP,
        .message = {.bytes = request.bytes, .len = request.len},
        .timeout_ns = LOST_NETWORK_STOP_NS,
        .done = on_stopped,
        .user = l,
    };
    if (unix_flight_start(l->config.loop, &plan, &l->stop, &e) != 0) {
        l->stop = NULL;
        end_stop(l, &e);
    }
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
    if (update.stop) {
        char id[RESET_ID_BYTES];
        text_format(id, sizeof(id), "%s", update.stop);
        stop(l, id);
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

static void on_sandbox(void *user, const struct cri_sandbox *s, enum pod_net_evidence evidence,
                       const char *words)
{
    static const enum reset_evidence meaning[] = {[POD_NET_UNKNOWN] = RESET_UNCLEAR,
                                                  [POD_NET_WHOLE] = RESET_WHOLE,
                                                  [POD_NET_AWAY] = RESET_UNCLEAR,
                                                  [POD_NET_LOST] = RESET_GONE};
    const struct reset_event event = {.kind = RESET_SEEN,
                                      .now = clock_mono_now(),
                                      .id = s->id,
                                      .made = s->made,
                                      .evidence = meaning[evidence]};
    step(user, &event, words);
}

static bool is_open(const struct reset_sandbox *r)
{
    return r->state == RESET_LOST && r->policy == RESET_POLICY_UNKNOWN;
}

static void learn_policy(struct lost_network *l, const struct cri_sandbox *s, const json_t *pods)
{
    const struct reset_event event = {.kind = RESET_POLICY,
                                      .now = clock_mono_now(),
                                      .id = s->id,
                                      .policy = pod_teller_policy(pods, s)};
    if (event.policy == RESET_POLICY_NEVER) {
        log_warn("reset", "pod %s/%s is not stopped: its restartPolicy is Never, so it would end",
                 s->ns, s->name);
    }
    step(l, &event, "");
}

static void on_pods(void *user, const json_t *pods)
{
    struct lost_network *l = user;
    for (size_t i = 0; i < l->core.count; i++) {
        const struct reset_sandbox *r = &l->core.sandboxes[i];
        const struct cri_sandbox *s = is_open(r) ? sandbox_scan_find(l->scan, r->id) : NULL;
        if (s) {
            learn_policy(l, s, pods);
        }
    }
}

/* Will the kubelet start them again? Asked while that is not known of somebody. */
static void ask_for_pods(struct lost_network *l, struct mono now)
{
    for (size_t i = 0; l->teller && i < l->core.count; i++) {
        if (is_open(&l->core.sandboxes[i])) {
            pod_teller_ask(l->teller, now);
            return;
        }
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
    if (!l->has_looked) {
        l->has_looked = true;
        l->tell_at = mono_add(event.now, l->config.debounce_ns);
    }
    step(l, &event, "");
    if (mono_reached(event.now, l->tell_at)) {
        tell_count(l);
    }
    if (l->config.mode == LOST_NETWORK_RESTART) {
        ask_for_pods(l, event.now);
    }
}

static void on_scan_timer(void *user)
{
    struct lost_network *l = user;
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
                                             .on_pods = on_pods,
                                             .user = l};
    int rc = sandbox_scan_new(&scan, &l->scan, e);
    if (rc != 0 || (c->client && (rc = pod_teller_new(&teller, &l->teller, e)) != 0)) {
        return rc;
    }
    rc = boot_timer_new(c->loop, on_stop_timer, l, &l->stop_timer, e);
    return rc != 0 ? rc : boot_timer_new(c->loop, on_scan_timer, l, &l->scan_timer, e);
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
        unix_flight_cancel(l->stop);
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
