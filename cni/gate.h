/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May CNI go on? The reader's half of the readiness record: record + now -> a decision. CORE.
 *
 * The record is itself a lease (docs/record-format.md):
 *   admitting, before valid_until                     pass
 *   admitting, past valid_until, before writer_until  the lease ran out and its writer is alive:
 * fail admitting, past both, before hold_until           the writer is dead, its last word holds:
 * pass past hold_until                                   RecordStale: fail not admitting fail at
 * any age another boot's, or from the future                RecordInvalid: fail
 */
#ifndef CNI_GATE_H
#define CNI_GATE_H

#include "contract/record.h"

#include <stdbool.h>

enum { GATE_DETAILS_BYTES = 512 };

struct gate_decision {
    bool admit;
    enum readiness_reason reason;
    char message[NAMES_MESSAGE_BYTES]; /* without "DPU Not Ready: "; "" if admitted */
    char details[GATE_DETAILS_BYTES];  /* reason, age, file: for people */
    char note[NAMES_MESSAGE_BYTES];    /* admitted, but worth a line on stderr; "" otherwise */
};

/* `path` is named in the words; `boot_id` is this boot's. */
void gate_judge(const struct record *record, const char *boot_id, struct mono now, const char *path,
                struct gate_decision *out);

/* There is no usable record: `reason` is RECORD_MISSING or RECORD_INVALID, `why` says more. */
void gate_refuse(enum readiness_reason reason, const char *why, const char *path,
                 struct gate_decision *out);

#endif
