/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kubeconfig: an answer or a sentence, and nothing left behind. */
#include "kube/kube_conf.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    struct kube_conf conf = {0};
    struct err e = ERR_INIT;
    if (fd < 0) {
        fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    }
    check(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (kube_conf_load(path, NULL, &conf, &e) == 0) {
        check(conf.server && strstr(conf.server, "://"));
        kube_conf_fini(&conf);
        fuzz_tell(true);
    } else {
        check(e.msg[0] != '\0');
    }
    return 0;
}
