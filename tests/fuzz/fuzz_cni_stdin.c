/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the configuration on stdin, for each verb: an error, or a delegate's configuration
 * that is a plain name's and still says what the runtime said. */
#include "base/mem.h"
#include "cni/delegate.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_delegate(const struct cni_conf *conf, struct json_slice delegate)
{
    static const char *const carried[] = {"name", "prevResult", "runtimeConfig", "args"};
    char type[DELEGATE_TYPE_BYTES];
    struct json_slice made;
    struct cni_error error = {.code = 0};
    CLEANUP(buf) struct buf text;
    buf_init(&text, DELEGATE_CONF_MAX_BYTES);
    int code = delegate_conf_make(conf, delegate, &text, type, &error);
    check(code == error.code);
    if (code != 0) {
        return;
    }
    check(json_scan_check(buf_text(&text), text.len, &made, NULL) == 0);
    check(type[0] != '\0' && !strchr(type, '/') && strcmp(type, "dpu-gate") != 0);
    check(json_scan_member(made, "lastDelegate").len == 0 ||
          json_scan_member(delegate, "lastDelegate").len > 0);
    for (size_t i = 0; i < ARRAY_LEN(carried); i++) {
        struct json_slice ours = json_scan_member(conf->object, carried[i]);
        struct json_slice theirs = json_scan_member(made, carried[i]);
        check(ours.len == 0 ||
              (ours.len == theirs.len && memcmp(ours.at, theirs.at, ours.len) == 0));
    }
}

static void check_delegates(const struct cni_conf *conf, enum cni_verb verb)
{
    struct json_slice path = json_scan_member(conf->object, "delegateConf");
    struct cni_error error = {.code = 0};
    struct delegate_source source;
    if (path.len > 0 && !json_scan_equals(path, "/nonexistent/10.conf")) {
        return; /* would open any file */
    }
    int code = delegate_source_open(conf, verb, &source, &error);
    check(code == error.code && (code == 0) == (error.msg[0] == '\0'));
    for (size_t i = 0; code == 0 && i < source.count; i++) {
        check_delegate(conf, delegate_source_plugin(&source, i));
    }
    check(code != 0 || source.count == 1 || verb == CNI_DEL);
    delegate_source_close(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(fd) int fd = memfd_create("stdin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        return 0;
    }
    bool is_accepted = false;
    for (enum cni_verb verb = CNI_ADD; verb <= CNI_STATUS; verb++) {
        struct cni_conf conf = {.status_code = 0};
        struct cni_error error = {.code = 0};
        check(lseek(fd, 0, SEEK_SET) == 0);
        int code = conf_read(fd, &conf, &error);
        code = code == 0 ? conf_check_version(&conf, verb, &error) : code;
        code = code == 0 ? conf_read_options(&conf, verb, &error) : code;
        check(code == error.code && (code == 0) == (error.msg[0] == '\0'));
        is_accepted |= code == 0;
        if (code == 0 && conf.is_wrapping) {
            check_delegates(&conf, verb);
        }
        conf_fini(&conf);
    }
    fuzz_tell(is_accepted);
    return 0;
}
