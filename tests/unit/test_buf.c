/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "tests/support/case.h"

TEST(an_empty_buffer_reads_as_empty_text)
{
    struct buf b = {.max_bytes = 10};
    assert_string_equal(buf_text(&b), "");
    buf_consume(&b, SIZE_MAX);
    assert_int_equal(buf_append(&b, NULL, 0, NULL), 0);
    assert_string_equal(buf_text(&b), "");
    buf_fini(&b);
    buf_fini(&b);
}

TEST(what_was_consumed_is_gone_and_the_rest_moves_up)
{
    CLEANUP(buf) struct buf b = {.max_bytes = 8};
    buf_consume(&b, 0);
    assert_int_equal(buf_appendf(&b, NULL, "%s", "abcdef"), 0);
    buf_consume(&b, 0);
    assert_string_equal(buf_text(&b), "abcdef");
    buf_consume(&b, 4);
    assert_string_equal(buf_text(&b), "ef");
    assert_int_equal(b.len, 2);
    assert_int_equal(buf_appendf(&b, NULL, "%s", "123456"), 0);
    assert_string_equal(buf_text(&b), "ef123456");
    buf_consume(&b, 8);
    assert_string_equal(buf_text(&b), "");
}

TEST(appended_bytes_are_always_terminated)
{
    CLEANUP(buf) struct buf b = {.max_bytes = 100000};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_appendf(&b, NULL, "%s", "0123456789"), 0);
        assert_int_equal(b.data[b.len], '\0');
        assert_true(b.len <= b.capacity && b.capacity <= b.max_bytes);
    }
    assert_int_equal(b.len, 10000);
    assert_int_equal(buf_appendf(&b, NULL, "%s-%d", "x", 42), 0);
    assert_string_equal(buf_text(&b) + 10000, "x-42");
}

TEST(the_maximum_holds_and_a_refused_append_changes_nothing)
{
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf b = {.max_bytes = 5};
    assert_int_equal(buf_appendf(&b, NULL, "%s", "123"), 0);
    assert_int_equal(buf_appendf(&b, &e, "%s", "456"), ERR_LIMIT);
    assert_string_equal(e.msg, "more than 5 bytes");
    assert_string_equal(buf_text(&b), "123");
    assert_int_equal(buf_appendf(&b, NULL, "%d", 456), ERR_LIMIT);
    assert_string_equal(buf_text(&b), "123");
    assert_int_equal(buf_appendf(&b, NULL, "%s", "45"), 0);
    assert_int_equal(buf_append(&b, "x", SIZE_MAX, NULL), ERR_LIMIT);
    assert_string_equal(buf_text(&b), "12345");
}
