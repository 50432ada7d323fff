/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/record_carry.h"

#include "base/mem.h"
#include "base/text.h"
#include "contract/record.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_SUFFIX ".crashed"

static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* Read by the signal handler only; "" while none is armed. */
static char armed_mark[PATH_MAX];

/* Only what signal-safety(7) allows. The signal itself comes again, with its default. */
static void on_crash(int signal_number)
{
    int fd = open(armed_mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    (void)raise(signal_number);
}

static void arm(const char *mark)
{
    text_format(armed_mark, sizeof(armed_mark), "%s", mark);
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
        (void)sigaction(crashes[i], &action, NULL); /* these signals exist */
    }
}

void record_carry_settled(void)
{
    if (armed_mark[0] == '\0') {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        (void)signal(crashes[i], SIG_DFL); /* same */
    }
    armed_mark[0] = '\0';
}

static int read_page(const char *path, struct record *out, struct err *e)
{
    char page[RECORD_PAGE_BYTES];
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_set_errno(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, errno, "opening '%s'",
                             path);
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return err_set(e, ERR_IO, "'%s' is not a file that only we may write", path);
    }
    ssize_t got = read(fd, page, sizeof(page));
    if (got < 0) {
        return err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
    }
    return record_decode(page, (size_t)got, out, e);
}

int record_carry_read(const char *path, const char *node, const struct expiry_config *config,
                      struct expiry_carry *out, struct err *e)
{
    struct record record;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    char mark[PATH_MAX];
    int length = snprintf(mark, sizeof(mark), "%s" MARK_SUFFIX, path);
    if (length >= (int)sizeof(mark)) {
        return err_set(e, ERR_LIMIT, "'%s' is too long for a path", path);
    }
    if (unlink(mark) == 0) {
        return err_set(e, ERR_GONE, "the agent that read '%s' last crashed: not believed again",
                       path);
    }
    int rc = read_page(path, &record, e);
    if (rc != 0) {
        return rc;
    }
    rc = clock_boot_id(boot_id, e);
    if (rc != 0) {
        return rc;
    }
    if (!text_equal(record.boot_id, boot_id)) {
        return err_set(e, ERR_GONE, "'%s' was written before this boot", path);
    }
    if (!text_equal(record.node, node)) {
        return err_set(e, ERR_GONE, "'%s' is about node '%s'", path, record.node);
    }
    if (!text_equal(record.verdict.lease.ns, config->lease_ns) ||
        !text_equal(record.verdict.lease.name, config->lease_name)) {
        return err_set(e, ERR_GONE, "'%s' is about lease '%s/%s'", path, record.verdict.lease.ns,
                       record.verdict.lease.name);
    }
    *out = (struct expiry_carry){.verdict = record.verdict, .hold_until = record.hold_until};
    arm(mark);
    return 0;
}
