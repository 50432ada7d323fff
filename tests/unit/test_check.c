/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct check_list *new_list(void)
{
    struct check_list *list = calloc(1, sizeof(*list)); /* large */
    assert_non_null(list);
    return list;
}

static void texts_from_outside_stay_on_their_line(void **state)
{
    struct check_list *list = new_list();
    (void)state;
    check_add(list, CHECK_FAIL, "link", "mend\nit", "%s", "a\033]0;b\nc");
    assert_string_equal(list->results[0].found, "a ]0;b c");
    assert_string_equal(list->results[0].mend, "mend it");
    free(list);
}

static void beyond_the_bound_only_a_failure_is_kept(void **state)
{
    struct check_list *list = new_list();
    (void)state;
    for (int i = 0; i < CHECK_MAX + 5; i++) {
        check_add(list, CHECK_PASS, "link", "", "%d", i);
    }
    assert_int_equal(list->count, CHECK_MAX);
    assert_string_equal(list->results[CHECK_MAX - 1].found, "127");
    check_add(list, CHECK_FAIL, "link", "", "broken");
    check_add(list, CHECK_FAIL, "link", "", "broken, too");
    check_add(list, CHECK_WARN, "link", "", "not so well");
    assert_int_equal(list->count, CHECK_MAX);
    assert_string_equal(list->results[CHECK_MAX - 1].found, "broken");
    assert_string_equal(list->results[CHECK_MAX - 2].found, "126");
    free(list);
}

/* ---- CNI: lists that a directory of files cannot easily make ----------------------------------
 */

static const struct check_versions unknown;

static void a_broken_gate_alone_is_no_gate(void **state)
{
    struct check_list *list = new_list();
    struct cni_scan *scan = calloc(1, sizeof(*scan));
    const struct admin_config config = {.root = NULL};
    static const char text[] = "{\"plugins\":[{\"type\":\"dpu-gate\"}]}"; /* names no network */
    (void)state;
    assert_non_null(scan);
    cni_entry_read(text, strlen(text), &scan->entries[0]);
    scan->count = 1;
    scan->more = 2;
    check_cni(scan, &unknown, &config, list);
    assert_int_equal(list->count, 3);
    assert_non_null(strstr(list->results[0].found, "names no network"));
    assert_non_null(strstr(list->results[1].found, "2 more files"));
    assert_non_null(strstr(list->results[2].found, "no configuration"));
    free(scan);
    free(list);
}

static void what_only_we_may_not_read_accuses_nobody(void **state)
{
    struct check_list *list = new_list();
    struct cni_scan *scan = calloc(1, sizeof(*scan));
    const struct admin_config config = {.root = NULL};
    (void)state;
    assert_non_null(scan);
    scan->entries[0] = (struct cni_entry){
        .file = "05-dpu-gate.conflist", .problem = "Permission denied", .is_forbidden = true};
    scan->entries[1] = (struct cni_entry){.file = "10-x.conf", .network = "x", .types = "x"};
    scan->count = 2;
    check_cni(scan, &unknown, &config, list);
    assert_int_equal(list->count, 1);
    assert_int_equal(list->results[0].outcome, CHECK_SKIP);
    free(scan);
    free(list);
}

static void a_broken_file_before_all_stops_containerd(void **state)
{
    static const struct {
        const char *runtime;
        enum check_outcome before, behind;
    } rows[] = {{"containerd://2.1.0", CHECK_FAIL, CHECK_WARN},
                {"cri-o://1.36.3", CHECK_WARN, CHECK_WARN},
                {"", CHECK_WARN, CHECK_WARN}};
    struct cni_scan *scan = calloc(1, sizeof(*scan));
    const struct admin_config config = {.root = NULL};
    (void)state;
    assert_non_null(scan);
    scan->entries[0] = (struct cni_entry){.file = "00-a.conf", .problem = "broken"};
    scan->entries[1] = (struct cni_entry){.file = "10-b.conf", .network = "b", .types = "b"};
    scan->entries[2] = (struct cni_entry){.file = "20-c.conf", .problem = "broken"};
    scan->count = 3;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct check_list *list = new_list();
        struct check_versions versions = {.kubelet = ""};
        (void)snprintf(versions.runtime, sizeof(versions.runtime), "%s", rows[i].runtime);
        check_cni(scan, &versions, &config, list);
        assert_int_equal(list->results[0].outcome, rows[i].before);
        assert_int_equal(list->results[1].outcome, rows[i].behind);
        free(list);
    }
    free(scan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_from_outside_stay_on_their_line),
        cmocka_unit_test(beyond_the_bound_only_a_failure_is_kept),
        cmocka_unit_test(a_broken_gate_alone_is_no_gate),
        cmocka_unit_test(a_broken_file_before_all_stops_containerd),
        cmocka_unit_test(what_only_we_may_not_read_accuses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
