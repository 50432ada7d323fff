/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cni/protocol.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { OUTPUT_BYTES = 8192 };

static int put_error(const void *arg)
{
    return reply_error(arg, "1.0.0");
}

static int put_result(const void *arg)
{
    return reply_result(*(const struct json_slice *)arg, "1.0.0");
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

TEST(error_is_an_object_with_exit_status_one)
{
    char out[OUTPUT_BYTES];
    struct cni_error error = {.code = 0};
    assert_int_equal(cni_fail(&error, CNI_TRY_AGAIN_LATER, "", "DPU Not Ready: %s", "dead"), 11);
    assert_int_equal(capture(put_error, &error, out), EXIT_FAILURE);
    assert_string_equal(out, "{\n    \"cniVersion\": \"1.0.0\",\n    \"code\": 11,\n"
                             "    \"msg\": \"DPU Not Ready: dead\"\n}\n");
    (void)cni_fail(&error, CNI_NOT_AVAILABLE, "more", "msg");
    assert_int_equal(capture(put_error, &error, out), EXIT_FAILURE);
    assert_non_null(strstr(out, "\"code\": 50"));
    assert_non_null(strstr(out, "\"details\": \"more\""));
}

TEST(any_text_becomes_valid_bounded_json)
{
    static char endless[3 * CNI_MSG_BYTES];
    static const char *const texts[] = {"\"\\\n\t\x01\x7f", "\xff\xfe\xc3", "\xc3\xa4\xe2\x80\xa8",
                                        "%s%n", endless};
    char out[OUTPUT_BYTES];
    memset(endless, 'x', sizeof(endless) - 1);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cni_error error;
        (void)cni_fail(&error, CNI_INVALID_CONFIG, texts[i], "about %s", texts[i]);
        assert_int_equal(capture(put_error, &error, out), EXIT_FAILURE);
        struct json_slice json;
        char msg[CNI_MSG_BYTES];
        char details[CNI_DETAILS_BYTES];
        assert_int_equal(json_scan_check(out, strlen(out), &json, NULL), 0);
        assert_memory_equal(json_scan_member(json, "code").at, "7,", 2);
        assert_true(json_scan_text(json_scan_member(json, "msg"), msg, sizeof(msg)));
        assert_true(json_scan_text(json_scan_member(json, "details"), details, sizeof(details)));
        assert_memory_equal(msg, "about ", 6);
    }
}

TEST(versions_are_listed_from_the_oldest)
{
    char out[OUTPUT_BYTES];
    assert_int_equal(capture(put_versions, NULL, out), EXIT_SUCCESS);
    assert_string_equal(out, "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\","
                             "\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
}

TEST(result_is_passed_on_as_it_stands)
{
    static const struct {
        const char *previous; /* NULL: none */
        const char *out;
    } rows[] = {
        {NULL, "{\"cniVersion\":\"1.0.0\"}\n"},
        {"{}", "{\"cniVersion\":\"1.0.0\"}\n"},
        {"{ \"ips\" : [1.0],\"cniVersion\":\"0.4.0\" }",
         "{ \"ips\" : [1.0],\"cniVersion\":\"0.4.0\" }\n"},
        {"{\"ips\":[\"\\u0000\"],\"cniVersion\":\"\",\"n\":123456789012345678901}",
         "{\"cniVersion\":\"1.0.0\",\"ips\":[\"\\u0000\"],\"n\":123456789012345678901}\n"},
        {"{\"CNIVERSION\":null}", "{\"cniVersion\":\"1.0.0\"}\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[OUTPUT_BYTES];
        const char *text = rows[i].previous;
        struct json_slice previous = {.at = text, .len = text ? strlen(text) : 0};
        assert_int_equal(capture(put_result, &previous, out), EXIT_SUCCESS);
        assert_string_equal(out, rows[i].out);
    }
}
