/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/cni/conflist_plan.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "contract/names.h"
#include "contract/record_page.h"
#include "json/json_text.h"

#include <stdlib.h>
#include <string.h>

#define GATE_TYPE "dpu-gate"

enum { KEY_BYTES = 256 };

/* Bytes of the source. */
struct slice {
    const char *at;
    size_t len;
};

/* ---- the source ------------------------------------------------------------------------------ */

static bool is_gate(const json_t *plugin)
{
    return text_equal(json_text_get(plugin, "type"), GATE_TYPE);
}

static int check_plugins(const json_t *plugins, struct err *e)
{
    if (!json_is_array(plugins) || json_array_size(plugins) == 0) {
        return err_set(e, ERR_PARSE, "its 'plugins' is not a list of plugins");
    }
    for (size_t i = 0; i < json_array_size(plugins); i++) {
        const json_t *plugin = json_array_get(plugins, i);
        if (text_is_empty(json_text_get(plugin, "type"))) {
            return err_set(e, ERR_PARSE, "its plugin %zu has no type", i);
        }
        if (is_gate(plugin)) {
            return err_set(e, ERR_PARSE, "it goes through dpu-gate already");
        }
    }
    return 0;
}

static int check_source(const json_t *source, struct err *e)
{
    const json_t *plugins = json_object_get(source, "plugins");
    if (!json_is_object(source)) {
        return err_set(e, ERR_PARSE, "it is not a JSON object");
    }
    if (text_is_empty(json_text_get(source, "name"))) {
        return err_set(e, ERR_PARSE, "it names no network");
    }
    if (plugins) {
        return check_plugins(plugins, e);
    }
    if (text_is_empty(json_text_get(source, "type"))) {
        return err_set(e, ERR_PARSE, "it has neither type nor plugins");
    }
    return is_gate(source) ? err_set(e, ERR_PARSE, "it goes through dpu-gate already") : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int put_string(struct buf *out, const char *text, struct err *e)
{
    char shown[NAMES_MESSAGE_BYTES];
    CLEANUP(json) json_t *string = json_string(text);
    if (!string) { /* or no memory is left */
        text_sanitize(shown, sizeof(shown), text, strlen(text));
        return err_set(e, ERR_PARSE, "'%.150s' cannot be written in JSON: it is not UTF-8", shown);
    }
    CLEANUP(free) char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    return quoted ? buf_append_text(out, quoted, e) : err_set(e, ERR_NOMEM, "out of memory");
}

/* ,"key": "text" */
static int put_member(struct buf *out, const char *key, const char *text, struct err *e)
{
    int rc = buf_appendf(out, e, ", \"%s\": ", key);
    return rc == 0 ? put_string(out, text, e) : rc;
}

/* Those that any of the source's plugins declares: without them the runtime sends nothing. */
static int put_capabilities(struct buf *out, const json_t *source, struct err *e)
{
    const json_t *plugins = json_object_get(source, "plugins");
    const json_t *plugin = plugins ? json_array_get(plugins, 0) : source;
    const json_t *capabilities = json_object_get(plugin, "capabilities");
    if (json_object_size(capabilities) == 0) {
        return 0;
    }
    CLEANUP(free) char *text = json_dumps(capabilities, JSON_PRESERVE_ORDER);
    return text ? buf_appendf(out, e, ", \"capabilities\": %s", text)
                : err_set(e, ERR_NOMEM, "out of memory");
}

/* The gate as a plugin; `source` NULL: unknown. */
static int put_gate(struct buf *out, const json_t *source, bool wraps,
                    const struct conflist_request *r, struct err *e)
{
    int rc = buf_append_text(out, "    {\"type\": \"" GATE_TYPE "\"", e);
    if (rc == 0 && wraps) {
        rc = put_member(out, "delegateConf", r->source_path, e);
    }
    if (rc == 0 && !text_equal(r->readiness_file, NAMES_READINESS_FILE)) {
        rc = put_member(out, "readinessFile", r->readiness_file, e);
    }
    if (rc == 0 && wraps && source) {
        rc = put_capabilities(out, source, e);
    }
    return rc == 0 ? buf_append_text(out, "}", e) : rc;
}

static bool is_ours(const char *key)
{
    return text_equal(key, "cniVersion") || text_equal(key, "cniVersions") ||
           text_equal(key, "name") || text_equal(key, "plugins");
}

/* The next value, as it stands. */
static struct slice take_value(struct record_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) {
        r->at++;
    }
    struct slice value = {.at = r->at};
    record_skip_value(r);
    value.len = (size_t)(r->at - value.at);
    return value;
}

/* Steps through the source's members; `visit` gets each, as it stands. */
static int each_member(const char *source, size_t len,
                       int (*visit)(void *user, const char *key, struct slice value, struct err *e),
                       void *user, struct err *e)
{
    struct record_reader r = {.at = source, .end = source + len};
    char key[KEY_BYTES];
    int rc = 0;
    record_expect(&r, '{');
    bool more = !record_take(&r, '}');
    while (more && rc == 0 && !r.failed) {
        record_take_text(&r, key, sizeof(key));
        record_expect(&r, ':');
        struct slice value = take_value(&r);
        rc = r.failed ? 0 : visit(user, key, value, e);
        more = record_take(&r, ',');
    }
    return r.failed ? err_set(e, ERR_LIMIT, "it nests too deeply or has too long a key") : rc;
}

static int put_list_key(void *user, const char *key, struct slice value, struct err *e)
{
    struct buf *out = user;
    if (is_ours(key)) {
        return 0;
    }
    int rc = buf_append_text(out, "  ", e);
    rc = rc == 0 ? put_string(out, key, e) : rc;
    return rc == 0 ? buf_appendf(out, e, ": %.*s,\n", (int)value.len, value.at) : rc;
}

static int put_plugins(void *user, const char *key, struct slice value, struct err *e)
{
    struct buf *out = user;
    struct record_reader r = {.at = value.at, .end = value.at + value.len};
    int rc = 0;
    if (!text_equal(key, "plugins")) {
        return 0;
    }
    record_expect(&r, '[');
    do {
        struct slice plugin = take_value(&r);
        rc = r.failed ? err_set(e, ERR_LIMIT, "a plugin nests too deeply")
                      : buf_appendf(out, e, ",\n    %.*s", (int)plugin.len, plugin.at);
    } while (rc == 0 && record_take(&r, ','));
    return rc;
}

static int count_member(void *user, const char *key, struct slice value, struct err *e)
{
    size_t *members = user;
    (void)key;
    (void)value;
    (void)e;
    (*members)++;
    return 0;
}

static int put_list(struct buf *out, const char *source, size_t len, const json_t *parsed,
                    const struct conflist_request *r, struct err *e)
{
    const json_t *plugins = json_object_get(parsed, "plugins");
    bool wraps = json_array_size(plugins) <= 1;
    int rc = buf_append_text(out,
                             "{\n  \"cniVersion\": \"1.0.0\",\n"
                             "  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": ",
                             e);
    rc = rc == 0 ? put_string(out, parsed ? json_text_get(parsed, "name") : r->network, e) : rc;
    rc = rc == 0 ? buf_append_text(out, ",\n", e) : rc;
    if (rc == 0 && plugins) { /* a .conf's own keys are its plugin's */
        rc = each_member(source, len, put_list_key, out, e);
    }
    rc = rc == 0 ? buf_append_text(out, "  \"plugins\": [\n", e) : rc;
    rc = rc == 0 ? put_gate(out, parsed, wraps, r, e) : rc;
    if (rc == 0 && !wraps) {
        rc = each_member(source, len, put_plugins, out, e);
    }
    return rc == 0 ? buf_append_text(out, "\n  ]\n}\n", e) : rc;
}

int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                  struct buf *out, struct err *e)
{
    CLEANUP(json) json_t *parsed = NULL;
    if (source) {
        size_t members = 0;
        parsed = json_text_parse(source, len, CONFLIST_MAX_BYTES, e);
        int rc = parsed ? check_source(parsed, e) : ERR_PARSE;
        bool is_list = json_object_get(parsed, "plugins") != NULL;
        rc = rc == 0 && is_list ? each_member(source, len, count_member, &members, e) : rc;
        if (rc != 0) {
            return rc;
        }
        if (is_list &&
            members != json_object_size(parsed)) { /* readers do not agree which one counts */
            return err_set(e, ERR_PARSE, "it has a key twice");
        }
    }
    return put_list(out, source, len, parsed, request, e);
}

/* The first plugin, borrowed from `conf`; NULL: none. */
static const json_t *first_plugin(const json_t *conf)
{
    const json_t *plugins = json_object_get(conf, "plugins");
    return plugins ? json_array_get(plugins, 0) : conf;
}

bool conflist_is_gated(const char *text, size_t len)
{
    CLEANUP(json) json_t *parsed = json_text_parse(text, len, CONFLIST_MAX_BYTES, NULL);
    return is_gate(first_plugin(parsed));
}

bool conflist_wraps(const char *text, size_t len, const char *source_path)
{
    CLEANUP(json) json_t *parsed = json_text_parse(text, len, CONFLIST_MAX_BYTES, NULL);
    const json_t *plugin = first_plugin(parsed);
    return is_gate(plugin) && text_equal(json_text_get(plugin, "delegateConf"), source_path);
}

bool conflist_network(const char *text, size_t len, char *out, size_t out_bytes)
{
    CLEANUP(json) json_t *parsed = json_text_parse(text, len, CONFLIST_MAX_BYTES, NULL);
    const char *name = json_text_get(parsed, "name");
    return !text_is_empty(name) && text_copy(out, out_bytes, name);
}
