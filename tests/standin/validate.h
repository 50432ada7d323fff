/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the real server refuses, refused with the same code, reason and message form.
 *
 * 400 for what cannot be decoded (types, MicroTime), 422 for what decodes and is not allowed.
 * Unlike the real server it keeps spec fields it does not know, as a newer server would.
 */
#ifndef STANDIN_VALIDATE_H
#define STANDIN_VALIDATE_H

#include "standin/api_result.h"

/* Decoding: types and timestamps; rewrites MicroTimes to UTC as the real server stores them.
 * False if refused, with the answer in `r`. */
bool validate_decode(const struct api_kind *kind, const char *version, json_t *object,
                     struct api_result *r);

/* Allowed values of a new or changed object, in its stored form. */
bool validate_object(const struct api_kind *kind, const json_t *object, struct api_result *r);

/* validate_object, and what only a new object must not have. */
bool validate_new(const struct api_kind *kind, const json_t *object, struct api_result *r);

/* What may not change. */
bool validate_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                     struct api_result *r);

#endif
