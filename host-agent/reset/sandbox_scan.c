/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/sandbox_scan.h"

#include "base/clock.h"
#include "base/text.h"
#include "grpc/grpc_unary.h"

#include <assert.h>
#include <stdlib.h>

enum view {
    VIEW_NONE, /* the runtime has still to say where it is */
    VIEW_HOST, /* of no interest */
    VIEW_OPEN,
};

struct sandbox {
    struct cri_sandbox cri;
    struct pod_net net; /* VIEW_OPEN */
    enum view view;
    struct mono ask_again;
    bool is_older; /* than our first look */
    bool is_listed;
};

struct sandbox_scan {
    struct sandbox_scan_config config;
    struct sandbox *sandboxes; /* owned */
    size_t count;
    size_t room;
    struct grpc_unary *call; /* the call under way, or NULL */
    size_t asked;            /* the sandbox that it is about */
    bool is_short;           /* no memory for all of the list */
    bool has_listed;         /* once, whole */
};

static void ask_next(struct sandbox_scan *s);

static void fly(struct sandbox_scan *s, const char *method, const struct cri_request *request,
                grpc_unary_fn *done)
{
    struct err e = ERR_INIT;
    const struct grpc_unary_plan plan = {
        .path = s->config.socket,
        .method = method,
        .message = {.bytes = request->bytes, .len = request->len},
        .timeout_ns = SANDBOX_SCAN_CALL_NS,
        .done = done,
        .user = s,
    };
    if (grpc_unary_start(s->config.loop, &plan, &s->call, &e) != 0) {
        s->call = NULL;
        s->config.done(s->config.user, &e);
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Whoever held the namespaces may be gone: the runtime is asked anew, but not all the time. */
static void lose_sight(struct sandbox *b)
{
    b->view = VIEW_NONE;
    b->ask_again = mono_add(clock_mono_now(), SANDBOX_SCAN_AGAIN_NS);
}

static void look_at(struct sandbox_scan *s, struct sandbox *b, struct pod_net_finding *out)
{
    pod_net_look(&b->net, s->config.root, out);
    if (b->view == VIEW_OPEN && out->evidence == POD_NET_UNSEEN) {
        lose_sight(b);
    }
}

static void look_at_all(struct sandbox_scan *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct pod_net_finding finding;
        if (s->sandboxes[i].view != VIEW_HOST) {
            look_at(s, &s->sandboxes[i], &finding);
            s->config.each(s->config.user, &s->sandboxes[i].cri, &finding);
        }
    }
    s->config.done(s->config.user, NULL);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void take_detail(struct sandbox_scan *s, struct sandbox *b, const struct cri_detail *detail)
{
    struct pod_net net;
    const struct pod_net_place place = {.pid = detail->pid, .netns = detail->netns};
    if (detail->has_host_network) {
        b->view = VIEW_HOST;
        return;
    }
    if (pod_net_open(s->config.root, b->cri.id, &place, &net)) {
        b->view = VIEW_OPEN;
    }
    if (b->net.has_testified) { /* what was seen is not forgotten */
        pod_net_move(&b->net, &net);
    } else {
        b->net = net;
        b->net.has_testified = b->is_older && net.has_testified;
    }
}

static void on_detail(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct sandbox_scan *s = user;
    struct sandbox *b = &s->sandboxes[s->asked];
    struct cri_detail detail;
    s->call = NULL;
    lose_sight(b);
    if (why && why->sys_errno != 0) { /* the runtime itself: hangs, or ended */
        s->config.done(s->config.user, why);
        return;
    }
    if (!why && cri_read_detail(message, len, &detail, NULL) == 0) {
        take_detail(s, b, &detail);
    }
    ask_next(s);
}

static void ask_next(struct sandbox_scan *s)
{
    struct mono now = clock_mono_now();
    for (size_t i = 0; i < s->count; i++) {
        struct sandbox *b = &s->sandboxes[i];
        if (b->view == VIEW_NONE && mono_reached(now, b->ask_again)) {
            struct cri_request request;
            cri_ask_inspect(b->cri.id, &request);
            s->asked = i;
            fly(s, CRI_METHOD_INSPECT, &request, on_detail);
            return;
        }
    }
    look_at_all(s);
}

/* ---- the list -------------------------------------------------------------------------------- */

static struct sandbox *find(const struct sandbox_scan *s, const char *id)
{
    for (size_t i = 0; i < s->count; i++) {
        if (text_equal(s->sandboxes[i].cri.id, id)) {
            return &s->sandboxes[i];
        }
    }
    return NULL;
}

static struct sandbox *add(struct sandbox_scan *s, const struct cri_sandbox *cri)
{
    if (s->count == s->room) {
        size_t room = s->room == 0 ? 64 : 2 * s->room;
        struct sandbox *grown = realloc(s->sandboxes, room * sizeof(*grown));
        if (!grown) {
            return NULL;
        }
        s->sandboxes = grown;
        s->room = room;
    }
    assert(s->count < (size_t)2 * CRI_SANDBOXES_MAX); /* those of two lists at most */
    s->sandboxes[s->count] = (struct sandbox){.cri = *cri, .is_older = !s->has_listed};
    return &s->sandboxes[s->count++];
}

static void on_listed(void *user, const struct cri_sandbox *cri)
{
    struct sandbox_scan *s = user;
    struct sandbox *b = find(s, cri->id);
    b = b ? b : add(s, cri);
    if (b) {
        b->is_listed = true;
    } else {
        s->is_short = true;
    }
}

static void drop_unlisted(struct sandbox_scan *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->sandboxes[i].is_listed) {
            s->sandboxes[kept++] = s->sandboxes[i];
        }
    }
    s->count = kept;
}

static void on_list(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct sandbox_scan *s = user;
    struct err e = ERR_INIT;
    s->call = NULL;
    for (size_t i = 0; i < s->count; i++) {
        s->sandboxes[i].is_listed = false;
    }
    s->is_short = false;
    int rc = why ? why->code : cri_read_list(message, len, on_listed, s, &e);
    if (rc == 0 && s->is_short) {
        rc = err_set(&e, ERR_NOMEM, "out of memory for the list of sandboxes");
    }
    if (rc != 0) {
        s->config.done(s->config.user, why ? why : &e);
        return;
    }
    s->has_listed = true;
    drop_unlisted(s);
    ask_next(s);
}

void sandbox_scan_run(struct sandbox_scan *s)
{
    struct cri_request request;
    if (!s->call) {
        cri_ask_list(&request);
        fly(s, CRI_METHOD_LIST, &request, on_list);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int sandbox_scan_new(const struct sandbox_scan_config *config, struct sandbox_scan **out,
                     struct err *e)
{
    struct sandbox_scan *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_no_memory(e);
    }
    s->config = *config;
    *out = s;
    return 0;
}

void sandbox_scan_free(struct sandbox_scan *s)
{
    if (s) {
        grpc_unary_cancel(s->call);
        free(s->sandboxes);
        free(s);
    }
}

void sandbox_scan_look(struct sandbox_scan *s, const char *id, struct pod_net_finding *out)
{
    struct sandbox *b = find(s, id);
    *out = (struct pod_net_finding){.evidence = POD_NET_UNSEEN};
    if (b) {
        look_at(s, b, out);
    }
}

const struct cri_sandbox *sandbox_scan_find(const struct sandbox_scan *s, const char *id)
{
    const struct sandbox *b = find(s, id);
    return b ? &b->cri : NULL;
}

size_t sandbox_scan_count(const struct sandbox_scan *s)
{
    return s->count;
}
