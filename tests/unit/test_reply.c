/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cni/reply.h"
#include "json/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { OUTPUT_BYTES = 8192 };

static int put_error(const void *arg)
{
    return reply_error(arg, "1.0.0");
}

static int put_json(const void *arg)
{
    return reply_json(arg);
}

static int put_versions(const void *arg)
{
    (void)arg;
    return reply_versions();
}

/* What `put` prints on stdout, and its status. */
static int capture(int (*put)(const void *), const void *arg, char out[static OUTPUT_BYTES])
{
    CLEANUP(fd) int file = memfd_create("stdout", MFD_CLOEXEC);
    assert_int_equal(fflush(stdout), 0);
    CLEANUP(fd) int saved = dup(STDOUT_FILENO);
    assert_true(file >= 0 && saved >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    int status = put(arg);
    (void)fflush(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    ssize_t len = pread(file, out, OUTPUT_BYTES - 1, 0);
    assert_true(len >= 0);
    out[len] = '\0';
    return status;
}

static void error_is_an_object_with_exit_status_one(void **state)
{
    char out[OUTPUT_BYTES];
    struct cni_error error = {.code = 0};
    (void)state;
    assert_int_equal(cni_fail(&error, CNI_TRY_AGAIN_LATER, "", "DPU Not Ready: %s", "dead"), 11);
    assert_int_equal(capture(put_error, &error, out), EXIT_FAILURE);
    assert_string_equal(out, "{\n    \"cniVersion\": \"1.0.0\",\n    \"code\": 11,\n"
                             "    \"msg\": \"DPU Not Ready: dead\"\n}\n");
    (void)cni_fail(&error, CNI_NOT_AVAILABLE, "more", "msg");
    assert_int_equal(capture(put_error, &error, out), EXIT_FAILURE);
    assert_non_null(strstr(out, "\"code\": 50"));
    assert_non_null(strstr(out, "\"details\": \"more\""));
}

static void any_text_becomes_valid_bounded_json(void **state)
{
    static char endless[3 * CNI_MSG_BYTES];
    static const char *const texts[] = {"\"\\\n\t\x01\x7f", "\xff\xfe\xc3", "\xc3\xa4\xe2\x80\xa8",
                                        "%s%n", endless};
    char out[OUTPUT_BYTES];
    (void)state;
    memset(endless, 'x', sizeof(endless) - 1);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cni_error error;
        (void)cni_fail(&error, CNI_INVALID_CONFIG, texts[i], "about %s", texts[i]);
        assert_int_equal(capture(put_error, &error, out), EXIT_FAILURE);
        CLEANUP(json) json_t *json = json_text_parse(out, strlen(out), sizeof(out), NULL);
        assert_non_null(json);
        assert_int_equal(json_integer_value(json_object_get(json, "code")), CNI_INVALID_CONFIG);
        assert_memory_equal(json_text_get(json, "msg"), "about ", 6);
        assert_true(strlen(json_text_get(json, "msg")) < CNI_MSG_BYTES);
        assert_true(strlen(json_text_get(json, "details")) < CNI_DETAILS_BYTES);
    }
}

static void versions_are_listed_from_the_oldest(void **state)
{
    char out[OUTPUT_BYTES];
    (void)state;
    assert_int_equal(capture(put_versions, NULL, out), EXIT_SUCCESS);
    assert_string_equal(out, "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\","
                             "\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
}

static void result_is_one_line(void **state)
{
    char out[OUTPUT_BYTES];
    CLEANUP(json) json_t *json = json_pack("{s:s,s:[]}", "cniVersion", "1.0.0", "ips");
    (void)state;
    assert_int_equal(capture(put_json, json, out), EXIT_SUCCESS);
    assert_string_equal(out, "{\"cniVersion\":\"1.0.0\",\"ips\":[]}\n");
    assert_int_equal(capture(put_json, NULL, out), EXIT_FAILURE);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_an_object_with_exit_status_one),
        cmocka_unit_test(any_text_becomes_valid_bounded_json),
        cmocka_unit_test(versions_are_listed_from_the_oldest),
        cmocka_unit_test(result_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
