/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/slice.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "tests/support/case.h"

#define UID      "7d0c3a52-6d52-4f2e-9d3e-0d6f5b8f2c11"
#define DRIVER63 "a23456789012345678901234567890.b2345678901234567890123456789012"

/* ---- names of sockets ------------------------------------------------------------------------ */

static int name_sockets(struct dra_options *o, const char *root, const char *driver,
                        const char *uid)
{
    static char device[] = "dpu0";
    o->device = device;
    o->kubelet_root = (char *)(uintptr_t)root;
    o->driver = (char *)(uintptr_t)driver;
    o->rolling_uid = (char *)(uintptr_t)uid;
    return dra_options_check(o, NULL);
}

TEST(names_are_those_a_kubelet_expects)
{
    static const struct {
        const char *root;
        const char *driver;
        const char *uid;
        const char *registration;
        const char *dra;
    } rows[] = {
        {"/var/lib/kubelet", "dpu.k8s.ovn.org", NULL,
         "/var/lib/kubelet/plugins_registry/dpu.k8s.ovn.org-reg.sock",
         "/var/lib/kubelet/plugins/dpu.k8s.ovn.org/dra.sock"},
        {"/data/kubelet//", "a.b", "", "/data/kubelet/plugins_registry/a.b-reg.sock",
         "/data/kubelet/plugins/a.b/dra.sock"},
        {"/var/lib/kubelet", "dpu.k8s.ovn.org", UID,
         "/var/lib/kubelet/plugins_registry/dpu.k8s.ovn.org-" UID "-reg.sock",
         "/var/lib/kubelet/plugins/dpu.k8s.ovn.org/dra-" UID ".sock"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct dra_options o = {.pool = NULL};
        assert_int_equal(name_sockets(&o, rows[i].root, rows[i].driver, rows[i].uid), 0);
        assert_string_equal(o.names.registration, rows[i].registration);
        assert_string_equal(o.names.dra, rows[i].dra);
    }
}

TEST(a_directory_of_ones_own_has_to_be_below_the_kubelets)
{
    static const struct {
        const char *dir;
        const char *plugin_dir; /* NULL: refused */
    } rows[] = {
        {"/data/kubelet/ours", "/data/kubelet/ours"},
        {"/data/kubelet/plugins_registry//", "/data/kubelet/plugins_registry"},
        {"data", NULL},
        {"/data/ours", NULL},
        {"/data/kubelet", NULL},
        {"/data/kubelet2/ours", NULL},
        {"/data/kubelet/../ours", NULL},
        {"/data/kubelet/./ours", NULL},
        {"/data/kubelet//ours", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct dra_options o = {.plugin_dir = (char *)(uintptr_t)rows[i].dir};
        int rc = name_sockets(&o, "/data/kubelet/", "a.b", NULL);
        assert_int_equal(rc, rows[i].plugin_dir ? 0 : ERR_PARSE);
        if (rows[i].plugin_dir) {
            assert_string_equal(o.names.plugin_dir, rows[i].plugin_dir);
            assert_string_equal(o.names.registration,
                                "/data/kubelet/plugins_registry/a.b-reg.sock");
        }
    }
}

TEST(the_sockets_of_another_instance_are_those_that_it_names)
{
    struct dra_options o = {.pool = NULL};
    struct dra_options other = {.pool = NULL};
    char registration[SOCKET_PATH_BYTES];
    char dra[SOCKET_PATH_BYTES];
    assert_int_equal(name_sockets(&o, "/var/lib/kubelet", DRIVER63, "uid-1"), 0);
    assert_int_equal(name_sockets(&other, "/var/lib/kubelet", DRIVER63, UID), 0);
    assert_true(dra_options_name_sockets(&o, UID, registration, dra));
    assert_string_equal(registration, other.names.registration);
    assert_string_equal(dra, other.names.dra);
}

TEST(long_names_are_hashed_until_they_fit)
{
    struct dra_options o = {.pool = NULL};
    struct dra_options other = {.pool = NULL};
    assert_int_equal(name_sockets(&o, "/var/lib/kubelet", DRIVER63, UID), 0);
    assert_true(strlen(o.names.registration) <= 107);
    assert_non_null(strstr(o.names.registration, "/dra-"));
    assert_non_null(strstr(o.names.registration, "-reg.sock"));
    assert_non_null(strstr(o.names.dra, "/plugins/" DRIVER63 "/dra-"));
    assert_true(strlen(o.names.dra) <= 107);
    assert_int_equal(name_sockets(&other, "/var/lib/kubelet", DRIVER63, UID), 0);
    assert_string_equal(o.names.registration, other.names.registration);
    assert_int_equal(name_sockets(&other, "/var/lib/kubelet", DRIVER63, "uid-2"), 0);
    assert_string_not_equal(o.names.registration, other.names.registration);
}

TEST(every_length_of_root_gives_a_fitting_name_or_an_error)
{
    char root[128];
    int fitting = 0;
    for (size_t len = 1; len < sizeof(root); len++) {
        struct dra_options o = {.pool = NULL};
        memset(root, 'r', len);
        root[0] = '/';
        root[len] = '\0';
        int rc = name_sockets(&o, root, "dpu.k8s.ovn.org", UID);
        if (rc == 0) {
            fitting++;
            assert_true(strlen(o.names.registration) <= 107 && strlen(o.names.dra) <= 107);
            assert_memory_equal(o.names.registration, root, len);
        } else {
            assert_int_equal(rc, ERR_LIMIT);
        }
    }
    assert_true(fitting > 40);
}

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16
#define A15 "aaaaaaaaaaaaaaa"

TEST(attributes_are_names_with_texts)
{
    static const struct {
        const char *text;
        const char *name;
        const char *value;
    } rows[] = {
        {"model=bf3", "model", "bf3"},
        {"model=", "model", ""},
        {"x=a=b", "x", "a=b"},
        {"_a1=-5", "_a1", "-5"},
        {"dpu.example.com/slot=3", "dpu.example.com/slot", "3"},
        {"s=" A64, "s", A64},
        {A16 A16 "=x", A16 A16, "x"},
        {A15 "." A15 "." A15 "." A15 "/b=x", A15 "." A15 "." A15 "." A15 "/b", "x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *list = json_object();
        assert_int_equal(attribute_add(list, rows[i].text, NULL), 0);
        assert_int_equal(json_object_size(list), 1);
        assert_string_equal(json_text_get(json_object_get(list, rows[i].name), "string"),
                            rows[i].value);
    }
}

TEST(what_the_api_server_would_refuse_is_refused)
{
    static const char *const rows[] = {
        "",         "x",       "=x",          "1=x",        "0a=x",       "a\nb=x",
        "9a=x",     "a-b=x",   A16 A16 "a=x", "a/b/c=x",    "/b=x",       "Dom.com/b=x",
        A64 "/b=x", "a:int=1", "a/1b=x",      "s=" A64 "a", A64 A64 "=x", "s=\xff",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *list = json_object();
        struct err e = ERR_INIT;
        assert_int_equal(attribute_add(list, rows[i], &e), ERR_PARSE);
        assert_int_equal(json_object_size(list), 0);
        assert_non_null(strstr(e.msg, "attribute '"));
        assert_null(strchr(e.msg, '\n'));
    }
}

TEST(list_is_bounded)
{
    CLEANUP(json) json_t *list = json_object();
    char text[16];
    for (int i = 0; i < ATTRIBUTES_MAX; i++) {
        (void)snprintf(text, sizeof(text), "a%d=x", i);
        assert_int_equal(attribute_add(list, text, NULL), 0);
    }
    assert_int_equal(attribute_add(list, "a31=y", NULL), 0);
    assert_int_equal(attribute_add(list, "b=x", NULL), ERR_LIMIT);
    assert_string_equal(json_text_get(json_object_get(list, "a31"), "string"), "y");
}
