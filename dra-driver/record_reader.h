/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict, as a reader of the record follows it: the same code reads and judges it as
 * dpu-gate's (contract/record.h), inotify says when to look, and the record's own times end what a
 * dead writer left. Knows nothing of DRA. Loop thread only.
 *
 *     what there is                          what is told
 *     a record that its writer stands behind  its verdict
 *     the writer is overdue (writerUntil)     Unknown, RecordStale; Pods are admitted as before
 *     and nobody counts on it (holdUntil)     Unknown, RecordStale; Pods are rejected
 *     none, or one that cannot be used        Unknown, RecordMissing or RecordInvalid; rejected
 *
 * Pods are admitted exactly while dpu-gate would admit them.
 */
#ifndef DRA_DRIVER_RECORD_READER_H
#define DRA_DRIVER_RECORD_READER_H

#include "base/time.h"
#include "contract/record.h"

struct ev_loop;
struct record_reader;

/* Without inotify, without the record's directory, or while it cannot read the record, it looks so
 * often. */
#define RECORD_LOOK_NS (NS_PER_SEC)

/* Each verdict that differs from the one before, in whatever way a reader may care for; from the
 * loop. Borrowed. */
typedef void record_verdict_fn(void *user, const struct readiness *verdict);

/* `path` is borrowed. The first verdict comes from the loop's first turn. */
struct record_reader *record_reader_start(struct ev_loop *loop, const char *path,
                                          record_verdict_fn *on_verdict, void *user);
void record_reader_stop(struct record_reader *r); /* accepts NULL */
/* At once, and tells what differs: its own timer may be one of several that are due. */
void record_reader_look(struct record_reader *r);

/* The present verdict; Unknown before the first. Borrowed. */
const struct readiness *record_reader_verdict(const struct record_reader *r);

/* What a record, or the lack of one, tells at that time: the table above, without I/O. `judged` is
 * the gate's decision on it, `record` NULL where there is none. *out_until is when the same record
 * tells something else, MONO_NEVER if never. Its transition is 0 where no record has it. */
void record_reader_judge(const struct record *record, const struct gate_decision *judged,
                         struct mono now, struct readiness *out, struct mono *out_until);

#endif
