/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the configuration on stdin, for each verb: an error, or a delegate's configuration
 * that is a plain name's and still says what the runtime said. */
#include "base/mem.h"
#include "cni/delegate.c" /* its steps are its own */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static void check_delegate(struct cni_call *c, struct json_slice delegate)
{
    static const char *const carried[] = {"name", "prevResult", "runtimeConfig", "args"};
    char type[DELEGATE_TYPE_BYTES];
    struct json_slice made;
    CLEANUP(buf) struct buf text = {.max_bytes = DELEGATE_CONF_MAX_BYTES};
    int code = delegate_conf_make(c, delegate, &text, type);
    check(code == c->code);
    if (code != 0) {
        return;
    }
    check(json_scan_check(buf_text(&text), text.len, &made, NULL) == 0);
    check(type[0] != '\0' && !strchr(type, '/') && strcmp(type, "dpu-gate") != 0);
    check(json_scan_member(made, "lastDelegate").len == 0 ||
          json_scan_member(delegate, "lastDelegate").len > 0);
    for (size_t i = 0; i < ARRAY_LEN(carried); i++) {
        struct json_slice ours = json_scan_member(c->object, carried[i]);
        struct json_slice theirs = json_scan_member(made, carried[i]);
        check(ours.len == 0 ||
              (ours.len == theirs.len && memcmp(ours.at, theirs.at, ours.len) == 0));
    }
}

static void check_delegates(struct cni_call *c)
{
    struct json_slice path = json_scan_member(c->object, "delegateConf");
    if (path.len > 0 && !json_scan_equals(path, "/nonexistent/10.conf")) {
        return; /* would open any file */
    }
    int code = delegate_find_plugins(c);
    check(code == c->code);
    check(code != 0 || c->plugin_count == 1 || c->verb == CNI_DEL);
    for (size_t i = 0; code == 0 && i < c->plugin_count; i++) {
        c->code = 0;
        check_delegate(c, delegate_plugin(c, i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(fd) int fd = memfd_create("stdin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        return 0;
    }
    bool is_accepted = false;
    for (enum cni_verb verb = CNI_ADD; verb <= CNI_STATUS; verb++) {
        struct cni_call c = {.verb = verb};
        check(lseek(fd, 0, SEEK_SET) == 0);
        int code = conf_read(&c, fd);
        code = code == 0 ? conf_check_version(&c) : code;
        code = code == 0 ? conf_read_options(&c) : code;
        check(code == c.code && (code == 0 || c.msg[0] != '\0'));
        is_accepted |= code == 0;
        if (code == 0 && c.is_wrapping) {
            check_delegates(&c);
        }
        cni_call_fini(&c);
    }
    fuzz_tell(is_accepted);
    return 0;
}
