/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/cni_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void an_answer_counts_if_it_names_1_1_0(void **state)
{
    static const struct {
        const char *text;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"1.0.0\",\"1.1.0\"]}", NULL},
        {"{\"supportedVersions\":[\"1.0.0\"]}", "does not speak"},
        {"{\"supportedVersions\":[1.1,null]}", "does not speak"},
        {"{\"supportedVersions\":\"1.1.0\"}", "does not speak"},
        {"{\"cniVersion\":\"1.1.0\"}", "does not speak"},
        {"[]", "does not speak"},
        {"", "answer to VERSION"},
        {"usage: ...", "answer to VERSION"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err e = ERR_INIT;
        int rc = cni_probe_judge(rows[i].text, strlen(rows[i].text), &e);
        assert_int_equal(rc == 0, rows[i].problem == NULL);
        assert_true(rc == 0 || strstr(e.msg, rows[i].problem));
    }
}

static void a_program_is_asked_and_never_waited_for_long(void **state)
{
    static const struct {
        const char *script;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"#!/bin/sh\n[ $CNI_COMMAND = VERSION ] && echo '{\"supportedVersions\":[\"1.1.0\"]}'\n",
         NULL},
        {"#!/bin/sh\nexec sleep 60\n", "did not answer"},
        {"#!/bin/sh\nexit 1\n", "answer to VERSION"},
        {"#!/bin/sh\nexec cat /dev/zero\n", "larger"},
        {"\177ELF of another machine", "running it"},
    };
    char dir[] = "/tmp/test-cni-probe-XXXXXX";
    char path[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/gate", dir);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err e = ERR_INIT;
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        assert_true(fputs(rows[i].script, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, 0700), 0);
        int rc = cni_probe_version(path, &e);
        assert_int_equal(rc == 0, rows[i].problem == NULL);
        assert_true(rc == 0 || strstr(e.msg, rows[i].problem));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_counts_if_it_names_1_1_0),
        cmocka_unit_test(a_program_is_asked_and_never_waited_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
