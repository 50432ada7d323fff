/* SPDX-License-Identifier: Apache-2.0 */
/* What an OVSDB server answers (RFC 7047) to the two questions that we have. CORE. */
#ifndef PROBE_OVSDB_REPLY_H
#define PROBE_OVSDB_REPLY_H

#include "probe/outcome.h"
#include "probe/rpc_message.h"

#include <stddef.h>

/* To list_dbs: PROBE_PASSED if `database` is among them, else PROBE_WRONG with `words`. */
enum probe_outcome ovsdb_reply_has(const struct rpc_message *reply, const char *database,
                                   char words[static PROBE_WORDS_BYTES]);

/* To a select of the map `column` of a table with one row: PROBE_PASSED and the value of `key`, ""
 * if there is none or it is empty; else PROBE_WRONG with `words`. A value that does not fit is
 * wrong. */
enum probe_outcome ovsdb_reply_value(const struct rpc_message *reply, const char *column,
                                     const char *key, char *out, size_t out_bytes,
                                     char words[static PROBE_WORDS_BYTES]);

#endif
