/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks an OVSDB server for one key of a map in a table with a single row, such as `external_ids` of
 * Open_vSwitch. One connection per question, one deadline over it. Loop thread only.
 */
#ifndef PROBE_OVSDB_ASK_H
#define PROBE_OVSDB_ASK_H

#include "base/attr.h"
#include "base/err.h"
#include "probe/outcome.h"

#include <stdint.h>

enum { OVSDB_ASK_VALUE_BYTES = 256 }; /* a longer value is a wrong answer */

struct ev_loop;
struct ovsdb_ask;

/* Texts are copied; database, table, column and key are plain names. */
struct ovsdb_question {
    const char *socket; /* its path */
    const char *database;
    const char *table;
    const char *column;
    const char *key;
    int64_t timeout_ns;
};

/* With PROBE_PASSED `text` is the value, "" if there is none; else it says why not. Borrowed. Must
 * not free the ask; may start it anew. */
typedef void ovsdb_ask_fn(void *user, enum probe_outcome outcome, const char *text);

/* Errors: ERR_LIMIT, ERR_NOMEM. */
NODISCARD int ovsdb_ask_new(struct ev_loop *loop, const struct ovsdb_question *question,
                            ovsdb_ask_fn *done, void *user, struct ovsdb_ask **out, struct err *e);
/* Asks once, not while it asks already; `done` may come before this returns. */
void ovsdb_ask_start(struct ovsdb_ask *ask);
void ovsdb_ask_free(struct ovsdb_ask *ask); /* accepts NULL, and one under way */

#endif
