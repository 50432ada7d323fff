/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/curl_version.h"
#include "tests/support/case.h"

#include <string.h>

static void add_lines(struct buf *head, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n") + 1;
        assert_true(curl_head_add(head, text, len));
        text += len;
    }
}

TEST(a_field_is_found_by_its_name)
{
    static const struct {
        const char *lines;
        bool is_found;
        const char *value; /* of Date */
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nDate: now\r\n\r\n", true, "now"},
        {"HTTP/2 200 \r\ndate: now\r\n\r\n", true, "now"},
        {"HTTP/1.1 200 OK\r\nA: b\r\nDATE:\t now \t\r\n\r\n", true, "now"},
        {"HTTP/1.1 200 OK\r\nDate:\r\n\r\n", true, ""},
        {"HTTP/1.1 200 OK\r\nDate:  \r\n\r\n", true, ""},
        {"HTTP/1.1 200 OK\r\nDate: first\r\nDate: second\r\n\r\n", true, "first"},
        {"HTTP/1.1 200 OK\r\nX-Date: now\r\nDates: now\r\nDate\r\nA: Date: now\r\n\r\n", false, ""},
        {"HTTP/1.1 200 OK\r\n\r\nDate: trailing\r\n\r\n", true, "trailing"},
        {"HTTP/1.1 100 Continue\r\nDate: interim\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false, ""},
        {"HTTP/1.1 100 Go\r\nDate: old\r\n\r\nHTTP/1.1 200 OK\r\nDate: new\r\n\r\n", true, "new"},
        {"", false, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf head = {0};
        char value[16] = "untouched";
        add_lines(&head, rows[i].lines);
        assert_int_equal(curl_head_find(&head, "Date", value, sizeof(value)), rows[i].is_found);
        assert_string_equal(value, rows[i].value);
        buf_fini(&head);
    }
}

TEST(a_head_is_bounded)
{
    CLEANUP(buf) struct buf head = {0};
    char line[1024];
    char value[8];
    memset(line, 'a', sizeof(line));
    memcpy(line, "Long: ", strlen("Long: "));
    memcpy(line + sizeof(line) - 2, "\r\n", 2);
    for (size_t i = 0; i < 2 * CURL_HEAD_MAX_BYTES / sizeof(line); i++) {
        bool is_room = (i + 1) * sizeof(line) <= CURL_HEAD_MAX_BYTES;
        assert_int_equal(curl_head_add(&head, line, sizeof(line)), is_room);
    }
    assert_true(curl_head_find(&head, "long", value, sizeof(value)));
    assert_int_equal(strlen(value), sizeof(value) - 1); /* cut to fit */
    add_lines(&head, "HTTP/1.1 200 OK\r\nDate: now\r\n");
    assert_true(curl_head_find(&head, "Date", value, sizeof(value)));
    assert_false(curl_head_find(&head, "Long", value, sizeof(value)));
}
