/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol.h"

#include "base/attr.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS",
                                    "CNI_IFNAME",  "CNI_PATH",        "CNI_NETNS_OVERRIDE"};

/* Values in the order of `names`; NULL: unset. */
static int read_env(const char *const values[static ARRAY_LEN(names)], struct cni_env *out,
                    struct cni_error *error)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]), 0);
    }
    *error = (struct cni_error){.code = 0};
    return cni_env_read(out, error);
}

TEST(each_verb_needs_its_variables)
{
    static const struct {
        const char *values[ARRAY_LEN(names)];
        const char *msg; /* NULL: accepted */
    } rows[] = {
        {{"ADD", "id", "/ns", "eth0", "/bin", NULL}, NULL},
        {{"ADD", "", "", "", "", ""},
         "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"},
        {{"CHECK", "id", NULL, "eth0", "/bin", NULL}, "required env variables [CNI_NETNS] missing"},
        {{"CHECK", "", "", "", "", ""},
         "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"},
        {{"DEL", "id", NULL, "eth0", "/bin", NULL}, NULL},
        {{"DEL", "", "", "", "", ""},
         "required env variables [CNI_CONTAINERID,CNI_IFNAME,CNI_PATH] missing"},
        {{"STATUS", "", "", "", "", ""}, "required env variables [CNI_PATH] missing"},
        {{"DEL", "id", NULL, NULL, "/bin", NULL}, "required env variables [CNI_IFNAME] missing"},
        {{"STATUS", NULL, NULL, NULL, "/bin", NULL}, NULL},
        {{"STATUS", "%%", NULL, "a/b", "/bin", NULL}, NULL}, /* not asked for: not checked */
        {{"GC", NULL, NULL, NULL, NULL, NULL}, "required env variables [CNI_PATH] missing"},
        {{"VERSION", NULL, NULL, NULL, NULL, NULL}, NULL},
        {{"NOPE", NULL, NULL, NULL, NULL, NULL}, NULL}, /* its own error comes after stdin */
        {{NULL, "id", NULL, NULL, NULL, NULL}, "required env variables [CNI_COMMAND] missing"},
        {{"ADD", "%", "/ns", "eth0", NULL, NULL}, "invalid characters in containerID"},
        {{"ADD", "a.b_c-D9", "/ns", "eth0", "/bin", NULL}, NULL},
        {{"ADD", ".a", "/ns", "eth0", "/bin", NULL}, "invalid characters in containerID"},
        {{"ADD", "id", "/ns", "0123456789abcde", "/bin", NULL}, NULL},
        {{"ADD", "id", "/ns", "0123456789abcdef", "/bin", NULL}, "interface name is too long"},
        {{"ADD", "id", "/ns", "..", "/bin", NULL}, "interface name is . or .."},
        {{"ADD", "id", "/ns", "...", "/bin", NULL}, NULL},
        {{"ADD", "id", "/ns", ".", "/bin", NULL}, "interface name is . or .."},
        {{"ADD", "id", "/ns", "te:st", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "te/st", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "te st", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "a\xc2\x85z", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "a\xe2\x80\x8a", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "a\xe2\x80\x8b", "/bin", NULL}, NULL}, /* of no width: no space */
        {{"ADD", "id", "/ns", "\xe2\x80", "/bin", NULL}, NULL},      /* cut: read no further */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_env env;
        struct cni_error error;
        int code = read_env(rows[i].values, &env, &error);
        print_message("%zu: %s\n", i, error.msg);
        assert_int_equal(code, rows[i].msg ? CNI_INVALID_ENVIRONMENT : 0);
        assert_true(!rows[i].msg || strcmp(error.msg, rows[i].msg) == 0);
    }
}

TEST(override_is_one_or_true)
{
    static const struct {
        const char *value;
        bool expected;
    } rows[] = {{NULL, false}, {"", false},    {"0", false},   {"yes", false},
                {"1", true},   {"true", true}, {"TrUe", true}, {"1 ", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *values[] = {"ADD", "id", "/ns", "eth0", "/bin", rows[i].value};
        struct cni_env env;
        struct cni_error error;
        assert_int_equal(read_env(values, &env, &error), 0);
        assert_int_equal(env.netns_override, rows[i].expected);
    }
}

TEST(versions_compare_by_their_numbers)
{
    static const struct {
        const char *a, *b;
        int expected; /* 1: at least, 0: less, -1: an error */
    } rows[] = {
        {"1.1.0", "1.1.0", 1},  {"1.1", "1.1.0", 1},
        {"1.10.0", "1.9.9", 1}, {"0.9.9", "1", 0},
        {"1.0.9", "1.1", 0},    {"2", "1.9.9", 1},
        {"", "1.0.0", -1},      {"x", "1.0.0", -1},
        {"1..0", "1", -1},      {"1.0.0.0", "1", -1},
        {"1.0.", "1", -1},      {"-1", "1", -1},
        {"1.1.0-rc", "1", -1},  {"99999999999999999999", "1", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool at_least = false;
        struct err e = ERR_INIT;
        int rc = cni_version_at_least(rows[i].a, rows[i].b, &at_least, &e);
        print_message("%s >= %s: %d %s\n", rows[i].a, rows[i].b, at_least, e.msg);
        assert_int_equal(rc, rows[i].expected < 0 ? ERR_PARSE : 0);
        assert_int_equal(at_least, rows[i].expected == 1);
    }
}
