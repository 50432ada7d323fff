/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rpc_message.h"

#include "base/json.h"

#include <string.h>

static bool is_there(struct json_slice value)
{
    enum json_kind kind = json_scan_kind(value);
    return kind != JSON_KIND_ABSENT && kind != JSON_KIND_NULL;
}

int rpc_message_read(const char *text, size_t len, struct rpc_message *out, struct err *e)
{
    struct json_slice object;
    int rc = json_scan_check(text, len, &object, e);
    if (rc != 0) {
        return rc;
    }
    struct json_slice method = json_scan_member(object, "method");
    struct rpc_message m = {.kind = RPC_NOTICE, .id = json_scan_member(object, "id")};
    if (is_there(method)) {
        m.params = json_scan_member(object, "params");
        if (json_scan_equals(method, "echo") && is_there(m.id) && is_there(m.params)) {
            m.kind = RPC_ECHO;
        }
        *out = m;
        return 0;
    }
    m.result = json_scan_member(object, "result");
    m.error = json_scan_member(object, "error");
    if (!is_there(m.error)) {
        m.error = (struct json_slice){.at = NULL};
    }
    if (json_scan_kind(m.id) == JSON_KIND_ABSENT ||
        (!m.error.at && json_scan_kind(m.result) == JSON_KIND_ABSENT)) {
        return err_set(e, ERR_PARSE, "the object is neither a request nor an answer");
    }
    m.kind = RPC_REPLY;
    *out = m;
    return 0;
}

bool rpc_message_has_id(const struct rpc_message *m, size_t id)
{
    char digits[24] = "";
    struct json_writer w = {.out = digits, .max_bytes = sizeof(digits)};
    json_put_i64(&w, (int64_t)id);
    return m->id.len == w.used && memcmp(m->id.at, digits, w.used) == 0;
}

static void put_slice(struct json_writer *w, struct json_slice slice)
{
    if (w->overflow || slice.len > w->max_bytes - w->used) {
        w->overflow = true;
        return;
    }
    memcpy(w->out + w->used, slice.at, slice.len);
    w->used += slice.len;
}

size_t rpc_message_answer_echo(const struct rpc_message *echo, char *out, size_t out_bytes)
{
    struct json_writer w = {.out = out, .max_bytes = out_bytes};
    json_put_raw(&w, "{\"id\":");
    put_slice(&w, echo->id);
    json_put_raw(&w, ",\"result\":");
    put_slice(&w, echo->params);
    json_put_raw(&w, ",\"error\":null}");
    return w.overflow ? 0 : w.used;
}

size_t rpc_message_ask(size_t id, const char *method, const char *params_json, char *out,
                       size_t out_bytes)
{
    struct json_writer w = {.out = out, .max_bytes = out_bytes};
    json_put_raw(&w, "{\"id\":");
    json_put_i64(&w, (int64_t)id);
    json_put_raw(&w, ",\"method\":");
    json_put_text(&w, method);
    json_put_raw(&w, ",\"params\":");
    json_put_raw(&w, params_json);
    json_put_raw(&w, "}");
    return w.overflow ? 0 : w.used;
}
