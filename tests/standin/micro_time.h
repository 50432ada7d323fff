/* SPDX-License-Identifier: Apache-2.0 */
/* metav1.MicroTime as the real server's decoder (Go's time.Parse) takes it and refuses it. Pure. */
#ifndef STANDIN_MICRO_TIME_H
#define STANDIN_MICRO_TIME_H

#include "base/attr.h"
#include "base/err.h"

enum { MICRO_TIME_BYTES = 48, MICRO_TIME_FAULT_BYTES = 512 };

/*
 * `out_utc` gets the stored form, "2006-01-02T15:04:05.000000Z", or "" for the zero time, which is
 * stored as null. On ERR_PARSE `out_fault` has Go's words.
 */
NODISCARD int micro_time_decode(const char *text, char out_utc[static MICRO_TIME_BYTES],
                                char out_fault[static MICRO_TIME_FAULT_BYTES]);

#endif
