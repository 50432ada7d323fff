/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the memory of what delegates know: what is believed stands there as a line, what is
 * put in is found again, and lines about other programs stay. */
#include "base/mem.h"
#include "cni/delegate.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "/bin/sh"

static void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void write_memory(const char *path, const uint8_t *data, size_t size)
{
    CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
}

/* Terminated. */
static size_t read_memory(const char *path, char *out, size_t out_bytes)
{
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, out, out_bytes - 1);
    check(fd >= 0 && len >= 0);
    out[len] = '\0';
    return (size_t)len;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (const char *at = strchr(text, '\n'); at; at = strchr(at + 1, '\n')) {
        count++;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[2 * DELEGATE_VERSIONS_MAX_BYTES];
    char dir[] = "/dev/shm/fuzz-delegates.XXXXXX"; /* in memory: it is flushed each time */
    char record[100];
    char path[100];
    struct delegate_identity id;
    bool knows;
    check(mkdtemp(dir) != NULL);
    (void)snprintf(record, sizeof(record), "%s/record", dir);
    (void)snprintf(path, sizeof(path), "%s/" DELEGATE_VERSIONS_NAME, dir);
    write_memory(path, data, size);
    delegate_versions_identify(PROGRAM, &id);
    check(id.text[0] != '\0');
    if (delegate_versions_recall(record, &id, &knows)) {
        (void)read_memory(path, text, sizeof(text));
        check(strstr(text, id.text) != NULL);
    }
    for (int i = 0; i < 2; i++) {
        delegate_versions_keep(record, &id, i == 0);
        check(delegate_versions_recall(record, &id, &knows) && knows == (i == 0));
    }
    check(read_memory(path, text, sizeof(text)) <= DELEGATE_VERSIONS_MAX_BYTES);
    size_t lines = count_lines(text);
    check(lines >= 1 && lines <= DELEGATE_VERSIONS_ENTRIES);
    fuzz_tell(lines > 1);
    check(unlink(path) == 0 && rmdir(dir) == 0); /* nothing else was left there */
    return 0;
}
