/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin as a child, for questions that must not take for ever: its answer is collected, what
 * it says on stderr passed on, and after a deadline it is ended with its process group. Both go
 * through pipes of ours: nothing that it leaves behind can keep our caller waiting for the end of
 * his. It dies with us, too.
 */
#ifndef CNI_DELEGATE_RUN_H
#define CNI_DELEGATE_RUN_H

#include "base/mem.h"
#include "cni/reply.h"

enum {
    /* Of an answer: a list of versions, or an error whose text goes into the Node's condition. */
    DELEGATE_ANSWER_MAX_BYTES = 64 << 10,
    DELEGATE_WORDS_MAX_BYTES = 64 << 10, /* of its stderr; what goes beyond is dropped */
};

struct delegate_question {
    const char *file;
    const char *verb; /* CNI_COMMAND */
    const struct buf *config;
    int deadline_ms;
    bool is_quiet; /* what it says on stderr is not passed on */
};

struct delegate_answer {
    char text[DELEGATE_ANSWER_MAX_BYTES];
    size_t len;      /* if all of it, it may have said more, and was ended */
    int wait_status; /* as waitpid has it */
};

/* Returns 0, or the error's code if it cannot be run or does not end within the deadline. */
int delegate_run(const struct delegate_question *q, struct delegate_answer *out,
                 struct cni_error *error);

#endif
