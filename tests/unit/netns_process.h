/* SPDX-License-Identifier: Apache-2.0 */
/* A process in a network namespace of its own, as a pause container is. Needs _GNU_SOURCE, cmocka.
 */
#ifndef TESTS_UNIT_NETNS_PROCESS_H
#define TESTS_UNIT_NETNS_PROCESS_H

#include "tests/support/case.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0: this process may not make namespaces. */
static inline pid_t netns_process_start(void)
{
    char byte;
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the test */
        if (unshare(CLONE_NEWNET) != 0 || write(told[1], "x", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            (void)pause(); /* until it is killed */
        }
    }
    (void)close(told[1]); /* the child's */
    bool is_there = read(told[0], &byte, 1) == 1;
    (void)close(told[0]); /* read */
    if (!is_there) {
        assert_int_equal(waitpid(pid, NULL, 0), pid); /* it ended */
        return 0;
    }
    return pid;
}

static inline void netns_process_kill(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#endif
