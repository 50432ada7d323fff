/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line per event on stderr, as logfmt text or JSON. The one module with global state.
 *
 *     level=warn mod=lease msg="renewing lease ..., will retry in 200 ms" node="worker-1"
 *
 * error = broken until someone acts; warn = someone may act; info = state changes only; debug = the
 * rest. Only shells log; base and cores return. Secrets are never passed in. Each value is
 * sanitized and bounded, a line is one write(2), so lines of several processes do not mix.
 *
 * It never waits: a line that the reader of a full pipe, socket or terminal does not take at once
 * is dropped, and the next one that is taken comes after one that says how many are missing.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"
#include "base/time.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* Also sets the node that every line names ("" for none; copied). Default: info, text, none. */
void log_setup(enum log_level level, enum log_format format, const char *node);
/* Whether lines of that level are written: what makes words for one that is not can be left out. */
bool log_shows(enum log_level level);
/* Where lines go; default 2 (stderr). For tests. */
void log_set_fd(int fd);

/* If lines are missing, says so now rather than with the next line. For a daemon's loop. */
void log_tell_dropped(void);

/* A line that would repeat itself: at most one per period; without `r`, each. The next one that is
 * written ends with " (12 more like it were not shown)". Reset `r` when the trouble is over. `mod`
 * is a short constant word. Returns whether this one was due. */
bool log_limited(struct log_repeat *r, int64_t period_ns, enum log_level level, const char *mod,
                 const char *fmt, ...) PRINTF_LIKE(5, 6);

/* One line: level, mod, format and its arguments. */
#define log_write(...) (void)log_limited(NULL, 0, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
