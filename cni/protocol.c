/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol.h"

#include "base/attr.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- errors and answers ---------------------------------------------------------------------- */

/* An error's texts, of which each byte may need an escape of two, and what is around them. */
enum { REPLY_BYTES = 2 * (CNI_MSG_BYTES + CNI_DETAILS_BYTES) + 1024 };

int cni_fail(struct cni_error *error, int code, const char *details, const char *fmt, ...)
{
    char msg[CNI_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap); /* truncation is the bound */
    va_end(ap);
    error->code = code;
    text_sanitize(error->msg, sizeof(error->msg), msg, strlen(msg));
    text_sanitize(error->details, sizeof(error->details), details, strlen(details));
    return code;
}

static bool put(const char *bytes, size_t len)
{
    return fwrite(bytes, 1, len, stdout) == len;
}

/* Past this point nobody can be told of a failure but by the exit status. */
static int finish(bool is_put)
{
    return fflush(stdout) == 0 && is_put ? EXIT_SUCCESS : EXIT_FAILURE;
}

int reply_bytes(const char *bytes, size_t len)
{
    return finish(put(bytes, len));
}

int reply_error(const struct cni_error *error, const char *version)
{
    char json[REPLY_BYTES] = "";
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_raw(&w, "{\n    \"cniVersion\": ");
    json_put_text(&w, version);
    json_put_raw(&w, ",\n    \"code\": ");
    json_put_i64(&w, error->code);
    json_put_raw(&w, ",\n    \"msg\": ");
    json_put_text(&w, error->msg);
    if (error->details[0] != '\0') {
        json_put_raw(&w, ",\n    \"details\": ");
        json_put_text(&w, error->details);
    }
    json_put_raw(&w, "\n}\n");
    (void)reply_bytes(json, w.used); /* the exit status is 1 in any case */
    return EXIT_FAILURE;
}

int reply_result(struct json_slice result, const char *version)
{
    char head[REPLY_BYTES] = "";
    struct json_writer w = {.out = head, .max_bytes = sizeof(head)};
    struct json_slice found;
    struct json_slice key;
    struct json_slice value;
    if (json_scan_field(result, "cniVersion", &found) && found.len > sizeof("\"\"") - 1) {
        return finish(put(result.at, result.len) && put("\n", 1));
    }
    json_put_raw(&w, "{\"cniVersion\":");
    json_put_text(&w, version);
    bool is_put = put(head, w.used);
    struct json_walk walk = json_walk_start(result);
    while (is_put && json_walk_next(&walk, &key, &value)) {
        is_put = json_scan_folds(key, "cniVersion") ||
                 (put(",", 1) && put(key.at, key.len) && put(":", 1) && put(value.at, value.len));
    }
    return finish(is_put && put("}\n", 2));
}

int reply_versions(void)
{
    char json[REPLY_BYTES] = "";
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_raw(&w, "{\"cniVersion\":\"" CNI_VERSION_CURRENT "\",\"supportedVersions\":[");
    for (size_t i = 0; cni_versions[i]; i++) {
        json_put_raw(&w, i > 0 ? "," : "");
        json_put_text(&w, cni_versions[i]);
    }
    json_put_raw(&w, "]}\n");
    return reply_bytes(json, w.used);
}

/* ---- versions of the spec -------------------------------------------------------------------- */

const char *const cni_versions[] = {
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", CNI_VERSION_CURRENT, NULL};

enum { PARTS = 3 };

bool cni_version_is_supported(const char *version)
{
    for (size_t i = 0; cni_versions[i]; i++) {
        if (text_equal(cni_versions[i], version)) {
            return true;
        }
    }
    return false;
}

/* Up to three dotted numbers; missing ones are 0. */
static int parse(const char *version, uint64_t out[static PARTS], struct err *e)
{
    static const char *const names[PARTS] = {"major", "minor", "micro"};
    const char *at = version;
    memset(out, 0, PARTS * sizeof(*out));
    for (size_t i = 0;; i++) {
        size_t len = strcspn(at, ".");
        if (i == PARTS) {
            return err_set(e, ERR_PARSE, "invalid version \"%.40s\": too many parts", version);
        }
        if (text_to_u64(at, len, &out[i], NULL) != 0) {
            return err_set(e, ERR_PARSE, "failed to convert %s version part \"%.*s\"", names[i],
                           (int)(len > 40 ? 40 : len), at);
        }
        if (at[len] == '\0') {
            return 0;
        }
        at += len + 1;
    }
}

int cni_version_at_least(const char *version, const char *least, bool *out, struct err *e)
{
    uint64_t a[PARTS];
    uint64_t b[PARTS];
    int rc = parse(version, a, e);
    if (rc != 0 || (rc = parse(least, b, e)) != 0) {
        return rc;
    }
    size_t i = 0;
    while (i < PARTS - 1 && a[i] == b[i]) {
        i++;
    }
    *out = a[i] >= b[i];
    return 0;
}

/* ---- environment ----------------------------------------------------------------------------- */

enum { IFNAME_MAX_BYTES = 15 };

static const struct {
    const char *name;
    const char *since; /* the oldest version that knows it; NULL: any */
} verbs[] = {
    [CNI_VERB_UNKNOWN] = {NULL, NULL}, [CNI_ADD] = {"ADD", NULL},
    [CNI_DEL] = {"DEL", NULL},         [CNI_CHECK] = {"CHECK", "0.4.0"},
    [CNI_GC] = {"GC", "1.1.0"},        [CNI_STATUS] = {"STATUS", "1.1.0"},
    [CNI_VERSION] = {"VERSION", NULL},
};

static enum cni_verb verb_of(const char *command)
{
    size_t i = ARRAY_LEN(verbs) - 1;
    while (i > CNI_VERB_UNKNOWN && !text_equal(command, verbs[i].name)) {
        i--;
    }
    return (enum cni_verb)i;
}

bool cni_env_is_identifier(const char *text)
{
    static const char alphanumeric[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char any[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-";
    return text[0] != '\0' && strchr(alphanumeric, text[0]) && text[strspn(text, any)] == '\0';
}

static int check_container_id(const char *id, struct cni_error *error)
{
    return cni_env_is_identifier(id)
               ? 0
               : cni_fail(error, CNI_INVALID_ENVIRONMENT, id, "invalid characters in containerID");
}

/* Of Unicode. `s` is not empty. */
static bool is_white_space(const char *s)
{
    static const char *const spaces[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                         "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                         "\xe2\x81\x9f", "\xe3\x80\x80"};
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
        if (strncmp(s, spaces[i], strlen(spaces[i])) == 0) {
            return true;
        }
    }
    bool en_quad_to_hair = strncmp(s, "\xe2\x80", 2) == 0 && (unsigned char)s[2] >= 0x80 &&
                           (unsigned char)s[2] <= 0x8a;
    return en_quad_to_hair || strchr(" \t\n\v\f\r", *s);
}

static int check_ifname(const char *name, struct cni_error *error)
{
    const int code = CNI_INVALID_ENVIRONMENT;
    if (strlen(name) > IFNAME_MAX_BYTES) {
        return cni_fail(error, code, "interface name should be less than 16 characters",
                        "interface name is too long");
    }
    if (text_equal(name, ".") || text_equal(name, "..")) {
        return cni_fail(error, code, "", "interface name is . or ..");
    }
    for (const char *c = name; *c; c++) {
        if (*c == '/' || *c == ':' || is_white_space(c)) {
            return cni_fail(error, code, "",
                            "interface name contains / or : or whitespace characters");
        }
    }
    return 0;
}

#define BIT(verb) (1u << (verb))

int cni_env_read(struct cni_env *out, struct cni_error *error)
{
    const unsigned attachment = BIT(CNI_ADD) | BIT(CNI_CHECK) | BIT(CNI_DEL);
    const char *override = NULL;
    const struct {
        const char *name;
        const char **value;
        unsigned required_for;
        int (*check)(const char *value, struct cni_error *error);
    } rows[] = {
        {"CNI_COMMAND", &out->command, ~0u, NULL},
        {"CNI_CONTAINERID", &out->container_id, attachment, check_container_id},
        {"CNI_NETNS", &out->netns, BIT(CNI_ADD) | BIT(CNI_CHECK), NULL},
        {"CNI_IFNAME", &out->ifname, attachment, check_ifname},
        {"CNI_PATH", &out->path, attachment | BIT(CNI_GC) | BIT(CNI_STATUS), NULL},
        {"CNI_NETNS_OVERRIDE", &override, 0, NULL},
    };
    char missing[256] = "";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = getenv(rows[i].name);
        *rows[i].value = value ? value : "";
        if (i == 0) {
            out->verb = verb_of(out->command);
        }
        if ((*rows[i].value)[0] == '\0') {
            if (rows[i].required_for & BIT(out->verb)) {
                size_t used = strlen(missing);
                text_format(missing + used, sizeof(missing) - used, "%s%s", used ? "," : "",
                            rows[i].name); /* sized for all of them */
            }
        } else if (rows[i].required_for & BIT(out->verb) && rows[i].check &&
                   rows[i].check(*rows[i].value, error) != 0) {
            return error->code;
        }
    }
    if (missing[0] != '\0') {
        return cni_fail(error, CNI_INVALID_ENVIRONMENT, "", "required env variables [%s] missing",
                        missing);
    }
    out->netns_override = text_equal(override, "1") || strcasecmp(override, "TRUE") == 0;
    return 0;
}

/* ---- configuration --------------------------------------------------------------------------- */

enum {
    QUOTES_BYTES = 2,
    LOSSY_BYTES = 3, /* a byte that is no character becomes U+FFFD */
};

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
    CLEANUP(free) char *text = mem_alloc(LOSSY_BYTES * name.len);
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
    if (file_read_fd(fd, "stdin", &out->text, &e) != 0) {
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

int conf_check_version(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error)
{
    struct err e = ERR_INIT;
    bool allowed = true;
    bool spoken = true;
    struct json_slice version;
    if (!json_scan_field(conf->object, "cniVersion", &version)) {
        return cni_fail(error, CNI_DECODING_FAILURE, "",
                        "decoding version from network config: cniVersion is not a string");
    }
    if (version.len > QUOTES_BYTES) {
        (void)json_scan_text(version, conf->version, sizeof(conf->version)); /* see its bound */
    }
    if (verbs[verb].since) {
        if (cni_version_at_least(conf->version, verbs[verb].since, &allowed, &e) != 0 ||
            cni_version_at_least(CNI_VERSION_CURRENT, conf->version, &spoken, &e) != 0) {
            return cni_fail(error, CNI_DECODING_FAILURE, "", "%s", e.msg);
        }
        if (!allowed || !spoken) {
            return cni_fail(error, CNI_INCOMPATIBLE_VERSION, "", "%s version does not allow %s",
                            allowed ? "plugin" : "config", verbs[verb].name);
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
    if (json_scan_kind(value) == JSON_KIND_TEXT && value.len - QUOTES_BYTES >= PATH_MAX) {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "%s is of %zu bytes, a path has at most %d",
                        name, value.len - QUOTES_BYTES, PATH_MAX - 1);
    }
    if (!json_scan_text(value, out, PATH_MAX) || out[0] != '/') {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "%s must be an absolute path", name);
    }
    return 0;
}

static int read_gate_options(struct cni_conf *conf, struct cni_error *error)
{
    char path[PATH_MAX];
    struct json_slice file = json_scan_member(conf->object, "readinessFile");
    struct json_slice code = json_scan_member(conf->object, "statusCode");
    bool is_limited = code.len == 2 && memcmp(code.at, "51", 2) == 0;
    bool is_default = code.len == 0 || (code.len == 2 && memcmp(code.at, "50", 2) == 0);
    text_format(conf->readiness_file, sizeof(conf->readiness_file), "%s", NAMES_READINESS_FILE);
    conf->status_code = is_limited ? CNI_LIMITED_CONNECTIVITY : CNI_NOT_AVAILABLE;
    if (!is_limited && !is_default) {
        return cni_fail(error, CNI_INVALID_CONFIG, "", "statusCode must be 50 or 51");
    }
    int rc = file.len == 0 ? 0 : read_path(file, "readinessFile", path, error);
    if (file.len > 0 && rc == 0) {
        memcpy(conf->readiness_file, path, sizeof(path));
    }
    return rc;
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
