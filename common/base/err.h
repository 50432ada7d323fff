/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error value of the whole project.
 *
 * A fallible function returns 0 or a negative code and takes `struct err *e` last. The struct is
 * the caller's, usually on its stack, so failing never allocates. `e` is untouched on success and
 * may be NULL. A code answers "what should the caller do?", the message says what was attempted,
 * on which object, and what was seen: lower case, no full stop, outside data in quotes.
 *
 *     return err_set(e, ERR_PARSE, "lease '%s': renewTime '%s' is not RFC 3339", name, text);
 *     return err_wrap(e, "renewing lease '%s'", name);
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdint.h>

/* The result says whether it worked: ignoring it is a warning. */
#define NODISCARD __attribute__((warn_unused_result))

/* Argument `fmt_at` is a printf format for the arguments from `args_at` on (1-based). */
#define PRINTF_LIKE(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum err_code {
    ERR_RETRY = -1,    /* may work later: no answer, overload, server error */
    ERR_AUTH = -2,     /* who we are or what we may do: 401, 403, EACCES */
    ERR_CONFLICT = -3, /* somebody else wrote: read again, then retry */
    ERR_GONE = -4,     /* what we held on to is too old: start over */
    ERR_NOTFOUND = -5, /* the object does not exist */
    ERR_PARSE = -6,    /* outside data is malformed or out of range */
    ERR_LIMIT = -7,    /* a named bound was exceeded */
    ERR_IO = -8,       /* the system said no: see sys_errno */
    ERR_BUG = -9,      /* cannot happen; a programming error was noticed */
};

enum { ERR_MSG_BYTES = 240 };

struct err {
    int code;                /* enum err_code, or 0 */
    int sys_errno;           /* errno of the failed call, or 0 */
    char msg[ERR_MSG_BYTES]; /* truncated to fit, always terminated; text_sanitize() has seen it */
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .code = 0                                                                                  \
    }

/* Fills `e` (unless NULL) and returns `code`, so that "return err_set(...)" is one line. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Like err_set; remembers `sys_errno` and appends ": " and its text to the message. */
int err_set_errno(struct err *e, int code, int sys_errno, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Puts "<fmt>: " in front of the message of an error on its way up; returns e's code
 * (ERR_BUG if `e` holds none or is NULL, since there was nothing to wrap). */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- our own errors -------------------------------------------------------------------------- */

/* A checked state machine: a table of states and their transitions, asserted at each move. */
struct fsm_state {
    const char *name;
    uint32_t next; /* bit i set: the state with index i may follow */
};

#define FSM_TO(state) (UINT32_C(1) << (state))

/* Asserts that `to` may follow `from` and returns it. `states` has `count` entries, at most 32. */
int fsm_move(const struct fsm_state *states, int count, int from, int to);

#endif
