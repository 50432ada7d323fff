/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lease, and what an API server might say next: the same text with other bytes in places. Where
 * comparing finds that only a version and times differ, parsing finds the same, and the renewal
 * that is edited in place is the one that is made of the tree, byte for byte.
 *
 * The input is the text, a NUL, and changes of three bytes each: where (two), and what stands
 * there.
 */
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define NOW     ((struct wall){INT64_C(1790000000123456) * 1000})
#define EARLIER ((struct wall){NOW.ns - 10 * NS_PER_SEC})

/* As dpu-agent keeps it. Returns owned, or NULL: no lease. */
static json_t *tree_of(const char *text, size_t len)
{
    struct lease_view view;
    json_t *lease = json_text_parse(text, len, NULL);
    if (lease_read(lease, &view, NULL) != 0) {
        json_decref(lease);
        return NULL;
    }
    (void)json_object_del(json_object_get(lease, "metadata"), "managedFields");
    return lease;
}

/* The long way. Returns owned. */
static char *renewal_of(const json_t *lease, struct wall now)
{
    CLEANUP(json) json_t *edited = json_deep_copy(lease);
    lease_set_renewal(edited, now, "me");
    return json_text_dump(edited);
}

static const char *version_of(const json_t *lease)
{
    return json_text_get(json_object_get(lease, "metadata"), "resourceVersion");
}

static void check_renewal(const json_t *before, const json_t *after)
{
    struct lease_text renewal = {.text = NULL};
    CLEANUP(free) char *made = renewal_of(before, EARLIER);
    CLEANUP(free) char *wanted = renewal_of(after, NOW);
    const struct rfc3339_text stamp = lease_next_stamp(after, NOW);
    if (lease_text_keep(&renewal, made, strlen(made)) &&
        lease_text_renew(&renewal, version_of(after), stamp.text)) {
        assert(text_equal(renewal.text, wanted));
        fuzz_tell(true);
    }
    lease_text_fini(&renewal);
}

static void check_next(const struct lease_text *kept, json_t *lease, const char *next)
{
    CLEANUP(json) json_t *found = tree_of(next, kept->len);
    const char *stamp = json_text_get(json_object_get(found, "spec"), "renewTime");
    CLEANUP(free)
    char *shown = mem_format("%.*s", (int)kept->stamp.len, next + kept->stamp.at);
    if (!lease_text_matches(kept, next, kept->len, shown)) {
        return;
    }
    CLEANUP(json) json_t *before = json_deep_copy(lease);
    lease_text_show(kept, next, lease);
    assert(found && json_equal(found, lease) && text_equal(stamp, shown));
    check_renewal(before, lease);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    size_t len = nul ? (size_t)(nul - data) : size;
    CLEANUP(json) json_t *lease = tree_of((const char *)data, len);
    struct lease_text kept = {.text = NULL};
    if (lease && lease_text_keep(&kept, (const char *)data, len)) {
        CLEANUP(free) char *next = mem_strdup(kept.text);
        for (size_t at = len + 1; at + 3 <= size; at += 3) {
            size_t where = (size_t)data[at] << 8 | data[at + 1];
            next[where % len] = (char)data[at + 2];
        }
        check_next(&kept, lease, next);
    }
    lease_text_fini(&kept);
    return 0;
}
