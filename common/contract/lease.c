/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

#define API_VERSION "coordination.k8s.io/v1"
#define API_GROUP   "coordination.k8s.io/"

#define US_NS       (NS_PER_MS / 1000)
#define SET_BACK_NS (60 * NS_PER_SEC)

const char *lease_health_name(enum lease_health health)
{
    static const char *const names[] = {[LEASE_HEALTH_NONE] = NULL,
                                        [LEASE_HEALTH_UNHEALTHY] = NAMES_HEALTH_UNHEALTHY,
                                        [LEASE_HEALTH_SHUTDOWN] = NAMES_HEALTH_SHUTDOWN};
    return names[health];
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A member that has to be there, whole. */
static int read_name(const json_t *meta, const char *key, char *out, size_t out_bytes,
                     struct err *e)
{
    const char *text = json_text_get(meta, key);
    if (text_is_empty(text)) {
        return err_set(e, ERR_PARSE, "lease without metadata.%s", key);
    }
    if (!text_copy(out, out_bytes, text)) {
        return err_set(e, ERR_PARSE, "metadata.%s of a lease has %zu bytes, more than %zu", key,
                       strlen(text), out_bytes - 1);
    }
    return 0;
}

static bool is_no_object(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    return member && !json_is_null(member) && !json_is_object(member);
}

/* Items of a list carry neither kind nor apiVersion; what does must be a Lease. One that was read
 * can be edited. */
static int check_form(const json_t *lease, struct err *e)
{
    const char *kind = json_text_get(lease, "kind");
    const char *version = json_text_get(lease, "apiVersion");
    if (!json_is_object(lease)) {
        return err_set(e, ERR_PARSE, "not a JSON object where a lease was expected");
    }
    if (kind && !text_equal(kind, "Lease")) {
        return err_set(e, ERR_PARSE, "kind '%.63s' where a lease was expected", kind);
    }
    if (version && strncmp(version, API_GROUP, strlen(API_GROUP)) != 0) {
        return err_set(e, ERR_PARSE, "apiVersion '%.63s' where '%s' was expected", version,
                       API_VERSION);
    }
    if (is_no_object(lease, "spec") ||
        is_no_object(json_object_get(lease, "metadata"), "annotations")) {
        return err_set(e, ERR_PARSE, "spec or annotations of a lease are not an object");
    }
    return 0;
}

/* The API server keeps no renewTime that is not RFC 3339: one too long for us is none. */
static void read_stamp(const char *text, struct lease_view *view)
{
    if (text && strlen(text) < sizeof(view->renew_stamp)) {
        (void)text_copy(view->renew_stamp, sizeof(view->renew_stamp), text);
        view->renew_time_valid = rfc3339_parse(text, strlen(text), &view->renew_time, NULL) == 0;
    }
}

/* A holder too long for us must not compare equal to a name that is not. */
static void read_holder(const char *text, struct lease_view *view)
{
    if (text && !text_copy(view->holder, sizeof(view->holder), text)) {
        memcpy(view->holder + sizeof(view->holder) - 4, "...", 4);
    }
}

static uint32_t read_duration_s(const json_t *spec)
{
    const json_t *value = json_object_get(spec, "leaseDurationSeconds");
    json_int_t seconds = json_integer_value(value); /* 0 for anything else */
    return seconds > 0 && seconds <= INT32_MAX ? (uint32_t)seconds : 0;
}

static void read_annotations(const json_t *annotations, struct lease_view *view)
{
    const struct {
        const char *key;
        char *out;
        size_t out_bytes;
    } texts[] = {
        {NAMES_ANNOTATION_RENEW, view->sign, sizeof(view->sign)},
        {NAMES_ANNOTATION_HEALTH_MESSAGE, view->health_message, sizeof(view->health_message)},
        {NAMES_ANNOTATION_HEALTH_RENEW, view->health_stamp, sizeof(view->health_stamp)},
        {NAMES_ANNOTATION_VERSION, view->agent_version, sizeof(view->agent_version)},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *text = json_text_get(annotations, texts[i].key);
        if (text) {
            text_sanitize(texts[i].out, texts[i].out_bytes, text, strlen(text));
        }
    }
    const char *health = json_text_get(annotations, NAMES_ANNOTATION_HEALTH);
    view->health = text_equal(health, NAMES_HEALTH_UNHEALTHY)  ? LEASE_HEALTH_UNHEALTHY
                   : text_equal(health, NAMES_HEALTH_SHUTDOWN) ? LEASE_HEALTH_SHUTDOWN
                                                               : LEASE_HEALTH_NONE;
    view->has_no_probe =
        text_equal(json_text_get(annotations, NAMES_ANNOTATION_PROBES), NAMES_PROBES_NONE);
    const char *id = json_text_get(annotations, NAMES_ANNOTATION_BOOT_ID);
    size_t len = strspn(id ? id : "", "0123456789abcdef-");
    if (id && len == NAMES_BOOT_ID_BYTES - 1 && id[len] == '\0') {
        (void)text_copy(view->boot_id, sizeof(view->boot_id), id);
    }
}

int lease_read(const json_t *lease, struct lease_view *out, struct err *e)
{
    struct lease_view view = {.health = LEASE_HEALTH_NONE};
    const json_t *meta = json_object_get(lease, "metadata");
    const json_t *spec = json_object_get(lease, "spec");
    const struct {
        const char *key;
        char *out;
        size_t out_bytes;
    } names[] = {
        {"name", view.name, sizeof(view.name)},
        {"namespace", view.ns, sizeof(view.ns)},
        {"uid", view.uid, sizeof(view.uid)},
        {"resourceVersion", view.resource_version, sizeof(view.resource_version)},
    };
    int rc = check_form(lease, e);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(names); i++) {
        rc = read_name(meta, names[i].key, names[i].out, names[i].out_bytes, e);
    }
    if (rc != 0) {
        return rc;
    }
    read_stamp(json_text_get(spec, "renewTime"), &view);
    read_holder(json_text_get(spec, "holderIdentity"), &view);
    view.duration_s = read_duration_s(spec);
    read_annotations(json_object_get(meta, "annotations"), &view);
    *out = view;
    return 0;
}

const char *lease_renewed_by(const json_t *lease)
{
    const json_t *entries = json_object_get(json_object_get(lease, "metadata"), "managedFields");
    const char *writer = NULL;
    size_t i;
    const json_t *entry;
    json_array_foreach(entries, i, entry)
    {
        const json_t *spec = json_object_get(json_object_get(entry, "fieldsV1"), "f:spec");
        if (!json_object_get(spec, "f:renewTime")) {
            continue;
        }
        if (writer) {
            return NULL;
        }
        writer = json_text_get(entry, "manager");
    }
    return writer;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The object under `key`, made if absent or null. Borrowed from `parent`. */
static json_t *need_object(json_t *parent, const char *key)
{
    json_t *child = json_object_get(parent, key);
    if (!child || json_is_null(child)) {
        child = json_object();
        (void)json_object_set_new(parent, key, child);
    }
    return child;
}

static void set_text(json_t *object, const char *key, const char *text)
{
    (void)json_object_set_new(object, key, json_string(text));
}

static void set_if_empty(json_t *object, const char *key, const char *text)
{
    if (text_is_empty(json_text_get(object, key))) {
        set_text(object, key, text);
    }
}

static json_t *annotations_of(json_t *lease)
{
    return need_object(json_object_get(lease, "metadata"), "annotations");
}

static void remove_annotation(json_t *lease, const char *key)
{
    json_t *meta = json_object_get(lease, "metadata");
    json_t *annotations = json_object_get(meta, "annotations");
    (void)json_object_del(annotations, key); /* may be absent */
    if (json_object_size(annotations) == 0) {
        (void)json_object_del(meta, "annotations"); /* likewise */
    }
}

static void remove_health(json_t *lease)
{
    remove_annotation(lease, NAMES_ANNOTATION_HEALTH);
    remove_annotation(lease, NAMES_ANNOTATION_HEALTH_MESSAGE);
    remove_annotation(lease, NAMES_ANNOTATION_HEALTH_RENEW);
}

/* Only a stamp that nobody has seen yet is a renewal: where the clock stands still or was set back
 * a little, it goes on from the former one. Further back it follows the clock, as the host does.
 * `former` may be NULL. */
static struct rfc3339_text renew_stamp(struct wall now, const char *former)
{
    struct wall last;
    bool is_known = former && rfc3339_parse(former, strlen(former), &last, NULL) == 0;
    if (is_known && wall_since(last, now) < SET_BACK_NS) {
        now.ns = mono_ns_max(now.ns, mono_ns_add(last.ns, US_NS));
    }
    return rfc3339_text(now, true);
}

struct rfc3339_text lease_next_stamp(const json_t *lease, struct wall now)
{
    return renew_stamp(now, json_text_get(json_object_get(lease, "spec"), "renewTime"));
}

void lease_set_renewal(json_t *lease, struct wall now, const char *holder)
{
    json_t *spec = need_object(lease, "spec");
    const struct rfc3339_text stamp = lease_next_stamp(lease, now);
    set_text(spec, "renewTime", stamp.text);
    set_text(annotations_of(lease), NAMES_ANNOTATION_RENEW, stamp.text);
    set_if_empty(spec, "acquireTime", stamp.text);
    set_if_empty(spec, "holderIdentity", holder);
    remove_health(lease);
}

void lease_set_health(json_t *lease, enum lease_health health, const char *message, struct wall now)
{
    char clean[NAMES_MESSAGE_BYTES]; /* jansson refuses text that is not UTF-8 */
    if (health == LEASE_HEALTH_NONE) {
        remove_health(lease);
        return;
    }
    if (health == LEASE_HEALTH_SHUTDOWN) {
        remove_annotation(lease, NAMES_ANNOTATION_RENEW);
    }
    json_t *annotations = annotations_of(lease);
    text_sanitize(clean, sizeof(clean), message, strlen(message));
    const char *former = json_text_get(annotations, NAMES_ANNOTATION_HEALTH_RENEW);
    const struct rfc3339_text stamp = renew_stamp(now, former);
    set_text(annotations, NAMES_ANNOTATION_HEALTH, lease_health_name(health));
    set_text(annotations, NAMES_ANNOTATION_HEALTH_MESSAGE, clean);
    set_text(annotations, NAMES_ANNOTATION_HEALTH_RENEW, stamp.text);
}

void lease_set_agent(json_t *lease, const struct lease_agent *agent)
{
    if (agent->is_companion) {
        remove_annotation(lease, NAMES_ANNOTATION_RENEW);
    }
    if (!text_is_empty(agent->boot_id)) {
        set_text(annotations_of(lease), NAMES_ANNOTATION_BOOT_ID, agent->boot_id);
    }
    if (!text_is_empty(agent->version)) {
        set_text(annotations_of(lease), NAMES_ANNOTATION_VERSION, agent->version);
    }
    if (agent->has_no_probe) {
        set_text(annotations_of(lease), NAMES_ANNOTATION_PROBES, NAMES_PROBES_NONE);
    } else {
        remove_annotation(lease, NAMES_ANNOTATION_PROBES);
    }
}

/* ---- as text --------------------------------------------------------------------------------- */

/* Keeps the places sorted. False for what is no text, or has escapes: its digits may not stand for
 * themselves. */
static bool add_place(struct lease_text *t, struct json_slice value, struct lease_place *out)
{
    bool is_plain = json_scan_kind(value) == JSON_KIND_TEXT && !memchr(value.at, '\\', value.len);
    if (!is_plain || t->place_count == LEASE_PLACES_MAX) {
        return false;
    }
    *out = (struct lease_place){.at = (size_t)(value.at + 1 - t->text), .len = value.len - 2};
    size_t i = t->place_count++;
    for (; i > 0 && t->places[i - 1].at > out->at; i--) {
        t->places[i] = t->places[i - 1];
    }
    t->places[i] = *out;
    return true;
}

static bool find_places(struct lease_text *t)
{
    struct json_slice lease;
    struct lease_place time;
    if (json_scan_check(t->text, t->len, &lease, NULL) != 0) {
        return false;
    }
    struct json_slice meta = json_scan_member(lease, "metadata");
    struct json_slice spec = json_scan_member(lease, "spec");
    struct json_slice acquired = json_scan_member(spec, "acquireTime");
    bool is_acquired = json_scan_kind(acquired) == JSON_KIND_TEXT && acquired.len > 2;
    if (!is_acquired || /* the next renewal would set it */
        !add_place(t, json_scan_member(meta, "resourceVersion"), &t->version) ||
        !add_place(t, json_scan_member(spec, "renewTime"), &t->stamp)) {
        return false;
    }
    struct json_slice sign =
        json_scan_member(json_scan_member(meta, "annotations"), NAMES_ANNOTATION_RENEW);
    if (json_scan_kind(sign) != JSON_KIND_ABSENT && !add_place(t, sign, &t->sign)) {
        return false;
    }
    struct json_walk w = json_walk_start(json_scan_member(meta, "managedFields"));
    while (json_walk_next(&w)) {
        struct json_slice value = json_scan_member(w.value, "time");
        if (json_scan_kind(value) != JSON_KIND_ABSENT && !add_place(t, value, &time)) {
            return false;
        }
    }
    return true;
}

bool lease_text_keep(struct lease_text *t, const char *text, size_t len)
{
    lease_text_fini(t);
    t->text = mem_alloc(len + 1);
    memcpy(t->text, text, len);
    t->text[len] = '\0';
    t->len = len;
    if (!find_places(t)) {
        lease_text_fini(t);
    }
    return t->text != NULL;
}

static bool differ_by_digits(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (a[i] != b[i] && !(text_is_digit(a[i]) && text_is_digit(b[i]))) {
            return false;
        }
    }
    return true;
}

static bool stands_at(const char *text, struct lease_place p, const char *wanted)
{
    return strlen(wanted) == p.len && memcmp(text + p.at, wanted, p.len) == 0;
}

bool lease_text_matches(const struct lease_text *t, const char *text, size_t len, const char *stamp)
{
    size_t at = 0;
    if (!t->text || len != t->len || !stands_at(text, t->stamp, stamp) ||
        (t->sign.len > 0 && !stands_at(text, t->sign, stamp))) {
        return false;
    }
    for (size_t i = 0; i < t->place_count; i++) {
        const struct lease_place p = t->places[i];
        if (memcmp(t->text + at, text + at, p.at - at) != 0 ||
            !differ_by_digits(t->text + p.at, text + p.at, p.len)) {
            return false;
        }
        at = p.at + p.len;
    }
    return memcmp(t->text + at, text + at, len - at) == 0;
}

static bool replace_digits(struct lease_text *t, struct lease_place p, const char *by)
{
    bool fits = strlen(by) == p.len && differ_by_digits(t->text + p.at, by, p.len);
    if (fits) {
        memcpy(t->text + p.at, by, p.len);
    }
    return fits;
}

bool lease_text_renew(struct lease_text *t, const char *version, const char *stamp)
{
    return t->text && replace_digits(t, t->version, version) &&
           replace_digits(t, t->stamp, stamp) && replace_digits(t, t->sign, stamp);
}

void lease_text_show(const struct lease_text *t, const char *text, json_t *lease)
{
    const struct lease_place v = t->version;
    const struct lease_place s = t->stamp;
    (void)json_object_set_new(json_object_get(lease, "metadata"), "resourceVersion",
                              json_stringn(text + v.at, v.len));
    (void)json_object_set_new(json_object_get(lease, "spec"), "renewTime",
                              json_stringn(text + s.at, s.len));
    if (t->sign.len > 0) { /* it is the same */
        (void)json_object_set_new(annotations_of(lease), NAMES_ANNOTATION_RENEW,
                                  json_stringn(text + s.at, s.len));
    }
}

void lease_text_fini(struct lease_text *t)
{
    free(t->text);
    *t = (struct lease_text){.text = NULL};
}

/* ---- keeping -------------------------------------------------------------------------------- */

static bool is_node(const json_t *ref)
{
    return text_equal(json_text_get(ref, "kind"), "Node") &&
           text_equal(json_text_get(ref, "apiVersion"), "v1");
}

static bool is_owner_in_order(const json_t *lease, struct lease_owner owner)
{
    const json_t *refs = json_object_get(json_object_get(lease, "metadata"), "ownerReferences");
    size_t i;
    json_t *ref;
    size_t good = 0;
    json_array_foreach(refs, i, ref)
    {
        if (!is_node(ref)) {
            continue;
        }
        if (!text_equal(json_text_get(ref, "name"), owner.node_name)) {
            return false; /* its host took this lease for that of a further DPU */
        }
        /* One with an old UID is the garbage collector's, and its writer would only add it again */
        if (!text_equal(json_text_get(ref, "uid"), owner.node_uid)) {
            continue;
        }
        if (json_is_true(json_object_get(ref, "controller")) ||
            json_is_true(json_object_get(ref, "blockOwnerDeletion"))) {
            return false;
        }
        good++;
    }
    return good == 1;
}

struct lease_drift lease_check(const json_t *lease, const char *holder, uint32_t duration_s,
                               struct lease_owner owner)
{
    const json_t *spec = json_object_get(lease, "spec");
    const char *held_by = json_text_get(spec, "holderIdentity");
    return (struct lease_drift){
        .duration = read_duration_s(spec) != duration_s,
        .owner = !is_owner_in_order(lease, owner),
        .holder_empty = text_is_empty(held_by),
        .holder_foreign = !text_is_empty(held_by) && !text_equal(held_by, holder),
    };
}

/* blockOwnerDeletion is false, because true needs update on nodes/finalizers where
 * OwnerReferencesPermissionEnforcement is on. */
static json_t *new_owner_ref(struct lease_owner owner)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "apiVersion", "v1", "kind", "Node", "name",
                     owner.node_name, "uid", owner.node_uid, "controller", 0, "blockOwnerDeletion",
                     0);
}

/* Ours, and those that are no Nodes. */
static json_t *mended_owners(const json_t *meta, struct lease_owner owner)
{
    json_t *refs = json_array();
    size_t i;
    json_t *ref;
    (void)json_array_append_new(refs, new_owner_ref(owner));
    json_array_foreach(json_object_get(meta, "ownerReferences"), i, ref)
    {
        if (!is_node(ref)) {
            (void)json_array_append(refs, ref);
        }
    }
    return refs;
}

/* Of what the host may repair, and nothing else: after an etcd that was restored, versions repeat,
 * and a whole lease would put a renewTime of before over the DPU's. The duration needs no version:
 * the DPU, which renews meanwhile, never changes it. */
json_t *lease_repair(const json_t *lease, const char *holder, uint32_t duration_s,
                     struct lease_owner owner)
{
    struct lease_drift drift = lease_check(lease, holder, duration_s, owner);
    const json_t *meta = json_object_get(lease, "metadata");
    bool is_versioned = drift.owner || drift.holder_empty;
    return json_pack("{s:{s:O*, s:o*}, s:{s:i, s:s*}}", "metadata", "resourceVersion",
                     is_versioned ? json_object_get(meta, "resourceVersion") : NULL,
                     "ownerReferences", drift.owner ? mended_owners(meta, owner) : NULL, "spec",
                     "leaseDurationSeconds", (int)duration_s, "holderIdentity",
                     drift.holder_empty ? holder : NULL);
}

json_t *lease_new(const char *ns, const char *name, const char *holder, uint32_t duration_s,
                  struct lease_owner owner)
{
    json_t *lease =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:[o]}, s:{s:i}}", "apiVersion", API_VERSION, "kind",
                  "Lease", "metadata", "name", name, "namespace", ns, "ownerReferences",
                  new_owner_ref(owner), "spec", "leaseDurationSeconds", (int)duration_s);
    (void)json_object_set_new(json_object_get(lease, "spec"), "holderIdentity",
                              json_string(holder)); /* a holder that is no UTF-8 is nobody */
    return lease;
}
