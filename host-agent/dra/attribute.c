/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/attribute.h"

#include "base/text.h"

#include <string.h>

enum { DOMAIN_MAX = 63, IDENTIFIER_MAX = 32 };

static const char *const type_names[] = {
    [ATTRIBUTE_STRING] = "string",
    [ATTRIBUTE_INT] = "int",
    [ATTRIBUTE_BOOL] = "bool",
    [ATTRIBUTE_VERSION] = "version",
};

const char *attribute_type_name(enum attribute_type type)
{
    return type_names[type];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_identifier(const char *s)
{
    size_t len = strlen(s);
    if (len == 0 || len > IDENTIFIER_MAX || is_digit(s[0])) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_letter(s[i]) && !is_digit(s[i]) && s[i] != '_') {
            return false;
        }
    }
    return true;
}

/* A C identifier, optionally after a domain and a slash. */
static bool is_name(const char *name)
{
    char domain[DOMAIN_MAX + 1];
    const char *slash = strchr(name, '/');
    if (!slash) {
        return is_identifier(name);
    }
    size_t len = (size_t)(slash - name);
    if (len > DOMAIN_MAX) {
        return false;
    }
    memcpy(domain, name, len);
    domain[len] = '\0';
    return text_is_dns1123_subdomain(domain) && is_identifier(slash + 1);
}

/* Digits without a leading zero; moves `*s` behind them. */
static bool skip_number(const char **s)
{
    const char *p = *s;
    while (is_digit(*p)) {
        p++;
    }
    size_t len = (size_t)(p - *s);
    bool is_number = len > 0 && (len == 1 || **s != '0');
    *s = p;
    return is_number;
}

/* Dot-separated identifiers of letters, digits and '-'; in a pre-release numbers have no leading
 * zero. Moves `*s` behind them. */
static bool skip_labels(const char **s, bool is_prerelease)
{
    for (;;) {
        const char *start = *s;
        bool is_numeric = true;
        while (is_letter(**s) || is_digit(**s) || **s == '-') {
            is_numeric = is_numeric && is_digit(**s);
            (*s)++;
        }
        size_t len = (size_t)(*s - start);
        if (len == 0 || (is_prerelease && is_numeric && len > 1 && *start == '0')) {
            return false;
        }
        if (**s != '.') {
            return true;
        }
        (*s)++;
    }
}

/* Semantic versioning 2.0.0. */
static bool is_semver(const char *s)
{
    for (int i = 0; i < 3; i++) {
        if (!skip_number(&s) || (i < 2 && *s++ != '.')) {
            return false;
        }
    }
    if (*s == '-') {
        s++;
        if (!skip_labels(&s, true)) {
            return false;
        }
    }
    if (*s == '+') {
        s++;
        if (!skip_labels(&s, false)) {
            return false;
        }
    }
    return *s == '\0';
}

static int parse_value(const char *value, struct attribute *a, struct err *e)
{
    switch (a->type) {
    case ATTRIBUTE_STRING:
    case ATTRIBUTE_VERSION:
        if (!text_copy(a->text, sizeof(a->text), value)) {
            return err_set(e, ERR_PARSE, "the value has more than %d bytes",
                           ATTRIBUTE_TEXT_BYTES - 1);
        }
        if (a->type == ATTRIBUTE_VERSION && !is_semver(value)) {
            return err_set(e, ERR_PARSE, "the value is no semantic version such as 1.2.3");
        }
        return 0;
    case ATTRIBUTE_INT:
        return text_to_i64(value, strlen(value), &a->number, e);
    case ATTRIBUTE_BOOL:
        a->number = text_equal(value, "true");
        return a->number || text_equal(value, "false")
                   ? 0
                   : err_set(e, ERR_PARSE, "the value is neither true nor false");
    }
    return err_set(e, ERR_BUG, "attribute type %d", (int)a->type);
}

static int parse_type(const char *word, enum attribute_type *out, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++) {
        if (text_equal(word, type_names[i])) {
            *out = (enum attribute_type)i;
            return 0;
        }
    }
    return err_set(e, ERR_PARSE, "its type is not string, int, bool or version");
}

/* Splits "NAME:TYPE" in place. */
static int parse_key(char *key, struct attribute *a, struct err *e)
{
    char *colon = strchr(key, ':');
    if (colon) {
        *colon = '\0';
        int rc = parse_type(colon + 1, &a->type, e);
        if (rc != 0) {
            return rc;
        }
    }
    if (!is_name(key)) {
        return err_set(e, ERR_PARSE,
                       "its name is not an identifier of at most %d bytes, or a "
                       "domain, '/' and such an identifier",
                       IDENTIFIER_MAX);
    }
    (void)text_copy(a->name, sizeof(a->name), key); /* is_name bounds it */
    return 0;
}

int attribute_parse(const char *text, struct attribute *out, struct err *e)
{
    struct attribute a = {.type = ATTRIBUTE_STRING};
    char key[ATTRIBUTE_NAME_BYTES + 16];
    char shown[64];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    int rc;
    if (!equals || len >= sizeof(key)) {
        rc = err_set(e, ERR_PARSE, "it is not NAME=VALUE or NAME:TYPE=VALUE");
    } else {
        memcpy(key, text, len);
        key[len] = '\0';
        rc = parse_key(key, &a, e);
        rc = rc == 0 ? parse_value(equals + 1, &a, e) : rc;
    }
    if (rc != 0) {
        text_sanitize(shown, sizeof(shown), text, strlen(text));
        (void)err_wrap(e, "attribute '%s'", shown); /* rc is the code */
        return rc;
    }
    *out = a;
    return 0;
}

int attribute_list_set(struct attribute_list *list, const struct attribute *attribute,
                       struct err *e)
{
    for (size_t i = 0; i < list->count; i++) {
        if (text_equal(list->items[i].name, attribute->name)) {
            list->items[i] = *attribute;
            return 0;
        }
    }
    if (list->count == ATTRIBUTES_MAX) {
        return err_set(e, ERR_LIMIT, "more than %d attributes", ATTRIBUTES_MAX);
    }
    list->items[list->count++] = *attribute;
    return 0;
}

int attribute_list_set_text(struct attribute_list *list, const char *name, const char *text,
                            struct err *e)
{
    struct attribute a = {.type = ATTRIBUTE_STRING};
    if (!is_name(name)) {
        return err_set(e, ERR_PARSE, "'%s' is no attribute name", name);
    }
    (void)text_copy(a.name, sizeof(a.name), name); /* is_name bounds it */
    text_sanitize(a.text, sizeof(a.text), text, strlen(text));
    return attribute_list_set(list, &a, e);
}
