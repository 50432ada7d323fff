/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/cri_message.h"

#include "base/json.h"
#include "base/text.h"
#include "grpc_proto/cri.pb-c.h"

#include <assert.h>
#include <string.h>

/* Few and small, so by hand: what comes back is protobuf-c's. */
void cri_ask(enum cri_call call, const char *id, struct cri_request *out)
{
    enum { ID = 0x0a /* field 1, bytes */, VERBOSE = 0x10 /* field 2, a number */ };
    static const uint8_t ready[] = {0x0a, 2, 0x12, 0}; /* filter { state { ready, which is 0 } } */
    static const char *const methods[] = {
        [CRI_VERSION] = "/runtime.v1.RuntimeService/Version",
        [CRI_STATUS] = "/runtime.v1.RuntimeService/Status",
        [CRI_LIST] = "/runtime.v1.RuntimeService/ListPodSandbox",
        [CRI_INSPECT] = "/runtime.v1.RuntimeService/PodSandboxStatus",
        [CRI_STOP] = "/runtime.v1.RuntimeService/StopPodSandbox",
    };
    size_t len = id ? strlen(id) : 0;
    assert(len < CRI_ID_BYTES); /* so that its length is one byte */
    *out = (struct cri_request){.method = methods[call]};
    if (call == CRI_LIST) {
        memcpy(out->bytes, ready, sizeof(ready));
        out->len = sizeof(ready);
    } else if (id) {
        out->bytes[out->len++] = ID;
        out->bytes[out->len++] = (uint8_t)len;
        memcpy(&out->bytes[out->len], id, len);
        out->len += len;
    }
    if (call == CRI_INSPECT) {
        out->bytes[out->len++] = VERBOSE;
        out->bytes[out->len++] = true;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static int unreadable(const char *what, struct err *e)
{
    return err_set(e, ERR_PARSE, "the runtime's answer to %s cannot be read", what);
}

int cri_read_version(const uint8_t *message, size_t len, struct cri_version *out, struct err *e)
{
    Cri__VersionResponse *m = cri__version_response__unpack(NULL, len, message);
    if (!m) {
        return unreadable("Version", e);
    }
    text_format(out->name, sizeof(out->name), "%s", m->runtime_name); /* a word; shown only */
    text_format(out->version, sizeof(out->version), "%s", m->runtime_version);
    cri__version_response__free_unpacked(m, NULL);
    return 0;
}

int cri_read_network(const uint8_t *message, size_t len, struct cri_network *out, struct err *e)
{
    bool is_found = false;
    Cri__StatusResponse *m = cri__status_response__unpack(NULL, len, message);
    if (!m) {
        return unreadable("Status", e);
    }
    for (size_t i = 0; m->status && i < m->status->n_conditions; i++) {
        const Cri__RuntimeCondition *c = m->status->conditions[i];
        if (text_equal(c->type, "NetworkReady")) {
            is_found = true;
            out->is_ready = c->status;
            text_format(out->reason, sizeof(out->reason), "%s", c->reason); /* shown only */
            text_format(out->message, sizeof(out->message), "%s", c->message);
        }
    }
    cri__status_response__free_unpacked(m, NULL);
    return is_found ? 0 : err_set(e, ERR_NOTFOUND, "the runtime has no condition NetworkReady");
}

/* False for one without a usable id or pod: it could be neither named nor asked about. */
static bool take_sandbox(const Cri__Sandbox *from, struct cri_sandbox *out)
{
    const Cri__SandboxMetadata *pod = from->metadata;
    out->made = (struct wall){from->created_at};
    return from->state == CRI__SANDBOX_STATE__READY && pod && from->id[0] != '\0' &&
           text_copy(out->id, sizeof(out->id), from->id) &&
           text_copy(out->ns, sizeof(out->ns), pod->namespace_) &&
           text_copy(out->name, sizeof(out->name), pod->name) &&
           text_copy(out->uid, sizeof(out->uid), pod->uid) && text_is_dns1123_subdomain(out->ns) &&
           text_is_dns1123_subdomain(out->name);
}

int cri_read_list(const uint8_t *message, size_t len, cri_sandbox_fn *each, void *user,
                  struct err *e)
{
    int rc = 0;
    Cri__ListResponse *m = cri__list_response__unpack(NULL, len, message);
    if (!m) {
        return unreadable("ListPodSandbox", e);
    }
    if (m->n_items > CRI_SANDBOXES_MAX) {
        rc = err_set(e, ERR_LIMIT, "the runtime has %zu sandboxes, more than %d", m->n_items,
                     (int)CRI_SANDBOXES_MAX);
    }
    for (size_t i = 0; rc == 0 && i < m->n_items; i++) {
        struct cri_sandbox sandbox;
        if (take_sandbox(m->items[i], &sandbox)) {
            each(user, &sandbox);
        }
    }
    cri__list_response__free_unpacked(m, NULL);
    return rc;
}

static int32_t find_pid(struct json_slice info)
{
    int64_t pid;
    struct json_slice value = json_scan_member(info, "pid");
    bool is_told = value.at && text_to_i64(value.at, value.len, &pid, NULL) == 0 && pid > 0 &&
                   pid <= INT32_MAX;
    return is_told ? (int32_t)pid : 0;
}

static void find_netns(struct json_slice info, char out[static CRI_PATH_BYTES])
{
    struct json_slice spec = json_scan_member(info, "runtimeSpec");
    struct json_walk w =
        json_walk_start(json_scan_member(json_scan_member(spec, "linux"), "namespaces"));
    while (json_walk_next(&w)) {
        if (json_scan_equals(json_scan_member(w.value, "type"), "network") &&
            (!json_scan_text(json_scan_member(w.value, "path"), out, CRI_PATH_BYTES) ||
             out[0] != '/')) {
            out[0] = '\0';
        }
    }
}

/* Both runtimes put JSON into the entry "info": the pid, and the OCI runtime's configuration. CRI-O
 * has no pid where no process holds a sandbox's namespaces, as by default (drop_infra_ctr). */
static void take_info(const Cri__SandboxStatusResponse *m, struct cri_detail *out)
{
    for (size_t i = 0; i < m->n_info; i++) {
        struct json_slice object;
        const char *text = m->info[i]->value;
        if (text_equal(m->info[i]->key, "info") &&
            json_scan_check(text, strlen(text), &object, NULL) == 0) {
            out->pid = find_pid(object);
            find_netns(object, out->netns);
        }
    }
}

static bool has_host_network(const Cri__SandboxStatus *status)
{
    const Cri__Namespaces *namespaces =
        status->linux_status ? status->linux_status->namespaces : NULL;
    return namespaces && namespaces->options &&
           namespaces->options->network == CRI__NAMESPACE_MODE__NODE;
}

int cri_read_detail(const uint8_t *message, size_t len, struct cri_detail *out, struct err *e)
{
    Cri__SandboxStatusResponse *m = cri__sandbox_status_response__unpack(NULL, len, message);
    if (!m || !m->status) {
        cri__sandbox_status_response__free_unpacked(m, NULL);
        return unreadable("PodSandboxStatus", e);
    }
    *out = (struct cri_detail){.has_host_network = has_host_network(m->status)};
    take_info(m, out);
    cri__sandbox_status_response__free_unpacked(m, NULL);
    return 0;
}
