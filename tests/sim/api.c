/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/api.h"

#include "tests/sim/agents.h"
#include "tests/sim/faults.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_NS (INT64_C(1790000000) * SEC) /* the server's wall clock at true time 0 */

static const char namespace[] = "ovn-kubernetes";
static const char node[] = "w1";
static const char lease[] = "ovn-dpu-w1";

static struct api *the_api; /* as the world's */

struct api *api_get(void)
{
    return the_api;
}

void api_init(struct api *api, struct world *w)
{
    memset(api, 0, sizeof(*api));
    api->world = w;
    the_api = api;
    store_init(&api->store, 1000);
    api_seed(&api->store, "namespaces", "default");
    api_seed(&api->store, "namespaces", namespace);
    api_make_node(api);
}

void api_fini(struct api *api)
{
    store_fini(&api->store);
    json_decref(api->lease);
    json_decref(api->shown);
    free(api->shown_text);
}

/* The tree as JSON, borrowed until the next call. What is written is asked for more than once: by
 * its writer, and by those who watch. */
static const char *api_text(struct api *api, json_t *tree)
{
    if (api->shown != tree) {
        json_decref(api->shown);
        free(api->shown_text);
        api->shown = json_incref(tree);
        api->shown_text = need(json_dumps(tree, JSON_COMPACT));
    }
    return api->shown_text;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct wall wall_at(const struct api *api, int64_t lag_ns)
{
    return (struct wall){EPOCH_NS + api->world->now - lag_ns};
}

/* For a write. */
static struct store *open_store(struct api *api)
{
    api->store.now = wall_at(api, 0);
    return &api->store;
}

static void api_watch_changed(struct api *api); /* something is to be sent */

/* Tells what `who` has changed. */
static void tell(struct api *api, const char *who)
{
    json_t *before = api->lease;
    json_t *after = api_lease(api);
    if (before != after) {
        api->lease = json_incref(after);
        api->log(api->log_user, who, before, after);
        json_decref(before);
    }
    api_watch_changed(api);
}

static struct store_object *find_lease(const struct api *api)
{
    return store_find((struct store *)&api->store, api_kind_find("coordination.k8s.io", "leases"),
                      namespace, lease);
}

json_t *api_lease(const struct api *api)
{
    const struct store_object *found = find_lease(api);
    return found ? found->json : NULL;
}

/* The store as it was. */
static void look_back(const struct api *api, int64_t lag_ns, struct store *out)
{
    uint64_t version = store_version_at(&api->store, wall_at(api, lag_ns));
    store_copy(&api->store, out);
    store_restore(out, version);
}

bool api_lease_was_other(const struct api *api, int64_t lag_ns)
{
    struct api past = {.world = api->world};
    look_back(api, lag_ns, &past.store);
    bool is_other = api_lease(&past) != api_lease(api);
    store_fini(&past.store);
    return is_other;
}

void api_put_lease(struct api *api, const char *who, json_t *tree)
{
    struct store_object *found = find_lease(api);
    (void)store_replace(open_store(api), found, tree);
    tell(api, who);
}

void api_delete_lease(struct api *api, const char *who)
{
    struct store_object *found = find_lease(api);
    if (found) {
        json_decref(store_remove(open_store(api), found));
        tell(api, who);
    }
}

void api_restore(struct api *api, int64_t lag_ns)
{
    store_restore(&api->store, store_version_at(&api->store, wall_at(api, lag_ns)));
    tell(api, "etcd");
}

void api_make_node(struct api *api)
{
    struct store *s = open_store(api);
    struct store_object *found = store_find(s, api_kind_find("", "nodes"), "", node);
    if (found) {
        json_decref(store_remove(s, found));
    }
    api_seed(s, "nodes", node);
    api_watch_changed(api);
}

void api_collect(struct api *api)
{
    if (api_collect_garbage(open_store(api))) {
        tell(api, "gc");
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* What is after `name` in the query, "" if it is not there; "%3D" is the only escape in ours. */
static void read_argument(const struct exchange *x, const char *name, char *out, size_t out_bytes)
{
    const char *at = strstr(x->path, name);
    size_t used = 0;
    for (at = at ? at + strlen(name) : ""; *at != '\0' && *at != '&' && used + 1 < out_bytes;
         at++) {
        bool is_equals = strncmp(at, "%3D", 3) == 0;
        out[used++] = is_equals ? '=' : *at;
        at += is_equals ? 2 : 0;
    }
    out[used] = '\0';
}

/* The number after `name`, "limit=", in the query; 0: there is none. */
static uint64_t api_number(const struct exchange *x, const char *name)
{
    char text[24];
    read_argument(x, name, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

/* Fills in what the server makes of the exchange. */
static void api_take(struct exchange *x)
{
    char path[EXCHANGE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(x->path, "?"), x->path);
    bool is_served = api_target_parse(path, &x->target);
    assert(is_served);
    x->target.verb = api_verb_for(x->method, &x->target, strstr(x->path, "watch=true") != NULL);
    read_argument(x, "fieldSelector=", x->fields, sizeof(x->fields));
}

/* What becomes of a request, at a server that lags behind by that. */
static void api_perform(struct api *api, const struct exchange *x, int64_t lag_ns,
                        struct api_result *out)
{
    struct store past;
    struct api_call call = {
        .target = x->target,
        .fields = x->fields[0] != '\0' ? x->fields : NULL,
        .limit = api_number(x, "limit="),
        .skip = api_number(x, "continue="),
        .body = x->body ? json_loads(x->body, 0, NULL) : NULL,
        .is_strategic = strstr(x->content_type, "strategic") != NULL,
        .is_dry = strstr(x->path, "dryRun=All") != NULL,
        .may_create = true,
    };
    uint64_t before = api->store.version;
    if (lag_ns > 0) {
        look_back(api, lag_ns, &past);
        api_run(&past, &call, out);
        store_fini(&past);
    } else {
        api_run(open_store(api), &call, out);
    }
    if (api->store.version != before) {
        tell(api, x->proc->name);
    }
    json_decref(call.body);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

struct step {
    struct exchange *exchange;
    void (*run)(struct exchange *x);
};

static void release(struct exchange *x)
{
    if (x->is_client_gone && x->is_server_done && x->tasks == 0) {
        free(x->body);
        free(x->bytes);
        free(x);
    }
}

static void wake(struct exchange *x)
{
    if (!x->is_client_gone && x->proc->loop) {
        loop_feed(x->proc->loop, x->fd);
    }
}

/* The server's half: wakes the client up. */
static void exchange_head(struct exchange *x, int status, const char *type, int retry_after_s)
{
    tally_note("answer: %s %d", x->proc->name, status);
    x->status = status;
    x->retry_after_s = retry_after_s;
    x->date_ns = INT64_C(1790000000) * SEC + world_get()->now;
    (void)snprintf(x->type, sizeof(x->type), "%s", type);
    wake(x);
}

static void exchange_write(struct exchange *x, const char *bytes, size_t len)
{
    if (x->is_client_gone || len == 0) {
        return;
    }
    if (x->len + len > x->capacity) {
        x->capacity = 2 * (x->len + len);
        x->bytes = realloc(x->bytes, x->capacity);
        assert(x->bytes);
    }
    memcpy(x->bytes + x->len, bytes, len);
    x->len += len;
    wake(x);
}

/* The last word. */
static void exchange_finish(struct exchange *x, enum exchange_end end)
{
    if (x->is_server_done) {
        return;
    }
    x->is_server_done = true;
    x->end = end;
    wake(x);
    release(x);
}

static void run_step(void *user)
{
    struct step step = *(struct step *)user;
    free(user);
    step.run(step.exchange);
    step.exchange->tasks--;
    release(step.exchange);
}

/* A task that points to it. */
static void exchange_later(struct exchange *x, int64_t at, void (*run)(struct exchange *x))
{
    struct step *step = malloc(sizeof(*step));
    assert(step);
    *step = (struct step){.exchange = x, .run = run};
    x->tasks++;
    world_at(world_get(), at, run_step, step);
}

void exchange_drop_tasks(struct world *w)
{
    for (size_t i = 0; i < w->task_count; i++) {
        if (w->tasks[i].run == run_step) {
            struct step *step = w->tasks[i].user;
            struct exchange *x = step->exchange;
            x->is_server_done = --x->tasks == 0 || x->is_server_done;
            release(x);
            free(step);
        }
    }
    w->task_count = 0;
}

/* ---- one server of several ------------------------------------------------------------------- */

/* What is wrong with it. */
enum sickness {
    SICK_500,
    SICK_503_WRITES,
    SICK_401,
    SICK_403,
    SICK_429,
    SICK_500_WATCHES, /* and lists */
    SICK_LAGS,        /* shows all as it was when that began; writes go to the store */
    SICKNESSES
};

static enum sickness sickness(void)
{
    return (enum sickness)(faults_param(FAULT_SERVER) / API_SERVERS % SICKNESSES);
}

static bool is_at_sick_server(const struct exchange *x)
{
    return faults_on(FAULT_SERVER) && x->server == faults_param(FAULT_SERVER) % API_SERVERS;
}

static bool is_list_or_watch(const struct exchange *x)
{
    return x->target.verb == API_LIST || x->target.verb == API_WATCH;
}

static bool is_write(const struct exchange *x)
{
    return x->target.verb > API_WATCH;
}

/* What its server answers by itself; 0: as all others. */
static int own_error(const struct exchange *x)
{
    if (!is_at_sick_server(x)) {
        return 0;
    }
    switch (sickness()) {
    case SICK_500:
        return 500;
    case SICK_503_WRITES:
        return is_write(x) ? 503 : 0;
    case SICK_401:
        return 401;
    case SICK_403:
        return 403;
    case SICK_429:
        return 429;
    case SICK_500_WATCHES:
        return is_list_or_watch(x) ? 500 : 0;
    case SICK_LAGS:
    case SICKNESSES:
        break;
    }
    return 0;
}

static bool is_lagging(const struct exchange *x)
{
    return is_at_sick_server(x) && sickness() == SICK_LAGS && !is_write(x);
}

/* ---- watches --------------------------------------------------------------------------------- */

#define BOOKMARK_NS (60 * SEC)

static void send_event(struct exchange *x, const char *type, json_t *object)
{
    char head[64];
    tally_note("watch: %s", type);
    const char *text = api_text(api_get(), object);
    int head_len = snprintf(head, sizeof(head), "{\"type\":\"%s\",\"object\":", type);
    exchange_write(x, head, (size_t)head_len);
    exchange_write(x, text, strlen(text));
    exchange_write(x, "}\n", 2);
}

static void send_gone(struct exchange *x)
{
    const struct store *store = &api_get()->store;
    json_t *status = api_expired_status(store->version, store->compacted);
    send_event(x, "ERROR", status);
    json_decref(status);
}

static void close_stream(struct api_stream *s, enum exchange_end end)
{
    struct exchange *x = s->exchange;
    s->exchange = NULL;
    exchange_finish(x, end);
}

static bool is_of_lease(const struct exchange *x)
{
    return strcmp(x->target.kind->plural, "leases") == 0;
}

static struct api_stream *stream_of(struct api *api, const struct exchange *x)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        if (api->streams[i].exchange == x) {
            return &api->streams[i];
        }
    }
    return NULL;
}

static void api_watch_left(struct api *api, const struct exchange *x)
{
    struct api_stream *s = stream_of(api, x);
    if (s) {
        close_stream(s, EXCHANGE_WHOLE);
    }
}

static void send_news(struct api *api, struct api_stream *s)
{
    struct exchange *x = s->exchange;
    const struct store_event *event;
    while ((event = select_next(&api->store, &x->target, x->fields, &s->seen))) {
        send_event(x, store_change_name(event->change), event->json);
    }
}

static void pump(struct exchange *x)
{
    struct api *api = api_get();
    struct api_stream *s = stream_of(api, x);
    if (s) {
        s->is_pumping = false;
        if (s->is_stuck) {
            tally_note("watch: held back");
            return;
        }
        send_news(api, s);
    }
}

static void pump_soon(struct api *api, struct api_stream *s)
{
    if (s->exchange && !s->is_pumping) {
        s->is_pumping = true;
        exchange_later(s->exchange, api->world->now + world_between(api->world, MS, 20 * MS), pump);
    }
}

static void api_watch_changed(struct api *api)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        pump_soon(api, &api->streams[i]);
    }
}

/* A bookmark each minute, and the end when the client asked for it. */
static void tick(struct exchange *x)
{
    struct api *api = api_get();
    struct api_stream *s = stream_of(api, x);
    if (!s) {
        return;
    }
    if (!s->is_stuck && api->world->now >= s->ends_at) {
        close_stream(s, EXCHANGE_WHOLE);
        return;
    }
    if (!s->is_stuck && api->world->now >= s->bookmark_at && s->seen == api->store.version) {
        json_t *bookmark = api_bookmark(&x->target, s->seen);
        send_event(x, "BOOKMARK", bookmark);
        json_decref(bookmark);
    }
    s->bookmark_at = api->world->now + BOOKMARK_NS;
    bool ends_first = !s->is_stuck && s->ends_at < s->bookmark_at;
    exchange_later(x, ends_first ? s->ends_at : s->bookmark_at, tick);
}

static void accept_watch(struct api *api, struct api_stream *s, struct exchange *x, uint64_t from)
{
    *s = (struct api_stream){.exchange = x, .seen = from};
    s->is_stuck = is_lagging(x);
    s->ends_at = api->world->now + (int64_t)api_number(x, "timeoutSeconds=") * SEC;
    s->bookmark_at = api->world->now + BOOKMARK_NS;
    exchange_head(x, 200, "application/json", -1);
    exchange_later(x, s->bookmark_at, tick);
    pump_soon(api, s);
}

static void refuse_watch(struct exchange *x, int code, const char *reason)
{
    struct api_result result = API_RESULT_INIT;
    (void)api_fail(&result, code, reason, "the watch is refused");
    const char *text = api_text(api_get(), result.body);
    exchange_head(x, code, "application/json", -1);
    exchange_write(x, text, strlen(text));
    exchange_finish(x, EXCHANGE_WHOLE);
    api_result_fini(&result);
}

static void api_watch_open(struct api *api, struct exchange *x)
{
    struct world *w = api->world;
    uint64_t from = api_number(x, "resourceVersion=");
    struct api_stream *s = stream_of(api, NULL);
    if (x->is_client_gone) {
        exchange_finish(x, EXCHANGE_WHOLE);
    } else if (from < api->store.compacted || faults_on(FAULT_GONE)) {
        if (faults_on(FAULT_GONE)) {
            faults_struck(FAULT_GONE);
        }
        if (world_one_in(w, 2)) {
            refuse_watch(x, 410, "Expired");
            return;
        }
        exchange_head(x, 200, "application/json", -1);
        send_gone(x);
        exchange_finish(x, EXCHANGE_WHOLE);
    } else if (from > api->store.version && world_one_in(w, 2)) {
        refuse_watch(x, 504, "Timeout"); /* too large a version; the other half is silent */
    } else if (!s) {
        refuse_watch(x, 429, "TooManyRequests");
    } else {
        accept_watch(api, s, x, from);
    }
}

void api_watch_cut(struct api *api, const char *who, enum api_cut how)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        struct api_stream *s = &api->streams[i];
        if (!s->exchange || (who && strcmp(s->exchange->proc->name, who) != 0)) {
            continue;
        }
        switch (how) {
        case API_CUT_STUCK:
            s->is_stuck = true;
            break;
        case API_CUT_RESET:
            close_stream(s, EXCHANGE_RESET);
            break;
        case API_CUT_END:
            close_stream(s, EXCHANGE_WHOLE);
            break;
        case API_CUT_GONE:
            if (!s->is_stuck) {
                send_gone(s->exchange);
                close_stream(s, EXCHANGE_WHOLE);
            }
            break;
        }
    }
}

void api_watch_unstick(struct api *api)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        api->streams[i].is_stuck = false;
        pump_soon(api, &api->streams[i]);
    }
}

void api_server_begins_to_fail(struct api *api)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        struct api_stream *s = &api->streams[i];
        if (!s->exchange || !is_at_sick_server(s->exchange)) {
            continue;
        }
        s->is_stuck = s->is_stuck || sickness() == SICK_LAGS;
        if (own_error(s->exchange) != 0) {
            close_stream(s, EXCHANGE_WHOLE);
        }
    }
}

void api_server_is_well(struct api *api)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        struct api_stream *s = &api->streams[i];
        if (s->exchange && s->exchange->server == faults_param(FAULT_SERVER) % API_SERVERS &&
            sickness() == SICK_LAGS) {
            s->is_stuck = false;
            pump_soon(api, s);
        }
    }
}

bool api_watch_works(const struct api *api, const char *who)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        const struct api_stream *s = &api->streams[i];
        const struct exchange *x = s->exchange;
        if (x && !s->is_stuck && !x->is_client_gone && s->seen <= api->store.version &&
            strcmp(x->proc->name, who) == 0 && is_of_lease(x)) {
            return true;
        }
    }
    return false;
}

/* ---- the network ----------------------------------------------------------------------------- */

/* The way to the API server and back, and what goes wrong on it. */

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

/* ---- the way back ---------------------------------------------------------------------------- */

static void send_text(struct exchange *x, int status, const char *type, const char *text)
{
    bool is_paced = status == 429 && !x->is_own_error;
    exchange_head(x, status, type, is_paced ? (int)world_between(world_get(), 1, 20) : -1);
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

/* What a server that is slow for one side adds to each of that side's requests, on the way there
 * (odd parameters) or back: from a tenth to nine tenths of an interval. */
static int64_t slowness_ns(const struct exchange *x, bool is_way_back)
{
    enum fault_kind kind = x->proc == agents_dpu() ? FAULT_DPU_SLOW : FAULT_HOST_SLOW;
    int64_t param = faults_param(kind);
    bool is_here = (param % 2 == 0) == is_way_back;
    if (!faults_on(kind) || !is_here || x->target.verb == API_WATCH) {
        return 0;
    }
    faults_struck(kind);
    return agents_interval_ns() / 1000 * (100 + param / 5 * 4);
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
    exchange_later(x, w->now + world_between(w, MS, most) + slowness_ns(x, true), return_answer);
}

static void refuse(struct exchange *x, int code, const char *reason)
{
    struct api_result result = API_RESULT_INIT;
    (void)api_fail(&result, code, reason, "the simulation refuses");
    answer(x, code, result.body);
    api_result_fini(&result);
}

/* ---- at the server --------------------------------------------------------------------------- */

/* What an admission webhook makes of a lease that is written. */
static void run_webhook(struct exchange *x)
{
    static const char *const drop[] = {"leaseDurationSeconds", "ownerReferences", "annotations"};
    int64_t what = faults_param(FAULT_WEBHOOK) % 4;
    json_t *tree = x->body ? json_loads(x->body, 0, NULL) : NULL;
    if (!tree || !is_of_lease(x)) {
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
    return is_write(x) && is_of_lease(x) && (is_host || faults_param(FAULT_WRITE_DENIED) % 2 == 0);
}

static bool is_refused(struct exchange *x)
{
    struct world *w = world_get();
    bool is_host = x->proc != agents_dpu();
    int own = own_error(x);
    if (own != 0) {
        faults_struck(FAULT_SERVER);
        tally_note("server: %s %s %d", x->proc->name, x->method, own);
        x->is_own_error = true;
        refuse(x, own, "SickServer");
    } else if (faults_on(FAULT_THROTTLED) && world_one_in(w, 2)) {
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

/* How far what it reads is behind. */
static int64_t lag_of(const struct exchange *x)
{
    struct world *w = world_get();
    int64_t lag_ns = 0;
    if (faults_on(FAULT_STALE) && !is_write(x) && world_one_in(w, 2)) {
        faults_struck(FAULT_STALE);
        lag_ns = faults_param(FAULT_STALE) % 20 * SEC;
    }
    if (is_lagging(x)) {
        faults_struck(FAULT_SERVER);
        tally_note("server: %s lags", x->proc->name);
        lag_ns = w->now - faults_began(FAULT_SERVER);
    }
    return lag_ns;
}

static void arrive(struct exchange *x)
{
    struct api *api = api_get();
    struct api_result result = API_RESULT_INIT;
    if (is_cut_off(x)) {
        lose(x);
        return;
    }
    if (x->is_client_gone && world_one_in(api->world, 2)) {
        exchange_finish(x, EXCHANGE_RESET); /* it was never sent */
        return;
    }
    x->is_connected = true;
    bool is_watch = x->target.verb == API_WATCH;
    api->log_request(api->log_user, x->proc->name, is_watch ? "WATCH" : x->method, x->path);
    if (is_refused(x)) {
        return;
    }
    if (is_watch) {
        api_watch_open(api, x);
        return;
    }
    if (faults_on(FAULT_WEBHOOK) && is_write(x)) {
        run_webhook(x);
    }
    api_perform(api, x, lag_of(x), &result);
    if (faults_on(FAULT_UNSURE) && is_write(x) && result.code < 300 &&
        world_one_in(api->world, 2)) {
        faults_struck(FAULT_UNSURE);
        (void)api_fail(&result, 504, "Timeout", "the request did not complete in time");
    }
    if (faults_on(FAULT_LOST_ANSWERS) && is_write(x) && result.code < 300 &&
        world_one_in(api->world, 2)) {
        faults_struck(FAULT_LOST_ANSWERS);
        lose(x);
    } else {
        answer(x, result.code, result.body);
    }
    api_result_fini(&result);
}

struct exchange *exchange_start(struct proc *proc, int server, const char *method, const char *path,
                                const char *body, const char *content_type)
{
    struct exchange *x = calloc(1, sizeof(*x));
    assert(x);
    x->proc = proc;
    x->server = server;
    x->fd = world_get()->next_fd++;
    x->retry_after_s = -1;
    x->body = body ? strdup(body) : NULL;
    (void)snprintf(x->method, sizeof(x->method), "%s", method);
    (void)snprintf(x->path, sizeof(x->path), "%s", path);
    (void)snprintf(x->content_type, sizeof(x->content_type), "%s", content_type);
    api_take(x);
    int64_t way_ns = world_between(world_get(), MS, 30 * MS) + slowness_ns(x, false);
    exchange_later(x, world_get()->now + way_ns, arrive);
    return x;
}

void exchange_leave(struct exchange *x)
{
    x->is_client_gone = true;
    api_watch_left(api_get(), x);
    release(x);
}
