/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/claim.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "dra-driver/dra/plugin.h"
#include "loop/daemon.h"
#include "outputs/events.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENT_ACTION "HealthChanged"
#define CLAIM_PATH   "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s"

enum { WORD_BYTES = 8, TARGET_BYTES = WORD_BYTES + 2 * NAMES_K8S_NAME_BYTES };

/* ---- at the API server ----------------------------------------------------------------------- */

int claim_ask(struct kube_client *client, enum kube_priority priority, const struct claim_ref *ref,
              kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    char path[2 * NAMES_K8S_NAME_BYTES + 96];
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = priority,
                                         .path = path,
                                         .deadline_ms = CLAIM_LOOKUP_DEADLINE_MS};
    if (!text_is_dns1123_subdomain(ref->ns) || !text_is_dns1123_subdomain(ref->name)) {
        return err_set(e, ERR_PARSE, "not a valid name of a claim");
    }
    if (text_is_empty(ref->uid) || strlen(ref->uid) >= NAMES_UID_BYTES) {
        return err_set(e, ERR_PARSE, "claim '%s/%s' is asked for without a UID", ref->ns,
                       ref->name);
    }
    text_format(path, sizeof(path), CLAIM_PATH, ref->ns, ref->name);
    *out = kube_client_start(client, &request, done, user);
    return 0;
}

/* Absent is "". */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_text_get(object, key);
    return text ? text : "";
}

static int read_result(const json_t *result, const struct dra_device *device,
                       struct claim_allocation *a, struct err *e)
{
    const char *pool = text_of(result, "pool");
    const char *name = text_of(result, "device");
    const char *request = text_of(result, "request");
    struct claim_share *share = &a->shares[a->count];
    if (!text_equal(json_text_get(result, "driver"), device->driver)) {
        return 0;
    }
    if (!text_equal(pool, device->pool) || !text_equal(name, device->name)) {
        return err_set(e, ERR_CONFLICT, "device '%s/%s' is not on this node, which has '%s/%s'",
                       pool, name, device->pool, device->name);
    }
    if (a->count == CLAIM_RESULTS_MAX) {
        return err_set(e, ERR_LIMIT, "more than %d allocation results", CLAIM_RESULTS_MAX);
    }
    size_t len = strcspn(request, "/"); /* the kubelet compares base names */
    if (len >= sizeof(share->request) ||
        !text_copy(share->share_id, sizeof(share->share_id), text_of(result, "shareID"))) {
        return err_set(e, ERR_LIMIT, "request '%.80s' or its share ID is too long", request);
    }
    text_format(share->request, sizeof(share->request), "%.*s", (int)len, request);
    a->count++;
    /* Of all results the closest use wins. */
    if (!json_is_true(json_object_get(result, "adminAccess"))) {
        bool is_shared = share->share_id[0] != '\0' && a->use != CLAIM_USE_ALONE;
        a->use = is_shared ? CLAIM_USE_SHARED : CLAIM_USE_ALONE;
    }
    return 0;
}

static int read_claim(const json_t *claim, const struct claim_ref *ref,
                      const struct dra_device *device, struct claim_allocation *out, struct err *e)
{
    const char *uid = json_text_get(json_object_get(claim, "metadata"), "uid");
    const json_t *allocation = json_object_get(json_object_get(claim, "status"), "allocation");
    const json_t *results = json_object_get(json_object_get(allocation, "devices"), "results");
    struct claim_allocation a = {.use = CLAIM_USE_ADMIN};
    size_t index;
    const json_t *result;
    if (!text_equal(json_text_get(claim, "kind"), "ResourceClaim") || !uid) {
        return err_set(e, ERR_PARSE, "the answer is not a ResourceClaim");
    }
    if (!text_equal(uid, ref->uid)) {
        return err_set(e, ERR_GONE, "it was replaced: it has UID '%s', not '%s'", uid, ref->uid);
    }
    if (!json_is_array(results)) {
        return err_set(e, ERR_NOTFOUND, "it is not allocated");
    }
    json_array_foreach(results, index, result)
    {
        int rc = read_result(result, device, &a, e);
        if (rc != 0) {
            return rc;
        }
    }
    if (a.count == 0) {
        return err_set(e, ERR_NOTFOUND, "nothing of driver '%s' is allocated to it",
                       device->driver);
    }
    *out = a;
    return 0;
}

int claim_read(const struct kube_response *answer, const struct claim_ref *ref,
               const struct dra_device *device, struct claim_allocation *out, struct err *e)
{
    bool is_unserved = answer->http_status == 404 && !kube_is_not_found(answer);
    int rc = is_unserved ? ERR_RETRY : answer->code;
    if (rc != 0) {
        return err_set(e, rc, "looking up claim '%s/%s': %s", ref->ns, ref->name, answer->message);
    }
    rc = read_claim(answer->body, ref, device, out, e);
    if (rc != 0) {
        (void)err_wrap(e, "claim '%s/%s'", ref->ns, ref->name); /* rc is the code */
    }
    return rc;
}

/* ---- on disk --------------------------------------------------------------------------------- */

static const char *const words[] = {
    [CLAIM_USE_ALONE] = "alone",
    [CLAIM_USE_SHARED] = "shared",
    [CLAIM_USE_ADMIN] = "admin",
};

static bool claim_path(const char *plugin_dir, const char *uid, char out[static PATH_MAX])
{
    text_format(out, PATH_MAX, "%s/claims/%s", plugin_dir, uid); /* fits: both are bounded */
    return text_is_dns1123_subdomain(uid);
}

/* "USE NAMESPACE/NAME" */
static bool parse_target(char *target, struct stored_claim *out)
{
    size_t use = 0;
    char *ns = strchr(target, ' ');
    char *name = ns ? strchr(ns, '/') : NULL;
    if (!name) {
        return false;
    }
    *ns++ = '\0';
    *name++ = '\0';
    while (use < ARRAY_LEN(words) && !text_equal(target, words[use])) {
        use++;
    }
    out->use = (enum claim_use)use;
    return use < ARRAY_LEN(words) && text_copy(out->ns, sizeof(out->ns), ns) &&
           text_copy(out->name, sizeof(out->name), name) && text_is_dns1123_subdomain(out->ns) &&
           text_is_dns1123_subdomain(out->name);
}

/* False: a file of somebody else, or dropped meanwhile. */
static bool read_entry(DIR *dir, const char *name, struct stored_claim *out)
{
    char target[TARGET_BYTES];
    ssize_t len = readlinkat(dirfd(dir), name, target, sizeof(target) - 1);
    target[len > 0 ? len : 0] = '\0';
    return parse_target(target, out) && text_copy(out->uid, sizeof(out->uid), name);
}

static DIR *open_store(const char *plugin_dir)
{
    char path[PATH_MAX];
    text_format(path, sizeof(path), "%s/claims", plugin_dir);
    return opendir(path);
}

bool claim_store_next(const char *plugin_dir, const char *uid, struct stored_claim *out)
{
    struct stored_claim best = {.uid = ""};
    struct stored_claim seen;
    const struct dirent *entry;
    CLEANUP(dir) DIR *dir = open_store(plugin_dir);
    for (int i = 0; dir && i < CLAIM_STORE_ENTRIES_MAX && (entry = readdir(dir)); i++) {
        bool is_better = best.uid[0] == '\0' || strcmp(entry->d_name, best.uid) < 0;
        if (strcmp(entry->d_name, uid) > 0 && is_better && read_entry(dir, entry->d_name, &seen)) {
            best = seen;
        }
    }
    if (best.uid[0] == '\0') {
        return false;
    }
    *out = best;
    return true;
}

/* Keeps it if it is one of the two with the smallest UIDs. */
static void pair_add(struct claim_holder_pair *p, const struct stored_claim *claim)
{
    size_t at = p->count;
    while (at > 0 && strcmp(claim->uid, p->claims[at - 1].uid) < 0) {
        at--;
    }
    if (at >= ARRAY_LEN(p->claims)) {
        return;
    }
    if (at == 0) {
        p->claims[1] = p->claims[0];
    }
    p->claims[at] = *claim;
    p->count += p->count < ARRAY_LEN(p->claims);
}

static void holders_read(struct claim_holders *h, const char *plugin_dir)
{
    struct stored_claim seen;
    const struct dirent *entry;
    int count = 0;
    *h = (struct claim_holders){.is_read = true};
    CLEANUP(dir) DIR *dir = open_store(plugin_dir);
    while (dir && count < CLAIM_STORE_ENTRIES_MAX && (entry = readdir(dir))) {
        count++;
        if (read_entry(dir, entry->d_name, &seen) && seen.use != CLAIM_USE_ADMIN) {
            pair_add(&h->of[seen.use], &seen);
        }
    }
    h->is_cut = count == CLAIM_STORE_ENTRIES_MAX && readdir(dir);
}

/* The one with the smallest UID that is in the way, or NULL. */
static const struct stored_claim *find_in_the_way(const struct claim_holders *h, const char *uid,
                                                  enum claim_use use)
{
    const struct stored_claim *found = NULL;
    for (enum claim_use other = CLAIM_USE_ALONE; other < CLAIM_USE_ADMIN; other++) {
        bool excludes =
            use != CLAIM_USE_ADMIN && (use == CLAIM_USE_ALONE || other == CLAIM_USE_ALONE);
        const struct claim_holder_pair *p = &h->of[other];
        for (size_t i = 0; excludes && i < p->count; i++) {
            const struct stored_claim *c = &p->claims[i];
            if (!text_equal(c->uid, uid) && (!found || strcmp(c->uid, found->uid) < 0)) {
                found = c;
            }
        }
    }
    return found;
}

/* It is kept now. One that is kept anew may have had another use: then the next look tells. */
static void holders_add(struct claim_holders *h, const struct stored_claim *claim)
{
    for (enum claim_use use = CLAIM_USE_ALONE; use < CLAIM_USE_ADMIN; use++) {
        for (size_t i = 0; i < h->of[use].count; i++) {
            h->is_read = h->is_read && !text_equal(h->of[use].claims[i].uid, claim->uid);
        }
    }
    if (h->is_read && claim->use != CLAIM_USE_ADMIN) {
        pair_add(&h->of[claim->use], claim);
    }
}

int claim_store_take(const char *plugin_dir, struct claim_holders *holders,
                     const struct claim_ref *ref, enum claim_use use, struct stored_claim *out,
                     struct err *e)
{
    char path[PATH_MAX];
    char target[TARGET_BYTES];
    if (!holders->is_read) {
        holders_read(holders, plugin_dir);
    }
    const struct stored_claim *other = find_in_the_way(holders, ref->uid, use);
    if (other) {
        *out = *other;
        return err_set(e, ERR_CONFLICT, "the device is prepared for claim '%s/%s', %s", out->ns,
                       out->name,
                       out->use == CLAIM_USE_ALONE ? "which does not share it"
                                                   : "and this claim does not share it");
    }
    if (!claim_path(plugin_dir, ref->uid, path)) {
        return err_set(e, ERR_PARSE, "claim '%s/%s' has a UID that names no file", ref->ns,
                       ref->name);
    }
    text_format(target, sizeof(target), "%s/claims", plugin_dir);
    (void)mkdir(target, 0700); /* mostly there; otherwise the link says why */
    (void)unlink(path);
    text_format(target, sizeof(target), "%s %s/%s", words[use], ref->ns, ref->name);
    if (symlink(target, path) != 0) {
        return err_set_errno(e, ERR_IO, errno, "keeping claim '%s/%s' as '%s'", ref->ns, ref->name,
                             path);
    }
    *out = (struct stored_claim){.use = use};
    text_format(out->ns, sizeof(out->ns), "%s", ref->ns);
    text_format(out->name, sizeof(out->name), "%s", ref->name);
    text_format(out->uid, sizeof(out->uid), "%s", ref->uid);
    holders_add(holders, out);
    return 0;
}

void claim_store_drop(const char *plugin_dir, const char *uid)
{
    char path[PATH_MAX];
    if (claim_path(plugin_dir, uid, path)) {
        (void)unlink(path); /* it may never have been there */
    }
}

/* ---- Events on the pods that have them ------------------------------------------------------- */

/* Claims to be looked up, each once. */
struct claim_list {
    size_t count;
    bool is_all; /* and all others of the store */
    struct stored_claim items[CLAIM_CHECKS_MAX];
};

/* A walk through the store, in the order of the UIDs. */
enum claim_round {
    ROUND_NONE,
    ROUND_TELL,  /* the pods, too */
    ROUND_CHECK, /* conditions alone, at the pace of what is tried again */
};

struct claim_events {
    const struct dra_config *config;
    const struct dra_device *device;
    bool has_told;
    struct readiness told; /* by the Events of this round, or the last */
    bool has_shown;
    struct readiness shown; /* by conditions: the newest */
    struct wall since;      /* the first one with its health */

    struct stored_claim claim; /* that is looked up */
    struct kube_call *call;    /* NULL: no look-up is under way */
    bool is_again;             /* for its condition alone, after a conflict */

    enum claim_round round;
    char round_uid[NAMES_UID_BYTES]; /* where it is */
    bool is_anew;                    /* one that tells starts at the first claim (again) */
    struct claim_list checks;        /* to be looked up before anything else but such a round */
    struct claim_list retries;       /* the same, but not before */
    struct mono retry_at;
    struct backoff backoff;
    struct boot_timer *timer;
    struct log_repeat trouble;
};

static void claims_go_on(struct claim_events *t);
static void claim_look_up(struct claim_events *t);

static void claim_list_add(struct claim_list *list, const struct stored_claim *claim)
{
    for (size_t i = 0; i < list->count; i++) {
        if (text_equal(list->items[i].uid, claim->uid)) {
            return;
        }
    }
    if (list->count < CLAIM_CHECKS_MAX) {
        list->items[list->count] = *claim;
        list->count++;
    } else {
        list->is_all = true;
    }
}

/* The one that waits longest, so that none that fails for ever keeps others waiting. */
static bool claim_list_take(struct claim_list *list, struct stored_claim *out)
{
    if (list->count == 0) {
        return false;
    }
    *out = list->items[0];
    list->count--;
    memmove(list->items, list->items + 1, list->count * sizeof(list->items[0]));
    return true;
}

static bool wants_conditions(const struct claim_events *t)
{
    return t->config->events && t->config->options->claim_conditions;
}

/* Its condition could not be looked at, or written. */
static void try_later(struct claim_events *t, const struct kube_response *r)
{
    if (!wants_conditions(t)) {
        return;
    }
    claim_list_add(&t->retries, &t->claim);
    if (!mono_before(r->received_at, t->retry_at)) { /* else that is what it waits for */
        t->retry_at = mono_add(r->received_at, backoff_next_ns(&t->backoff, r->retry_after_ns));
        boot_timer_arm(t->timer, t->retry_at);
    }
}

/* Drops a claim that is no longer prepared. False too if nobody knows. */
static bool is_still_prepared(struct claim_events *t, const struct kube_response *answer)
{
    struct err e = ERR_INIT;
    struct claim_allocation allocation;
    const struct stored_claim *c = &t->claim;
    const struct claim_ref ref = {.ns = c->ns, .uid = c->uid, .name = c->name};
    int rc = claim_read(answer, &ref, t->device, &allocation, &e);
    if (rc == ERR_NOTFOUND || rc == ERR_GONE || rc == ERR_CONFLICT) {
        log_debug("dra", "claim '%s/%s' is no longer prepared: %s", c->ns, c->name, e.msg);
        claim_store_drop(t->config->options->names.plugin_dir, c->uid);
    } else if (rc != 0) {
        try_later(t, answer);
    }
    return rc == 0;
}

/* Nothing for a user of the claim that is no pod. */
static void tell_pod(struct claim_events *t, const json_t *user)
{
    static const char *const reasons[] = {[HEALTH_UNKNOWN] = "DPUHealthUnknown",
                                          [HEALTH_HEALTHY] = "DPUHealthy",
                                          [HEALTH_UNHEALTHY] = "DPUUnhealthy"};
    const struct health_report report = health_report_of(&t->told);
    struct event event = {.at = t->told.transition,
                          /* The record's times are whole seconds, within which a DPU that dies may
                           * return: the reason tells the two Events apart. */
                          .key = (uint64_t)t->told.transition.ns + (uint64_t)t->told.reason,
                          .action = EVENT_ACTION,
                          .reason = reasons[report.status],
                          .rights = "dra-driver.yaml",
                          .is_warning = report.status != HEALTH_HEALTHY};
    const char *name = json_text_get(user, "name");
    const char *uid = json_text_get(user, "uid");
    if (text_equal(json_text_get(user, "resource"), "pods") && name && uid) {
        text_format(event.note, sizeof(event.note), "%s", report.message);
        text_format(event.ns, sizeof(event.ns), "%s", t->claim.ns);
        text_format(event.pod, sizeof(event.pod), "%s", name);
        text_format(event.uid, sizeof(event.uid), "%s", uid);
        events_tell_pod(t->config->events, &event);
    }
}

/* ---- the condition of its devices (KEP-4817) ------------------------------------------------- */

/* Our entry for one result of the allocation. Returns owned. */
static json_t *lay_device(const struct claim_events *t, const json_t *result)
{
    static const char *const statuses[] = {
        [HEALTH_UNKNOWN] = "Unknown", [HEALTH_HEALTHY] = "True", [HEALTH_UNHEALTHY] = "False"};
    const struct health_report report = health_report_of(&t->shown);
    return json_pack("{s:s, s:s, s:s, s:s*, s:[{s:s, s:s, s:s, s:s, s:s}]}", "driver",
                     t->device->driver, "pool", t->device->pool, "device", t->device->name,
                     "shareID", json_text_get(result, "shareID"), "conditions", "type", "Ready",
                     "status", statuses[report.status], "reason",
                     readiness_reason_name(t->shown.reason), "message", report.message,
                     "lastTransitionTime", rfc3339_text(t->since, false).text);
}

/* The devices of the claim's status: those of other drivers stay, ours are made anew, one for each
 * result. Returns owned. */
static json_t *lay_devices(const struct claim_events *t, const json_t *status)
{
    const json_t *allocated = json_object_get(json_object_get(status, "allocation"), "devices");
    json_t *devices = json_array();
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(status, "devices"), i, entry)
    {
        if (!text_equal(json_text_get(entry, "driver"), t->device->driver)) {
            (void)json_array_append(devices, entry);
        }
    }
    json_array_foreach(json_object_get(allocated, "results"), i, entry)
    {
        if (text_equal(json_text_get(entry, "driver"), t->device->driver)) {
            (void)json_array_append_new(devices, lay_device(t, entry));
        }
    }
    return devices;
}

/* Another writer of the claim goes first; then we try once more. */
static void on_condition(void *user, const struct kube_response *r)
{
    struct claim_events *t = user;
    t->call = NULL;
    if (r->http_status == 409 && !t->is_again && !t->is_anew) {
        t->is_again = true;
        claim_look_up(t);
    } else if (r->code != 0) {
        log_limited(&t->trouble, LOG_AGAIN_NS, LOG_WARN, "dra",
                    "writing the condition of claim '%s/%s': %s%s", t->claim.ns, t->claim.name,
                    r->message,
                    kube_is_denied(r) ? "; rbac/dra-driver-claims.yaml gives that right" : "");
        try_later(t, r);
    }
    claims_go_on(t);
}

/* Nothing if the claim says it already. */
static void write_condition(struct claim_events *t, const json_t *claim)
{
    char path[2 * NAMES_K8S_NAME_BYTES + 96];
    CLEANUP(json) json_t *body = json_deep_copy(claim);
    json_t *status = json_object_get(body, "status");
    CLEANUP(json) json_t *devices = lay_devices(t, status);
    const struct kube_request request = {
        .method = KUBE_PUT, .channel = KUBE_CONTROL, .path = path, .body = body};
    if (json_equal(devices, json_object_get(status, "devices"))) {
        return;
    }
    (void)json_object_set(status, "devices", devices);
    text_format(path, sizeof(path), CLAIM_PATH "/status", t->claim.ns, t->claim.name);
    t->call = kube_client_start(t->config->client, &request, on_condition, t);
}

/* ---- which claim is next --------------------------------------------------------------------- */

static void on_answer(void *user, const struct kube_response *answer)
{
    struct claim_events *t = user;
    t->call = NULL;
    if (is_still_prepared(t, answer) && !t->is_anew) {
        const json_t *status = json_object_get(answer->body, "status");
        size_t i;
        json_t *pod;
        json_array_foreach(json_object_get(status, "reservedFor"), i, pod)
        {
            if (t->round == ROUND_TELL && !t->is_again) {
                tell_pod(t, pod);
            }
        }
        if (wants_conditions(t) && t->has_shown) {
            write_condition(t, answer->body);
        }
    }
    claims_go_on(t);
}

static void claim_look_up(struct claim_events *t)
{
    struct err e = ERR_INIT;
    const struct claim_ref ref = {.ns = t->claim.ns, .uid = t->claim.uid, .name = t->claim.name};
    if (claim_ask(t->config->client, KUBE_ORDINARY, &ref, on_answer, t, &t->call, &e) != 0) {
        log_debug("dra", "looking up claim '%s/%s': %s", ref.ns, ref.name, e.msg);
    }
}

/* It looks at all that wait, too. */
static void begin_round(struct claim_events *t, enum claim_round round)
{
    t->round = round;
    t->round_uid[0] = '\0';
    t->checks = (struct claim_list){.count = 0};
    t->retries = (struct claim_list){.count = 0};
}

static bool next_of_round(struct claim_events *t)
{
    if (t->round == ROUND_NONE ||
        !claim_store_next(t->config->options->names.plugin_dir, t->round_uid, &t->claim)) {
        t->round = ROUND_NONE;
        return false;
    }
    text_format(t->round_uid, sizeof(t->round_uid), "%s", t->claim.uid);
    return true;
}

/* Nothing while what failed has to wait, or if there is nothing to do. */
static bool pick_later(struct claim_events *t)
{
    if (mono_before(clock_mono_now(), t->retry_at)) {
        return false;
    }
    if (t->round == ROUND_NONE && (t->retries.is_all || t->checks.is_all)) {
        begin_round(t, ROUND_CHECK);
    }
    bool is_picked = next_of_round(t) || claim_list_take(&t->retries, &t->claim);
    if (!is_picked) {
        backoff_reset(&t->backoff);
    }
    return is_picked;
}

/* First those of a round that tells. */
static bool pick_claim(struct claim_events *t)
{
    if (t->is_anew) {
        t->is_anew = false;
        begin_round(t, ROUND_TELL);
    }
    return (t->round == ROUND_TELL && next_of_round(t)) || claim_list_take(&t->checks, &t->claim) ||
           pick_later(t);
}

/* Until a claim is being looked up, or all were. */
static void claims_go_on(struct claim_events *t)
{
    while (!t->call && pick_claim(t)) {
        t->is_again = false;
        claim_look_up(t);
    }
}

static bool is_hold(const struct readiness *verdict)
{
    return verdict->state == READINESS_UNKNOWN && verdict->admit;
}

/* What changes is mostly told by an Event at once, which begins a round. */
static void look_at_all_later(struct claim_events *t)
{
    t->retries.is_all = true;
    t->retry_at = mono_max(t->retry_at, mono_add(clock_mono_now(), CLAIM_SETTLE_NS));
    boot_timer_arm(t->timer, t->retry_at);
}

void claim_events_show(struct claim_events *t, const struct readiness *verdict)
{
    if (is_hold(verdict)) {
        return;
    }
    bool is_other = !t->has_shown || t->shown.reason != verdict->reason;
    if (!t->has_shown || health_report_of(verdict).status != health_report_of(&t->shown).status) {
        t->since = verdict->transition;
    }
    t->has_shown = true;
    t->shown = *verdict;
    if (is_other && wants_conditions(t)) {
        look_at_all_later(t);
    }
}

/* An Event about the Node has told it. The pods hear of neither a hold nor the same state twice. */
static void on_event_written(void *user, const struct readiness *verdict)
{
    struct claim_events *t = user;
    if (is_hold(verdict) || (t->has_told && t->told.reason == verdict->reason)) {
        return;
    }
    t->has_told = true;
    t->told = *verdict;
    t->is_anew = true;
    events_withdraw(t->config->events, EVENT_ACTION);
    claims_go_on(t);
}

void claim_events_check(struct claim_events *t, const struct stored_claim *claim)
{
    if (!t->call || !text_equal(t->claim.uid, claim->uid)) {
        claim_list_add(&t->checks, claim);
        claims_go_on(t);
    }
}

void claim_events_prepared(struct claim_events *t, const struct stored_claim *claim)
{
    if (wants_conditions(t)) {
        claim_events_check(t, claim);
    }
}

static void on_timer(void *user)
{
    claims_go_on(user);
}

struct claim_events *claim_events_new(const struct dra_config *config,
                                      const struct dra_device *device)
{
    struct claim_events *t = MEM_NEW(struct claim_events);
    t->config = config;
    t->device = device;
    t->timer = boot_timer_new(config->loop, on_timer, t);
    backoff_init(&t->backoff, CLAIM_RETRY_NS, CLAIM_RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    if (config->events) {
        events_on_written(config->events, on_event_written, t);
    }
    return t;
}

void claim_events_free(struct claim_events *t)
{
    if (t) {
        kube_call_cancel(t->call);
        boot_timer_free(t->timer);
    }
    free(t);
}
