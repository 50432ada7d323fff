/* SPDX-License-Identifier: Apache-2.0 */
/* What can be known on the node itself, without any agent: the record, and what CNI makes of it. */
#ifndef DPUCTL_NODE_LOOK_H
#define DPUCTL_NODE_LOOK_H

#include "contract/gate.h"
#include "dpuctl/admin_options.h"

#include <limits.h>
#include <stdbool.h>

/* The answer to "is the DPU ready?", and the exit status of dpuctl status. */
enum node_answer { NODE_READY, NODE_NOT_READY, NODE_UNKNOWN };

struct node_look {
    struct mono now;
    struct wall wall;
    char path[PATH_MAX]; /* of the record, below --root */
    bool has_record;     /* it was read whole; `record` counts */
    char problem[200];   /* why not */
    struct record record;
    struct gate_decision gate; /* what dpu-gate would decide now */
    enum node_answer answer;
    struct mono since;    /* from when on that holds; 0 if it cannot be known */
    bool writer_exists;   /* the process that wrote it, and it is dpu-host-agent */
    struct mono flips_at; /* when time alone changes the gate's decision; or MONO_NEVER */
};

/* Judges the record that was last read. */
void node_look_take(const struct admin_config *config, struct node_look *out);

/* One sentence: why it is refused, why it is admitted nonetheless, or what the record says.
 * Borrowed from `look`; from outside: sanitize it. */
const char *node_look_message(const struct node_look *look);

/* The DPU's clock against ours: the stamp of its last renewal, and when that was observed. The time
 * that the news took is in it, well below a second. False if it cannot be known. */
bool node_look_dpu_skew(const struct node_look *look, int64_t *out_ns);

/* "Ready", "NotReady", "Unknown": the reader's own state, which may differ from the record's. */
const char *node_answer_name(enum node_answer answer);

#endif
