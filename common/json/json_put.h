/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into memory of the caller: the first piece that does not fit sets `overflow`, later
 * ones are ignored. CORE.
 */
#ifndef JSON_JSON_PUT_H
#define JSON_JSON_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
