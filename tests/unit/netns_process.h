/* SPDX-License-Identifier: Apache-2.0 */
/* A process in a network namespace of its own, as a pause container is. Needs _GNU_SOURCE, cmocka.
 */
#ifndef TESTS_UNIT_NETNS_PROCESS_H
#define TESTS_UNIT_NETNS_PROCESS_H

#include "tests/support/case.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0: this process may not make namespaces. */
static inline pid_t netns_process_start(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the test */
        for (;;) {
            (void)pause(); /* until it is killed */
        }
    }
    return pid < 0 ? 0 : pid;
}

static inline void netns_process_kill(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#endif
