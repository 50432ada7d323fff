/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/podnet/podnet.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "grpc/cri_message.h"
#include "grpc/grpc_unary.h"
#include "kube/kube_client.h"
#include "loop/daemon.h"
#include "outputs/events.h"
#include "probe/pod_net.h"

#include <stdlib.h>
#include <string.h>

#define MOD "podnet"

enum { POLICY_PATH_BYTES = 2048 };

enum view {
    VIEW_NONE, /* the runtime has still to say where it is */
    VIEW_HOST, /* of no interest */
    VIEW_OPEN,
};

struct sandbox {
    struct podnet_loss loss; /* first, so that the plan's pointers lead back */
    struct cri_sandbox cri;
    struct pod_net net;           /* VIEW_OPEN */
    struct pod_net_finding found; /* by the last look */
    enum view view;
    struct mono ask_again; /* VIEW_NONE: not before */
    bool is_older;         /* than our first look */
    uint64_t list;         /* the last that it was in */
};

struct podnet {
    struct podnet_config config;
    struct podnet_plan plan; /* its list owns the sandboxes */
    struct boot_timer *scan_timer;
    struct boot_timer *stop_timer;
    struct grpc_unary *call;    /* of the scan under way, or NULL */
    struct sandbox *described;  /* whom it is about */
    struct grpc_unary *stop;    /* the call under way, or NULL */
    struct kube_call *question; /* likewise */
    struct sandbox *in_hand;    /* whom these two are about */
    uint64_t list;              /* the number of the last one that was whole; 0: none yet */
    struct mono tell_at;        /* at the latest, what was found; MONO_NEVER: it was told */
    struct log_repeat blind;
    struct log_repeat blind_to_some;
    struct log_repeat trouble;
    struct podnet_stats stats;
};

static void plan_step(struct podnet *p, struct podnet_event event);

static struct sandbox *sandbox_of(struct podnet_loss *loss)
{
    return (struct sandbox *)loss;
}

static struct grpc_unary *runtime_call(struct podnet *p, enum cri_call call,
                                       const struct sandbox *about, grpc_unary_fn *done)
{
    struct cri_request request;
    cri_ask(call, about ? about->cri.id : NULL, &request);
    const struct grpc_unary_plan plan = {
        .path = p->config.socket,
        .method = request.method,
        .message = {.bytes = request.bytes, .len = request.len},
        .timeout_ns = call == CRI_STOP ? PODNET_STOP_NS : PODNET_CALL_NS,
        .done = done,
        .user = p,
    };
    return grpc_unary_start(p->config.loop, &plan);
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Named by the sandbox and the reason: a restart of ours tells nothing twice. */
static void tell_pod(struct podnet *p, const struct cri_sandbox *s, bool is_lost, const char *note)
{
    struct event event = {.at = clock_wall_now(),
                          .action = is_lost ? "NetworkLost" : "SandboxStopped",
                          .reason = is_lost ? "PodNetworkLost" : "PodSandboxStopped",
                          .rights = "host-agent-pods.yaml",
                          .is_warning = is_lost};
    if (p->config.events) {
        event.key = (uint64_t)crc32c_compute(s->id, strlen(s->id)) << 32 |
                    crc32c_compute(event.reason, strlen(event.reason));
        text_format(event.note, sizeof(event.note), "%s", note);
        text_format(event.ns, sizeof(event.ns), "%s", s->ns);
        text_format(event.pod, sizeof(event.pod), "%s", s->name);
        text_format(event.uid, sizeof(event.uid), "%s", s->uid);
        events_tell_pod(p->config.events, &event);
    }
}

static void tell_lost(struct podnet *p, const struct sandbox *lost)
{
    char note[EVENT_NOTE_BYTES];
    const struct cri_sandbox *s = &lost->cri;
    const char *words = lost->found.words;
    p->stats.found++;
    log_warn(MOD, "Pod %s/%s has lost its network: %s; sandbox %.13s", s->ns, s->name, words,
             s->id);
    text_format(note, sizeof(note), "the Pod has lost its network: %s; %s", words,
                p->config.mode == PODNET_MODE_RESTART
                    ? "it gets a new sandbox once the DPU has been ready for a lease duration, "
                      "unless its restartPolicy is Never, or OnFailure in a Job"
                    : "delete the Pod, so that its owner recreates it");
    tell_pod(p, s, true, note);
}

/* How many are lost by their devices, and the names of the first few. */
static void tell_count(struct podnet *p)
{
    enum { NAMED = 3 };
    char names[PODNET_WORDS_BYTES] = "";
    size_t used = 0;
    size_t count = 0;
    for (struct podnet_loss *loss = p->plan.all; loss; loss = loss->next) {
        const struct cri_sandbox *s = &sandbox_of(loss)->cri;
        if (!podnet_is_lost(loss) || !loss->is_by_device) {
            continue;
        }
        if (count++ < NAMED) {
            text_format(names + used, sizeof(names) - used, "%s%.40s/%.50s", used > 0 ? ", " : "",
                        s->ns, s->name);
            used = strlen(names);
        }
    }
    if (count > NAMED) {
        text_format(names + used, sizeof(names) - used, " and %zu more", count - NAMED);
    }
    p->tell_at = MONO_NEVER;
    p->config.on_change(p->config.user, count, names);
}

/* ---- may it be stopped? ---------------------------------------------------------------------- */

/* A static pod is known to the API server by a mirror, which has a uid of its own, and the pod's as
 * an annotation. That alone anybody can write on a pod. */
static bool is_mirror_of(struct json_slice pod, const char *uid)
{
    struct json_slice annotations =
        json_scan_member(json_scan_member(pod, "metadata"), "annotations");
    struct json_slice mirror = json_scan_member(annotations, "kubernetes.io/config.mirror");
    return json_scan_kind(mirror) == JSON_KIND_TEXT &&
           json_scan_equals(json_scan_member(annotations, "kubernetes.io/config.hash"), uid);
}

/* The pod of this sandbox, and not a later one of its name; its own uid before all. Absent: there
 * is none. */
static struct json_slice find_pod(struct json_slice list, const char *uid)
{
    struct json_slice mirror = {NULL, 0};
    struct json_walk w = json_walk_start(json_scan_member(list, "items"));
    while (uid[0] != '\0' && json_walk_next(&w)) {
        if (json_scan_equals(json_scan_member(json_scan_member(w.value, "metadata"), "uid"), uid)) {
            return w.value;
        }
        mirror = is_mirror_of(w.value, uid) ? w.value : mirror;
    }
    return mirror;
}

/* OnFailure with an owner is a Job's, which counts each restart of a container as a failure. A pod
 * may be as large as its tenant likes: it is read as bytes, and no tree is made of it. */
enum podnet_policy podnet_read_policy(const char *list, size_t len, const char *uid,
                                      const char **out_why)
{
    struct json_slice all;
    *out_why = "";
    if (json_scan_check(list, len, &all, NULL) != 0) {
        return PODNET_POLICY_UNKNOWN;
    }
    struct json_slice pod = find_pod(all, uid);
    struct json_slice metadata = json_scan_member(pod, "metadata");
    struct json_slice phase = json_scan_member(json_scan_member(pod, "status"), "phase");
    struct json_slice policy = json_scan_member(json_scan_member(pod, "spec"), "restartPolicy");
    struct json_slice ends = json_scan_member(metadata, "deletionTimestamp");
    bool runs = json_scan_equals(phase, "Running") || json_scan_equals(phase, "Pending");
    bool is_on_failure = json_scan_equals(policy, "OnFailure");
    if (!runs || json_scan_kind(ends) == JSON_KIND_TEXT) {
        return PODNET_POLICY_UNKNOWN;
    }
    if (json_scan_equals(policy, "Never")) {
        *out_why = "its restartPolicy is Never, so it would end";
        return PODNET_POLICY_NEVER;
    }
    if (is_on_failure && json_scan_count(json_scan_member(metadata, "ownerReferences")) > 0) {
        *out_why = "its restartPolicy is OnFailure, so its Job would count a failure";
        return PODNET_POLICY_NEVER;
    }
    return is_on_failure || json_scan_equals(policy, "Always") ? PODNET_POLICY_RESTARTS
                                                               : PODNET_POLICY_UNKNOWN;
}

/* The holder of the namespaces may be gone: the runtime is asked anew, but not all the time. */
static void lose_sight(struct sandbox *s)
{
    s->view = VIEW_NONE;
    s->ask_again = mono_add(clock_mono_now(), PODNET_AGAIN_NS);
}

static void sandbox_look(struct podnet *p, struct sandbox *s)
{
    pod_net_look(&s->net, p->config.root, &s->found);
    if (s->view == VIEW_OPEN && s->found.evidence == POD_NET_UNSEEN) {
        lose_sight(s);
    }
}

/* The look comes last: nothing is between it and the stop. */
static void on_pod(void *user, const struct kube_response *r)
{
    struct podnet *p = user;
    struct sandbox *s = p->in_hand;
    const char *why = "";
    enum podnet_policy policy = PODNET_POLICY_UNKNOWN;
    p->question = NULL;
    if (r->code == 0) {
        policy = podnet_read_policy(r->raw, r->raw_len, s->cri.uid, &why);
    } else {
        log_limited(&p->trouble, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "reading a Pod that lost its network: %s%s", r->message,
                    r->http_status == 403 ? "; apply rbac/host-agent-pods.yaml" : "");
    }
    if (s->list == p->list) {
        sandbox_look(p, s);
    } else {
        s->found = (struct pod_net_finding){.evidence = POD_NET_UNSEEN};
    }
    if (policy == PODNET_POLICY_NEVER) {
        log_warn(MOD, "the agent does not stop Pod %s/%s: %s", s->cri.ns, s->cri.name, why);
    }
    plan_step(p, (struct podnet_event){.kind = PODNET_ANSWER,
                                       .about = &s->loss,
                                       .evidence = s->found.evidence,
                                       .policy = policy});
}

/* Urgent, and so not behind the Events: it has a pace of its own. A list of one is what an agent
 * always had the right to ask for. */
static void policy_ask(struct podnet *p, struct sandbox *s)
{
    char path[POLICY_PATH_BYTES];
    p->in_hand = s;
    text_format(
        path, sizeof(path),
        "/api/v1/namespaces/%s/pods?fieldSelector=spec.nodeName%%3D%s%%2Cmetadata.name%%3D%s",
        s->cri.ns, p->config.node, s->cri.name);
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT,
                                         .path = path,
                                         .is_raw = true};
    p->question = kube_client_start(p->config.client, &request, on_pod, p);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void on_stopped(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct podnet *p = user;
    struct sandbox *s = p->in_hand;
    p->stop = NULL;
    p->stats.stops += !why;
    p->stats.stop_failures += why != NULL;
    if (why) {
        log_warn(MOD, "stopping sandbox %.13s of Pod %s/%s: %s, will retry", s->cri.id, s->cri.ns,
                 s->cri.name, why->msg);
    } else {
        log_info(MOD, "stopped sandbox %.13s of Pod %s/%s: the kubelet creates a new one",
                 s->cri.id, s->cri.ns, s->cri.name);
        tell_pod(p, &s->cri, false,
                 "dpu-host-agent stopped the sandbox that lost its network: the kubelet creates a "
                 "new one");
    }
    plan_step(p, (struct podnet_event){.kind = PODNET_DONE, .about = &s->loss, .is_stopped = !why});
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void plan_step(struct podnet *p, struct podnet_event event)
{
    struct podnet_update update;
    event.now = clock_mono_now();
    podnet_plan_step(&p->plan, &event, &update);
    if (update.turn == PODNET_TURN_LOST) {
        tell_lost(p, sandbox_of(event.about));
    } else if (update.turn == PODNET_TURN_BACK) {
        const struct cri_sandbox *s = &sandbox_of(event.about)->cri;
        log_info(MOD, "Pod %s/%s has its network again", s->ns, s->name);
    }
    if (p->stats.lost != p->plan.lost) {
        p->stats.lost = p->plan.lost;
        tell_count(p);
    }
    if (event.kind != PODNET_SEEN && event.kind != PODNET_ENDED) { /* these leave it as it is */
        boot_timer_arm(p->stop_timer, update.wake_at);
    }
    if (update.ask) {
        policy_ask(p, sandbox_of(update.ask));
    } else if (update.stop) {
        p->in_hand = sandbox_of(update.stop);
        p->stop = runtime_call(p, CRI_STOP, p->in_hand, on_stopped);
    }
}

static void on_stop_timer(void *user)
{
    plan_step(user, (struct podnet_event){.kind = PODNET_TICK});
}

void podnet_publish(struct podnet *p, const struct readiness *verdict)
{
    plan_step(p, (struct podnet_event){.kind = PODNET_DPU,
                                       .is_ready = verdict->state == READINESS_READY});
}

/* ---- a scan: list, ask where what is new is, look -------------------------------------------- */

static void scan_ask_next(struct podnet *p);

static void scan_fail(struct podnet *p, const struct err *why)
{
    p->stats.scan_failures++;
    log_limited(&p->blind, LOG_AGAIN_NS, LOG_WARN, MOD,
                "checking the Pods' networks: %s, will retry", why->msg);
}

/* Twice in a row: a sandbox that ends in the middle of a look is none to speak of. */
static void scan_note_unseen(struct podnet *p, size_t unseen, const struct sandbox *one)
{
    bool was_blind = p->stats.unseen > 0;
    p->stats.unseen = unseen;
    if (!one) {
        log_repeat_reset(&p->blind_to_some);
    } else if (was_blind) {
        log_limited(&p->blind_to_some, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "cannot check the networks of %zu of %zu Pods, such as Pod %.50s: %.100s",
                    unseen, p->stats.sandboxes, one->cri.name, one->found.words);
    }
}

static void scan_look(struct podnet *p)
{
    struct mono now = clock_mono_now();
    const struct sandbox *one = NULL;
    size_t unseen = 0;
    for (struct podnet_loss *loss = p->plan.all; loss; loss = loss->next) {
        struct sandbox *s = sandbox_of(loss);
        if (s->list != p->list || s->view == VIEW_HOST) {
            continue;
        }
        sandbox_look(p, s);
        if (s->found.evidence == POD_NET_UNSEEN) {
            unseen++;
            one = s;
        }
        plan_step(p, (struct podnet_event){.kind = PODNET_SEEN,
                                           .about = loss,
                                           .evidence = s->found.evidence,
                                           .is_by_device = s->found.is_by_device});
    }
    log_repeat_reset(&p->blind);
    scan_note_unseen(p, unseen, one);
    if (p->stats.scans++ == 0) {
        p->tell_at = mono_add(now, p->config.plan.debounce_ns);
    }
    plan_step(p, (struct podnet_event){.kind = PODNET_SCANNED});
    if (mono_reached(now, p->tell_at)) {
        tell_count(p);
    }
}

static void sandbox_take_detail(struct podnet *p, struct sandbox *s,
                                const struct cri_detail *detail)
{
    struct pod_net net;
    if (detail->has_host_network) {
        s->view = VIEW_HOST;
        return;
    }
    if (pod_net_open(p->config.root, s->cri.id, detail->pid, detail->netns, &net)) {
        s->view = VIEW_OPEN;
    }
    if (s->net.links[0].has_testified) { /* what was seen is not forgotten */
        s->net.place = net.place;
        return;
    }
    s->net = net;
    if (!s->is_older) {
        pod_net_distrust_results(&s->net);
    }
}

static void on_detail(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct podnet *p = user;
    struct cri_detail detail;
    p->call = NULL;
    lose_sight(p->described);
    if (why && why->sys_errno != 0) { /* the runtime itself: hangs, or ended */
        scan_fail(p, why);
        return;
    }
    if (!why && cri_read_detail(message, len, &detail, NULL) == 0) {
        sandbox_take_detail(p, p->described, &detail);
    }
    scan_ask_next(p);
}

static void scan_ask_next(struct podnet *p)
{
    struct mono now = clock_mono_now();
    for (struct podnet_loss *loss = p->plan.all; loss; loss = loss->next) {
        struct sandbox *s = sandbox_of(loss);
        if (s->list == p->list && s->view == VIEW_NONE && mono_reached(now, s->ask_again)) {
            p->described = s;
            p->call = runtime_call(p, CRI_INSPECT, s, on_detail);
            return;
        }
    }
    scan_look(p);
}

static void on_listed(void *user, const struct cri_sandbox *cri)
{
    struct podnet *p = user;
    struct podnet_loss **at = &p->plan.all;
    while (*at && !text_equal(sandbox_of(*at)->cri.id, cri->id)) {
        at = &(*at)->next;
    }
    if (!*at) {
        struct sandbox *made = MEM_NEW(struct sandbox);
        made->cri = *cri;
        made->is_older = p->list == 0;
        made->loss.made = cri->made;
        *at = &made->loss;
    }
    sandbox_of(*at)->list = p->list + 1;
}

static void drop_unlisted(struct podnet *p)
{
    struct podnet_loss **at = &p->plan.all;
    p->stats.sandboxes = 0;
    while (*at) {
        struct podnet_loss *loss = *at;
        bool is_listed = sandbox_of(loss)->list == p->list;
        p->stats.sandboxes += is_listed;
        if (is_listed || podnet_is_in_hand(loss)) {
            at = &loss->next;
            continue;
        }
        plan_step(p, (struct podnet_event){.kind = PODNET_ENDED, .about = loss});
        *at = loss->next;
        free(sandbox_of(loss));
    }
}

static void on_list(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct podnet *p = user;
    struct err e = ERR_INIT;
    p->call = NULL;
    if (why || cri_read_list(message, len, on_listed, p, &e) != 0) {
        scan_fail(p, why ? why : &e);
        return;
    }
    p->list++;
    drop_unlisted(p);
    scan_ask_next(p);
}

/* Nothing while one is under way. */
static void on_scan_timer(void *user)
{
    struct podnet *p = user;
    boot_timer_arm(p->scan_timer, mono_add(clock_mono_now(), p->config.plan.debounce_ns / 2));
    if (!p->call) {
        p->call = runtime_call(p, CRI_LIST, NULL, on_list);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct podnet *podnet_start(const struct podnet_config *config)
{
    struct podnet *p = MEM_NEW(struct podnet);
    p->config = *config;
    p->config.plan.stops = config->mode == PODNET_MODE_RESTART;
    p->config.plan.seed = (uint64_t)clock_wall_now().ns;
    p->tell_at = MONO_NEVER;
    podnet_plan_init(&p->plan, &p->config.plan);
    p->stop_timer = boot_timer_new(config->loop, on_stop_timer, p);
    p->scan_timer = boot_timer_new(config->loop, on_scan_timer, p);
    boot_timer_arm(p->scan_timer, clock_mono_now());
    return p;
}

void podnet_free(struct podnet *p)
{
    if (!p) {
        return;
    }
    grpc_unary_cancel(p->call);
    grpc_unary_cancel(p->stop);
    kube_call_cancel(p->question);
    boot_timer_free(p->scan_timer);
    boot_timer_free(p->stop_timer);
    while (p->plan.all) {
        struct sandbox *first = sandbox_of(p->plan.all);
        p->plan.all = first->loss.next;
        free(first);
    }
    free(p);
}

const struct podnet_stats *podnet_stats(const struct podnet *p)
{
    return &p->stats;
}
