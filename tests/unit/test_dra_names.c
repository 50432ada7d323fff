/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_names.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UID        "7d0c3a52-6d52-4f2e-9d3e-0d6f5b8f2c11"
#define DRIVER63   "a23456789012345678901234567890.b2345678901234567890123456789012"
#define ROOT(root) (&(struct socket_dirs){.kubelet_root = (char *)(uintptr_t)(root)})

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
        struct socket_names n;
        assert_int_equal(
            socket_names_make(ROOT(rows[i].root), rows[i].driver, rows[i].uid, &n, NULL), 0);
        assert_string_equal(n.registration, rows[i].registration);
        assert_string_equal(n.dra, rows[i].dra);
    }
}

TEST(directories_of_ones_own_take_the_place_of_the_kubelets)
{
    struct socket_names n;
    char words[][20] = {"/var/lib/kubelet", "/reg/", "/data/ours", "data"};
    struct socket_dirs dirs = {.kubelet_root = words[0], .registry = words[1], .plugin = words[2]};
    assert_int_equal(socket_names_make(&dirs, "a.b", NULL, &n, NULL), 0);
    assert_string_equal(n.registration, "/reg/a.b-reg.sock");
    assert_string_equal(n.dra, "/data/ours/dra.sock");
    assert_string_equal(n.plugin_dir, "/data/ours");
    dirs.plugin = words[3];
    assert_int_equal(socket_names_make(&dirs, "a.b", NULL, &n, NULL), ERR_PARSE);
}

TEST(long_names_are_hashed_until_they_fit)
{
    struct socket_names n;
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, UID, &n, NULL), 0);
    assert_true(strlen(n.registration) <= 107);
    assert_non_null(strstr(n.registration, "/dra-"));
    assert_non_null(strstr(n.registration, "-reg.sock"));
    assert_non_null(strstr(n.dra, "/plugins/" DRIVER63 "/dra-"));
    assert_true(strlen(n.dra) <= 107);
}

TEST(every_length_of_root_gives_a_fitting_name_or_an_error)
{
    char root[128];
    int fitting = 0;
    for (size_t len = 1; len < sizeof(root); len++) {
        struct socket_names n;
        memset(root, 'r', len);
        root[0] = '/';
        root[len] = '\0';
        int rc = socket_names_make(ROOT(root), "dpu.k8s.ovn.org", UID, &n, NULL);
        if (rc == 0) {
            fitting++;
            assert_true(strlen(n.registration) <= 107 && strlen(n.dra) <= 107);
            assert_memory_equal(n.registration, root, len);
        } else {
            assert_int_equal(rc, ERR_LIMIT);
        }
    }
    assert_true(fitting > 40);
}

TEST(names_are_deterministic_and_distinct)
{
    struct socket_names a;
    struct socket_names b;
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, "uid-1", &a, NULL), 0);
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, "uid-1", &b, NULL), 0);
    assert_string_equal(a.registration, b.registration);
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, "uid-2", &b, NULL), 0);
    assert_string_not_equal(a.registration, b.registration);
}

TEST(names_a_kubelet_refuses_are_refused_here)
{
    static const char *const rows[][3] = {
        {"var/lib/kubelet", "a.b", ""}, {"", "a.b", ""},         {"/k", "", ""},
        {"/k", "../evil", ""},          {"/k", "A.b", ""},       {"/k", "a b", ""},
        {"/k", DRIVER63 "x", ""},       {"/k", "a.b", "../uid"}, {"/k", "a.b", "u/d"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct socket_names n;
        assert_int_equal(socket_names_make(ROOT(rows[i][0]), rows[i][1], rows[i][2], &n, NULL),
                         ERR_PARSE);
    }
}

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16

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
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attribute_list list = {.count = 0};
        assert_int_equal(attribute_list_add(&list, rows[i].text, NULL), 0);
        assert_int_equal(list.count, 1);
        assert_string_equal(list.items[0].name, rows[i].name);
        assert_string_equal(list.items[0].text, rows[i].value);
    }
}

TEST(what_the_api_server_would_refuse_is_refused)
{
    static const char *const rows[] = {
        "",     "x",           "=x",       "1a=x",    "a-b=x", A16 A16 "a=x", "a/b/c=x",
        "/b=x", "Dom.com/b=x", A64 "/b=x", "a:int=1", "a:=1",  "s=" A64 "a",  A64 A64 "=x",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attribute_list list = {.count = 0};
        struct err e = ERR_INIT;
        assert_int_equal(attribute_list_add(&list, rows[i], &e), ERR_PARSE);
        assert_int_equal(list.count, 0);
        assert_non_null(strstr(e.msg, "attribute '"));
    }
}

TEST(later_attribute_replaces_an_earlier_one)
{
    struct attribute_list list = {.count = 0};
    assert_int_equal(attribute_list_add(&list, "model=guess", NULL), 0);
    assert_int_equal(attribute_list_add(&list, "model=known", NULL), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].text, "known");
}

TEST(list_is_bounded)
{
    struct attribute_list list = {.count = 0};
    char text[16];
    for (int i = 0; i < ATTRIBUTES_MAX; i++) {
        (void)snprintf(text, sizeof(text), "a%d=x", i);
        assert_int_equal(attribute_list_add(&list, text, NULL), 0);
    }
    assert_int_equal(attribute_list_add(&list, "b=x", NULL), ERR_LIMIT);
    assert_int_equal(attribute_list_add(&list, "a31=y", NULL), 0);
    assert_string_equal(list.items[31].text, "y");
}
