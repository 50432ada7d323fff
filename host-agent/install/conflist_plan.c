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
    CLEANUP(free) struct json_slice *keys = calloc(count + 1, sizeof(*keys));
    struct json_walk w = json_walk_start(object);
    struct json_slice value;
    if (!keys) {
        return err_no_memory(e);
    }
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

static int put_slice(struct buf *out, struct json_slice value, struct err *e)
{
    return buf_append(out, value.at, value.len, e);
}

static int put_string(struct buf *out, const char *text, struct err *e)
{
    char json[ESCAPED_BYTES * PATH_MAX + QUOTES_BYTES];
    char again[PATH_MAX];
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_text(&w, text);
    struct json_slice made = {.at = json, .len = w.used};
    if (w.overflow || !json_scan_text(made, again, sizeof(again))) {
        char shown[NAMES_MESSAGE_BYTES];
        text_sanitize(shown, sizeof(shown), text, strlen(text));
        return err_set(e, ERR_PARSE, "'%.150s' cannot be written in JSON: it is not UTF-8", shown);
    }
    return put_slice(out, made, e);
}

/* ,"key": "text" */
static int put_member(struct buf *out, const char *key, const char *text, struct err *e)
{
    int rc = buf_appendf(out, e, ", \"%s\": ", key);
    if (rc != 0) {
        return rc;
    }
    return put_string(out, text, e);
}

/* Without them the runtime sends nothing. */
static int put_capabilities(struct buf *out, struct json_slice source, struct err *e)
{
    struct json_slice capabilities = json_scan_member(first_plugin(source), "capabilities");
    if (json_scan_kind(capabilities) != JSON_KIND_OBJECT || json_scan_count(capabilities) == 0) {
        return 0;
    }
    int rc = buf_append_text(out, ", \"capabilities\": ", e);
    if (rc != 0) {
        return rc;
    }
    return put_slice(out, capabilities, e);
}

/* The plugins behind the gate of a chain. */
static int put_chain(struct buf *out, struct json_slice plugins, struct err *e)
{
    struct json_walk w = json_walk_start(plugins);
    struct json_slice key;
    struct json_slice plugin;
    int rc = buf_append_text(out, "{\"plugins\": [", e);
    for (size_t i = 0; rc == 0 && json_walk_next(&w, &key, &plugin); i++) {
        if (i > 0) {
            rc = buf_appendf(out, e, "%s%.*s", i > 1 ? ", " : "", (int)plugin.len, plugin.at);
        }
    }
    return rc == 0 ? buf_append_text(out, "]}", e) : rc;
}

/* By which pods are removed once the source is gone. Without one it is what stands that tells. */
static int put_last_delegate(struct buf *out, struct json_slice source,
                             const struct conflist_request *r, struct err *e)
{
    struct json_slice standing = read_conf(r->standing, r->standing_len);
    struct json_slice plugins = json_scan_member(standing, "plugins");
    struct json_slice last = source.len > 0
                                 ? first_plugin(source)
                                 : json_scan_member(first_plugin(standing), LAST_DELEGATE);
    bool is_copy = json_scan_kind(last) == JSON_KIND_OBJECT;
    if (!is_copy && json_scan_count(plugins) <= 1) {
        return 0;
    }
    int rc = buf_append_text(out, ",\n     \"" LAST_DELEGATE "\": ", e);
    if (rc != 0) {
        return rc;
    }
    return is_copy ? put_slice(out, last, e) : put_chain(out, plugins, e);
}

static int put_gate(struct buf *out, struct json_slice source, bool wraps,
                    const struct conflist_request *r, struct err *e)
{
    int rc = buf_append_text(out, "    {\"type\": \"" GATE_TYPE "\"", e);
    if (rc == 0 && wraps) {
        rc = put_member(out, "delegateConf", r->source_path, e);
    }
    if (rc == 0 && !text_equal(r->readiness_file, NAMES_READINESS_FILE)) {
        rc = put_member(out, "readinessFile", r->readiness_file, e);
    }
    if (rc == 0 && wraps) {
        rc = put_capabilities(out, source, e);
    }
    if (rc == 0 && wraps) {
        rc = put_last_delegate(out, source, r, e);
    }
    if (rc != 0) {
        return rc;
    }
    return buf_append_text(out, "}", e);
}

static bool is_ours(struct json_slice key)
{
    return json_scan_equals(key, "cniVersion") || json_scan_equals(key, "cniVersions") ||
           json_scan_equals(key, "name") || json_scan_equals(key, "plugins");
}

/* Those of a list that are not ours, as they stand. */
static int put_list_keys(struct buf *out, struct json_slice source, struct err *e)
{
    struct json_walk w = json_walk_start(source);
    struct json_slice key;
    struct json_slice value;
    int rc = 0;
    while (rc == 0 && json_walk_next(&w, &key, &value)) {
        if (!is_ours(key)) {
            rc = buf_appendf(out, e, "  %.*s: %.*s,\n", (int)key.len, key.at, (int)value.len,
                             value.at);
        }
    }
    return rc;
}

static int put_plugins(struct buf *out, struct json_slice plugins, struct err *e)
{
    struct json_walk w = json_walk_start(plugins);
    struct json_slice key;
    struct json_slice plugin;
    int rc = 0;
    while (rc == 0 && json_walk_next(&w, &key, &plugin)) {
        rc = buf_appendf(out, e, ",\n    %.*s", (int)plugin.len, plugin.at);
    }
    return rc;
}

static int put_network(struct buf *out, struct json_slice source, const struct conflist_request *r,
                       struct err *e)
{
    struct json_slice name =
        json_scan_member(source.len > 0 ? source : read_conf(r->standing, r->standing_len), "name");
    bool is_known = json_scan_kind(name) == JSON_KIND_TEXT && name.len > QUOTES_BYTES;
    return is_known ? put_slice(out, name, e) : put_string(out, r->network, e);
}

/* `source` absent: unknown. */
static int put_list(struct buf *out, struct json_slice source, const struct conflist_request *r,
                    struct err *e)
{
    struct json_slice plugins = json_scan_member(source, "plugins");
    bool is_list = json_scan_kind(plugins) != JSON_KIND_ABSENT;
    bool wraps = json_scan_count(plugins) <= 1;
    int rc = buf_append_text(out,
                             "{\n  \"cniVersion\": \"1.0.0\",\n"
                             "  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": ",
                             e);
    if (rc != 0 || (rc = put_network(out, source, r, e)) != 0 ||
        (rc = buf_append_text(out, ",\n", e)) != 0) {
        return rc;
    }
    /* A .conf's own keys are its plugin's. */
    if ((is_list && (rc = put_list_keys(out, source, e)) != 0) ||
        (rc = buf_append_text(out, "  \"plugins\": [\n", e)) != 0 ||
        (rc = put_gate(out, source, wraps, r, e)) != 0 ||
        (!wraps && (rc = put_plugins(out, plugins, e)) != 0)) {
        return rc;
    }
    return buf_append_text(out, "\n  ]\n}\n", e);
}

int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                  struct buf *out, struct err *e)
{
    struct json_slice parsed = {.at = NULL};
    if (source) {
        int rc = json_scan_check(source, len, &parsed, e);
        if (rc != 0 || (rc = check_source(parsed, e)) != 0) {
            return rc;
        }
    }
    int rc = put_list(out, parsed, request, e);
    if (rc != 0) {
        return rc;
    }
    /* The copy of a source stands deeper than the source did. */
    return json_scan_check(buf_text(out), out->len, &parsed, e);
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
