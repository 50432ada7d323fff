/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void PRINTF_LIKE(4, 0)
    err_fill(struct err *e, int code, int sys_errno, const char *fmt, va_list ap)
{
    e->code = code;
    e->sys_errno = sys_errno;
    text_vformat(e->msg, sizeof(e->msg), fmt, ap);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        err_fill(e, code, 0, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_set_errno(struct err *e, int code, int sys_errno, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        err_fill(e, code, sys_errno, fmt, ap);
        va_end(ap);
        size_t used = strlen(e->msg);
        const char *why = strerrordesc_np(sys_errno);
        text_format(e->msg + used, sizeof(e->msg) - used, ": %s",
                    why ? why : "unknown system error");
    }
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e || e->code == 0) {
        return ERR_BUG;
    }
    char inner[ERR_MSG_BYTES];
    memcpy(inner, e->msg, sizeof(inner));
    va_list ap;
    va_start(ap, fmt);
    text_vformat(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    size_t used = strlen(e->msg);
    text_format(e->msg + used, sizeof(e->msg) - used, ": %s", inner);
    return e->code;
}

int fsm_move(const struct fsm_state *states, int count, int from, int to)
{
    assert(count <= 32 && from >= 0 && from < count && to >= 0 && to < count);
    assert((states[from].next & FSM_TO(to)) != 0);
    return to;
}
