/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fsm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { IDLE, BUSY, DONE, COUNT };

static const struct fsm_state states[COUNT] = {
    [IDLE] = {"idle", FSM_TO(BUSY)},
    [BUSY] = {"busy", FSM_TO(BUSY) | FSM_TO(DONE)},
    [DONE] = {"done", 0},
};

static void allowed_moves_are_made(void **state)
{
    (void)state;
    assert_int_equal(fsm_move(states, COUNT, IDLE, BUSY), BUSY);
    assert_int_equal(fsm_move(states, COUNT, BUSY, BUSY), BUSY);
    assert_int_equal(fsm_move(states, COUNT, BUSY, DONE), DONE);
}

/* The signal that ends a process that tries the move; 0 if it lives. */
static int signal_of_move(int count, int from, int to)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        (void)close(STDERR_FILENO);
        (void)fsm_move(states, count, from, to);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_move_that_is_not_in_the_table_stops_the_program(void **state)
{
    (void)state;
    assert_int_equal(signal_of_move(COUNT, IDLE, DONE), SIGABRT);
    assert_int_equal(signal_of_move(COUNT, DONE, IDLE), SIGABRT);
    assert_int_equal(signal_of_move(COUNT, IDLE, COUNT), SIGABRT);
    assert_int_equal(signal_of_move(COUNT, -1, IDLE), SIGABRT);
    assert_int_equal(signal_of_move(33, IDLE, BUSY), SIGABRT);
    assert_int_equal(signal_of_move(COUNT, IDLE, BUSY), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed_moves_are_made),
        cmocka_unit_test(a_move_that_is_not_in_the_table_stops_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
