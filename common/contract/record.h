/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readiness record: one page on tmpfs through which the verdict reaches the CNI binary.
 * Encoding and decoding only; the writer is host-agent/record_writer, the reader
 * contract/record_file. Pure: no I/O, no allocation, no clock. docs/contract.md is the
 * specification.
 *
 * The page is RECORD_PAGE_BYTES of one JSON object, padded with blanks and ended by a newline, so
 * that a rewrite in place never leaves a tail behind. `crc32c` is the last member; it covers all
 * bytes of the page before the comma that precedes it. A torn page fails the checksum: read again.
 *
 * All *_until and observed times are CLOCK_BOOTTIME of the initial time namespace. The record is
 * itself a lease: writer_until is the writer's promise to have rewritten by then, hold_until bounds
 * how long a dead writer's last word counts.
 */
#ifndef CONTRACT_RECORD_H
#define CONTRACT_RECORD_H

#include "base/clock.h"
#include "base/err.h"
#include "contract/readiness.h"

#include <stddef.h>
#include <stdint.h>

enum { RECORD_PAGE_BYTES = 4096, RECORD_VERSION = 1 };

struct record {
    char node[NAMES_K8S_NAME_BYTES];
    struct readiness verdict;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    struct mono writer_until;
    struct mono hold_until;
    struct wall written;
    int32_t pid;
};

/* Fills the whole page. Errors: ERR_LIMIT if it does not fit (cannot happen with our bounds unless
 * the message escapes badly: then the message is shortened first). */
NODISCARD int record_encode(const struct record *r, char out_page[static RECORD_PAGE_BYTES],
                            struct err *e);

/*
 * Reads a page (or any text with the same content). Unknown members are ignored; version must be
 * RECORD_VERSION; the checksum must match. Errors: ERR_PARSE (also: checksum), ERR_LIMIT.
 */
NODISCARD int record_decode(const char *page, size_t len, struct record *out, struct err *e);

#endif
