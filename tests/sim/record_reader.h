/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's own reader of the readiness record, from docs/contract.md. */
#ifndef TESTS_SIM_RECORD_READER_H
#define TESTS_SIM_RECORD_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_READER_TEXT_BYTES = 64 };

struct record_read {
    char state[RECORD_READER_TEXT_BYTES];
    char reason[RECORD_READER_TEXT_BYTES];
    char boot_id[RECORD_READER_TEXT_BYTES];
    char dpu_boot_id[RECORD_READER_TEXT_BYTES];     /* "" if it does not say */
    char dpu_reboot_time[RECORD_READER_TEXT_BYTES]; /* same */
    bool admit;
    int64_t observed_ns;
    int64_t lease_until_ns;
    int64_t writer_until_ns;
    int64_t hold_until_ns;
};

/* What is wrong with it, or NULL. */
const char *record_reader_decode(const char *page, size_t len, struct record_read *out);
/* Whether a reader admits at `boot_ns`, by the rules of the page: `out_reason` says why (not). */
bool record_reader_judge(const struct record_read *r, const char *boot_id, int64_t boot_ns,
                         const char **out_reason);

#endif
