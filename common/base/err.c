/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

static void PRINTF_LIKE(4, 0)
    err_fill(struct err *e, int code, int sys_errno, const char *fmt, va_list ap)
{
    char raw[ERR_MSG_BYTES];
    e->code = code;
    e->sys_errno = sys_errno;
    text_vformat(raw, sizeof(raw), fmt, ap);
    text_sanitize(e->msg, sizeof(e->msg), raw, strlen(raw));
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
        const char *why = strerrordesc_np(sys_errno);
        text_append(e->msg, sizeof(e->msg), ": %s", why ? why : "unknown system error");
    }
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e || e->code == 0) {
        return ERR_BUG;
    }
    const struct err inner = *e;
    va_list ap;
    va_start(ap, fmt);
    err_fill(e, inner.code, inner.sys_errno, fmt, ap);
    va_end(ap);
    text_append(e->msg, sizeof(e->msg), ": %s", inner.msg);
    return inner.code;
}

int fsm_move(const struct fsm_state *states, int count, int from, int to)
{
    assert(count <= 32 && from >= 0 && from < count && to >= 0 && to < count);
    assert((states[from].next & FSM_TO(to)) != 0);
    return to;
}
