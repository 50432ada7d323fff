/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/json_print.h"

#include "base/cleanup.h"
#include "json/json_text.h"

#include <stdint.h>
#include <stdlib.h>

/* YAML takes what JSON says of a text, a number or a word as it is. */
static bool put_scalar(const json_t *value, FILE *out)
{
    return fputc(' ', out) != EOF &&
           json_dumpf(value, out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12)) == 0 &&
           fputc('\n', out) != EOF;
}

static bool put_members(const json_t *object, int indent, FILE *out);

static bool put_items(const json_t *array, int indent, FILE *out)
{
    size_t index;
    const json_t *item;
    json_array_foreach(array, index, item)
    {
        bool is_object = json_object_size(item) > 0;
        if (fprintf(out, is_object ? "%*s- " : "%*s-", indent, "") < 0 ||
            !(is_object ? put_members(item, indent + 2, out) : put_scalar(item, out))) {
            return false;
        }
    }
    return true;
}

/* What stands behind "key:". */
static bool put_value(const json_t *value, int indent, FILE *out)
{
    if (json_object_size(value) > 0) {
        return fprintf(out, "\n%*s", indent + 2, "") > 0 && put_members(value, indent + 2, out);
    }
    if (json_array_size(value) > 0) {
        return fputc('\n', out) != EOF && put_items(value, indent, out);
    }
    return put_scalar(value, out);
}

/* The members of an object, the first on the line that was begun. */
static bool put_members(const json_t *object, int indent, FILE *out)
{
    json_t *members = (json_t *)(uintptr_t)object; /* iterated only */
    const char *key;
    const json_t *value;
    int before = 0;
    json_object_foreach(members, key, value)
    {
        if (fprintf(out, "%*s%s:", before, "", key) < 0 || !put_value(value, indent, out)) {
            return false;
        }
        before = indent;
    }
    return true;
}

bool json_print(json_t *json, bool as_yaml, FILE *out)
{
    CLEANUP(json) json_t *whole = json;
    if (!whole) {
        return false;
    }
    if (as_yaml) {
        return put_members(whole, 0, out) && fflush(out) == 0;
    }
    return json_dumpf(whole, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12)) ==
               0 &&
           fputc('\n', out) != EOF && fflush(out) == 0;
}
