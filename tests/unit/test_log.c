/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

static void a_text_line_names_level_module_message_and_node(void **state)
{
    log_setup(LOG_INFO, LOG_TEXT, "worker-1");
    log_warn("lease", "renewing \"%s\" failed,\n will retry", "a\\b");
    assert_string_equal(written_after_time(*state),
                        "level=warn mod=lease msg=\"renewing \\\"a\\\\b\\\" failed,  will retry\" "
                        "node=\"worker-1\"\n");
}

static void without_a_node_none_is_named(void **state)
{
    log_setup(LOG_INFO, LOG_TEXT, "");
    log_error("x", "y");
    assert_string_equal(written_after_time(*state), "level=error mod=x msg=\"y\"\n");
}

static void a_json_line_is_one_object(void **state)
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

static void lines_below_the_level_are_not_written(void **state)
{
    log_setup(LOG_WARN, LOG_TEXT, "");
    log_info("x", "quiet");
    log_debug("x", "quiet");
    assert_string_equal(written(*state), "");
    log_warn("x", "loud");
    assert_non_null(strstr(written(*state), "loud"));
    log_setup(LOG_DEBUG, LOG_TEXT, "");
    log_info("x", "info");
    assert_non_null(strstr(written(*state), "level=info"));
}

static void a_long_message_is_cut_and_stays_one_line(void **state)
{
    char words[5000];
    memset(words, '"', sizeof(words) - 1); /* each takes two bytes when escaped */
    words[sizeof(words) - 1] = '\0';
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        log_setup(LOG_INFO, (enum log_format)format, "node");
        log_info("x", "%s", words);
        const char *line = written(*state);
        assert_in_range(strlen(line), 1000, 4096);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        assert_non_null(strstr(line, "node"));
    }
}

static void a_repeating_line_comes_once_per_period_and_counts_the_others(void **state)
{
    (void)state;
    struct log_repeat r = {0};
    assert_true(log_repeat_due(&r, (struct mono){1000}, 100));
    assert_int_equal(r.held_back, 0);
    assert_string_equal(r.more, "");
    assert_false(log_repeat_due(&r, (struct mono){1001}, 100));
    assert_false(log_repeat_due(&r, (struct mono){1099}, 100));
    assert_true(log_repeat_due(&r, (struct mono){1100}, 100));
    assert_int_equal(r.held_back, 2);
    assert_string_equal(r.more, " (2 more like it were not shown)");
    assert_false(log_repeat_due(&r, (struct mono){1101}, 100));
    log_repeat_reset(&r);
    assert_true(log_repeat_due(&r, (struct mono){1102}, 100));
    assert_int_equal(r.held_back, 0);
    assert_string_equal(r.more, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_text_line_names_level_module_message_and_node, open_sink,
                                        close_sink),
        cmocka_unit_test_setup_teardown(without_a_node_none_is_named, open_sink, close_sink),
        cmocka_unit_test_setup_teardown(a_json_line_is_one_object, open_sink, close_sink),
        cmocka_unit_test_setup_teardown(lines_below_the_level_are_not_written, open_sink,
                                        close_sink),
        cmocka_unit_test_setup_teardown(a_long_message_is_cut_and_stays_one_line, open_sink,
                                        close_sink),
        cmocka_unit_test(a_repeating_line_comes_once_per_period_and_counts_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
