/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/conf.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cni/cni_version.h"
#include "contract/names.h"
#include "json/json_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define OWN_TYPE "dpu-gate"

/* Reads to the end. Errors: ERR_IO, ERR_LIMIT. */
static int read_all(int fd, struct buf *out, struct err *e)
{
    char chunk[8192];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof(chunk))) != 0) {
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "read");
        }
        int rc = buf_append(out, chunk, (size_t)got, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int check_name(const json_t *json, struct cni_error *error)
{
    const json_t *member = json_object_get(json, "name");
    const char *name = json_string_value(member);
    if (member && !json_is_null(member) && !name) {
        return cni_fail(error, CNI_DECODING_FAILURE, "",
                        "error unmarshall network config: name is not a string");
    }
    if (text_is_empty(name)) {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "missing network name");
    }
    if (!cni_env_is_identifier(name)) {
        return cni_fail(error, CNI_INVALID_CONFIG, name,
                        "invalid characters found in network name");
    }
    return 0;
}

int conf_read(int fd, struct cni_conf *out, struct cni_error *error)
{
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONF_MAX_BYTES);
    if (read_all(fd, &text, &e) != 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "error reading from stdin: %s", e.msg);
    }
    if (text.len == 0) {
        return cni_fail(error, CNI_DECODING_FAILURE, "",
                        "error unmarshall network config: unexpected end of JSON input");
    }
    CLEANUP(json) json_t *json = json_text_parse(text.data, text.len, CONF_MAX_BYTES, &e);
    if (!json || !(json_is_object(json) || json_is_null(json))) {
        return cni_fail(error, CNI_DECODING_FAILURE, "", "error unmarshall network config: %s",
                        json ? "it is not an object" : e.msg);
    }
    int code = check_name(json, error);
    if (code != 0) {
        return code;
    }
    *out = (struct cni_conf){.json = TAKE(json), .version = CNI_VERSION_DEFAULT};
    return 0;
}

void conf_fini(struct cni_conf *conf)
{
    json_decref(conf->json);
    conf->json = NULL;
}

static int read_version(struct cni_conf *conf, struct cni_error *error)
{
    const json_t *member = json_object_get(conf->json, "cniVersion");
    if (member && !json_is_null(member) && !json_is_string(member)) {
        return cni_fail(error, CNI_DECODING_FAILURE, "",
                        "decoding version from network config: cniVersion is not a string");
    }
    if (!text_is_empty(json_string_value(member))) {
        conf->version = json_string_value(member);
    }
    return 0;
}

/* The oldest version that knows a verb; NULL: any. */
static const char *oldest_for(enum cni_verb verb)
{
    if (verb == CNI_CHECK) {
        return "0.4.0";
    }
    return verb == CNI_GC || verb == CNI_STATUS ? "1.1.0" : NULL;
}

static const char *verb_name(enum cni_verb verb)
{
    return verb == CNI_CHECK ? "CHECK" : verb == CNI_GC ? "GC" : "STATUS";
}

int conf_check_version(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error)
{
    struct err e = ERR_INIT;
    bool allowed = true;
    bool spoken = true;
    const char *oldest = oldest_for(verb);
    int code = read_version(conf, error);
    if (code != 0) {
        return code;
    }
    if (oldest) {
        if (cni_version_at_least(conf->version, oldest, &allowed, &e) != 0 ||
            cni_version_at_least(CNI_VERSION_CURRENT, conf->version, &spoken, &e) != 0) {
            return cni_fail(error, CNI_DECODING_FAILURE, "", "%s", e.msg);
        }
        if (!allowed || !spoken) {
            return cni_fail(error, CNI_INCOMPATIBLE_VERSION, "", "%s version does not allow %s",
                            allowed ? "plugin" : "config", verb_name(verb));
        }
    }
    if (!cni_version_is_supported(conf->version)) {
        char details[256];
        size_t used = (size_t)snprintf(details, sizeof(details),
                                       "config is \"%.40s\", plugin supports [", conf->version);
        for (size_t i = 0; cni_versions[i]; i++) {
            used += (size_t)snprintf(details + used, sizeof(details) - used, "%s\"%s\"",
                                     i ? " " : "", cni_versions[i]); /* sized for them */
        }
        (void)snprintf(details + used, sizeof(details) - used, "]"); /* same */
        return cni_fail(error, CNI_INCOMPATIBLE_VERSION, details, "incompatible CNI versions");
    }
    return 0;
}

/* Our keys; whatever else there is belongs to the runtime or the delegate. */
static const char *const own_keys[] = {"type", "delegate", "delegateConf", "readinessFile",
                                       "statusCode"};

static bool is_own(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(own_keys); i++) {
        if (text_equal(own_keys[i], key)) {
            return true;
        }
    }
    return false;
}

/* A key of ours in other letters would go unnoticed, and with it the delegate. */
static int check_spelling(const json_t *json, struct cni_error *error)
{
    for (const char *const *own = own_keys; own < own_keys + ARRAY_LEN(own_keys); own++) {
        for (void *at = json_object_iter((json_t *)(uintptr_t)json); at;
             at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
            const char *key = json_object_iter_key(at);
            if (strcasecmp(key, *own) == 0 && strcmp(key, *own) != 0) {
                return cni_fail(error, CNI_INVALID_CONFIG, "",
                                "unknown key '%s': did you mean '%s'?", key, *own);
            }
        }
    }
    return 0;
}

int conf_read_options(struct cni_conf *conf, struct cni_error *error)
{
    const json_t *file = json_object_get(conf->json, "readinessFile");
    const json_t *code = json_object_get(conf->json, "statusCode");
    const json_t *delegate = json_object_get(conf->json, "delegate");
    const json_t *delegate_conf = json_object_get(conf->json, "delegateConf");
    const int invalid = CNI_INVALID_CONFIG;
    if (check_spelling(conf->json, error) != 0) {
        return error->code;
    }
    conf->readiness_file = file ? json_string_value(file) : NAMES_READINESS_FILE;
    if (!conf->readiness_file || conf->readiness_file[0] != '/') {
        return cni_fail(error, invalid, "", "readinessFile must be an absolute path");
    }
    json_int_t status_code = code ? json_integer_value(code) : CNI_NOT_AVAILABLE;
    if (status_code != CNI_NOT_AVAILABLE && status_code != CNI_LIMITED_CONNECTIVITY) {
        return cni_fail(error, invalid, "", "statusCode must be 50 or 51");
    }
    conf->status_code = (int)status_code;
    if (delegate && delegate_conf) {
        return cni_fail(error, invalid, "", "delegate and delegateConf exclude each other");
    }
    if (delegate && !json_is_object(delegate)) {
        return cni_fail(error, invalid, "", "delegate must be a plugin's configuration object");
    }
    const char *path = json_string_value(delegate_conf);
    if (delegate_conf && (!path || path[0] != '/')) {
        return cni_fail(error, invalid, "", "delegateConf must be an absolute path");
    }
    conf->is_wrapping = delegate || delegate_conf;
    return 0;
}

/* ---- the delegate's configuration
 * ----------------------------------------------------------------- */

/* The plugin in a .conf, or the only one in a .conflist. Returns owned or NULL. */
static json_t *load_plugin(const char *path, struct cni_error *error)
{
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONF_MAX_BYTES);
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a link */
    int rc = fd >= 0 ? read_all(fd, &text, &e) : err_set_errno(&e, ERR_IO, errno, "open");
    if (rc != 0) {
        /* Its owner writes it when it is ready: worth another try. */
        int code = rc == ERR_LIMIT ? CNI_INVALID_CONFIG : CNI_TRY_AGAIN_LATER;
        (void)cni_fail(error, code, "", "delegateConf '%s' cannot be read: %s", path, e.msg);
        return NULL;
    }
    CLEANUP(json) json_t *json = json_text_parse(buf_text(&text), text.len, CONF_MAX_BYTES, &e);
    if (!json_is_object(json)) {
        (void)cni_fail(error, CNI_DECODING_FAILURE, "", "delegateConf '%s': %s", path,
                       json ? "it is not an object" : e.msg);
        return NULL;
    }
    const json_t *plugins = json_object_get(json, "plugins");
    if (!plugins) {
        return TAKE(json);
    }
    if (json_array_size(plugins) != 1 || !json_is_object(json_array_get(plugins, 0))) {
        (void)cni_fail(error, CNI_INVALID_CONFIG, "",
                       "delegateConf '%s' lists %zu plugins: exactly one can be wrapped, put "
                       "dpu-gate first in the list instead",
                       path, json_array_size(plugins));
        return NULL;
    }
    return json_deep_copy(json_array_get(plugins, 0));
}

/* What the runtime injects: its word is newer than what the delegate's configuration says. */
static bool is_from_runtime(const char *key)
{
    static const char *const keys[] = {"name", "cniVersion", "prevResult", "runtimeConfig", "args"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (text_equal(keys[i], key)) {
            return true;
        }
    }
    return strncmp(key, "cni.dev/", strlen("cni.dev/")) == 0;
}

/* Keys that we do not know (a device id from Multus) go to the delegate, too, unless it has them.
 */
static int carry_over(const struct cni_conf *conf, json_t *delegate)
{
    const char *key;
    json_t *value;
    json_object_foreach(conf->json, key, value)
    {
        bool wanted = is_from_runtime(key) || (!is_own(key) && !json_object_get(delegate, key));
        if (wanted && json_object_set(delegate, key, value) != 0) {
            return -1;
        }
    }
    return 0;
}

static int check_delegate(const struct cni_conf *conf, const json_t *delegate,
                          struct cni_error *error)
{
    const int invalid = CNI_INVALID_CONFIG;
    const char *type = json_text_get(delegate, "type");
    if (text_is_empty(type)) {
        return cni_fail(error, invalid, "", "the delegate has no type");
    }
    if (strchr(type, '/') || text_equal(type, ".") || text_equal(type, "..")) {
        return cni_fail(error, invalid, "", "invalid plugin name: %s", type);
    }
    /* A gate behind a gate, each reading the other's file, would go on for ever. */
    if (text_equal(type, OWN_TYPE) || text_equal(type, json_text_get(conf->json, "type")) ||
        json_object_get(delegate, "delegateConf")) {
        return cni_fail(
            error, invalid, "",
            "the delegate '%s' is " OWN_TYPE " itself, or has a delegateConf of its own", type);
    }
    return 0;
}

int conf_make_delegate(const struct cni_conf *conf, json_t **out_json, const char **out_type,
                       struct cni_error *error)
{
    const char *path = json_text_get(conf->json, "delegateConf");
    const json_t *inline_conf = json_object_get(conf->json, "delegate");
    CLEANUP(json) json_t *delegate = path ? load_plugin(path, error) : json_deep_copy(inline_conf);
    if (!delegate) {
        return error->code ? error->code : cni_fail(error, CNI_IO_FAILURE, "", "out of memory");
    }
    int code = check_delegate(conf, delegate, error);
    if (code != 0) {
        return code;
    }
    if (carry_over(conf, delegate) != 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "out of memory");
    }
    *out_type = json_text_get(delegate, "type");
    *out_json = TAKE(delegate);
    return 0;
}
