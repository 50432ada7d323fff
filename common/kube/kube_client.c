/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_answer.h"
#include "kube/kube_core.h"
#include "kube/kube_transfer.h"
#include "kube/kube_url.h"
#include "loop/curl_loop.h"
#include "loop/curl_version.h"

#include <curl/curl.h>
#include <ev.h>
#include <inttypes.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>

/*
 * The life of a call:
 *
 *   kube_client_start ─▶ waits for its turn ─▶ first try ──────▶ end_try ─▶ tell_end ─▶ its owner
 *                            ▲                     └▶ second ──────┘   │
 *                            └── once, after a 401 with new credentials ┘
 *
 * Its turn comes when the rate limit has a token for it and no other request uses the connection
 * that it could have. A second try begins when the first has had half of its time without an
 * answer; the first answer of the two counts. A stream has one try, and no deadline once the server
 * has accepted it.
 *
 * curl must not be called from within its own callbacks, and an owner that is told of an answer
 * starts and cancels other calls. So curl's callbacks only note what came (has_bytes, ended), and
 * deliver_all() hands it on once curl has returned. An owner may end any call, so that after each
 * one the list of calls is looked at anew.
 */
enum {
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_INTERVAL_S = 5,
    UNACKED_TIMEOUT_MS = 15000,
    JUST_LEFT_S = 6, /* a connection that idled so long may be half open: no evidence goes there */
    LEFT_S = 16,     /* nor a watch, which would be silent */
    TRIES_MAX = 2,
    WAIT_SHARE = 2,         /* of the time that an answer is waited for: when the next try begins */
    TRIM_BYTES = 256 << 10, /* an answer above this is rare enough to tidy up after it */
    RETRY_AFTER_MAX_S = 86400,
    HEAD_VALUE_BYTES = 128, /* of each header that is looked at */
};

#define TURN_NS (2 * NS_PER_SEC)  /* what does not hurry waits so long for a connection */
#define LOOK_NS (10 * NS_PER_SEC) /* between two looks at files, while only a watch goes on */

/* They learn apart: a loaded etcd is slow to write and fast to read. Watches and their lists
 * may connect anew: where a fleet comes back at once, handshakes that are given up early are work
 * in vain. */
enum request_kind { READS, WRITES, WATCHES, REQUEST_KINDS };

struct kube_client {
    struct ev_loop *loop;
    struct kube_conf conf;
    struct curl_loop *curl; /* NULL until open */
    struct kube_tls tls;
    struct kube_bucket bucket; /* every request passes it */
    uint32_t patience_ms[REQUEST_KINDS];
    struct kube_leave leaves[KUBE_PRIORITIES][REQUEST_KINDS];
    TAILQ_HEAD(kube_calls, kube_call) calls; /* the oldest first */
    char last_good[INET6_ADDRSTRLEN];        /* an address of the server that answered; "": none */
    bool draining; /* the next control request takes a new connection: the credentials changed */
    struct kube_metrics metrics;
    char description[256];
    struct kube_dial dial;
};

/* One exchange with the server. */
struct
try {
    struct kube_call *call;
    struct kube_transfer transfer; /* zero: not under way */
    struct buf head;               /* see loop/curl_version.h */
    struct buf inbox;
    struct mono sent_at;
    bool is_by_address; /* goes to the last good one */
    bool has_sent;      /* connected, and the request is on its way */
    bool has_bytes;     /* since the last delivery */
    bool is_paused;     /* a stream, until its owner has taken what is in the inbox */
    bool overflowed;
    bool ended;
    CURLcode end_code;
    char error[CURL_ERROR_SIZE];
};

/* A request. Of several API servers behind one name or address one may hang while the others
 * answer, and a name server may be slow or silent: there may be further tries. */
struct kube_call {
    struct kube_client *client;
    TAILQ_ENTRY(kube_call) link;
    struct kube_request request; /* but for: */
    char *path;
    char *body; /* NULL or text */
    kube_done_fn *done;
    void *user;
    bool has_retried;       /* after a 401 */
    bool is_waiting;        /* for its turn */
    struct mono not_before; /* of one that waits */
    bool is_accepted;       /* a stream, by the server */
    struct try tries[TRIES_MAX];
    int count;         /* of tries that were begun */
    ev_timer next_try; /* or the next look whether it is the turn of one that waits */
    ev_timer due;      /* of one that is awaited, or of a stream's head */
};

/* ---- the credentials ------------------------------------------------------------------------- */

/* Sets the server's description, and how it is dialled. */
static void locate_server(struct kube_client *client)
{
    const struct kube_conf *conf = &client->conf;
    text_format(client->description, sizeof(client->description), "%s at %s%s%s", conf->origin,
                conf->server, conf->proxy_name ? " through " : "",
                conf->proxy_name ? conf->proxy_name : "");
    kube_dial_set(&client->dial, conf->server, conf->tls_server_name);
    if (conf->insecure_skip_tls_verify) {
        log_warn("kube",
                 "%s: insecure-skip-tls-verify is set: anyone can impersonate the API server",
                 client->description);
    }
}

/* Reads anew what changed (`force`: all). True if anything did. */
static bool refresh_credentials(struct kube_client *client, struct mono now, bool force)
{
    struct kube_metrics *m = &client->metrics;
    bool changed = kube_conf_refresh(&client->conf, now, force);
    m->is_credential_unusable = kube_conf_problem(&client->conf) != NULL;
    if (changed) {
        m->has_expiry = kube_conf_expiry(&client->conf, &m->expiry);
    }
    if (client->conf.tls_changed) {
        client->conf.tls_changed = false;
        client->draining = true;
        locate_server(client);
        kube_tls_renew(&client->tls, &client->conf);
    }
    return changed;
}

/* ---- what curl tells while it runs ----------------------------------------------------------- */

static int http_status(const struct try *t)
{
    long status = 0;
    if (t->transfer.easy) {
        (void)curl_easy_getinfo(t->transfer.easy, CURLINFO_RESPONSE_CODE,
                                &status); /* 0 if unknown */
    }
    return (int)status;
}

/* The inbox is bounded. A stream that fills it is paused until its owner has taken lines out of it:
 * the server's data waits in the socket meanwhile. But if the owner was told and took nothing, no
 * line fits the inbox, and waiting would last for ever. */
static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct try *t = user;
    if (buf_append(&t->inbox, bytes, size * count, NULL) == 0) {
        t->has_bytes = true;
        return size * count;
    }
    if (t->call->request.on_bytes && t->has_bytes) { /* its owner has yet to look */
        t->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    t->overflowed = true;
    return 0; /* curl ends the transfer */
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct try *t = user;
    if (!curl_head_add(&t->head, line, size * count)) {
        t->overflowed = true;
        return 0; /* curl ends the transfer */
    }
    if (size * count == 2 && http_status(t) >= 200) {
        t->has_bytes = true; /* the head is whole: worth a look before its body comes */
    }
    return size * count;
}

/* curl opens a connection for this try. TCP_USER_TIMEOUT is the only bound on data of ours that
 * nobody acknowledges, because keepalive sends nothing while such data is under way.
 *
 * If the request was on its way already, that was over an idle connection which the server had
 * closed: curl has got not one byte of an answer and repeats the request by itself, over this one,
 * so that has_sent begins anew. */
static int on_socket_open(void *user, curl_socket_t fd, curlsocktype purpose)
{
    struct try *t = user;
    unsigned int timeout_ms = UNACKED_TIMEOUT_MS;
    t->has_sent = false;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
                     sizeof(timeout_ms)); /* a bound the less where the kernel has none */
    return CURL_SOCKOPT_OK;
}

/* A write that nothing keeps from taking effect twice. */
static bool is_sent_once(const struct kube_call *call)
{
    return call->request.method != KUBE_GET && !call->request.is_repeatable;
}

/* curl has a connection and is about to send the request. Of two tries of a write that must not
 * take effect twice, both may have been connecting until now: the one that comes first sends, and
 * the other ends here. */
static int before_request(void *user, char *peer, char *own, int peer_port, int own_port)
{
    struct try *t = user;
    for (const struct try *other = t->call->tries; other < t->call->tries + TRIES_MAX; other++) {
        if (is_sent_once(t->call) && other != t && other->has_sent) {
            return CURL_PREREQFUNC_ABORT;
        }
    }
    t->has_sent = true;
    return CURL_PREREQFUNC_OK;
}

/* ---- curl's handle --------------------------------------------------------------------------- */

/* Which connection carries it (enum kube_channel). A control request takes whichever is idle. What
 * is evidence takes only one that was used within JUST_LEFT_S: an older one may have become half
 * open, and the request would hang on it until its deadline, which is a failed attempt that says
 * nothing of the DPU. A watch may take one of up to LEFT_S: on a half-open one it would be silent.
 * A second try always connects anew, since the first one's connection may be what is wrong. */
static void set_connection(struct try *t)
{
    CURL *easy = t->transfer.easy;
    const struct kube_request *request = &t->call->request;
    enum kube_channel channel = request->channel;
    bool is_second = t != t->call->tries;
    bool is_new = is_second || t->call->client->draining;
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_version_allow_http(easy);
    /* A name server that is silent must not hold up the loop: without this, ending a transfer waits
     * for the thread that still asks it, ten seconds and more. It ends by itself. */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_open);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, is_new ? 1L : 0L);
    if (channel != KUBE_CONTROL) {
        (void)curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN,
                               curl_version_idle_s(channel == KUBE_FRESH ? JUST_LEFT_S : LEFT_S));
    } else {
        t->call->client->draining = false;
    }
}

/* The last good one, where nobody is to be asked for the name: for a second try, and for a watch
 * that goes on where it was, since there would be none while no name can be resolved. */
static const char *address_to_take(const struct try *t)
{
    const char *last_good = t->call->client->last_good;
    bool is_resumed = t->call->request.channel == KUBE_STREAM && last_good[0] != '\0';
    return t->is_by_address || is_resumed ? last_good : NULL;
}

/* Makes the handle and gives it to the loop, which runs it later: no callback comes from here. */
static void open_try(struct try *t, int64_t deadline_ms, struct mono now)
{
    const struct kube_call *call = t->call;
    struct kube_client *client = call->client;
    const struct kube_transfer_plan plan = {
        .conf = &client->conf,
        .tls = &client->tls,
        .dial = &client->dial,
        .method = call->request.method,
        .path = call->path,
        .body = call->body,
        .address = address_to_take(t),
    };
    kube_transfer_open(&t->transfer, &plan);
    t->sent_at = now;
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_PRIVATE, t);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_ERRORBUFFER, t->error);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_PREREQFUNCTION, before_request);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_PREREQDATA, t);
    (void)curl_easy_setopt(t->transfer.easy, CURLOPT_TIMEOUT_MS, (long)deadline_ms);
    set_connection(t);
    curl_loop_add(client->curl, t->transfer.easy);
}

/* Ready for the next one. */
static void close_try(struct try *t)
{
    struct kube_call *call = t->call;
    if (t->transfer.easy) {
        curl_loop_remove(call->client->curl, t->transfer.easy);
    }
    kube_transfer_close(&t->transfer);
    buf_fini(&t->head);
    buf_fini(&t->inbox);
    *t = (struct try){.call = call, .sent_at = MONO_NEVER};
    t->inbox = (struct buf){.max_bytes = call->request.max_bytes};
}

/* ---- how far it has come --------------------------------------------------------------------- */

static const char *address_of(const struct try *t)
{
    char *address = NULL;
    if (t->transfer.easy) {
        (void)curl_easy_getinfo(t->transfer.easy, CURLINFO_PRIMARY_IP,
                                &address); /* "" if unknown */
    }
    return address ? address : "";
}

static void remember_address(const struct try *t)
{
    struct kube_client *client = t->call->client;
    long reached = 0;
    (void)curl_easy_getinfo(t->transfer.easy, CURLINFO_PRIMARY_PORT,
                            &reached); /* a proxy's is another */
    if (client->dial.host && reached > 0 && reached == client->dial.port &&
        !client->conf.proxy_url) {
        text_format(client->last_good, sizeof(client->last_good), "%s", address_of(t));
    }
}

static void read_head(const struct try *t, struct kube_response *out)
{
    char type[HEAD_VALUE_BYTES];
    char date[HEAD_VALUE_BYTES];
    char retry_after[HEAD_VALUE_BYTES];
    bool has_date = curl_head_find(&t->head, "Date", date, sizeof(date));
    time_t date_s = has_date ? curl_getdate(date, NULL) : -1;
    uint64_t seconds;
    bool has_seconds = curl_head_find(&t->head, "Retry-After", retry_after, sizeof(retry_after)) &&
                       text_to_u64(retry_after, strlen(retry_after), &seconds, NULL) == 0;
    (void)curl_head_find(&t->head, "Content-Type", type, sizeof(type)); /* "" if there is none */
    *out = (struct kube_response){
        .code = kube_status_code(http_status(t)),
        .http_status = http_status(t),
        .is_json = strncasecmp(type, "application/json", strlen("application/json")) == 0,
        .has_server_date = date_s >= 0,
        .server_date = {mono_ns_mul(NS_PER_SEC, date_s)}, /* of any year up to 9999 */
        .received_wall = clock_wall_now(),
        .sent_at = t->sent_at,
        .received_at = clock_mono_now(),
    };
    if (has_seconds) {
        seconds = seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S;
        out->retry_after_ns = (int64_t)seconds * NS_PER_SEC;
    }
}

/* Whether its owner takes a success as the bytes that came: always, or because it knows them. Then
 * no tree is made of it. */
static bool is_taken_raw(const struct try *t, struct kube_response *r)
{
    const struct kube_request *request = &t->call->request;
    if (r->code != 0 || (!request->is_raw && !request->knows)) {
        return false;
    }
    r->raw = buf_text(&t->inbox);
    r->raw_len = t->inbox.len;
    r->outcome = r->is_json ? KUBE_ANSWERED : KUBE_NO_CONTACT;
    return request->is_raw || (r->is_json && request->knows(t->call->user, r->raw, r->raw_len));
}

/* An answer that came whole. Returns what is wrong with it, or NULL. */
static const char *read_answer(const struct try *t, struct kube_response *r, struct err *e)
{
    const struct buf *inbox = &t->inbox;
    if (t->call->is_accepted) {
        return NULL; /* it was read while it came */
    }
    if (is_taken_raw(t, r)) {
        return NULL;
    }
    if (r->is_json || r->code == 0) {
        r->body = json_text_parse(buf_text(inbox), inbox->len, e);
    }
    r->outcome = kube_status_outcome(r->http_status, r->is_json, inbox->len, r->body);
    if (r->code == 0 && !json_is_object(r->body)) { /* a proxy's page is no answer */
        r->code = ERR_PARSE;
        return r->body ? "the answer is not a JSON object" : e->msg;
    }
    return NULL;
}

/* Returns why none came, or none that we take. */
static const char *read_failure(const struct try *t, struct kube_response *r, struct err *e)
{
    const char *proxy = t->call->client->conf.proxy_name;
    r->code = ERR_RETRY;
    if (!t->overflowed) {
        const char *why = kube_status_failure(t->error, (int)t->end_code);
        (void)err_set(e, ERR_RETRY, proxy ? "%s, through %s" : "%s", why, proxy);
        return e->msg;
    }
    r->outcome = kube_status_outcome(r->http_status, r->is_json, KUBE_BODY_MAX_BYTES, NULL);
    return "the answer is larger than allowed";
}

/* The response of a try that has ended; `out->body` is the caller's. */
static void read_response(const struct try *t, struct kube_response *out)
{
    struct err e = ERR_INIT;
    read_head(t, out);
    out->transport_error = kube_status_transport_error((int)t->end_code);
    const char *failure =
        t->end_code == CURLE_OK ? read_answer(t, out, &e) : read_failure(t, out, &e);
    if (!t->call->is_accepted) {
        kube_status_fill(out, t->call->request.method, t->call->path, failure);
    } else if (failure) {
        text_format(out->message, sizeof(out->message), "%s", failure);
    }
}

/* ---- a server that fails --------------------------------------------------------------------- */

static bool is_watch(const struct kube_request *request)
{
    return request->channel == KUBE_LIST || request->channel == KUBE_STREAM;
}

static enum request_kind kind_of(const struct kube_request *request)
{
    return request->method != KUBE_GET ? WRITES : is_watch(request) ? WATCHES : READS;
}

/* A connection leads to one API server, where a balancer stands before several, and the next
 * request would meet the same server on it. So a try that has ended is asked whether its server is
 * well: by its status, by whether the object that it showed is older than one that its owner has
 * seen, and a stream that was accepted by how long it lasted. If it is not, the connection is
 * spoilt, unless that has just been done often enough (kube_leave_try()). What ended without an
 * answer has left no connection that could be kept, and says nothing of the server. */
static void judge_server(struct try *t, const struct kube_response *r)
{
    const struct kube_call *call = t->call;
    struct kube_client *client = call->client;
    struct kube_leave *leave = &client->leaves[call->request.priority][kind_of(&call->request)];
    uint64_t shown = kube_object_version(r->body);
    bool is_old = shown != 0 && shown < call->request.least_version;
    bool is_short =
        call->request.must_last && mono_since(r->received_at, t->sent_at) < KUBE_SHORT_STREAM_NS;
    if (t->end_code != CURLE_OK) {
        return;
    }
    if (call->is_accepted ? !is_short : !is_old && !kube_may_be_servers_own(r)) {
        kube_leave_settle(leave);
    } else if (kube_leave_try(leave, r->received_at)) {
        client->metrics.left++;
        log_debug("kube", "%s: the next request goes over a new connection",
                  is_old                  ? "an old state was shown"
                  : r->message[0] != '\0' ? r->message
                                          : "a watch has ended early");
        curl_loop_spoil(t->transfer.easy);
    }
}

/* ---- a second try, beside one that hangs ----------------------------------------------------- */

/* Whether another try may help, and cannot do harm. A write that must not take effect twice may
 * have landed as soon as it was sent, so that it is tried again only while it still connects. A
 * list gets a second try only until it is connected: where a fleet returns at once, the server is
 * slow because of all the lists and handshakes, and more of them would make it slower. */
static bool may_hang(const struct try *t)
{
    curl_off_t connected_us = 0;
    if (is_sent_once(t->call)) {
        return !t->has_sent;
    }
    (void)curl_easy_getinfo(t->transfer.easy, CURLINFO_CONNECT_TIME_T,
                            &connected_us); /* 0 if it is not */
    return t->call->request.channel == KUBE_LIST ? connected_us == 0 : http_status(t) == 0;
}

/* Whether the last good address is known, and is not the one that is tried. */
static bool is_address_free(const struct kube_call *call)
{
    const char *last_good = call->client->last_good;
    return last_good[0] != '\0' && !text_equal(address_of(&call->tries[0]), last_good);
}

static void start_second_try(struct kube_call *call)
{
    struct mono now = clock_mono_now();
    int64_t left_ms =
        call->request.deadline_ms - mono_since(now, call->tries[0].sent_at) / NS_PER_MS;
    if (left_ms > 0) {
        struct try *t = &call->tries[call->count++];
        t->is_by_address = is_address_free(call);
        log_debug("kube", "no answer yet: also trying %s",
                  t->is_by_address ? call->client->last_good : "another connection");
        open_try(t, left_ms, now);
    }
}

/* Half of the time is the first try's alone; a second one has the other half. */
static void wait_for_next(struct kube_call *call)
{
    const struct kube_request *request = &call->request;
    uint32_t all_ms = request->awaited_ms > 0 ? request->awaited_ms : request->deadline_ms;
    loop_timer_arm(call->client->loop, &call->next_try, all_ms * NS_PER_MS / WAIT_SHARE);
}

/* Begins the first try. A stream has no deadline of curl's, since it is to last: only its head is
 * waited for, by `due`. */
static void send_now(struct kube_call *call, struct mono now)
{
    (void)refresh_credentials(call->client, now, false);
    ev_timer_stop(call->client->loop, &call->next_try);
    call->count = 1;
    if (call->request.on_bytes) {
        loop_timer_arm(call->client->loop, &call->due, call->request.deadline_ms * NS_PER_MS);
        open_try(&call->tries[0], 0, now);
    } else {
        wait_for_next(call);
        open_try(&call->tries[0], call->request.deadline_ms, now);
    }
}

/* ---- a turn for each ------------------------------------------------------------------------ */

/* Whether another is under way, whose connection will be free for this one. That of a stream will
 * not. Without this wait, requests that come at once would open a connection each. */
static bool is_another_under_way(const struct kube_call *call)
{
    const struct kube_call *other;
    TAILQ_FOREACH(other, &call->client->calls, link)
    {
        if (other != call && other->count > 0 && !other->request.on_bytes) {
            return true;
        }
    }
    return false;
}

/* How long it still waits for its turn, at most. */
static int64_t turn_ns(const struct kube_call *call, struct mono now)
{
    if (call->request.priority == KUBE_URGENT) {
        return 0;
    }
    int64_t wait_ns = mono_since(call->not_before, now);
    if (is_another_under_way(call)) {
        wait_ns = mono_ns_add(wait_ns, TURN_NS);
    }
    return mono_ns_max(wait_ns, kube_bucket_pause_ns(&call->client->bucket, now));
}

/* Sends it, or lets it wait. */
static void take_turn(struct kube_call *call, struct mono now)
{
    int64_t wait_ns = turn_ns(call, now);
    call->is_waiting = wait_ns > 0;
    if (call->is_waiting) {
        loop_timer_arm(call->client->loop, &call->next_try, wait_ns);
    } else {
        send_now(call, now);
    }
}

static void start_turn(struct kube_call *call)
{
    struct kube_bucket *bucket = &call->client->bucket;
    struct mono now = clock_mono_now();
    call->not_before = now;
    if (call->request.priority == KUBE_URGENT) {
        kube_bucket_take_urgent(bucket, now);
    } else {
        int64_t wait_ns = kube_bucket_take(bucket, now);
        call->client->metrics.delayed += wait_ns > 0;
        call->not_before = mono_add(now, wait_ns);
    }
    take_turn(call, now);
}

/* A connection may have become free: the call that has waited longest takes it. The others see that
 * one under way then, and go on waiting. */
static void pass_turn(struct kube_client *client)
{
    struct mono now = clock_mono_now();
    struct kube_call *call;
    TAILQ_FOREACH(call, &client->calls, link)
    {
        if (call->is_waiting) {
            take_turn(call, now);
        }
    }
}

/* The API server is back: those that wait for that wait so much longer. */
static void end_pause(struct kube_client *client, int64_t wait_ns)
{
    struct mono then = mono_add(clock_mono_now(), wait_ns);
    struct kube_call *call;
    TAILQ_FOREACH(call, &client->calls, link)
    {
        if (call->is_waiting) {
            call->not_before = mono_max(call->not_before, then);
        }
    }
}

/* The timer serves both waits of a call, of which one is over when the other begins: for its turn,
 * and for a second try. A second try is a request to the rate limit, too; an ordinary one without a
 * token is left out, and the first goes on alone. */
static void on_next_try(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_call *call = timer->data;
    struct kube_bucket *bucket = &call->client->bucket;
    struct mono now = clock_mono_now();
    if (call->is_waiting) {
        take_turn(call, now);
        return;
    }
    if (call->count == TRIES_MAX || !may_hang(&call->tries[0])) {
        return;
    }
    if (call->request.priority == KUBE_URGENT) {
        kube_bucket_take_urgent(bucket, now);
    } else if (!kube_bucket_try(bucket, now)) {
        return;
    }
    start_second_try(call);
}

/* Of two tries the first answer counts; but a failure is none while the other may still bring one.
 * True if this try failed, was turned away (429) or met a server that fails, and the other goes on:
 * then this one is forgotten. A write that was sent and must not take effect twice is an exception,
 * because the other try sends nothing any more (before_request()).
 *
 * Where the name could not be resolved and the last good address is known, the other try begins
 * here, without waiting for half of the time. */
static bool other_goes_on(struct try *t, const struct kube_response *r)
{
    struct kube_call *call = t->call;
    bool is_failure = r->transport_error != KUBE_TRANSPORT_OK || r->http_status == 429 ||
                      kube_may_be_servers_own(r);
    bool may_have_landed = t->has_sent && is_sent_once(call);
    if (call->request.on_bytes || !is_failure || may_have_landed) {
        return false;
    }
    if (r->transport_error == KUBE_TRANSPORT_RESOLVE && call->count < TRIES_MAX &&
        is_address_free(call)) {
        start_second_try(call);
    }
    const struct try *other = &call->tries[t == call->tries];
    if (!other->transfer.easy) {
        return false;
    }
    struct mono sent_at = t->sent_at; /* a failure of the call is dated by the first one */
    close_try(t);
    t->sent_at = sent_at;
    return true;
}

static void end_tries(struct kube_call *call)
{
    ev_timer_stop(call->client->loop, &call->next_try);
    for (int i = 0; i < TRIES_MAX; i++) {
        close_try(&call->tries[i]);
    }
    call->count = 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* After a 401 the credentials are read again; one more try if they are new. */
static bool send_again(struct kube_call *call)
{
    if (call->has_retried || !refresh_credentials(call->client, clock_mono_now(), true)) {
        return false;
    }
    call->has_retried = true;
    end_tries(call);
    start_turn(call);
    return true;
}

/* Counts an answer or a failure, and learns from it: whether there is an API server, for the pause
 * of ordinary requests, and how long answers take, for the next deadlines. A failure other than a
 * time-out says nothing of how long one takes. */
static void observe(struct kube_call *call, const struct kube_response *r)
{
    const struct kube_request *request = &call->request;
    bool is_answered = r->transport_error == KUBE_TRANSPORT_OK;
    int64_t wait_ns = is_answered ? kube_bucket_reached(&call->client->bucket) : 0;
    if (wait_ns > 0) {
        end_pause(call->client, wait_ns);
    } else if (kube_is_unreachable(r)) {
        kube_bucket_unreached(&call->client->bucket, r->received_at);
    }
    kube_metrics_count(&call->client->metrics,
                       request->on_bytes ? "WATCH" : kube_status_verb(request->method), r);
    if (is_answered || r->transport_error == KUBE_TRANSPORT_TIMEOUT) {
        uint32_t *patience_ms = &call->client->patience_ms[kind_of(request)];
        *patience_ms = kube_patience_learn(*patience_ms, is_answered,
                                           mono_since(r->received_at, r->sent_at) / NS_PER_MS,
                                           KUBE_PATIENCE_MS, KUBE_PATIENCE_MAX_MS);
    }
}

/* Whether its owner was told of a time-out, and it goes on all the same. */
static bool is_late(const struct kube_call *call)
{
    return call->request.late && *call->request.late == call;
}

static void end_try(struct try *t);

/* The head of a stream has not come, or the owner of a request waits no longer (`awaited_ms`). That
 * request goes on beside the owner's next one, as its late one: an API server or a name server that
 * is slow answers it in the end, where each new request would begin its wait anew. There is one
 * late request at most. If there is one already, it has been asked for longer, so this one is given
 * up. */
static void on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_call *call = timer->data;
    kube_done_fn *done = call->done;
    void *user = call->user;
    struct kube_response r = {.code = ERR_RETRY,
                              .transport_error = KUBE_TRANSPORT_TIMEOUT,
                              .sent_at = call->tries[0].sent_at,
                              .received_at = clock_mono_now(),
                              .received_wall = clock_wall_now()};
    if (call->request.on_bytes) {
        call->tries[0].end_code = CURLE_OPERATION_TIMEDOUT;
        end_try(&call->tries[0]);
        return;
    }
    text_format(r.message, sizeof(r.message), "no answer within %s",
                text_span(call->request.awaited_ms * NS_PER_MS).text);
    if (*call->request.late) {
        observe(call, &r);
        kube_call_cancel(call);
    } else {
        *call->request.late = call;
    }
    done(user, &r);
}

/* The call ends, with this. An answer to the owner's newer request makes the late one pointless; a
 * late one that fails in the end is no news to an owner who was told of a time-out. The call is
 * freed before its owner is told, who may start another in its place. */
static void tell_end(struct kube_call *call, struct kube_response *r)
{
    kube_done_fn *done = call->done;
    void *user = call->user;
    bool is_answer = r->outcome != KUBE_NO_CONTACT;
    r->is_late = is_late(call);
    if (!r->is_late && is_answer && call->request.late) {
        kube_call_cancel(*call->request.late);
    }
    kube_call_cancel(call);
    if (!r->is_late || is_answer) {
        done(user, r);
    }
}

/* A try has ended, with an answer or without one: judges the server, lets the other try go on, or
 * ends the call. A stream that was accepted was counted then. */
static void end_try(struct try *t)
{
    struct kube_response r;
    struct kube_call *call = t->call;
    bool is_large = t->inbox.len > TRIM_BYTES;
    read_response(t, &r);
    judge_server(t, &r);
    if (other_goes_on(t, &r)) {
        json_decref(r.body);
        return;
    }
    if (r.outcome == KUBE_ANSWERED) {
        remember_address(t);
    } else {
        r.sent_at = call->tries[0].sent_at; /* whichever try was the last to fail */
    }
    if (!call->is_accepted) {
        observe(call, &r);
    }
    bool is_refused = t->end_code == CURLE_OK && r.http_status == 401;
    if (!is_refused || !send_again(call)) {
        CLEANUP(buf) struct buf raw = {.len = 0};
        if (r.raw) { /* borrowed from it */
            raw = t->inbox;
            t->inbox = (struct buf){.max_bytes = 0};
        }
        tell_end(call, &r);
    }
    json_decref(r.body);
    if (is_large) {
        (void)malloc_trim(0); /* the agent's few MiB must not stay at the size of one odd object */
    }
}

/* The next try about which its owner, or curl, has to be told something; NULL: none. */
static struct try *first_to_deliver(struct kube_client *client)
{
    struct kube_call *call;
    TAILQ_FOREACH(call, &client->calls, link)
    {
        for (struct try *t = call->tries; t < call->tries + call->count; t++) {
            if (t->ended || t->is_paused || (t->has_bytes && call->request.on_bytes)) {
                return t;
            }
        }
    }
    return NULL;
}

static void note_end(struct try *t, CURLcode code)
{
    t->ended = true;
    t->end_code = code;
    t->is_paused = false;
}

/* Hands on what a stream has brought. Its head comes first: 200 with JSON means that the server has
 * accepted it. 200 with another type is a proxy's page, which may never end, and is ended here. Any
 * other status is an answer like that to a request, and is read when it has come as a whole. */
static void deliver_bytes(struct try *t)
{
    struct kube_call *call = t->call;
    t->has_bytes = false;
    if (!call->is_accepted) {
        struct kube_response head;
        read_head(t, &head);
        if (head.http_status == 200 && !head.is_json) {
            note_end(t, CURLE_OK);
        }
        if (head.http_status != 200 || !head.is_json) {
            return;
        }
        call->is_accepted = true;
        ev_timer_stop(call->client->loop, &call->due);
        observe(call, &head);
    }
    call->request.on_bytes(call->user, &t->inbox); /* may cancel any: look anew */
}

/* Hands on all that has come. curl_loop calls this after each round of curl's, when no curl
 * function is on the stack. */
static void deliver_all(void *user)
{
    struct try *t;
    struct kube_client *client = user;
    struct mono now = clock_mono_now();
    if (mono_since(now, client->conf.looked_at) >= LOOK_NS) {
        (void)refresh_credentials(client, now, false);
    }
    while ((t = first_to_deliver(user)) != NULL) {
        if (t->has_bytes && t->call->request.on_bytes) {
            deliver_bytes(t);
        } else if (t->is_paused) {
            t->is_paused = false;
            CURLcode code = curl_easy_pause(t->transfer.easy, CURLPAUSE_CONT);
            if (code != CURLE_OK) {
                note_end(t, code);
            }
        } else {
            t->ended = false; /* told once */
            end_try(t);
        }
    }
    pass_turn(user);
}

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    struct try *t = NULL;
    if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &t) == CURLE_OK && t) {
        note_end(t, code);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct kube_call *kube_client_start(struct kube_client *client, const struct kube_request *request,
                                    kube_done_fn *done, void *user)
{
    struct kube_call *call = MEM_NEW(struct kube_call);
    call->client = client;
    call->request = *request;
    call->path = mem_strdup(request->path);
    call->body = request->text ? mem_strdup(request->text) : NULL;
    if (request->body) {
        call->body = json_text_dump(request->body);
    }
    call->done = done;
    call->user = user;
    if (!request->on_bytes) {
        call->request.max_bytes = KUBE_BODY_MAX_BYTES;
    }
    if (request->deadline_ms == 0) {
        call->request.deadline_ms = client->patience_ms[kind_of(request)];
    }
    ev_timer_init(&call->next_try, on_next_try, 0., 0.);
    call->next_try.data = call;
    ev_timer_init(&call->due, on_due, 0., 0.);
    call->due.data = call;
    for (int i = 0; i < TRIES_MAX; i++) {
        call->tries[i].call = call;
        close_try(&call->tries[i]);
    }
    TAILQ_INSERT_TAIL(&client->calls, call, link);
    start_turn(call);
    if (request->awaited_ms > 0) {
        loop_timer_arm(client->loop, &call->due, request->awaited_ms * NS_PER_MS);
    }
    return call;
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        if (is_late(call)) {
            *call->request.late = NULL;
        }
        if (call->is_waiting) {
            kube_bucket_return(&call->client->bucket);
        }
        TAILQ_REMOVE(&call->client->calls, call, link);
        ev_timer_stop(call->client->loop, &call->due);
        end_tries(call);
        free(call->body);
        free(call->path);
        free(call);
    }
}

int kube_client_new(struct ev_loop *loop, struct kube_conf *conf, struct kube_client **out,
                    struct err *e)
{
    struct kube_client *client = MEM_NEW(struct kube_client);
    const struct curl_loop_config config = {
        .ended = on_ended, .after = deliver_all, .user = client};
    struct mono now = clock_mono_now();
    client->loop = loop;
    TAILQ_INIT(&client->calls);
    client->conf = *conf;
    *conf = (struct kube_conf){0};
    int rc = kube_conf_open(&client->conf, now, e);
    if (rc != 0) {
        kube_client_free(client);
        return rc;
    }
    client->curl = curl_loop_new(loop, &config);
    kube_tls_init(&client->tls, &client->conf);
    kube_bucket_init(&client->bucket, now);
    for (int i = 0; i < REQUEST_KINDS; i++) {
        client->patience_ms[i] = KUBE_PATIENCE_MS;
    }
    client->metrics.has_expiry = kube_conf_expiry(&client->conf, &client->metrics.expiry);
    client->metrics.is_credential_unusable = kube_conf_problem(&client->conf) != NULL;
    locate_server(client);
    *out = client;
    return 0;
}

int kube_client_connect(struct ev_loop *loop, const char *kubeconfig, struct kube_client **out,
                        struct err *e)
{
    struct kube_conf conf = {0};
    int rc = kube_conf_load(kubeconfig, NULL, &conf, e);
    return rc != 0 ? rc : kube_client_new(loop, &conf, out, e);
}

void kube_client_free(struct kube_client *client)
{
    if (!client) {
        return;
    }
    while (!TAILQ_EMPTY(&client->calls)) {
        kube_call_cancel(TAILQ_FIRST(&client->calls));
    }
    curl_loop_free(client->curl);
    kube_tls_fini(&client->tls);
    kube_dial_fini(&client->dial);
    kube_conf_fini(&client->conf);
    free(client);
}

struct ev_loop *kube_client_loop(const struct kube_client *client)
{
    return client->loop;
}

const struct kube_metrics *kube_client_metrics(const struct kube_client *client)
{
    return &client->metrics;
}

const char *kube_client_problem(const struct kube_client *client)
{
    return kube_conf_problem(&client->conf);
}

const char *kube_client_describe(const struct kube_client *client)
{
    return client->description;
}
