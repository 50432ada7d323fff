/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch_line.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LINE_BYTES = 16 };

struct fixture {
    char inbox[64];
    size_t used;
    char seen[64]; /* the lines, each followed by '|' */
};

static void start(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
}

/* More has come: notes the lines and keeps the rest; returns the last result. */
static enum watch_line_result feed(struct fixture *f, const char *bytes, size_t len)
{
    assert_true(f->used + len <= sizeof(f->inbox));
    memcpy(f->inbox + f->used, bytes, len);
    const char *at = f->inbox;
    size_t left = f->used + len;
    const char *line;
    size_t line_len;
    enum watch_line_result result;
    while ((result = watch_line_next(&at, &left, LINE_BYTES, &line, &line_len)) ==
           WATCH_LINE_READY) {
        assert_true(line_len > 0 && line_len <= LINE_BYTES);
        (void)strncat(f->seen, line, line_len);
        (void)strcat(f->seen, "|");
    }
    memmove(f->inbox, at, left);
    f->used = left;
    return result;
}

static void lines_come_out_wherever_the_network_cut_them(void **state)
{
    static const char stream[] = "{\"a\":1}\n{\"b\":2}\n\n{\"c\":3}\n";
    const size_t len = sizeof(stream) - 1;
    (void)state;
    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second++) {
            struct fixture f;
            start(&f);
            assert_int_equal(feed(&f, stream, first), WATCH_LINE_MORE);
            assert_int_equal(feed(&f, stream + first, second - first), WATCH_LINE_MORE);
            assert_int_equal(feed(&f, stream + second, len - second), WATCH_LINE_MORE);
            assert_string_equal(f.seen, "{\"a\":1}|{\"b\":2}|{\"c\":3}|");
        }
    }
}

static void line_of_exactly_the_bound_fits_and_one_byte_more_does_not(void **state)
{
    struct fixture f;
    (void)state;
    start(&f);
    assert_int_equal(feed(&f, "0123456789abcdef\n", 17), WATCH_LINE_MORE);
    assert_string_equal(f.seen, "0123456789abcdef|");
    assert_int_equal(feed(&f, "0123456789abcdefg\n", 18), WATCH_LINE_TOO_LONG);
}

static void over_long_line_in_pieces_is_noticed(void **state)
{
    struct fixture f;
    (void)state;
    start(&f);
    assert_int_equal(feed(&f, "0123456789", 10), WATCH_LINE_MORE);
    assert_int_equal(feed(&f, "0123456789", 10), WATCH_LINE_TOO_LONG);
    assert_string_equal(f.seen, "");
}

static void no_bytes_are_no_line(void **state)
{
    struct fixture f;
    (void)state;
    start(&f);
    assert_int_equal(feed(&f, "", 0), WATCH_LINE_MORE);
    assert_int_equal(feed(&f, "\n\n\n", 3), WATCH_LINE_MORE);
    assert_string_equal(f.seen, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_out_wherever_the_network_cut_them),
        cmocka_unit_test(line_of_exactly_the_bound_fits_and_one_byte_more_does_not),
        cmocka_unit_test(over_long_line_in_pieces_is_noticed),
        cmocka_unit_test(no_bytes_are_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
