/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/page.h"

#include <stdbool.h>
#include <string.h>

/* Bytes of the escape sequence (CSI ... letter) at `s`; 0 if there is none. */
static size_t escape_len(const char *s, size_t len)
{
    if (len < 2 || s[0] != '\033' || s[1] != '[') {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (s[i] >= '@' && s[i] <= '~') {
            return i + 1;
        }
    }
    return len;
}

/* Columns that a word takes. */
static size_t word_columns(const char *word, size_t len)
{
    size_t columns = 0;
    for (size_t i = 0; i < len;) {
        size_t escape = escape_len(word + i, len - i);
        bool goes_on = ((unsigned char)word[i] & 0xc0) == 0x80; /* within a UTF-8 sequence */
        columns += escape == 0 && !goes_on;
        i += escape > 0 ? escape : 1;
    }
    return columns;
}

static void pad(size_t count, FILE *out)
{
    (void)fprintf(out, "%*s", (int)count, ""); /* a screen's width at most */
}

struct line {
    size_t columns; /* so far */
    size_t indent;  /* of what follows below */
    bool is_begun;  /* a word is there: it can be broken before the next */
};

/* One word and the blanks before it. Returns their bytes. */
static size_t put_word(struct line *line, const char *at, size_t columns, FILE *out)
{
    size_t blanks = strspn(at, " ");
    size_t len = strcspn(at + blanks, " \t\n");
    size_t wide = word_columns(at + blanks, len);
    if (line->columns == 0) {
        line->indent = blanks;
    }
    if (line->is_begun && wide > 0 && line->columns + blanks + wide > columns) {
        (void)fputc('\n', out);
        pad(line->indent, out);
        line->columns = line->indent;
    } else {
        pad(blanks, out);
        line->columns += blanks;
    }
    (void)fwrite(at + blanks, 1, len, out);
    line->columns += wide;
    line->is_begun = line->is_begun || wide > 0;
    return blanks + len;
}

void page_wrap(const char *text, size_t columns, FILE *out)
{
    struct line line = {0};
    for (const char *at = text; *at;) {
        if (*at == '\n') {
            (void)fputc('\n', out);
            line = (struct line){0};
            at++;
        } else if (*at == '\t') {
            pad(line.columns < PAGE_TAB ? PAGE_TAB - line.columns : 1, out);
            line = (struct line){.columns = PAGE_TAB, .indent = PAGE_TAB};
            at++;
        } else {
            at += put_word(&line, at, columns, out);
        }
    }
}
