/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "tests/support/case.h"

#include <errno.h>

TEST(set_fills_code_and_message_and_returns_the_code)
{
    struct err e = ERR_INIT;
    assert_int_equal(err_set(&e, ERR_PARSE, "lease '%s' has %d owners", "a", 2), ERR_PARSE);
    assert_int_equal(e.code, ERR_PARSE);
    assert_int_equal(e.sys_errno, 0);
    assert_string_equal(e.msg, "lease 'a' has 2 owners");
}

TEST(without_an_error_there_is_nothing_to_fill_or_wrap)
{
    assert_int_equal(err_set(NULL, ERR_LIMIT, "x"), ERR_LIMIT);
    assert_int_equal(err_set_errno(NULL, ERR_IO, EACCES, "x"), ERR_IO);
    assert_int_equal(err_wrap(NULL, "x"), ERR_BUG);
    struct err none = ERR_INIT;
    assert_int_equal(err_wrap(&none, "x"), ERR_BUG);
    assert_int_equal(none.code, 0);
}

TEST(set_errno_appends_what_the_system_said)
{
    struct err e = ERR_INIT;
    assert_int_equal(err_set_errno(&e, ERR_IO, ENOENT, "opening '%s'", "/x"), ERR_IO);
    assert_int_equal(e.sys_errno, ENOENT);
    assert_string_equal(e.msg, "opening '/x': No such file or directory");
    (void)err_set_errno(&e, ERR_IO, 123456, "y");
    assert_string_equal(e.msg, "y: unknown system error");
}

TEST(wrap_puts_context_in_front_and_keeps_code_and_errno)
{
    struct err e = ERR_INIT;
    (void)err_set_errno(&e, ERR_IO, EACCES, "reading");
    assert_int_equal(err_wrap(&e, "renewing lease '%s'", "a"), ERR_IO);
    assert_string_equal(e.msg, "renewing lease 'a': reading: Permission denied");
    assert_int_equal(e.sys_errno, EACCES);
}

/* It reaches Events, protobuf messages and terminals. */
TEST(a_message_is_printable_whatever_it_quotes)
{
    struct err e = ERR_INIT;
    (void)err_set(&e, ERR_PARSE, "'%.4s'", "\x1b\n\xff\xc3\xa4");
    assert_string_equal(e.msg, "'  ?\?'");
    (void)err_wrap(&e, "%s", "a\tb");
    assert_string_equal(e.msg, "a b: '  ?\?'");
    (void)err_set_errno(&e, ERR_IO, EACCES, "opening '%s'", "\a");
    assert_string_equal(e.msg, "opening ' ': Permission denied");
}

TEST(messages_are_cut_at_their_bound_and_stay_terminated)
{
    struct err e = ERR_INIT;
    char words[2 * ERR_MSG_BYTES];
    memset(words, 'a', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    (void)err_set(&e, ERR_PARSE, "%s", words);
    assert_int_equal(strlen(e.msg), ERR_MSG_BYTES - 1);
    (void)err_set_errno(&e, ERR_IO, EACCES, "%s", words);
    assert_int_equal(strlen(e.msg), ERR_MSG_BYTES - 1);
    (void)err_wrap(&e, "context");
    assert_int_equal(strlen(e.msg), ERR_MSG_BYTES - 1);
    assert_memory_equal(e.msg, "context: aaa", 12);
    (void)err_wrap(&e, "%s", words);
    assert_int_equal(strlen(e.msg), ERR_MSG_BYTES - 1);
}
