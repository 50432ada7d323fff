/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim.h"

#include "base/json_text.h"
#include "base/text.h"

#include <string.h>

int claim_ref_check(const struct claim_ref *ref, struct err *e)
{
    if (!text_is_dns1123_subdomain(ref->ns) || !text_is_dns1123_subdomain(ref->name)) {
        return err_set(e, ERR_PARSE, "not the name of a claim");
    }
    if (text_is_empty(ref->uid) || strlen(ref->uid) >= NAMES_UID_BYTES) {
        return err_set(e, ERR_PARSE, "claim '%s/%s' is asked for without a UID", ref->ns,
                       ref->name);
    }
    return 0;
}

/* Copies the member if it is a text that fits; absent is "". */
static int copy_member(const json_t *object, const char *key, char *out, size_t out_bytes,
                       struct err *e)
{
    const char *text = json_text_get(object, key);
    if (!text_copy(out, out_bytes, text ? text : "")) {
        return err_set(e, ERR_LIMIT, "%s has more than %zu bytes", key, out_bytes - 1);
    }
    return 0;
}

/* What all results together make of it: the closest wins. */
static void note_use(const json_t *result, const struct claim_share *share,
                     struct claim_allocation *a)
{
    if (json_is_true(json_object_get(result, "adminAccess"))) {
        return;
    }
    if (text_is_empty(share->share_id)) {
        a->use = CLAIM_USE_ALONE;
    } else if (a->use == CLAIM_USE_ADMIN) {
        a->use = CLAIM_USE_SHARED;
    }
}

static int read_result(const json_t *result, const struct claim_target *target,
                       struct claim_allocation *a, struct err *e)
{
    char request[2 * CLAIM_REQUEST_BYTES];
    const char *pool = json_text_get(result, "pool");
    const char *device = json_text_get(result, "device");
    if (!text_equal(json_text_get(result, "driver"), target->driver)) {
        return 0;
    }
    if (!text_equal(pool, target->pool) || !text_equal(device, target->device)) {
        return err_set(e, ERR_CONFLICT, "device '%s/%s' is not on this node, which has '%s/%s'",
                       pool ? pool : "", device ? device : "", target->pool, target->device);
    }
    if (a->count == CLAIM_RESULTS_MAX) {
        return err_set(e, ERR_LIMIT, "more than %d allocation results", CLAIM_RESULTS_MAX);
    }
    struct claim_share *share = &a->shares[a->count];
    int rc = copy_member(result, "request", request, sizeof(request), e);
    if (rc != 0) {
        return rc;
    }
    request[strcspn(request, "/")] = '\0'; /* the kubelet compares base names */
    if (!text_copy(share->request, sizeof(share->request), request)) {
        return err_set(e, ERR_LIMIT, "request '%s' has more than %d bytes", request,
                       CLAIM_REQUEST_BYTES - 1);
    }
    rc = copy_member(result, "shareID", share->share_id, sizeof(share->share_id), e);
    if (rc == 0) {
        note_use(result, share, a);
        a->count++;
    }
    return rc;
}

int claim_read(const json_t *claim, const struct claim_ref *ref, const struct claim_target *target,
               struct claim_allocation *out, struct err *e)
{
    const json_t *metadata = json_object_get(claim, "metadata");
    const char *uid = json_text_get(metadata, "uid");
    const json_t *allocation = json_object_get(json_object_get(claim, "status"), "allocation");
    const json_t *results = json_object_get(json_object_get(allocation, "devices"), "results");
    struct claim_allocation a = {.use = CLAIM_USE_ADMIN};
    size_t index;
    const json_t *result;
    if (!text_equal(json_text_get(claim, "kind"), "ResourceClaim") || !uid) {
        return err_set(e, ERR_PARSE, "the answer for claim '%s/%s' is no ResourceClaim", ref->ns,
                       ref->name);
    }
    if (!text_equal(uid, ref->uid)) {
        return err_set(e, ERR_GONE, "claim '%s/%s' was replaced: it has UID '%s', not '%s'",
                       ref->ns, ref->name, uid, ref->uid);
    }
    if (!json_is_array(results)) {
        return err_set(e, ERR_RETRY, "claim '%s/%s' is not allocated", ref->ns, ref->name);
    }
    json_array_foreach(results, index, result)
    {
        int rc = read_result(result, target, &a, e);
        if (rc != 0) {
            (void)err_wrap(e, "claim '%s/%s'", ref->ns, ref->name); /* rc is the code */
            return rc;
        }
    }
    if (a.count == 0) {
        return err_set(e, ERR_NOTFOUND, "claim '%s/%s' has nothing allocated from driver '%s'",
                       ref->ns, ref->name, target->driver);
    }
    *out = a;
    return 0;
}
