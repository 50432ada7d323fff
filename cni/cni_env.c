/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cni_env.h"

#include "base/attr.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { IFNAME_MAX_BYTES = 15 };

static enum cni_verb verb_of(const char *command)
{
    static const char *const names[] = {
        [CNI_ADD] = "ADD", [CNI_DEL] = "DEL",       [CNI_CHECK] = "CHECK",
        [CNI_GC] = "GC",   [CNI_STATUS] = "STATUS", [CNI_VERSION] = "VERSION"};
    for (size_t i = CNI_ADD; i < ARRAY_LEN(names); i++) {
        if (text_equal(command, names[i])) {
            return (enum cni_verb)i;
        }
    }
    return CNI_VERB_UNKNOWN;
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
    if (!cni_env_is_identifier(id)) {
        return cni_fail(error, CNI_INVALID_ENVIRONMENT, id, "invalid characters in containerID");
    }
    return 0;
}

/* Length of Unicode white space at `s`, or 0. */
static size_t white_space(const char *s)
{
    static const char *const spaces[] = {" ",
                                         "\t",
                                         "\n",
                                         "\v",
                                         "\f",
                                         "\r",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe1\x9a\x80",
                                         "\xe2\x80\xa8",
                                         "\xe2\x80\xa9",
                                         "\xe2\x80\xaf",
                                         "\xe2\x81\x9f",
                                         "\xe3\x80\x80"};
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
        if (strncmp(s, spaces[i], strlen(spaces[i])) == 0) {
            return strlen(spaces[i]);
        }
    }
    bool en_quad_to_hair = strncmp(s, "\xe2\x80", 2) == 0 && (unsigned char)s[2] >= 0x80 &&
                           (unsigned char)s[2] <= 0x8a;
    return en_quad_to_hair ? 3 : 0;
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
        if (*c == '/' || *c == ':' || white_space(c) > 0) {
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
