/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_lookup.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>

/* One lookup: one request, or up to three where old versions have to be tried. */
struct lookup {
    struct claim_lookup *owner;
    struct kube_call *call;
    enum slice_version version;
    int missing; /* versions that the server does not serve */
    char ns[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    plugin_claim_fn *found;
    void *found_user;
};

static const char *const version_names[SLICE_VERSION_COUNT] = {
    [SLICE_V1] = "v1",
    [SLICE_V1BETA2] = "v1beta2",
    [SLICE_V1BETA1] = "v1beta1",
};

static int ask(struct lookup *l, struct err *e);

/* Takes `l`. */
static void finish(struct lookup *l, const json_t *claim, const struct err *why)
{
    plugin_claim_fn *found = l->found;
    void *user = l->found_user;
    free(l);
    found(user, claim, why);
}

/* The server serves this version. */
static void remember(struct lookup *l, const struct kube_response *response)
{
    struct claim_lookup *owner = l->owner;
    if (l->version != SLICE_V1 && (owner->version != l->version || l->missing > 0)) {
        owner->newest_again = mono_add(response->received_at, CLAIM_NEWEST_AGAIN_NS);
    }
    owner->version = l->version;
}

static bool is_version_missing(const struct kube_response *response)
{
    return response->http_status == 404 && !text_equal(response->reason, "NotFound");
}

static void on_answer(void *user, const struct kube_response *response)
{
    struct lookup *l = user;
    struct err e = ERR_INIT;
    l->call = NULL;
    if (is_version_missing(response)) {
        l->missing++;
        if (l->missing < SLICE_VERSION_COUNT) {
            l->version = (l->version + 1) % SLICE_VERSION_COUNT;
            if (ask(l, &e) != 0) {
                finish(l, NULL, &e);
            }
            return;
        }
    } else if (response->http_status == 404 || response->code == 0) {
        remember(l, response);
    }
    if (response->code != 0 || !response->body) {
        /* Handed on below. A missing version says nothing about the claim. */
        int code = is_version_missing(response) ? ERR_RETRY : response->code;
        (void)err_set(&e, code != 0 ? code : ERR_PARSE, "%s", response->message);
        finish(l, NULL, &e);
        return;
    }
    finish(l, response->body, NULL);
}

static int ask(struct lookup *l, struct err *e)
{
    char path[2 * NAMES_K8S_NAME_BYTES + 96];
    struct kube_request request = {.method = KUBE_GET,
                                   .channel = KUBE_CONTROL,
                                   .priority = l->owner->priority,
                                   .path = path,
                                   .deadline_ms = CLAIM_LOOKUP_DEADLINE_MS};
    text_format(path, sizeof(path), "/apis/resource.k8s.io/%s/namespaces/%s/resourceclaims/%s",
                version_names[l->version], l->ns, l->name);
    return kube_client_start(l->owner->client, &request, on_answer, l, &l->call, e);
}

static int start(void *user, const struct claim_ref *ref, plugin_claim_fn *found, void *found_user,
                 void **out_lookup, struct err *e)
{
    struct claim_lookup *owner = user;
    struct lookup *l = calloc(1, sizeof(*l));
    if (!l) {
        return err_no_memory(e);
    }
    *l = (struct lookup){
        .owner = owner, .version = owner->version, .found = found, .found_user = found_user};
    struct mono now = clock_mono_now();
    if (l->version != SLICE_V1 && mono_reached(now, owner->newest_again)) {
        owner->newest_again = mono_add(now, CLAIM_NEWEST_AGAIN_NS); /* one of many is enough */
        l->version = SLICE_V1;
    }
    /* claim_ref_check has bounded both by their grammar. */
    bool fits =
        text_copy(l->ns, sizeof(l->ns), ref->ns) && text_copy(l->name, sizeof(l->name), ref->name);
    assert(fits);
    int rc = ask(l, e);
    if (rc != 0) {
        free(l);
        return rc;
    }
    *out_lookup = l;
    return 0;
}

static void cancel(void *user, void *lookup)
{
    (void)user;
    struct lookup *l = lookup;
    kube_call_cancel(l->call);
    free(l);
}

struct plugin_claim_source claim_lookup_source(struct claim_lookup *l)
{
    return (struct plugin_claim_source){.start = start, .cancel = cancel, .user = l};
}
