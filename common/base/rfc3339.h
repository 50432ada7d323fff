/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 3339 timestamps, as Kubernetes writes and reads them. Pure.
 *
 * Writing is strict: MicroTime needs EXACTLY six fractional digits, a real API server answers 400
 * to anything else (apimachinery meta/v1 micro_time.go). Reading is generous: 0 to 9 digits and
 * any offset, because other writers exist.
 */
#ifndef BASE_RFC3339_H
#define BASE_RFC3339_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mono.h"

#include <stddef.h>

enum { RFC3339_BYTES = 48 }; /* room for either form and its terminator */

/* "2026-11-20T10:00:00.123456Z" (metav1.MicroTime). Years 0001 to 9999; others are clamped. */
void rfc3339_format_micro(struct wall t, char out[static RFC3339_BYTES]);

/* "2026-11-20T10:00:00Z" (metav1.Time), rounded down. */
void rfc3339_format_seconds(struct wall t, char out[static RFC3339_BYTES]);

/* Errors: ERR_PARSE; ERR_LIMIT if the time does not fit 64-bit nanoseconds (1677 to 2262). */
NODISCARD int rfc3339_parse(const char *s, size_t len, struct wall *out, struct err *e);

#endif
