/* SPDX-License-Identifier: Apache-2.0 */
/* Output of all commands: colours, documents as text, JSON and YAML. */
#ifndef DPUCTL_PRINT_H
#define DPUCTL_PRINT_H

#include "base/err.h"
#include "base/time.h"
#include "dpuctl/options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PRINT_TEXT_BYTES = 1024 };

enum print_color {
    PRINT_PLAIN,
    PRINT_GOOD,
    PRINT_BAD,
    PRINT_DOUBT,
    PRINT_FAINT,
};

/* Are colours wanted on stdout? `wanted` is an enum admin_color. */
bool print_has_color(int wanted);

/* On stdout, left-aligned in `width` columns. */
void print_cell(bool has_color, enum print_color color, const char *text, int width);

/* Of "Ready", "NotReady" and "Unknown". */
enum print_color print_state_color(const char *state);

/* ---- a document as text ---------------------------------------------------------------------- */

/* Whether `when` holds of a document. It is a list of words, all of which have to:
 *   lease.found           this member says something: true, a number of seconds, a number that is
 *                         not 0, a text, a list or an object that is not empty
 *   gate.reason=Expired   it is this text; "no" stands for false
 *   api.skew>5            it is a number, and greater (or <: less) than this whole one
 *   !WORD                 the word does not hold
 */
bool print_holds(const json_t *doc, const char *when);

/* A text with members of a document in it: "{lease.holder}". Seconds become a span of time without
 * a sign; "{api.skew+}" has one, "{api.skew-}" only a minus. True is "yes", a list its items. What
 * is not there is left out, what does not fit is cut. */
void print_fill(const json_t *doc, const char *text, char *out, size_t out_bytes);

/* A part of a page: `label`, as it is, and `text`, filled, if `when` holds. */
struct print_row {
    const char *label;
    const char *when;
    const char *text;
};

/* On stdout, of each of them if `doc` is a list; whether it was written is seen at the flush. */
void print_rows(const json_t *doc, const struct print_row *rows, size_t count, bool has_color);

typedef void print_text_fn(const struct admin_config *config, const json_t *doc);

/* On stdout as --output says: JSON, the same thing in YAML (keys are words, an array holds no
 * array), or what `print_text` makes of it. Returns the exit status: `answer`, or ADMIN_UNCLEAR if
 * it could not be written, or is NULL: a text of it is no UTF-8. */
NODISCARD int print_document(const struct admin_config *config, json_t *doc,
                             print_text_fn *print_text, enum admin_answer answer);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* On a line of stdout. Whether it was written is seen at the flush. */
void print_json_line(const json_t *json);

/* Seconds in JSON: to the millisecond is enough, and reads better. */
json_t *print_json_seconds(int64_t ns);
/* In whole seconds; null for 0. */
json_t *print_json_stamp(struct wall at);

/* A copy that can be shown, or null for NULL and "". */
json_t *print_json_text(const char *text);

/* Sets a member. Takes `value`. */
void print_json_put(json_t *object, const char *key, json_t *value);

/* Is a version of another program ("2.0.3", "v1.34.1", "1.7.27-0ubuntu1") this one or a later one?
 * Not so NULL, and what is no number. */
bool version_reaches(const char *text, const char *since);

#endif
