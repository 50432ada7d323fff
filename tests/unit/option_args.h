/* SPDX-License-Identifier: Apache-2.0 */
/* Options as a program gets them, for tests. */
#ifndef TESTS_UNIT_OPTION_ARGS_H
#define TESTS_UNIT_OPTION_ARGS_H

#include "loop/option.h"

enum { MAX_ARGS = OPTION_MAX_LIST + 16 };
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* `args` and `env` are NULL-terminated; either may be NULL. */
static inline int parse_args(const struct option_program *program, const char *const *args,
                             const char *const *env, void *config, enum option_outcome *outcome,
                             struct err *e)
{
    char name[] = "program";
    char *argv[MAX_ARGS] = {name};
    int argc = 1;
    for (; args && args[argc - 1]; argc++) {
        argv[argc] = (char *)args[argc - 1]; /* never written to */
    }
    return option_parse(program, argc, argv, (char **)env, config, outcome, e);
}

#endif
