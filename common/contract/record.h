/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readiness record: one page on tmpfs through which the verdict reaches the CNI binary.
 * Its writer is host-agent/record; docs/architecture.md is the specification. Codec
 * and gate are pure; record_file.c reads the file.
 *
 * The page has always the same size, so that a rewrite in place never leaves a tail behind. The
 * record is itself a lease: writer_until is the writer's promise to have rewritten by then,
 * hold_until bounds how long a dead writer's last word counts.
 */
#ifndef CONTRACT_RECORD_H
#define CONTRACT_RECORD_H

#include "base/clock.h"
#include "base/err.h"
#include "contract/readiness.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_PAGE_BYTES = 4096, RECORD_VERSION = 1 };

/* What the host can prove, for the next process of this boot (docs/architecture.md, "The verdict"):
 * o is the readiness's `observed`. */
struct evidence {
    struct mono
        checked;      /* E, the last evidence: a renewal, or the begin of a mark that was taken */
    int64_t blind_ns; /* B, the sum of the blind spans since o */
    struct mono granted; /* N, no NotReady before: the DPU has time for a retry; 0: it needs none */
    struct mono failing; /* the begin of the first attempt since E that failed; 0: none did */
    bool has_marked;     /* may the host write? The API server has taken a mark in this boot */
};

struct record {
    char node[NAMES_K8S_NAME_BYTES];
    struct readiness readiness;
    struct evidence evidence;
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
 * Reads a page (or any text with the same content). Unknown members are ignored, and an unknown
 * reason is REASON_OTHER; version must be RECORD_VERSION, state a known one; the checksum must
 * match. Errors: ERR_PARSE (also: checksum), ERR_LIMIT.
 */
NODISCARD int record_decode(const char *page, size_t len, struct record *out, struct err *e);

/* ---- the gate --------------------------------------------------------------------------------
 *
 * May CNI go on? The reader's half: record + now -> a decision (docs/architecture.md, "How to read
 * it"). While a verdict lasts its words are the same, byte for byte: they name times, not ages. */

enum { GATE_DETAILS_BYTES = 512 };

struct gate_decision {
    bool admit;
    enum readiness_reason reason;
    char word[NAMES_REASON_BYTES];     /* of it, or, where it is REASON_OTHER, the writer's */
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

/* ---- the file --------------------------------------------------------------------------------
 *
 * Reading is bounded, and never a blocking open. */

enum {
    RECORD_FILE_MAX_BYTES = 64 << 10, /* ours is one page; another writer's may be a longer one */
    RECORD_FILE_TRIES = 5,            /* a writer that is off the CPU for longer is not at it */
};

/* As root, a file that is not root's, or that others may write, is refused. Errors, with what to do
 * about them: ERR_NOTFOUND, ERR_AUTH (whose file it is), ERR_LIMIT, ERR_PARSE, ERR_IO. */
NODISCARD int record_file_read(const char *path, struct record *out, struct err *e);

/* Reads it and asks the gate, which decides in any case. Errors: as record_file_read; `e` is not
 * NULL. */
int record_file_judge(const char *path, struct record *out_record, struct gate_decision *out,
                      struct err *e);

#endif
