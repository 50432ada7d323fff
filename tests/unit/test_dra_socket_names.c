/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/socket_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UID        "7d0c3a52-6d52-4f2e-9d3e-0d6f5b8f2c11"
#define DRIVER63   "a23456789012345678901234567890.b2345678901234567890123456789012"
#define ROOT(root) (&(struct socket_dirs){.kubelet_root = (root)})

static void names_are_those_a_kubelet_expects(void **state)
{
    (void)state;
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

static void directories_of_ones_own_take_the_place_of_the_kubelets(void **state)
{
    (void)state;
    struct socket_names n;
    struct socket_dirs dirs = {
        .kubelet_root = "/var/lib/kubelet", .registry = "/reg/", .plugin = "/data/ours"};
    assert_int_equal(socket_names_make(&dirs, "a.b", NULL, &n, NULL), 0);
    assert_string_equal(n.registration, "/reg/a.b-reg.sock");
    assert_string_equal(n.dra, "/data/ours/dra.sock");
    assert_string_equal(n.plugin_dir, "/data/ours");
    dirs.plugin = "data";
    assert_int_equal(socket_names_make(&dirs, "a.b", NULL, &n, NULL), ERR_PARSE);
}

static void long_names_are_hashed_until_they_fit(void **state)
{
    (void)state;
    struct socket_names n;
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, UID, &n, NULL), 0);
    assert_true(strlen(n.registration) <= 107);
    assert_non_null(strstr(n.registration, "/dra-"));
    assert_non_null(strstr(n.registration, "-reg.sock"));
    assert_non_null(strstr(n.dra, "/plugins/" DRIVER63 "/dra-"));
    assert_true(strlen(n.dra) <= 107);

    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"),
                                       "dpu-health.networking.example.com", UID, &n, NULL),
                     0);
    assert_non_null(strstr(n.registration, "/dpu-health.networking.example.com-"));
    assert_null(strstr(n.registration, UID)); /* the UID itself no longer fits */
}

static void every_length_of_root_gives_a_fitting_name_or_an_error(void **state)
{
    (void)state;
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

static void names_are_deterministic_and_distinct(void **state)
{
    (void)state;
    struct socket_names a;
    struct socket_names b;
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, "uid-1", &a, NULL), 0);
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, "uid-1", &b, NULL), 0);
    assert_string_equal(a.registration, b.registration);
    assert_int_equal(socket_names_make(ROOT("/var/lib/kubelet"), DRIVER63, "uid-2", &b, NULL), 0);
    assert_string_not_equal(a.registration, b.registration);
}

static void names_a_kubelet_refuses_are_refused_here(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_a_kubelet_expects),
        cmocka_unit_test(directories_of_ones_own_take_the_place_of_the_kubelets),
        cmocka_unit_test(long_names_are_hashed_until_they_fit),
        cmocka_unit_test(every_length_of_root_gives_a_fitting_name_or_an_error),
        cmocka_unit_test(names_are_deterministic_and_distinct),
        cmocka_unit_test(names_a_kubelet_refuses_are_refused_here),
    };
    return cmocka_run_group_tests_name("dra_socket_names", tests, NULL, NULL);
}
