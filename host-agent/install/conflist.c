/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/conflist.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#define GATE_TYPE     "dpu-gate"
#define LAST_DELEGATE "lastDelegate"
/* Of ovn-kubernetes, while neither its file nor what stands tells the name. */
#define DEFAULT_NETWORK "\"ovn-kubernetes\""

enum { ESCAPED_BYTES = 6 /* of one character at most */, QUOTES_BYTES = 2 };

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
    struct json_slice source; /* absent: unknown */
    struct json_slice known;  /* the source, or what stands in its place */
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

/* The plugins of a list behind the first `skipped`, each after `between`, but for the first. */
static void put_plugins(struct plan *p, struct json_slice plugins, size_t skipped,
                        const char *between)
{
    struct json_walk w = json_walk_start(plugins);
    for (size_t i = 0; json_walk_next(&w); i++) {
        if (i >= skipped) {
            put(p, "%s%.*s", i > skipped ? between : "", SLICE(w.value));
        }
    }
}

/* By which pods are removed once the source is gone: its only plugin. Without one it is what stands
 * that tells: a copy, or the plugins behind the gate of a chain. */
static void put_last_delegate(struct plan *p)
{
    struct json_slice chain = json_scan_member(p->known, "plugins");
    struct json_slice last = first_plugin(p->known);
    last = p->source.len > 0 ? last : json_scan_member(last, LAST_DELEGATE);
    if (json_scan_kind(last) == JSON_KIND_OBJECT) {
        put(p, ",\n     \"" LAST_DELEGATE "\": %.*s", SLICE(last));
    } else if (json_scan_count(chain) > 1) {
        put(p, ",\n     \"" LAST_DELEGATE "\": {\"plugins\": [");
        put_plugins(p, chain, 1, ", ");
        put(p, "]}");
    }
}

/* The gate itself reads a wrapped source; without its capabilities the runtime sends nothing. */
static void put_gate_plugin(struct plan *p, bool wraps)
{
    struct json_slice capabilities = json_scan_member(first_plugin(p->known), "capabilities");
    put(p, "    {\"type\": \"" GATE_TYPE "\"");
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
    }
    put(p, "}");
}

/* Those of a list that are not ours, as they stand. A .conf's own keys are its plugin's. */
static void put_list_keys(struct plan *p)
{
    static const char *const ours[] = {"cniVersion", "cniVersions", "name", "plugins"};
    for (struct json_walk w = json_walk_start(p->known); json_walk_next(&w);) {
        bool is_ours = false;
        for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
            is_ours = is_ours || json_scan_equals(w.key, ours[i]);
        }
        if (!is_ours) {
            put(p, "  %.*s: %.*s,\n", SLICE(w.key), SLICE(w.value));
        }
    }
}

/* With its quotes. */
static struct json_slice network_of(const struct plan *p)
{
    struct json_slice name = json_scan_member(p->known, "name");
    bool is_name = json_scan_kind(name) == JSON_KIND_TEXT && name.len > QUOTES_BYTES;
    return is_name ? name
                   : (struct json_slice){.at = DEFAULT_NETWORK, .len = strlen(DEFAULT_NETWORK)};
}

int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                  struct buf *out, struct err *e)
{
    struct json_slice whole;
    struct plan p = {.request = request, .out = out, .e = e};
    p.known = read_conf(request->standing, request->standing_len);
    if (source) {
        int rc = json_scan_check(source, len, &p.source, e);
        if (rc != 0 || (rc = check_source(p.source, e)) != 0) {
            return rc;
        }
        p.known = p.source;
    }
    struct json_slice plugins = json_scan_member(p.source, "plugins");
    bool wraps = json_scan_count(plugins) <= 1;
    struct json_slice network = network_of(&p);
    put(&p,
        "{\n  \"cniVersion\": \"1.0.0\",\n"
        "  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": %.*s,\n",
        SLICE(network));
    if (json_scan_kind(json_scan_member(p.known, "plugins")) != JSON_KIND_ABSENT) {
        put_list_keys(&p);
    }
    put(&p, "  \"plugins\": [\n");
    put_gate_plugin(&p, wraps);
    if (!wraps) {
        put(&p, ",\n    ");
        put_plugins(&p, plugins, 0, ",\n    ");
    }
    put(&p, "\n  ]\n}\n");
    /* The copy of a source stands deeper than the source did. */
    return p.rc == 0 ? json_scan_check(buf_text(out), out->len, &whole, e) : p.rc;
}

/* ---- what stands ----------------------------------------------------------------------------- */

bool conflist_is_gated(const char *text, size_t len)
{
    return is_gate(first_plugin(read_conf(text, len)));
}
