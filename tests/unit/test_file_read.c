/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/attr.h"
#include "base/mem.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 16 };

static char directory[] = "/tmp/dpu-file-read-XXXXXX";

static void make(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(what_can_be_read_is_read_whole)
{
    static const struct {
        const char *path;
        int code;
        const char *text; /* or a part of what is said */
    } rows[] = {
        {"full", 0, "0123456789abcdef"},  {"empty", 0, ""},
        {"link", 0, "0123456789abcdef"},  {"/proc/sys/kernel/ostype", 0, "Linux\n"},
        {"long", ERR_LIMIT, "'long'"},    {"none", ERR_NOTFOUND, "'none'"},
        {"full/x", ERR_NOTFOUND, "full"}, {"loop", ERR_IO, "'loop'"},
        {".", ERR_IO, "regular"},         {"/dev/zero", ERR_IO, "regular"},
        {"fifo", ERR_IO, "regular"},
    };
    make("full", "0123456789abcdef");
    make("long", "0123456789abcdefg");
    make("empty", "");
    assert_int_equal(symlink("full", "link"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        CLEANUP(buf) struct buf out;
        buf_init(&out, MAX_BYTES);
        assert_int_equal(file_read(rows[i].path, &out, &e), rows[i].code);
        if (rows[i].code == 0) {
            assert_string_equal(buf_text(&out), rows[i].text);
        } else {
            assert_non_null(strstr(e.msg, rows[i].text));
        }
    }
}

static int enter(void **state)
{
    (void)state;
    return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    static const char *const names[] = {"full", "long", "empty", "link", "loop", "fifo"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)unlink(names[i]);
    }
    return chdir("/") == 0 ? rmdir(directory) : -1;
}

TEST_GROUP(enter, leave)
