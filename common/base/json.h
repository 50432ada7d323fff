/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as bytes: checks a text once, then finds members by where they stand, so that they are
 * passed on byte for byte. CORE: no allocation, no recursion, time linear in the text.
 *
 * It accepts what Go's encoding/json accepts, no more and no less, because container runtimes and
 * CNI plugins are written in Go: their depth, numbers of any size, and texts with NUL, half
 * surrogate pairs or invalid UTF-8 (Go reads U+FFFD there).
 *
 * Slices are borrowed from the text. The other functions expect a slice out of json_scan_check or
 * one inside it; given other bytes they stay within them.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limit of Go's own reader: nothing deeper could have been read by any plugin. */
enum { JSON_SCAN_MAX_DEPTH = 10000 };

/* One value with neither blanks before nor after; a text with its quotes. {NULL, 0}: absent. */
struct json_slice {
    const char *at;
    size_t len;
};

/* Of a value, by its first character; any other: a number. */
enum json_kind {
    JSON_KIND_ABSENT,
    JSON_KIND_NULL = 'n',
    JSON_KIND_TRUE = 't',
    JSON_KIND_FALSE = 'f',
    JSON_KIND_TEXT = '"',
    JSON_KIND_ARRAY = '[',
    JSON_KIND_OBJECT = '{',
};

/* Checks the whole text: one value, and blanks. Errors: ERR_PARSE with the place, ERR_LIMIT with
 * the depth. */
NODISCARD int json_scan_check(const char *text, size_t len, struct json_slice *out, struct err *e);

enum json_kind json_scan_kind(struct json_slice value);

/* ---- members --------------------------------------------------------------------------------- */

/* for (struct json_walk w = json_walk_start(container); json_walk_next(&w);) ... */
struct json_walk {
    struct json_slice key; /* absent in an array */
    struct json_slice value;
    const char *at;
    const char *end;
    bool is_object;
};

/* Steps through an object or an array; anything else is taken for an empty one. */
struct json_walk json_walk_start(struct json_slice container);
/* False, and nothing is there, behind the last. */
NODISCARD bool json_walk_next(struct json_walk *w);

size_t json_scan_count(struct json_slice container);
/* The value at this place, from 0, of an array or an object. */
struct json_slice json_scan_item(struct json_slice container, size_t index);

/* The member of exactly this name, the last one of several: what Go finds in a map. */
struct json_slice json_scan_member(struct json_slice object, const char *name);

/* A text as Go reads it into a struct, which is how plugins read their configuration: the name
 * matches in letters of either case, the last match counts, null counts for nothing. *out is absent
 * if there is none. Returns false if any match is neither text nor null: an error in Go. */
NODISCARD bool json_scan_field(struct json_slice object, const char *name, struct json_slice *out);

/* ---- texts ----------------------------------------------------------------------------------- */

/* The characters of a text, terminated. U+FFFD replaces characters that a C text cannot hold (NUL,
 * half a surrogate pair, invalid UTF-8). Returns whether `out` is the whole text, unchanged: false
 * for other kinds, too. Fills `out` in any case. */
bool json_scan_text(struct json_slice text, char *out, size_t out_bytes);

/* `text` says `word` (which is plain ASCII); json_scan_folds: in letters of either case, by Go's
 * rule. */
bool json_scan_equals(struct json_slice text, const char *word);
bool json_scan_folds(struct json_slice text, const char *word);

/* The order of two texts by their characters: <0, 0, >0. */
int json_scan_compare(struct json_slice a, struct json_slice b);

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes into memory of the caller: the first piece that does not fit sets `overflow`. */
struct json_writer {
    char *out; /* borrowed; not terminated */
    size_t max_bytes;
    size_t used;
    bool overflow;
};

void json_put_raw(struct json_writer *w, const char *text);
void json_put_text(struct json_writer *w, const char *text); /* quoted and escaped */
void json_put_i64(struct json_writer *w, int64_t value);

#endif
