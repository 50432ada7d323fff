/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/conflist_plan.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"

#include <limits.h>
#include <stdlib.h>
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
    struct json_walk w = json_walk_start(plugins);
    struct json_slice key;
    struct json_slice plugin;
    if (json_scan_kind(plugins) == JSON_KIND_ABSENT) {
        return conf;
    }
    return json_walk_next(&w, &key, &plugin) ? plugin : (struct json_slice){.at = NULL};
}

static int check_plugins(struct json_slice plugins, struct err *e)
{
    struct json_walk w = json_walk_start(plugins);
    struct json_slice key;
    struct json_slice plugin;
    size_t i = 0;
    if (json_scan_kind(plugins) != JSON_KIND_ARRAY || json_scan_count(plugins) == 0) {
        return err_set(e, ERR_PARSE, "its 'plugins' is not a list of plugins");
    }
    for (; json_walk_next(&w, &key, &plugin); i++) {
        if (json_scan_kind(type_of(plugin)) == JSON_KIND_ABSENT) {
            return err_set(e, ERR_PARSE, "its plugin %zu has no type", i);
        }
        if (is_gate(plugin)) {
            return err_set(e, ERR_PARSE, "it goes through dpu-gate already");
        }
    }
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    return json_scan_compare(*(const struct json_slice *)a, *(const struct json_slice *)b);
}

/* Who edits a list may look at either. */
static int check_keys_once(struct json_slice object, struct err *e)
{
    size_t count = json_scan_count(object);
    CLEANUP(free) struct json_slice *keys = mem_calloc(count + 1, sizeof(*keys));
    struct json_walk w = json_walk_start(object);
    struct json_slice value;
    for (size_t i = 0; i < count && json_walk_next(&w, &keys[i], &value); i++) {
    }
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (json_scan_compare(keys[i - 1], keys[i]) == 0) {
            return err_set(e, ERR_PARSE, "it has a key twice");
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
        int rc = check_plugins(plugins, e);
        if (rc != 0) {
            return rc;
        }
        return check_keys_once(source, e);
    }
    if (json_scan_kind(type_of(source)) == JSON_KIND_ABSENT) {
        return err_set(e, ERR_PARSE, "it has neither type nor plugins");
    }
    return is_gate(source) ? err_set(e, ERR_PARSE, "it goes through dpu-gate already") : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The first failure stays; what follows it does nothing. */
struct plan {
    const struct conflist_request *request;
    struct json_slice source; /* absent: unknown */
    struct json_slice standing;
    struct buf *out;
    struct err *e;
    int rc;
};

static void put_text(struct plan *p, const char *text)
{
    if (p->rc == 0) {
        p->rc = buf_append_text(p->out, text, p->e);
    }
}

static void put_slice(struct plan *p, struct json_slice value)
{
    if (p->rc == 0) {
        p->rc = buf_append(p->out, value.at, value.len, p->e);
    }
}

static void put_string(struct plan *p, const char *text)
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
    put_slice(p, made);
}

/* The plugins of a list behind the first `skipped`, each after `between`, but for the first. */
static void put_plugins(struct plan *p, struct json_slice plugins, size_t skipped,
                        const char *between)
{
    struct json_walk w = json_walk_start(plugins);
    struct json_slice key;
    struct json_slice plugin;
    for (size_t i = 0; json_walk_next(&w, &key, &plugin); i++) {
        if (i >= skipped) {
            put_text(p, i > skipped ? between : "");
            put_slice(p, plugin);
        }
    }
}

/* By which pods are removed once the source is gone: its only plugin. Without one it is what stands
 * that tells: a copy, or the plugins behind the gate of a chain. */
static void put_last_delegate(struct plan *p)
{
    struct json_slice chain = json_scan_member(p->standing, "plugins");
    struct json_slice last = p->source.len > 0
                                 ? first_plugin(p->source)
                                 : json_scan_member(first_plugin(p->standing), LAST_DELEGATE);
    if (json_scan_kind(last) == JSON_KIND_OBJECT) {
        put_text(p, ",\n     \"" LAST_DELEGATE "\": ");
        put_slice(p, last);
    } else if (json_scan_count(chain) > 1) {
        put_text(p, ",\n     \"" LAST_DELEGATE "\": {\"plugins\": [");
        put_plugins(p, chain, 1, ", ");
        put_text(p, "]}");
    }
}

/* What is wrapped is read by the gate itself; without its capabilities the runtime sends nothing.
 */
static void put_gate(struct plan *p, bool wraps)
{
    struct json_slice capabilities = json_scan_member(first_plugin(p->source), "capabilities");
    put_text(p, "    {\"type\": \"" GATE_TYPE "\"");
    if (wraps) {
        put_text(p, ", \"delegateConf\": ");
        put_string(p, p->request->source_path);
    }
    if (!text_equal(p->request->readiness_file, NAMES_READINESS_FILE)) {
        put_text(p, ", \"readinessFile\": ");
        put_string(p, p->request->readiness_file);
    }
    if (wraps && json_scan_kind(capabilities) == JSON_KIND_OBJECT &&
        json_scan_count(capabilities) > 0) {
        put_text(p, ", \"capabilities\": ");
        put_slice(p, capabilities);
    }
    if (wraps) {
        put_last_delegate(p);
    }
    put_text(p, "}");
}

/* Those of a list that are not ours, as they stand. A .conf's own keys are its plugin's. */
static void put_list_keys(struct plan *p)
{
    static const char *const ours[] = {"cniVersion", "cniVersions", "name", "plugins"};
    struct json_walk w = json_walk_start(p->source);
    struct json_slice key;
    struct json_slice value;
    while (json_walk_next(&w, &key, &value)) {
        bool is_ours = false;
        for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
            is_ours = is_ours || json_scan_equals(key, ours[i]);
        }
        if (!is_ours) {
            put_text(p, "  ");
            put_slice(p, key);
            put_text(p, ": ");
            put_slice(p, value);
            put_text(p, ",\n");
        }
    }
}

static void put_network(struct plan *p)
{
    struct json_slice name = json_scan_member(p->source.len > 0 ? p->source : p->standing, "name");
    if (json_scan_kind(name) == JSON_KIND_TEXT && name.len > QUOTES_BYTES) {
        put_slice(p, name);
    } else {
        put_text(p, DEFAULT_NETWORK);
    }
}

int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                  struct buf *out, struct err *e)
{
    struct json_slice whole;
    struct plan p = {.request = request, .out = out, .e = e};
    p.standing = read_conf(request->standing, request->standing_len);
    if (source) {
        int rc = json_scan_check(source, len, &p.source, e);
        if (rc != 0 || (rc = check_source(p.source, e)) != 0) {
            return rc;
        }
    }
    struct json_slice plugins = json_scan_member(p.source, "plugins");
    bool wraps = json_scan_count(plugins) <= 1;
    put_text(&p, "{\n  \"cniVersion\": \"1.0.0\",\n"
                 "  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": ");
    put_network(&p);
    put_text(&p, ",\n");
    if (json_scan_kind(plugins) != JSON_KIND_ABSENT) {
        put_list_keys(&p);
    }
    put_text(&p, "  \"plugins\": [\n");
    put_gate(&p, wraps);
    if (!wraps) {
        put_text(&p, ",\n    ");
        put_plugins(&p, plugins, 0, ",\n    ");
    }
    put_text(&p, "\n  ]\n}\n");
    /* The copy of a source stands deeper than the source did. */
    return p.rc == 0 ? json_scan_check(buf_text(out), out->len, &whole, e) : p.rc;
}

/* ---- what stands ----------------------------------------------------------------------------- */

bool conflist_is_gated(const char *text, size_t len)
{
    return is_gate(first_plugin(read_conf(text, len)));
}

bool conflist_wraps(const char *text, size_t len, const char *source_path)
{
    struct json_slice plugin = first_plugin(read_conf(text, len));
    char path[PATH_MAX];
    return is_gate(plugin) &&
           json_scan_text(json_scan_member(plugin, "delegateConf"), path, sizeof(path)) &&
           text_equal(path, source_path);
}
