/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/conflist.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#define GATE_TYPE     "dpu-gate"
#define LAST_DELEGATE "lastDelegate"
#define CHAINED       "chained" /* the types of the source's own plugins behind the gate */
/* Of ovn-kubernetes, while neither its file nor what stands tells the name. */
#define DEFAULT_NETWORK "\"ovn-kubernetes\""

enum {
    ESCAPED_BYTES = 6, /* of one character at most */
    QUOTES_BYTES = 2,
    ADDED_MAX = 64,  /* plugins that others have added; more are not kept */
    LOOKED_AT = 256, /* plugins of a list among which they are looked for */
};

/* ---- the source ------------------------------------------------------------------------------ */

/* Absent for what is no JSON. */
static struct json_slice read_conf(const char *text, size_t len)
{
    struct json_slice conf = {.at = NULL};
    return json_scan_check(text, len, &conf, NULL) == 0 ? conf : (struct json_slice){.at = NULL};
}

/* Absent for an empty one, too. */
static struct json_slice type_of(struct json_slice plugin)
{
    struct json_slice type;
    bool is_text = json_scan_field(plugin, "type", &type);
    return is_text && type.len > QUOTES_BYTES ? type : (struct json_slice){.at = NULL};
}

static bool is_gate(struct json_slice plugin)
{
    return json_scan_equals(type_of(plugin), GATE_TYPE);
}

/* Of a list, or of the plugin that the source is; absent: there is none. */
static struct json_slice first_plugin(struct json_slice conf)
{
    struct json_slice plugins = json_scan_member(conf, "plugins");
    return json_scan_kind(plugins) == JSON_KIND_ABSENT ? conf : json_scan_item(plugins, 0);
}

static int check_plugins(struct json_slice plugins, struct err *e)
{
    struct json_walk w = json_walk_start(plugins);
    if (json_scan_kind(plugins) != JSON_KIND_ARRAY || json_scan_count(plugins) == 0) {
        return err_set(e, ERR_PARSE, "its 'plugins' is not a list");
    }
    for (size_t i = 0; json_walk_next(&w); i++) {
        if (json_scan_kind(type_of(w.value)) == JSON_KIND_ABSENT) {
            return err_set(e, ERR_PARSE, "its plugin %zu has no type", i);
        }
        if (is_gate(w.value)) {
            return err_set(e, ERR_PARSE, "it already calls dpu-gate");
        }
    }
    return 0;
}

static int check_source(struct json_slice source, struct err *e)
{
    struct json_slice plugins = json_scan_member(source, "plugins");
    struct json_slice name = json_scan_member(source, "name");
    if (json_scan_kind(source) != JSON_KIND_OBJECT) {
        return err_set(e, ERR_PARSE, "it is not a JSON object");
    }
    if (json_scan_kind(name) != JSON_KIND_TEXT || name.len == QUOTES_BYTES) {
        return err_set(e, ERR_PARSE, "it names no network");
    }
    if (json_scan_kind(plugins) != JSON_KIND_ABSENT) {
        return check_plugins(plugins, e);
    }
    if (json_scan_kind(type_of(source)) == JSON_KIND_ABSENT) {
        return err_set(e, ERR_PARSE, "it has neither type nor plugins");
    }
    return is_gate(source) ? err_set(e, ERR_PARSE, "it already calls dpu-gate") : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The first failure stays; what follows it does nothing. */
struct plan {
    const struct conflist_request *request;
    struct json_slice source;   /* absent: unknown */
    struct json_slice standing; /* absent: nothing */
    struct json_slice known;    /* the source, or what stands in its place */
    struct json_slice added[ADDED_MAX];
    size_t added_count;
    struct buf *out;
    struct err *e;
    int rc;
};

static void put(struct plan *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void put(struct plan *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    p->rc = p->rc != 0 ? p->rc : buf_vappendf(p->out, p->e, fmt, ap);
    va_end(ap);
}

#define SLICE(slice) (int)(slice).len, (slice).at /* for "%.*s": no JSON holds a NUL */

static void put_text_member(struct plan *p, const char *key, const char *text)
{
    char json[ESCAPED_BYTES * PATH_MAX + QUOTES_BYTES];
    char again[PATH_MAX];
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_text(&w, text);
    struct json_slice made = {.at = json, .len = w.used};
    if (p->rc == 0 && (w.overflow || !json_scan_text(made, again, sizeof(again)))) {
        char shown[NAMES_MESSAGE_BYTES];
        text_sanitize(shown, sizeof(shown), text, strlen(text));
        p->rc =
            err_set(p->e, ERR_PARSE, "'%.150s' cannot be written in JSON: it is not UTF-8", shown);
    }
    put(p, ", \"%s\": %.*s", key, SLICE(made));
}

/* ---- what others have added ------------------------------------------------------------------ */

/* How many plugins of a list, up to and with the one at `last`, have that type. */
static size_t count_type(struct json_slice plugins, size_t last, struct json_slice type)
{
    size_t count = 0;
    struct json_walk w = json_walk_start(plugins);
    for (size_t i = 0; i <= last && json_walk_next(&w); i++) {
        struct json_slice own =
            json_scan_kind(w.value) == JSON_KIND_TEXT ? w.value : type_of(w.value);
        count += own.at && json_scan_compare(own, type) == 0;
    }
    return count;
}

/* Do the plugins behind the gate begin with those of the source, by their types? */
static bool begins_with_source(const struct plan *p, struct json_slice plugins)
{
    struct json_walk theirs = json_walk_start(json_scan_member(p->source, "plugins"));
    struct json_walk ours = json_walk_start(plugins);
    bool is_gate_there = json_walk_next(&ours);
    while (is_gate_there && json_walk_next(&theirs)) {
        if (!json_walk_next(&ours) || !type_of(ours.value).at ||
            json_scan_compare(type_of(ours.value), type_of(theirs.value)) != 0) {
            return false;
        }
    }
    return true;
}

/* The plugin at `index` of what stands came from its source. In a list of a version before
 * CHAINED was written, those of the source come first, if it still is that source. */
static bool is_of_source(const struct plan *p, size_t index, struct json_slice plugin)
{
    struct json_slice plugins = json_scan_member(p->standing, "plugins");
    struct json_slice gate = json_scan_item(plugins, 0);
    struct json_slice chained = json_scan_member(gate, CHAINED);
    struct json_slice type = type_of(plugin);
    if (json_scan_member(gate, "delegateConf").at || json_scan_member(gate, "delegate").at) {
        return false;
    }
    if (json_scan_kind(chained) == JSON_KIND_ARRAY) {
        return !type.at || count_type(plugins, index, type) <= count_type(chained, LOOKED_AT, type);
    }
    return !p->source.at || !begins_with_source(p, plugins) ||
           index <= json_scan_count(json_scan_member(p->source, "plugins"));
}

/* Those that stand behind the gate and that neither its source then brought nor brings now: a
 * mesh's installer, for one, adds its plugin to whatever configuration comes first. */
static void find_added(struct plan *p)
{
    struct json_slice brought = json_scan_member(p->source, "plugins");
    struct json_walk w = json_walk_start(json_scan_member(p->standing, "plugins"));
    for (size_t i = 0; i < LOOKED_AT && p->added_count < ADDED_MAX && json_walk_next(&w); i++) {
        struct json_slice type = type_of(w.value);
        bool is_brought = type.at && count_type(brought, LOOKED_AT, type) > 0;
        if (i > 0 && type.at && !is_gate(w.value) && !is_brought && !is_of_source(p, i, w.value)) {
            p->added[p->added_count++] = w.value;
        }
    }
}

static bool is_added(const struct plan *p, struct json_slice plugin)
{
    size_t i = 0;
    while (i < p->added_count && p->added[i].at != plugin.at) {
        i++;
    }
    return i < p->added_count;
}

/* ---- the parts ------------------------------------------------------------------------------- */

/* By which pods are removed once the source is gone: its only plugin. Without one it is what stands
 * that tells: a copy, or the source's plugins behind the gate of a chain. */
static void put_last_delegate(struct plan *p)
{
    struct json_slice chain = json_scan_member(p->known, "plugins");
    struct json_slice last = first_plugin(p->known);
    const char *between = ",\n     \"" LAST_DELEGATE "\": {\"plugins\": [";
    last = p->source.len > 0 ? last : json_scan_member(last, LAST_DELEGATE);
    if (json_scan_kind(last) == JSON_KIND_OBJECT) {
        put(p, ",\n     \"" LAST_DELEGATE "\": %.*s", SLICE(last));
        return;
    }
    struct json_walk w = json_walk_start(chain);
    for (size_t i = 0; json_walk_next(&w); i++) {
        if (i > 0 && !is_added(p, w.value)) {
            put(p, "%s%.*s", between, SLICE(w.value));
            between = ", ";
        }
    }
    if (between[1] == ' ') {
        put(p, "]}");
    }
}

/* Of a chain: which plugins are the source's. */
static void put_chained(struct plan *p)
{
    const char *between = "";
    put(p, ", \"" CHAINED "\": [");
    struct json_walk w = json_walk_start(json_scan_member(p->source, "plugins"));
    while (json_walk_next(&w)) {
        put(p, "%s%.*s", between, SLICE(type_of(w.value)));
        between = ", ";
    }
    put(p, "]");
}

/* The gate itself reads a wrapped source; without its capabilities the runtime sends nothing. */
static void put_gate_members(struct plan *p, bool wraps)
{
    struct json_slice capabilities = json_scan_member(first_plugin(p->known), "capabilities");
    put(p, "\"type\": \"" GATE_TYPE "\"");
    if (wraps) {
        put_text_member(p, "delegateConf", p->request->source_path);
    }
    if (!text_equal(p->request->readiness_file, NAMES_READINESS_FILE)) {
        put_text_member(p, "readinessFile", p->request->readiness_file);
    }
    if (wraps && json_scan_kind(capabilities) == JSON_KIND_OBJECT &&
        json_scan_count(capabilities) > 0) {
        put(p, ", \"capabilities\": %.*s", SLICE(capabilities));
    }
    if (wraps) {
        put_last_delegate(p);
    } else {
        put_chained(p);
    }
}

static bool is_own_list_key(struct json_slice key)
{
    static const char *const ours[] = {"cniVersion", "cniVersions", "name", "plugins"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (json_scan_equals(key, ours[i])) {
            return true;
        }
    }
    return false;
}

/* Those of a list that are not ours, as they stand. A .conf's own keys are its plugin's. */
static void put_list_keys(struct plan *p)
{
    bool is_list = json_scan_member(p->known, "plugins").at != NULL;
    for (struct json_walk w = json_walk_start(p->known); is_list && json_walk_next(&w);) {
        if (!is_own_list_key(w.key)) {
            put(p, "  %.*s: %.*s,\n", SLICE(w.key), SLICE(w.value));
        }
    }
}

/* With its quotes. */
static struct json_slice network_of(struct json_slice conf)
{
    struct json_slice name = json_scan_member(conf, "name");
    bool is_name = json_scan_kind(name) == JSON_KIND_TEXT && name.len > QUOTES_BYTES;
    return is_name ? name
                   : (struct json_slice){.at = DEFAULT_NETWORK, .len = strlen(DEFAULT_NETWORK)};
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Does a .conf of 1.1.0 say all that the source says? Its network works with a runtime that knows
 * 1.1.0 alone, and a list has nothing that a .conf cannot have. */
static bool source_fits_conf(struct json_slice source)
{
    struct json_slice version;
    bool is_list = json_scan_member(source, "plugins").at != NULL;
    bool is_new = json_scan_field(source, "cniVersion", &version) &&
                  json_scan_equals(version, "1.1.0") && !json_scan_member(source, "cniVersions").at;
    for (struct json_walk w = json_walk_start(source); is_list && json_walk_next(&w);) {
        is_new = is_new && is_own_list_key(w.key);
    }
    return is_new;
}

/* While there is no source, the form stays. */
static bool is_conf(const struct plan *p, bool wraps)
{
    bool is_one = wraps && p->added_count == 0 && !p->request->wants_list;
    bool stands_as_one = is_gate(p->standing);
    return is_one && (p->source.at ? source_fits_conf(p->source) : stands_as_one);
}

static void put_conf(struct plan *p)
{
    put(p, "{\n  \"cniVersion\": \"1.1.0\",\n  \"name\": %.*s,\n  ", SLICE(network_of(p->known)));
    put_gate_members(p, true);
    put(p, "\n}\n");
}

static void put_list(struct plan *p, bool wraps)
{
    put(p,
        "{\n  \"cniVersion\": \"1.0.0\",\n"
        "  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": %.*s,\n",
        SLICE(network_of(p->known)));
    put_list_keys(p);
    put(p, "  \"plugins\": [\n    {");
    put_gate_members(p, wraps);
    put(p, "}");
    struct json_walk w = json_walk_start(json_scan_member(p->source, "plugins"));
    while (!wraps && json_walk_next(&w)) {
        put(p, ",\n    %.*s", SLICE(w.value));
    }
    for (size_t i = 0; i < p->added_count; i++) {
        put(p, ",\n    %.*s", SLICE(p->added[i]));
    }
    put(p, "\n  ]\n}\n");
}

int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                  struct buf *out, struct err *e)
{
    struct json_slice whole;
    struct plan p = {.request = request, .out = out, .e = e};
    p.standing = read_conf(request->standing, request->standing_len);
    p.known = p.standing;
    if (source) {
        int rc = json_scan_check(source, len, &p.source, e);
        if (rc != 0 || (rc = check_source(p.source, e)) != 0) {
            return rc;
        }
        p.known = p.source;
    }
    bool wraps = json_scan_count(json_scan_member(p.source, "plugins")) <= 1;
    find_added(&p);
    if (is_conf(&p, wraps)) {
        put_conf(&p);
    } else {
        put_list(&p, wraps);
    }
    /* The copy of a source stands deeper than the source did. */
    return p.rc == 0 ? json_scan_check(buf_text(out), out->len, &whole, e) : p.rc;
}

/* ---- what stands ----------------------------------------------------------------------------- */

bool conflist_is_gated(const char *text, size_t len)
{
    return is_gate(first_plugin(read_conf(text, len)));
}

bool conflist_is_list(const char *text, size_t len)
{
    return json_scan_member(read_conf(text, len), "plugins").at != NULL;
}

size_t conflist_count(const char *text, size_t len)
{
    struct json_slice plugins = json_scan_member(read_conf(text, len), "plugins");
    return plugins.at ? json_scan_count(plugins) : 1;
}

bool conflist_says_same(const struct buf *a, const struct buf *b)
{
    /* As Go reads them: a number is a double, of two members of a name the last counts. */
    const size_t flags = JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    if (a->len == b->len && memcmp(buf_text(a), buf_text(b), a->len) == 0) {
        return true;
    }
    CLEANUP(json) json_t *left = json_loadb(buf_text(a), a->len, flags, NULL);
    CLEANUP(json) json_t *right = json_loadb(buf_text(b), b->len, flags, NULL);
    return left && right && json_equal(left, right);
}

/* ---- whose it is ----------------------------------------------------------------------------- */

void conflist_network(const char *text, size_t len, char out[static CONFLIST_NETWORK_BYTES])
{
    (void)json_scan_text(network_of(read_conf(text, len)), out, CONFLIST_NETWORK_BYTES);
}

bool conflist_is_of_network(const char *text, size_t len, const char *network)
{
    struct json_slice conf = read_conf(text, len);
    return json_scan_equals(json_scan_member(conf, "name"), network) ||
           json_scan_equals(json_scan_member(first_plugin(conf), "name"), network);
}

void conflist_types(const char *text, size_t len, char out[static CONFLIST_TYPES_BYTES])
{
    char type[CONFLIST_TYPES_BYTES];
    const char *between = "";
    struct json_slice conf = read_conf(text, len);
    struct json_slice plugins = json_scan_member(conf, "plugins");
    struct json_walk w = json_walk_start(plugins);
    out[0] = '\0';
    if (!plugins.at) {
        (void)json_scan_text(type_of(conf), out, CONFLIST_TYPES_BYTES);
    }
    while (strlen(out) < CONFLIST_TYPES_BYTES / 2 && json_walk_next(&w)) {
        (void)json_scan_text(type_of(w.value), type, sizeof(type));
        text_append(out, CONFLIST_TYPES_BYTES, "%s%.60s", between, type);
        between = ", ";
    }
}
