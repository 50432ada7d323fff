/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device attributes: what a claim's selector can ask for. Pure.
 *
 * Strings, given as NAME=VALUE. The API server refuses a slice with one attribute it does not like,
 * so each is checked by its rules here, at start, where somebody reads the message (resource/v1
 * validation).
 */
#ifndef DRA_ATTRIBUTE_H
#define DRA_ATTRIBUTE_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

enum {
    ATTRIBUTES_MAX = 32,
    ATTRIBUTE_NAME_BYTES = 97, /* a domain of 63, '/', an identifier of 32 */
    ATTRIBUTE_TEXT_BYTES = 65,
};

struct attribute {
    char name[ATTRIBUTE_NAME_BYTES];
    char text[ATTRIBUTE_TEXT_BYTES];
};

/* Zero-initialise. */
struct attribute_list {
    struct attribute items[ATTRIBUTES_MAX];
    size_t count;
};

/* Errors: ERR_PARSE. */
NODISCARD int attribute_parse(const char *text, struct attribute *out, struct err *e);

/* Replaces one of the same name. Errors: ERR_LIMIT. */
NODISCARD int attribute_list_set(struct attribute_list *list, const struct attribute *attribute,
                                 struct err *e);

/* Cuts the text to what the API takes. Errors: ERR_PARSE (name), ERR_LIMIT. */
NODISCARD int attribute_list_set_text(struct attribute_list *list, const char *name,
                                      const char *text, struct err *e);

#endif
