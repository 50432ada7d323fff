/* SPDX-License-Identifier: Apache-2.0 */
/* The way to the API server and back, and what goes wrong on it. */
#include "tests/sim/agents.h"
#include "tests/sim/api.h"
#include "tests/sim/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A connection that is dead for so long is given up by the kernel. */
#define KERNEL_GIVES_UP_NS (25 * SEC)

/* As faults_on, where the answer is what becomes of a request. */
static bool strikes(enum fault_kind kind)
{
    if (faults_on(kind)) {
        faults_struck(kind);
    }
    return faults_on(kind);
}

static bool is_cut_off(const struct exchange *x)
{
    return strikes(FAULT_API_DOWN) ||
           strikes(x->proc == agents_dpu() ? FAULT_DPU_CUT : FAULT_HOST_CUT);
}

static bool is_watch(const struct exchange *x)
{
    return strstr(x->path, "watch=true") != NULL;
}

static bool is_list_or_watch(const struct exchange *x)
{
    return strcmp(x->method, "GET") == 0 && api_is_collection(x->path, strcspn(x->path, "?"));
}

static bool is_write(const struct exchange *x)
{
    return strcmp(x->method, "GET") != 0;
}

static void give_up(struct exchange *x)
{
    exchange_finish(x, EXCHANGE_RESET);
}

/* No way to the server, or back: refused, reset, or silence until somebody loses patience. */
static void lose(struct exchange *x)
{
    struct world *w = world_get();
    int64_t how = world_between(w, 0, 2);
    if (how == 0 && !x->is_connected) {
        exchange_finish(x, EXCHANGE_REFUSED);
    } else if (how == 1) {
        exchange_finish(x, EXCHANGE_RESET);
    } else {
        exchange_later(x, w->now + KERNEL_GIVES_UP_NS, give_up);
    }
}

/* ---- the way back -----------------------------------------------------------------------------
 */

static void send_text(struct exchange *x, int status, const char *type, const char *text)
{
    exchange_head(x, status, type, status == 429 ? (int)world_between(world_get(), 1, 20) : -1);
    exchange_write(x, text, strlen(text));
    exchange_finish(x, EXCHANGE_WHOLE);
}

static void send_garbage(struct exchange *x, int status, const char *text)
{
    struct world *w = world_get();
    switch (world_between(w, 0, 6)) {
    case 0:
        send_text(x, 200, "text/html", "<html>please log in</html>");
        break;
    case 1:
        exchange_head(x, status, "application/json", -1);
        exchange_write(x, text, strlen(text) / 2);
        exchange_finish(x, EXCHANGE_RESET);
        break;
    case 2:
        exchange_head(x, status, "application/json", -1);
        exchange_write(x, text, strlen(text) / 2);
        exchange_finish(x, EXCHANGE_WHOLE);
        break;
    case 3:
        send_text(x, 200, "application/json", "");
        break;
    case 4:
        send_text(x, 200, "application/json",
                  "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{"
                  "\"name\":\"other\",\"namespace\":\"other\",\"uid\":\"1\",\"resourceVersion\":"
                  "\"1\"},\"spec\":{\"renewTime\":\"2030-01-01T00:00:00.000000Z\"}}");
        break;
    case 5:
        send_text(x, 200, "application/json", "[[[[[[{\"spec\":{}}]]]]]]");
        break;
    default:
        send_text(x, 502, "text/plain", "bad gateway");
        break;
    }
}

/* What was decided, on its way back: the body holds it meanwhile. */
static void return_answer(struct exchange *x)
{
    int status = atoi(x->content_type);
    if (is_cut_off(x)) {
        lose(x);
    } else if (faults_on(FAULT_GARBAGE) && world_one_in(world_get(), 2)) {
        faults_struck(FAULT_GARBAGE);
        send_garbage(x, status, x->body);
    } else {
        send_text(x, status, "application/json", x->body);
    }
}

static void answer(struct exchange *x, int status, json_t *body)
{
    struct world *w = world_get();
    int64_t most = 30 * MS;
    if (faults_on(FAULT_SLOW) && world_one_in(w, 2)) {
        faults_struck(FAULT_SLOW);
        most = 8 * SEC;
    }
    free(x->body);
    x->body = strdup(api_text(api_get(), body));
    (void)snprintf(x->content_type, sizeof(x->content_type), "%d", status);
    exchange_later(x, w->now + world_between(w, MS, most), return_answer);
}

static void refuse(struct exchange *x, int code, const char *reason)
{
    json_t *status = api_status(code, reason, "the simulation refuses");
    answer(x, code, status);
    json_decref(status);
}

/* ---- at the server ----------------------------------------------------------------------------
 */

/* What an admission webhook makes of a lease that is written. */
static void run_webhook(struct exchange *x)
{
    static const char *const drop[] = {"leaseDurationSeconds", "ownerReferences", "annotations"};
    int64_t what = faults_param(FAULT_WEBHOOK) % 4;
    json_t *tree = x->body ? json_loads(x->body, 0, NULL) : NULL;
    if (!tree || !strstr(x->path, "/leases")) {
        json_decref(tree);
        return;
    }
    faults_struck(FAULT_WEBHOOK);
    if (what == 0) {
        json_object_set_new(json_object_get(tree, "spec"), drop[0], json_integer(30));
    } else if (what == 1) {
        json_object_del(json_object_get(tree, "spec"), drop[0]);
    } else {
        json_object_del(json_object_get(tree, "metadata"), drop[what - 1]);
    }
    free(x->body);
    x->body = json_dumps(tree, JSON_COMPACT);
    json_decref(tree);
}

static bool is_denied(const struct exchange *x, bool is_host)
{
    return is_write(x) && strstr(x->path, "/leases") &&
           (is_host || faults_param(FAULT_WRITE_DENIED) % 2 == 0);
}

static bool is_refused(struct exchange *x)
{
    struct world *w = world_get();
    bool is_host = x->proc != agents_dpu();
    if (faults_on(FAULT_THROTTLED) && world_one_in(w, 2)) {
        faults_struck(FAULT_THROTTLED);
        refuse(x, 429, "TooManyRequests");
    } else if (is_host && strikes(FAULT_UNAUTHORIZED)) {
        bool is_known = faults_param(FAULT_UNAUTHORIZED) % 2 == 0;
        refuse(x, is_known ? 403 : 401, is_known ? "Forbidden" : "Unauthorized");
    } else if (is_list_or_watch(x) && strikes(FAULT_WATCH_DENIED)) {
        refuse(x, 403, "Forbidden");
    } else if (is_list_or_watch(x) && strikes(FAULT_NO_WATCHES)) {
        refuse(x, 500, "InternalError");
    } else if (is_denied(x, is_host) && strikes(FAULT_WRITE_DENIED)) {
        bool is_forbidden = faults_param(FAULT_WRITE_DENIED) / 2 % 2 == 0;
        refuse(x, is_forbidden ? 403 : 422, is_forbidden ? "Forbidden" : "Invalid");
    } else if (is_write(x) && strikes(FAULT_NO_WRITES)) {
        refuse(x, 500, "InternalError");
    } else {
        return false;
    }
    return true;
}

static void arrive(struct exchange *x)
{
    struct api *api = api_get();
    struct api_answer result = {0};
    if (is_cut_off(x)) {
        lose(x);
        return;
    }
    if (x->is_client_gone && world_one_in(api->world, 2)) {
        exchange_finish(x, EXCHANGE_RESET); /* it was never sent */
        return;
    }
    x->is_connected = true;
    api->log_request(api->log_user, x->proc->name, is_watch(x) ? "WATCH" : x->method, x->path);
    if (is_refused(x)) {
        return;
    }
    if (is_watch(x)) {
        api_watch_open(api, x);
        return;
    }
    if (faults_on(FAULT_WEBHOOK) && is_write(x)) {
        run_webhook(x);
    }
    bool lags = faults_on(FAULT_STALE) && !is_write(x) && world_one_in(api->world, 2);
    if (lags) {
        faults_struck(FAULT_STALE);
    }
    api_perform(api, x->proc->name, x, lags ? faults_param(FAULT_STALE) % 20 * SEC : 0, &result);
    if (faults_on(FAULT_UNSURE) && is_write(x) && result.status < 300 &&
        world_one_in(api->world, 2)) {
        faults_struck(FAULT_UNSURE);
        json_decref(result.body);
        result.status = 504;
        result.body = api_status(504, "Timeout", "the request did not complete in time");
    }
    if (faults_on(FAULT_LOST_ANSWERS) && is_write(x) && result.status < 300 &&
        world_one_in(api->world, 2)) {
        faults_struck(FAULT_LOST_ANSWERS);
        lose(x);
    } else {
        answer(x, result.status, result.body);
    }
    json_decref(result.body);
}

void api_connect(struct exchange *x)
{
    struct world *w = world_get();
    exchange_later(x, w->now + world_between(w, MS, 30 * MS), arrive);
}

void api_left(struct exchange *x)
{
    api_watch_left(api_get(), x);
}
