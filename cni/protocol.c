/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol.h"

#include "base/err.h"
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

/* ---- answers --------------------------------------------------------------------------------- */

/* An error's texts, of which each byte may need an escape of two, and what is around them. */
enum { REPLY_BYTES = 2 * (CNI_MSG_BYTES + CNI_DETAILS_BYTES) + 1024 };

int cni_fail(struct cni_call *c, int code, const char *fmt, ...)
{
    char msg[CNI_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap); /* truncation is the bound */
    va_end(ap);
    c->code = code;
    c->details[0] = '\0';
    text_sanitize(c->msg, sizeof(c->msg), msg, strlen(msg));
    return code;
}

int cni_explain(struct cni_call *c, const char *details)
{
    text_sanitize(c->details, sizeof(c->details), details, strlen(details));
    return c->code;
}

void cni_call_fini(struct cni_call *c)
{
    buf_fini(&c->text);
    buf_fini(&c->delegate_file);
}

bool cni_is_gated(enum cni_verb verb)
{
    return verb == CNI_ADD || verb == CNI_STATUS;
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

int reply_error(const struct cni_call *c)
{
    char json[REPLY_BYTES] = "";
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_raw(&w, "{\n    \"cniVersion\": ");
    json_put_text(&w, c->version);
    json_put_raw(&w, ",\n    \"code\": ");
    json_put_i64(&w, c->code);
    json_put_raw(&w, ",\n    \"msg\": ");
    json_put_text(&w, c->msg);
    if (c->details[0] != '\0') {
        json_put_raw(&w, ",\n    \"details\": ");
        json_put_text(&w, c->details);
    }
    json_put_raw(&w, "\n}\n");
    (void)reply_bytes(json, w.used); /* the exit status is 1 in any case */
    return EXIT_FAILURE;
}

int reply_result(const struct cni_call *c, struct json_slice result)
{
    char head[REPLY_BYTES] = "";
    struct json_writer w = {.out = head, .max_bytes = sizeof(head)};
    struct json_slice found;
    if (json_scan_field(result, "cniVersion", &found) && found.len > sizeof("\"\"") - 1) {
        return finish(put(result.at, result.len) && put("\n", 1));
    }
    json_put_raw(&w, "{\"cniVersion\":");
    json_put_text(&w, c->version);
    bool is_put = put(head, w.used);
    struct json_walk m = json_walk_start(result);
    while (is_put && json_walk_next(&m)) {
        is_put =
            json_scan_folds(m.key, "cniVersion") || (put(",", 1) && put(m.key.at, m.key.len) &&
                                                     put(":", 1) && put(m.value.at, m.value.len));
    }
    return finish(is_put && put("}\n", 2));
}

int reply_versions(void)
{
    static const char answer[] = "{\"cniVersion\":\"" CNI_VERSION_CURRENT
                                 "\",\"supportedVersions\":[\"" CNI_VERSIONS("\",\"") "\"]}\n";
    return reply_bytes(answer, sizeof(answer) - 1);
}

/* ---- versions of the spec -------------------------------------------------------------------- */

enum { PARTS = 3 };

static bool is_supported(const char *version)
{
    char quoted[CONF_VERSION_BYTES + 2];
    text_format(quoted, sizeof(quoted), "'%s'", version);
    return !strchr(version, '\'') && strstr("'" CNI_VERSIONS("''") "'", quoted);
}

/* Up to three dotted numbers; missing ones are 0. */
static int version_parse(const char *version, uint64_t out[static PARTS], struct err *e)
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
    int rc = version_parse(version, a, e);
    if (rc != 0 || (rc = version_parse(least, b, e)) != 0) {
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

/* Also the rule for a network name: starts alphanumeric, then alphanumerics, '_', '.', '-'. */
static bool is_identifier(const char *text)
{
    static const char alphanumeric[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char any[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-";
    return text[0] != '\0' && strchr(alphanumeric, text[0]) && text[strspn(text, any)] == '\0';
}

static int check_container_id(struct cni_call *c)
{
    if (is_identifier(c->container_id)) {
        return 0;
    }
    cni_fail(c, CNI_INVALID_ENVIRONMENT, "invalid characters in containerID");
    return cni_explain(c, c->container_id);
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

static int check_ifname(struct cni_call *c)
{
    const char *name = c->ifname;
    const int code = CNI_INVALID_ENVIRONMENT;
    if (strlen(name) > IFNAME_MAX_BYTES) {
        cni_fail(c, code, "interface name is too long");
        return cni_explain(c, "interface name should be less than 16 characters");
    }
    if (text_equal(name, ".") || text_equal(name, "..")) {
        return cni_fail(c, code, "interface name is . or ..");
    }
    for (const char *at = name; *at; at++) {
        if (*at == '/' || *at == ':' || is_white_space(at)) {
            return cni_fail(c, code, "interface name contains / or : or whitespace characters");
        }
    }
    return 0;
}

#define BIT(verb) (1u << (verb))

int cni_read_env(struct cni_call *c)
{
    const unsigned attachment = BIT(CNI_ADD) | BIT(CNI_CHECK) | BIT(CNI_DEL);
    const char *override = NULL;
    const struct {
        const char *name;
        const char **value;
        unsigned required_for;
        int (*check)(struct cni_call *c);
    } rows[] = {
        {"CNI_COMMAND", &c->command, ~0u, NULL},
        {"CNI_CONTAINERID", &c->container_id, attachment, check_container_id},
        {"CNI_NETNS", &c->netns, BIT(CNI_ADD) | BIT(CNI_CHECK), NULL},
        {"CNI_IFNAME", &c->ifname, attachment, check_ifname},
        {"CNI_PATH", &c->path, attachment | BIT(CNI_GC) | BIT(CNI_STATUS), NULL},
        {"CNI_NETNS_OVERRIDE", &override, 0, NULL},
    };
    char missing[256] = "";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = getenv(rows[i].name);
        *rows[i].value = value ? value : "";
        c->verb = verb_of(c->command); /* of the first row */
        if ((*rows[i].value)[0] == '\0') {
            if (rows[i].required_for & BIT(c->verb)) {
                text_append(missing, sizeof(missing), "%s%s", missing[0] ? "," : "",
                            rows[i].name); /* sized for all of them */
            }
        } else if (rows[i].required_for & BIT(c->verb) && rows[i].check && rows[i].check(c) != 0) {
            return c->code;
        }
    }
    if (missing[0] != '\0') {
        return cni_fail(c, CNI_INVALID_ENVIRONMENT, "required env variables [%s] missing", missing);
    }
    c->netns_override = text_equal(override, "1") || strcasecmp(override, "TRUE") == 0;
    return 0;
}

/* ---- configuration --------------------------------------------------------------------------- */

enum {
    QUOTES_BYTES = 2,
    LOSSY_BYTES = 3, /* a byte that is no character becomes U+FFFD */
};

static int check_name(struct cni_call *c)
{
    struct json_slice name;
    if (!json_scan_field(c->object, "name", &name)) {
        return cni_fail(c, CNI_DECODING_FAILURE,
                        "error unmarshall network config: name is not a string");
    }
    if (name.len <= QUOTES_BYTES) {
        return cni_fail(c, CNI_INVALID_CONFIG, "missing network name");
    }
    CLEANUP(free) char *text = mem_alloc(LOSSY_BYTES * name.len);
    bool is_whole = json_scan_text(name, text, LOSSY_BYTES * name.len);
    if (!is_whole || !is_identifier(text)) {
        cni_fail(c, CNI_INVALID_CONFIG, "invalid characters found in network name");
        return cni_explain(c, text);
    }
    return 0;
}

int conf_read(struct cni_call *c, int fd)
{
    struct err e = ERR_INIT;
    c->text = (struct buf){.max_bytes = CONF_MAX_BYTES};
    if (file_read_fd(fd, "stdin", &c->text, &e) != 0) {
        return cni_fail(c, CNI_IO_FAILURE, "error reading from stdin: %s", e.msg);
    }
    int rc = json_scan_check(buf_text(&c->text), c->text.len, &c->object, &e);
    enum json_kind kind = rc == 0 ? json_scan_kind(c->object) : JSON_KIND_ABSENT;
    if (kind != JSON_KIND_OBJECT && kind != JSON_KIND_NULL) {
        return cni_fail(c, CNI_DECODING_FAILURE, "error unmarshall network config: %s",
                        rc == 0 ? "it is not a JSON object" : e.msg);
    }
    text_format(c->version, sizeof(c->version), "%s", CNI_VERSION_DEFAULT);
    return check_name(c);
}

int conf_check_version(struct cni_call *c)
{
    struct err e = ERR_INIT;
    bool allowed = true;
    bool spoken = true;
    struct json_slice version;
    if (!json_scan_field(c->object, "cniVersion", &version)) {
        return cni_fail(c, CNI_DECODING_FAILURE,
                        "decoding version from network config: cniVersion is not a string");
    }
    if (version.len > QUOTES_BYTES) {
        (void)json_scan_text(version, c->version, sizeof(c->version)); /* see its bound */
    }
    if (verbs[c->verb].since) {
        if (cni_version_at_least(c->version, verbs[c->verb].since, &allowed, &e) != 0 ||
            cni_version_at_least(CNI_VERSION_CURRENT, c->version, &spoken, &e) != 0) {
            return cni_fail(c, CNI_DECODING_FAILURE, "%s", e.msg);
        }
        if (!allowed || !spoken) {
            return cni_fail(c, CNI_INCOMPATIBLE_VERSION, "%s version does not allow %s",
                            allowed ? "plugin" : "config", verbs[c->verb].name);
        }
    }
    if (!is_supported(c->version)) {
        char details[256];
        text_format(details, sizeof(details),
                    "config is \"%.40s\", plugin supports [\"" CNI_VERSIONS("\" \"") "\"]",
                    c->version);
        cni_fail(c, CNI_INCOMPATIBLE_VERSION, "incompatible CNI versions");
        return cni_explain(c, details);
    }
    return 0;
}

/* Whatever else there is belongs to the runtime or the delegate. */
static const struct {
    const char *name;
    bool is_of_gate; /* only verbs that are gated need it */
} own_keys[] = {
    {"delegate", false},     {"delegateConf", false}, {"lastDelegate", false}, {"type", true},
    {"readinessFile", true}, {"statusCode", true},    {"chained", true},
};

bool conf_is_foreign_key(struct json_slice key)
{
    for (size_t i = 0; i < ARRAY_LEN(own_keys); i++) {
        if (json_scan_folds(key, own_keys[i].name)) {
            return false;
        }
    }
    return true;
}

bool conf_is_stripped(const struct cni_call *c)
{
    struct json_slice ipam = json_scan_member(c->object, "ipam");
    for (struct json_walk w = json_walk_start(c->object); json_walk_next(&w);) {
        if (!conf_is_foreign_key(w.key) && !json_scan_equals(w.key, "type")) {
            return false;
        }
    }
    return json_scan_kind(ipam) == JSON_KIND_OBJECT && json_scan_count(ipam) == 0;
}

/* A key of ours in other letters would go unnoticed, and with it the delegate. */
static int check_spelling(struct cni_call *c)
{
    for (struct json_walk w = json_walk_start(c->object); json_walk_next(&w);) {
        for (size_t i = 0; i < ARRAY_LEN(own_keys); i++) {
            const char *name = own_keys[i].name;
            if ((cni_is_gated(c->verb) || !own_keys[i].is_of_gate) &&
                json_scan_folds(w.key, name) && !json_scan_equals(w.key, name)) {
                return cni_fail(c, CNI_INVALID_CONFIG, "unknown key '%.*s': did you mean '%s'?",
                                (int)w.key.len - 2, w.key.at + 1, name);
            }
        }
    }
    return 0;
}

/* An absolute path out of our key `name`; `out` stays as it was without one. */
static int read_path(struct cni_call *c, const char *name, char out[static PATH_MAX])
{
    char path[PATH_MAX];
    struct json_slice value = json_scan_member(c->object, name);
    if (value.len == 0) {
        return 0;
    }
    if (json_scan_kind(value) == JSON_KIND_TEXT && value.len - QUOTES_BYTES >= PATH_MAX) {
        return cni_fail(c, CNI_INVALID_CONFIG, "%s has %zu bytes, but a path has at most %d", name,
                        value.len - QUOTES_BYTES, PATH_MAX - 1);
    }
    if (!json_scan_text(value, path, PATH_MAX) || path[0] != '/') {
        return cni_fail(c, CNI_INVALID_CONFIG, "%s must be an absolute path", name);
    }
    memcpy(out, path, sizeof(path));
    return 0;
}

static int read_gate_options(struct cni_call *c)
{
    struct json_slice code = json_scan_member(c->object, "statusCode");
    bool is_limited = code.len == 2 && memcmp(code.at, "51", 2) == 0;
    bool is_default = code.len == 0 || (code.len == 2 && memcmp(code.at, "50", 2) == 0);
    text_format(c->readiness_file, sizeof(c->readiness_file), "%s", NAMES_READINESS_FILE);
    c->status_code = is_limited ? CNI_LIMITED_CONNECTIVITY : CNI_NOT_AVAILABLE;
    if (!is_limited && !is_default) {
        return cni_fail(c, CNI_INVALID_CONFIG, "statusCode must be 50 or 51");
    }
    return read_path(c, "readinessFile", c->readiness_file);
}

int conf_read_options(struct cni_call *c)
{
    struct json_slice delegate = json_scan_member(c->object, "delegate");
    bool is_given = delegate.len > 0;
    bool has_file = json_scan_member(c->object, "delegateConf").len > 0;
    if (check_spelling(c) != 0 || (read_gate_options(c) != 0 && cni_is_gated(c->verb))) {
        return c->code;
    }
    c->code = 0; /* elsewhere the defaults will do */
    if (is_given && has_file) {
        return cni_fail(c, CNI_INVALID_CONFIG, "delegate and delegateConf exclude each other");
    }
    if (is_given && json_scan_kind(delegate) != JSON_KIND_OBJECT) {
        return cni_fail(c, CNI_INVALID_CONFIG, "delegate must be a plugin's configuration object");
    }
    c->is_wrapping = is_given || has_file;
    return read_path(c, "delegateConf", c->delegate_path);
}
