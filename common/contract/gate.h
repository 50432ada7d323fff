/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May CNI go on? The reader's half of the readiness record: record + now -> a decision. CORE.
 *
 * The record is itself a lease (docs/contract.md). Judged from the top:
 *  - of another boot, or observed in the future          RecordInvalid: refused
 *  - NotReady, or not admitting                          refused at any age, in its own words
 *  - before writer_until                                 its writer lives: admitted
 *  - before hold_until                                   its writer is dead: held, with a note
 *  - later                                               RecordStale: refused
 * A living writer says itself that the DPU is NotReady; no reader condemns.
 * While a verdict lasts its words are the same, byte for byte: they name times, not ages.
 */
#ifndef CONTRACT_GATE_H
#define CONTRACT_GATE_H

#include "contract/record.h"

#include <stdbool.h>

enum { GATE_DETAILS_BYTES = 512 };

struct gate_decision {
    bool admit;
    enum readiness_reason reason;
    char message[NAMES_MESSAGE_BYTES]; /* without "DPU Not Ready: "; "" if admitted */
    char details[GATE_DETAILS_BYTES];  /* reason, since when, file */
    char note[NAMES_MESSAGE_BYTES];    /* admitted, but worth a line on stderr; "" otherwise */
};

/* `path` is named in the words; `boot_id` is this boot's. */
void gate_judge(const struct record *record, const char *boot_id, struct mono now, const char *path,
                struct gate_decision *out);

/* There is no usable record: `reason` is REASON_RECORD_MISSING, or REASON_RECORD_INVALID because
 * of `why`, which also says what to do. */
void gate_refuse(enum readiness_reason reason, const char *why, const char *path,
                 struct gate_decision *out);

/* What CNI STATUS answers: 0, 50 (the plugin is not available), or 51 where running pods are hit,
 * too (CNI 1.1.0). */
int gate_status_code(const struct gate_decision *decision);

#endif
