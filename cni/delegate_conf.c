/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate_conf.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define OWN_TYPE "dpu-gate"

enum { QUOTES_BYTES = 2 };

/* ---- putting it together --------------------------------------------------------------------- */

struct member {
    struct json_slice key;
    struct json_slice value;
    size_t rank; /* of those of one name, the highest counts */
};

struct members {
    struct member *list;
    size_t count;
};

static bool is_any(struct json_slice key)
{
    (void)key;
    return true;
}

/* What the runtime injects: its word is newer than what the delegate's configuration says. */
static bool is_from_runtime(struct json_slice key)
{
    static const char *const names[] = {"name", "cniVersion", "prevResult", "runtimeConfig",
                                        "args"};
    static const char prefix[] = "\"cni.dev/";
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (json_scan_equals(key, names[i])) {
            return true;
        }
    }
    return key.len >= sizeof(prefix) && memcmp(key.at, prefix, sizeof(prefix) - 1) == 0;
}

/* A device id from Multus, for one: the delegate's, unless it has one. */
static bool is_unknown(struct json_slice key)
{
    return !conf_owns_key(key);
}

/* `all` has room for them. */
static void collect(struct members *all, struct json_slice object,
                    bool (*is_wanted)(struct json_slice key))
{
    struct json_walk w = json_walk_start(object);
    struct member m = {.rank = all->count};
    for (; json_walk_next(&w, &m.key, &m.value); m.rank = all->count) {
        if (is_wanted(m.key)) {
            all->list[all->count++] = m;
        }
    }
}

static int compare(const void *a, const void *b)
{
    const struct member *ma = a;
    const struct member *mb = b;
    int order = json_scan_compare(ma->key, mb->key);
    return order != 0 ? order : (ma->rank > mb->rank) - (ma->rank < mb->rank);
}

static int put_members(const struct members *all, struct buf *out, struct err *e)
{
    int rc = buf_append_text(out, "{", e);
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        const struct member *m = &all->list[i];
        if (i + 1 < all->count && json_scan_compare(m->key, m[1].key) == 0) {
            continue; /* a later one counts */
        }
        rc = buf_appendf(out, e, "%s%.*s:", out->len > 1 ? "," : "", (int)m->key.len, m->key.at);
        if (rc == 0) {
            rc = buf_append(out, m->value.at, m->value.len, e);
        }
    }
    if (rc != 0) {
        return rc;
    }
    return buf_append_text(out, "}", e);
}

static int merge(struct json_slice ours, struct json_slice delegate, struct buf *out, struct err *e)
{
    size_t most = 2 * json_scan_count(ours) + json_scan_count(delegate);
    CLEANUP(free) struct member *list = calloc(most + 1, sizeof(*list));
    struct members all = {.list = list};
    if (!list) {
        return err_no_memory(e);
    }
    collect(&all, ours, is_unknown);
    collect(&all, delegate, is_any);
    collect(&all, ours, is_from_runtime);
    qsort(all.list, all.count, sizeof(*all.list), compare);
    return put_members(&all, out, e);
}

/* ---- who it is ------------------------------------------------------------------------------- */

static int check_type(const struct cni_conf *conf, struct json_slice delegate,
                      char out_type[static DELEGATE_TYPE_BYTES], struct cni_error *error)
{
    const int invalid = CNI_INVALID_CONFIG;
    char own[DELEGATE_TYPE_BYTES] = "";
    struct json_slice type;
    struct json_slice own_type;
    if (!json_scan_field(delegate, "type", &type) || type.len <= QUOTES_BYTES) {
        return cni_fail(error, invalid, "", "the delegate has no type");
    }
    if (type.len - QUOTES_BYTES >= DELEGATE_TYPE_BYTES) {
        return cni_fail(error, invalid, "",
                        "the delegate's type is of %zu bytes, the name of a program has at most %d",
                        type.len - QUOTES_BYTES, DELEGATE_TYPE_BYTES - 1);
    }
    if (!json_scan_text(type, out_type, DELEGATE_TYPE_BYTES) || strchr(out_type, '/') ||
        text_equal(out_type, ".") || text_equal(out_type, "..")) {
        return cni_fail(error, invalid, "", "invalid plugin name: %s", out_type);
    }
    if (json_scan_field(conf->object, "type", &own_type)) {
        (void)json_scan_text(own_type, own, sizeof(own)); /* a longer one is not the delegate's */
    }
    /* A gate behind a gate, each reading the other's file, would go on for ever. */
    if (text_equal(out_type, OWN_TYPE) || text_equal(out_type, own) ||
        json_scan_member(delegate, "delegateConf").len > 0) {
        return cni_fail(
            error, invalid, "",
            "the delegate '%s' is " OWN_TYPE " itself, or has a delegateConf of its own", out_type);
    }
    return 0;
}

bool delegate_conf_is_usable(struct json_slice plugin)
{
    struct json_slice type;
    return json_scan_field(plugin, "type", &type) && type.len > QUOTES_BYTES &&
           !json_scan_equals(type, OWN_TYPE) && json_scan_member(plugin, "delegateConf").len == 0;
}

int delegate_conf_make(const struct cni_conf *conf, struct json_slice delegate, struct buf *out,
                       char out_type[static DELEGATE_TYPE_BYTES], struct cni_error *error)
{
    struct err e = ERR_INIT;
    if (merge(conf->object, delegate, out, &e) != 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "making the delegate's configuration: %s",
                        e.msg);
    }
    struct json_slice made = {.at = buf_text(out), .len = out->len};
    return check_type(conf, made, out_type, error);
}
