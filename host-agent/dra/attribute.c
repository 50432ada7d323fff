/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/attribute.h"

#include "base/text.h"

#include <string.h>

enum { DOMAIN_MAX = 63, IDENTIFIER_MAX = 32 };

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

static int parse_pair(const char *text, struct attribute *a, struct err *e)
{
    char key[ATTRIBUTE_NAME_BYTES];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    if (!equals || len >= sizeof(key)) {
        return err_set(e, ERR_PARSE, "it is not NAME=VALUE with a name of at most %d bytes",
                       ATTRIBUTE_NAME_BYTES - 1);
    }
    memcpy(key, text, len);
    key[len] = '\0';
    if (!is_name(key)) {
        return err_set(e, ERR_PARSE,
                       "its name is not an identifier of at most %d bytes, or a "
                       "domain, '/' and such an identifier",
                       IDENTIFIER_MAX);
    }
    if (!text_copy(a->text, sizeof(a->text), equals + 1)) {
        return err_set(e, ERR_PARSE, "the value has more than %d bytes", ATTRIBUTE_TEXT_BYTES - 1);
    }
    text_format(a->name, sizeof(a->name), "%s", key);
    return 0;
}

int attribute_parse(const char *text, struct attribute *out, struct err *e)
{
    struct attribute a;
    int rc = parse_pair(text, &a, e);
    if (rc != 0) {
        char shown[64];
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
    struct attribute a;
    if (!is_name(name)) {
        return err_set(e, ERR_PARSE, "'%s' is no attribute name", name);
    }
    text_format(a.name, sizeof(a.name), "%s", name);
    text_sanitize(a.text, sizeof(a.text), text, strlen(text));
    return attribute_list_set(list, &a, e);
}
