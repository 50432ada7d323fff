/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML file as JSON: each scalar is a string, but one that is plain and empty, "~" or "null",
 * which is null. One document, nested at most 32 deep, without aliases; no key twice.
 */
#ifndef LOOP_YAML_JSON_H
#define LOOP_YAML_JSON_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

/* Returns owned, null for an empty file, or NULL. `path` is for messages. Errors: ERR_PARSE,
 * ERR_LIMIT, with the line. */
json_t *yaml_json_parse(const char *path, const char *text, size_t len, struct err *e);

#endif
