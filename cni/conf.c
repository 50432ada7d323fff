/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/conf.h"

#include "base/mem.h"
#include "base/text.h"
#include "cni/cni_version.h"
#include "contract/names.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    QUOTES_BYTES = 2,
    LOSSY_BYTES = 3,                        /* a byte that is no character becomes U+FFFD */
    COUNTED_MAX_BYTES = 4 * CONF_MAX_BYTES, /* of what is too large, to say how large it is */
};

/* ---- stdin ----------------------------------------------------------------------------------- */

/* Errors: ERR_IO, ERR_LIMIT. */
static int read_all(int fd, struct buf *out, struct err *e)
{
    char chunk[8192];
    size_t size = 0;
    ssize_t got;
    while ((got = read(fd, chunk, sizeof(chunk))) != 0 && size < COUNTED_MAX_BYTES) {
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "read");
        }
        size += (size_t)got;
        if (size <= out->max_bytes) {
            int rc = buf_append(out, chunk, (size_t)got, e);
            if (rc != 0) {
                return rc;
            }
        }
    }
    if (size > out->max_bytes) {
        return err_set(e, ERR_LIMIT, "it is of %s%zu bytes, at most %zu are taken",
                       size < COUNTED_MAX_BYTES ? "" : "more than ", size, out->max_bytes);
    }
    return 0;
}

static int check_name(struct json_slice object, struct cni_error *error)
{
    struct json_slice name;
    if (!json_scan_field(object, "name", &name)) {
        return cni_fail(error, CNI_DECODING_FAILURE, "",
                        "error unmarshall network config: name is not a string");
    }
    if (name.len <= QUOTES_BYTES) {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "missing network name");
    }
    CLEANUP(free) char *text = malloc(LOSSY_BYTES * name.len);
    if (!text) {
        return cni_fail(error, CNI_IO_FAILURE, "", "out of memory");
    }
    bool is_whole = json_scan_text(name, text, LOSSY_BYTES * name.len);
    if (!is_whole || !cni_env_is_identifier(text)) {
        return cni_fail(error, CNI_INVALID_CONFIG, text,
                        "invalid characters found in network name");
    }
    return 0;
}

int conf_read(int fd, struct cni_conf *out, struct cni_error *error)
{
    struct err e = ERR_INIT;
    buf_init(&out->text, CONF_MAX_BYTES);
    if (read_all(fd, &out->text, &e) != 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "error reading from stdin: %s", e.msg);
    }
    int rc = json_scan_check(buf_text(&out->text), out->text.len, &out->object, &e);
    enum json_kind kind = rc == 0 ? json_scan_kind(out->object) : JSON_KIND_ABSENT;
    if (kind != JSON_KIND_OBJECT && kind != JSON_KIND_NULL) {
        return cni_fail(error, CNI_DECODING_FAILURE, "", "error unmarshall network config: %s",
                        rc == 0 ? "it is not an object" : e.msg);
    }
    text_format(out->version, sizeof(out->version), "%s", CNI_VERSION_DEFAULT);
    return check_name(out->object, error);
}

void conf_fini(struct cni_conf *conf)
{
    buf_fini(&conf->text);
    conf->object = (struct json_slice){.at = NULL};
}

/* ---- version --------------------------------------------------------------------------------- */

static int read_version(struct cni_conf *conf, struct cni_error *error)
{
    struct json_slice version;
    if (!json_scan_field(conf->object, "cniVersion", &version)) {
        return cni_fail(error, CNI_DECODING_FAILURE, "",
                        "decoding version from network config: cniVersion is not a string");
    }
    if (version.len > QUOTES_BYTES) {
        (void)json_scan_text(version, conf->version, sizeof(conf->version)); /* see its bound */
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
        text_format(details + used, sizeof(details) - used, "]");
        return cni_fail(error, CNI_INCOMPATIBLE_VERSION, details, "incompatible CNI versions");
    }
    return 0;
}

/* ---- our own keys ---------------------------------------------------------------------------- */

/* Whatever else there is belongs to the runtime or the delegate. */
static const struct {
    const char *name;
    bool is_of_gate; /* only verbs that are gated need it */
} own_keys[] = {
    {"delegate", false}, {"delegateConf", false}, {"lastDelegate", false},
    {"type", true},      {"readinessFile", true}, {"statusCode", true},
};

bool conf_owns_key(struct json_slice key)
{
    for (size_t i = 0; i < ARRAY_LEN(own_keys); i++) {
        if (json_scan_folds(key, own_keys[i].name)) {
            return true;
        }
    }
    return false;
}

/* A key of ours in other letters would go unnoticed, and with it the delegate. */
static int check_spelling(struct json_slice object, bool is_gated, struct cni_error *error)
{
    struct json_walk w = json_walk_start(object);
    struct json_slice key;
    struct json_slice value;
    while (json_walk_next(&w, &key, &value)) {
        for (size_t i = 0; i < ARRAY_LEN(own_keys); i++) {
            const char *name = own_keys[i].name;
            if ((is_gated || !own_keys[i].is_of_gate) && json_scan_folds(key, name) &&
                !json_scan_equals(key, name)) {
                return cni_fail(error, CNI_INVALID_CONFIG, "",
                                "unknown key '%.*s': did you mean '%s'?", (int)key.len - 2,
                                key.at + 1, name);
            }
        }
    }
    return 0;
}

/* An absolute path out of our key `name`. */
static int read_path(struct json_slice value, const char *name, char out[static PATH_MAX],
                     struct cni_error *error)
{
    char path[PATH_MAX];
    if (json_scan_kind(value) == JSON_KIND_TEXT && value.len - QUOTES_BYTES >= PATH_MAX) {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "%s is of %zu bytes, a path has at most %d",
                        name, value.len - QUOTES_BYTES, PATH_MAX - 1);
    }
    if (!json_scan_text(value, path, PATH_MAX) || path[0] != '/') {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "%s must be an absolute path", name);
    }
    return text_copy(out, PATH_MAX, path) ? 0 : CNI_INVALID_CONFIG; /* same bound */
}

static int read_gate_options(struct cni_conf *conf, struct cni_error *error)
{
    struct json_slice file = json_scan_member(conf->object, "readinessFile");
    struct json_slice code = json_scan_member(conf->object, "statusCode");
    bool is_limited = code.len == 2 && memcmp(code.at, "51", 2) == 0;
    bool is_default = code.len == 0 || (code.len == 2 && memcmp(code.at, "50", 2) == 0);
    text_format(conf->readiness_file, sizeof(conf->readiness_file), "%s", NAMES_READINESS_FILE);
    conf->status_code = is_limited ? CNI_LIMITED_CONNECTIVITY : CNI_NOT_AVAILABLE;
    if (!is_limited && !is_default) {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "statusCode must be 50 or 51");
    }
    return file.len == 0 ? 0 : read_path(file, "readinessFile", conf->readiness_file, error);
}

int conf_read_options(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error)
{
    struct json_slice delegate = json_scan_member(conf->object, "delegate");
    struct json_slice delegate_conf = json_scan_member(conf->object, "delegateConf");
    bool is_gated = verb == CNI_ADD || verb == CNI_STATUS;
    struct cni_error mistake = {.code = 0};
    char path[PATH_MAX];
    if (check_spelling(conf->object, is_gated, error) != 0) {
        return error->code;
    }
    int code = read_gate_options(conf, &mistake);
    if (code != 0 && is_gated) {
        *error = mistake; /* elsewhere the defaults will do */
        return code;
    }
    if (delegate.len > 0 && delegate_conf.len > 0) {
        return cni_fail(error, CNI_INVALID_CONFIG, "",
                        "delegate and delegateConf exclude each other");
    }
    if (delegate.len > 0 && json_scan_kind(delegate) != JSON_KIND_OBJECT) {
        return cni_fail(error, CNI_INVALID_CONFIG, "",
                        "delegate must be a plugin's configuration object");
    }
    if (delegate_conf.len > 0 && read_path(delegate_conf, "delegateConf", path, error) != 0) {
        return error->code;
    }
    conf->is_wrapping = delegate.len > 0 || delegate_conf.len > 0;
    return 0;
}
