/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/time.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* No line is longer than PIPE_BUF: a pipe takes it whole or not at all. */
enum { LOG_MSG_BYTES = 1024, LOG_LINE_BYTES = 4096, LOG_NODE_BYTES = 254 };

/* The sink: the project's only mutable global (see STYLE in CONTRIBUTING.md). */
static struct {
    enum log_level level;
    enum log_format format;
    int fd;
    unsigned dropped; /* lines, since the last one that was written */
    char node[LOG_NODE_BYTES];
} sink = {.level = LOG_INFO, .format = LOG_TEXT, .fd = STDERR_FILENO};

static const char *const level_names[] = {
    [LOG_ERROR] = "error", [LOG_WARN] = "warn", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};

void log_setup(enum log_level level, enum log_format format, const char *node)
{
    sink.level = level;
    sink.format = format;
    text_format(sink.node, sizeof(sink.node), "%s", node); /* a cut name still identifies */
}

bool log_shows(enum log_level level)
{
    return level <= sink.level;
}

void log_set_fd(int fd)
{
    sink.fd = fd;
}

/* Appends a field; both logfmt and JSON escape '"' and '\' alike. */
static size_t put_field(char *line, size_t used, const char *key, const char *value, bool quotes)
{
    bool json = sink.format == LOG_JSON;
    const char *quote = quotes ? "\"" : "";
    used += (size_t)snprintf(line + used, LOG_LINE_BYTES - used, json ? "%s\"%s\":%s" : "%s%s=%s",
                             used <= 1 ? "" : (json ? "," : " "), key, quote);
    for (const char *c = value; *c && used < LOG_LINE_BYTES - 8; c++) {
        if (*c == '"' || *c == '\\') {
            line[used++] = '\\';
        }
        line[used++] = *c;
    }
    line[used] = '"'; /* or nothing */
    return used + strlen(quote);
}

/* A reader that has stopped must not stop us. O_NONBLOCK would do that to everybody else who writes
 * to the same file, too. */
static bool is_taken_at_once(const char *line, size_t len)
{
    struct pollfd ready = {.fd = sink.fd, .events = POLLOUT};
    ssize_t sent = send(sink.fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK) {
        return sent >= 0;
    }
    return poll(&ready, 1, 0) > 0 && write(sink.fd, line, len) >= 0;
}

static bool put_line(enum log_level level, const char *mod, const char *msg)
{
    char line[LOG_LINE_BYTES];
    const struct rfc3339_text when = rfc3339_text(clock_wall_now(), true);
    const char *const fields[][2] = {{"time", when.text},
                                     {"level", level_names[level]},
                                     {"mod", mod},
                                     {"msg", msg},
                                     {"node", sink.node}};
    bool is_json = sink.format == LOG_JSON;
    size_t used = 0;
    if (is_json) {
        line[used++] = '{';
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (fields[i][1][0] != '\0') {
            used = put_field(line, used, fields[i][0], fields[i][1], is_json || i >= 3);
        }
    }
    if (is_json) {
        line[used++] = '}';
    }
    line[used++] = '\n';
    return is_taken_at_once(line, used);
}

void log_tell_dropped(void)
{
    char words[128];
    if (sink.dropped == 0) {
        return;
    }
    text_format(words, sizeof(words),
                "%u lines are missing here: the log's reader did not take them in time",
                sink.dropped);
    if (put_line(LOG_WARN, "log", words)) {
        sink.dropped = 0;
    }
}

bool log_limited(struct log_repeat *r, int64_t period_ns, enum log_level level, const char *mod,
                 const char *fmt, ...)
{
    char raw[LOG_MSG_BYTES];
    char msg[LOG_MSG_BYTES];
    va_list ap;
    if (r && !log_repeat_due(r, clock_mono_now(), period_ns)) {
        return false;
    }
    if (!log_shows(level)) {
        return true;
    }
    va_start(ap, fmt);
    text_vformat(raw, sizeof(raw), fmt, ap);
    va_end(ap);
    text_append(raw, sizeof(raw), "%s", r ? r->more : "");
    text_sanitize(msg, sizeof(msg), raw, strlen(raw));
    log_tell_dropped();
    if (sink.dropped > 0 || !put_line(level, mod, msg)) {
        sink.dropped++;
    }
    return true;
}
