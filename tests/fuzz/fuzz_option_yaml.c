/* SPDX-License-Identifier: Apache-2.0 */
/* Any file of --config is applied or refused with a message; nothing leaks. */
#include "host-agent/host_options.h"
#include "loop/option.h"
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char flag[64];
    char *argv[] = {flag, flag, NULL};
    struct host_config config = {.cni_sync = false};
    enum option_outcome outcome;
    struct err e = ERR_INIT;
    int fd = memfd_create("config", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    text_format(flag, sizeof(flag), "--config=/proc/self/fd/%d", fd);
    int rc = option_parse(host_options_program(), 2, argv, NULL, &config, &outcome, &e);
    check(rc == e.code && (rc == 0 || e.msg[0] != '\0'));
    fuzz_tell(rc == 0);
    option_fini(host_options_program(), &config);
    (void)close(fd);
    return 0;
}
