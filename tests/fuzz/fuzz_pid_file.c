/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the pid file of a daemon of OVS: the socket is one of the same directory, by a
 * number, or there is a sentence. */
#include "probe/ovs_rpc.c" /* find_unixctl is its own */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define DAEMON "ovn-controller"

static void check_socket(const char *dir, const char *path)
{
    char start[100];
    (void)snprintf(start, sizeof(start), "%s/" DAEMON ".", dir);
    check(strncmp(path, start, strlen(start)) == 0);
    size_t digits = strspn(path + strlen(start), "0123456789");
    check(digits > 0 && strcmp(path + strlen(start) + digits, ".ctl") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/dev/shm/fuzz-pid.XXXXXX"; /* in memory */
    char file[100];
    char path[UNIX_PATH_BYTES] = "";
    check(mkdtemp(dir) != NULL);
    (void)snprintf(file, sizeof(file), "%s/" DAEMON ".pid", dir);
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
    const struct probe_answer answer = find_unixctl(dir, DAEMON, path);
    bool has_passed = answer.outcome == PROBE_PASSED;
    if (has_passed) {
        check_socket(dir, path);
    } else {
        check(path[0] == '\0' && answer.words[0] != '\0');
    }
    fuzz_tell(has_passed);
    check(unlink(file) == 0 && rmdir(dir) == 0);
    return 0;
}
