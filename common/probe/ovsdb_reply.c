/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ovsdb_reply.h"

#include "base/text.h"

enum { SHOWN_BYTES = 100 };

static enum probe_outcome say_wrong(const char *what, struct json_slice seen, char *words)
{
    char shown[SHOWN_BYTES];
    text_sanitize(shown, sizeof(shown), seen.at ? seen.at : "", seen.len);
    text_format(words, PROBE_WORDS_BYTES, "%s: '%s'", what, shown);
    return PROBE_WRONG;
}

enum probe_outcome ovsdb_reply_has(const struct rpc_message *reply, const char *database,
                                   char words[static PROBE_WORDS_BYTES])
{
    if (reply->error.at) {
        return say_wrong("'list_dbs' is answered with an error", reply->error, words);
    }
    struct json_walk dbs = json_walk_start(reply->result);
    struct json_slice key;
    struct json_slice name;
    while (!dbs.is_object && json_walk_next(&dbs, &key, &name)) {
        if (json_scan_equals(name, database)) {
            return PROBE_PASSED;
        }
    }
    char what[64];
    text_format(what, sizeof(what), "database '%s' is not among those served", database);
    return say_wrong(what, reply->result, words);
}

/* The element of an array, or absent. */
static struct json_slice element(struct json_slice array, size_t index)
{
    struct json_walk walk = json_walk_start(array);
    struct json_slice key;
    struct json_slice value = {.at = NULL};
    for (size_t i = 0; i <= index; i++) {
        if (walk.is_object || !json_walk_next(&walk, &key, &value)) {
            return (struct json_slice){.at = NULL};
        }
    }
    return value;
}

/* ["map",[[KEY,VALUE],...]] (RFC 7047, section 5.1) */
static struct json_slice find_in_map(struct json_slice map, const char *key)
{
    struct json_walk pairs = json_walk_start(element(map, 1));
    struct json_slice none;
    struct json_slice pair;
    while (json_walk_next(&pairs, &none, &pair)) {
        if (json_scan_equals(element(pair, 0), key)) {
            return element(pair, 1);
        }
    }
    return (struct json_slice){.at = NULL};
}

enum probe_outcome ovsdb_reply_value(const struct rpc_message *reply, const char *column,
                                     const char *key, char *out, size_t out_bytes,
                                     char words[static PROBE_WORDS_BYTES])
{
    if (reply->error.at) {
        return say_wrong("the database answers with an error", reply->error, words);
    }
    struct json_slice rows = json_scan_member(element(reply->result, 0), "rows");
    struct json_slice map = json_scan_member(element(rows, 0), column);
    if (!json_scan_equals(element(map, 0), "map")) {
        return say_wrong("the database answers without the row that was asked for", reply->result,
                         words);
    }
    struct json_slice value = find_in_map(map, key);
    if (value.at && !json_scan_text(value, out, out_bytes)) {
        return say_wrong("the database holds a value that cannot be used", value, words);
    }
    if (!value.at) {
        out[0] = '\0';
    }
    return PROBE_PASSED;
}
