/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "tests/support/case.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sys/socket.h>
#include <termios.h>

struct sink {
    int read_fd;
    int write_fd;
    char text[8192];
};

static int open_sink(void **state)
{
    static struct sink sink;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return -1;
    }
    sink = (struct sink){.read_fd = fds[0], .write_fd = fds[1]};
    log_set_fd(sink.write_fd);
    *state = &sink;
    return 0;
}

static int close_sink(void **state)
{
    struct sink *sink = *state;
    log_set_fd(STDERR_FILENO);
    log_setup(LOG_INFO, LOG_TEXT, "");
    (void)close(sink->read_fd);
    (void)close(sink->write_fd);
    return 0;
}

static const char *written(struct sink *sink)
{
    ssize_t got = read(sink->read_fd, sink->text, sizeof(sink->text) - 1);
    sink->text[got > 0 ? got : 0] = '\0';
    return sink->text;
}

/* The line without its "time=..." word. */
static const char *written_after_time(struct sink *sink)
{
    const char *text = written(sink);
    assert_memory_equal(text, "time=2", 6);
    return strchr(text, ' ') + 1;
}

TEST_WITH(a_text_line_names_level_module_message_and_node, open_sink, close_sink)
{
    log_setup(LOG_INFO, LOG_TEXT, "worker-1");
    log_warn("lease", "renewing \"%s\" failed,\n will retry", "a\\b");
    assert_string_equal(written_after_time(*state),
                        "level=warn mod=lease msg=\"renewing \\\"a\\\\b\\\" failed,  will retry\" "
                        "node=\"worker-1\"\n");
    log_setup(LOG_INFO, LOG_TEXT, "");
    log_error("x", "y");
    assert_string_equal(written_after_time(*state), "level=error mod=x msg=\"y\"\n");
}

TEST_WITH(a_json_line_is_one_object, open_sink, close_sink)
{
    log_setup(LOG_DEBUG, LOG_JSON, "n");
    log_debug("kube", "quote \" backslash \\ tab \t bad utf-8 \xff");
    json_t *line = json_loads(written(*state), 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "debug");
    assert_string_equal(json_string_value(json_object_get(line, "mod")), "kube");
    assert_string_equal(json_string_value(json_object_get(line, "node")), "n");
    assert_string_equal(json_string_value(json_object_get(line, "msg")),
                        "quote \" backslash \\ tab   bad utf-8 ?");
    assert_int_equal(strlen(json_string_value(json_object_get(line, "time"))), 27);
    json_decref(line);
}

TEST_WITH(lines_below_the_level_are_not_written, open_sink, close_sink)
{
    log_setup(LOG_WARN, LOG_TEXT, "");
    assert_true(log_shows(LOG_WARN));
    assert_false(log_shows(LOG_INFO));
    log_info("x", "quiet");
    log_debug("x", "quiet");
    assert_string_equal(written(*state), "");
    log_warn("x", "loud");
    assert_non_null(strstr(written(*state), "loud"));
    log_setup(LOG_DEBUG, LOG_TEXT, "");
    log_info("x", "info");
    assert_non_null(strstr(written(*state), "level=info"));
}

TEST_WITH(a_long_message_is_cut_and_stays_one_line, open_sink, close_sink)
{
    char words[5000];
    memset(words, '"', sizeof(words) - 1); /* each takes two bytes when escaped */
    words[sizeof(words) - 1] = '\0';
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        log_setup(LOG_INFO, (enum log_format)format, "node");
        log_info("x", "%s", words);
        const char *line = written(*state);
        assert_between(strlen(line), 1000, 4096);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        assert_non_null(strstr(line, "node"));
    }
}

/* A pipe, a socket, a terminal: both ends, blocking, of small buffers. */
static void open_pair(int kind, int out[2])
{
    if (kind == 0) {
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_true(fcntl(out[1], F_SETPIPE_SZ, 16384) > 0);
    } else if (kind == 1) {
        int small = 1;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
        assert_int_equal(setsockopt(out[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    } else {
        struct termios raw;
        out[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_true(out[0] >= 0 && grantpt(out[0]) == 0 && unlockpt(out[0]) == 0);
        out[1] = open(ptsname(out[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_int_equal(tcgetattr(out[1], &raw), 0);
        cfmakeraw(&raw);
        assert_int_equal(tcsetattr(out[1], TCSANOW, &raw), 0);
    }
}

/* Appends what can be read. */
static void drain(int fd, char *text, size_t bytes)
{
    size_t used = strlen(text);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (used < bytes - 1 && poll(&ready, 1, 20) > 0) { /* a terminal hands it on later */
        ssize_t got = read(fd, text + used, bytes - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
}

static int count_words(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) {
        count++;
    }
    return count;
}

/* All that the log says is missing. */
static int said_missing(const char *text)
{
    int sum = 0;
    for (const char *at = text; (at = strstr(at, "mod=log msg=\"")); at++) {
        sum += atoi(at + strlen("mod=log msg=\""));
    }
    return sum;
}

TEST(lines_that_nobody_takes_are_dropped_and_counted)
{
    enum { LINES = 3000 };
    static char text[1 << 20];
    for (int kind = 0; kind < 3; kind++) {
        int ends[2];
        open_pair(kind, ends);
        log_set_fd(ends[1]);
        log_setup(LOG_INFO, LOG_TEXT, "");
        text[0] = '\0';
        (void)alarm(10); /* the end of a log that waits */
        for (int i = 0; i < LINES; i++) {
            log_info("x", "a line that takes some room, number %*d", i % 300, i);
        }
        int after = 0;
        while (!strstr(text, "after")) {
            drain(ends[0], text, sizeof(text));
            log_info("x", "after");
            after++;
            drain(ends[0], text, sizeof(text));
        }
        (void)alarm(0);
        int taken = count_words(text, "a line that");
        assert_between(taken, 1, LINES - 1);
        int taken_after = count_words(text, "after");
        assert_int_equal(taken + taken_after + said_missing(text), LINES + after);
        log_set_fd(STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
    }
}

TEST_WITH(a_repeating_line_comes_once_per_period_and_counts_the_others, open_sink, close_sink)
{
    struct log_repeat r = {0};

    enum { HOUR = 3600 };
    assert_true(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "%s", "first"));
    assert_false(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "kept back"));
    assert_false(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "kept back"));
    r.next = clock_mono_now();
    assert_true(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "second"));
    r.next = clock_mono_now();
    assert_true(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "third"));
    assert_false(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "kept back"));
    r.next = clock_mono_now();
    assert_true(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "single"));
    assert_false(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "kept back"));
    log_repeat_reset(&r);
    assert_true(log_limited(&r, HOUR * NS_PER_SEC, LOG_WARN, "x", "fourth"));
    const char *text = written(*state);
    assert_non_null(strstr(text, "msg=\"first\"\n"));
    assert_null(strstr(text, "kept back"));
    assert_non_null(strstr(text, "msg=\"second (2 more like it were not shown)\"\n"));
    assert_non_null(strstr(text, "msg=\"third\"\n"));
    assert_non_null(strstr(text, "msg=\"single (1 more like it was not shown)\"\n"));
    assert_non_null(strstr(text, "msg=\"fourth\"\n"));
}
