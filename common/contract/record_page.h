/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON on one page without an allocator: a writer with a bound and a reader over bytes. Just what
 * the readiness record needs. CORE.
 */
#ifndef CONTRACT_RECORD_PAGE_H
#define CONTRACT_RECORD_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writing: the first value that does not fit sets `overflow`, later ones are ignored ---------
 */

struct record_writer {
    char *page;
    size_t max_bytes;
    size_t used;
    bool overflow;
};

void record_put_raw(struct record_writer *w, const char *text);
void record_put_text(struct record_writer *w, const char *text); /* quoted and escaped */
void record_put_i64(struct record_writer *w, int64_t value);

/* ---- reading: the first surprise sets `failed`, later reads do nothing --------------------------
 */

struct record_reader {
    const char *at;
    const char *end;
    bool failed;
};

/* Takes `c` after blanks. Returns whether it was there; does not fail if not. */
bool record_take(struct record_reader *r, char c);
/* Like record_take, but fails. */
void record_expect(struct record_reader *r, char c);
/* A string, unescaped; fails if it does not fit or holds a NUL, a control character or half a
 * surrogate pair. */
void record_take_text(struct record_reader *r, char *out, size_t out_bytes);
/* An integer; fractions and exponents fail. */
int64_t record_take_i64(struct record_reader *r);
bool record_take_bool(struct record_reader *r);
/* Any value, of at most 16 levels. */
void record_skip_value(struct record_reader *r);

#endif
