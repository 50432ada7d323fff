/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the configuration on stdin, for each verb: an error, or a delegate's configuration
 * that is a plain name's and still says what the runtime said. */
#include "base/cleanup.h"
#include "cni/conf.h"
#include "json/json_text.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_delegate(const struct cni_conf *conf)
{
    const char *type = NULL;
    struct cni_error error = {.code = 0};
    CLEANUP(json) json_t *delegate = NULL;
    if (json_object_get(conf->json, "delegateConf")) {
        return; /* would open any file */
    }
    int code = conf_make_delegate(conf, &delegate, &type, &error);
    check(code == error.code);
    if (code != 0) {
        return;
    }
    static const char *const carried[] = {"name", "prevResult", "runtimeConfig", "args"};
    check(type[0] != '\0' && !strchr(type, '/') && strcmp(type, "dpu-gate") != 0);
    for (size_t i = 0; i < ARRAY_LEN(carried); i++) {
        json_t *ours = json_object_get(conf->json, carried[i]);
        check(!ours || json_equal(ours, json_object_get(delegate, carried[i])));
    }
    CLEANUP(free) char *text = json_text_dump(delegate);
    check(text != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(fd) int fd = memfd_create("stdin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        return 0;
    }
    for (enum cni_verb verb = CNI_ADD; verb <= CNI_STATUS; verb++) {
        struct cni_conf conf = {.json = NULL};
        struct cni_error error = {.code = 0};
        check(lseek(fd, 0, SEEK_SET) == 0);
        int code = conf_read(fd, &conf, &error);
        code = code == 0 ? conf_check_version(&conf, verb, &error) : code;
        code = code == 0 ? conf_read_options(&conf, &error) : code;
        check(code == error.code && (code == 0) == (error.msg[0] == '\0'));
        if (code == 0 && conf.is_wrapping) {
            check_delegate(&conf);
        }
        conf_fini(&conf);
    }
    return 0;
}
