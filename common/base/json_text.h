/* SPDX-License-Identifier: Apache-2.0 */
/* JSON on jansson, which refuses more than 2048 levels, and YAML read as JSON. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

/* json_text_get returns this for a text with a NUL, so that nobody takes its first part for it. */
#define JSON_TEXT_WITH_NUL "(a text with a NUL character)"

static inline void cleanup_json(json_t **json)
{
    json_decref(*json);
}

/* Parses one JSON value, and nothing after it but blanks. Of duplicate keys the last counts. An API
 * server stores NUL in texts (\u0000): a reader that refused them would be blind to the whole
 * object. Returns owned (json_decref) or NULL. Errors: ERR_PARSE. */
json_t *json_text_parse(const char *text, size_t len, struct err *e);

/* The text of a member, or NULL if absent or not a string; JSON_TEXT_WITH_NUL for one with a NUL.
 * Borrowed from `object`. */
const char *json_text_get(const json_t *object, const char *key);

/* The first object in `list` whose member `key` is this text, or NULL. Borrowed from `list`. */
json_t *json_text_find(const json_t *list, const char *key, const char *text);

/* Compact text of a value, keys in their order. Returns owned (free). */
char *json_text_dump(const json_t *json);

/* A YAML file as JSON: each scalar is a string, but one that is plain and empty, "~" or "null"
 * (also Null, NULL), which is null. One document, nested at most 32 deep, without aliases, merge
 * keys and types that are named by a tag; no key twice. Returns owned, null for an empty file, or
 * NULL. `path` is for messages. Errors: ERR_PARSE, ERR_LIMIT, with the line and the key. */
json_t *json_text_parse_yaml(const char *path, const char *text, size_t len, struct err *e);

/* The same of the first document; what follows it does not count, and may be anything. */
json_t *json_text_parse_yaml_first(const char *path, const char *text, size_t len, struct err *e);

#endif
