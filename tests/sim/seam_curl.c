/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of libcurl that the client uses, on virtual time and without sockets: a handle's
 * exchange goes to the model API server. As with the real one, nothing is sent before the loop gets
 * to it, an overdue time limit wins against bytes that wait, and bytes come in pieces of any size.
 */
#define CURL_DISABLE_DEPRECATION
#define CURL_DISABLE_TYPECHECK
#include "tests/sim/api.h"

#include <curl/curl.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HANDLES_MAX = 64, CONNS_MAX = HANDLES_MAX + 8 };

struct multi;

/* One to an API server. Of those that are idle curl takes the oldest that it has not to leave. */
struct conn {
    uint64_t id; /* counts up from 1 */
    int server;
    bool is_busy;
    bool is_spoiled;
    int64_t left_at; /* by the machine's monotonic clock */
};

struct easy {
    struct multi *multi;
    char path[EXCHANGE_PATH_BYTES];
    const char *method; /* borrowed, static */
    const char *body;   /* borrowed */
    struct curl_slist *headers;
    int64_t limit_ms; /* 0: none */
    bool is_fresh;    /* over a new connection */
    long most_idle_s; /* or one that was left so long ago, at most */
    uint64_t conn;    /* the last one; 0: none */
    curl_prereq_callback before_request;
    void *before_request_user;
    void *private;
    curl_write_callback write;
    void *write_user;
    curl_write_callback header;
    void *header_user;

    struct exchange *exchange;
    int64_t started; /* by the machine's monotonic clock */
    int status;
    void *socket_user;
    bool is_ended;
    bool is_told;
    CURLMsg message;
};

struct multi {
    struct easy *handles[HANDLES_MAX];
    size_t count;
    struct conn conns[CONNS_MAX]; /* the oldest first */
    size_t conn_count;
    uint64_t last_conn;
    long most_idle; /* connections */
    curl_socket_callback on_socket;
    void *socket_user;
    curl_multi_timer_callback on_timer;
    void *timer_user;
};

/* ---- handles --------------------------------------------------------------------------------- */

CURL *curl_easy_init(void)
{
    struct easy *easy = calloc(1, sizeof(*easy));
    assert(easy);
    easy->method = "GET";
    easy->most_idle_s = 118;
    return easy;
}

static void set_url(struct easy *easy, const char *url)
{
    const char *path = strchr(strstr(url, "://") + 3, '/');
    (void)snprintf(easy->path, sizeof(easy->path), "%s", path ? path : "/");
}

#undef curl_easy_setopt
CURLcode curl_easy_setopt(CURL *handle, CURLoption option, ...)
{
    struct easy *easy = handle;
    va_list ap;
    va_start(ap, option);
    if (option == CURLOPT_URL) {
        set_url(easy, va_arg(ap, const char *));
    } else if (option == CURLOPT_CUSTOMREQUEST) {
        easy->method = va_arg(ap, const char *);
    } else if (option == CURLOPT_POSTFIELDS) {
        easy->body = va_arg(ap, const char *);
    } else if (option == CURLOPT_HTTPHEADER) {
        easy->headers = va_arg(ap, struct curl_slist *);
    } else if (option == CURLOPT_TIMEOUT_MS) {
        easy->limit_ms = va_arg(ap, long);
    } else if (option == CURLOPT_FRESH_CONNECT) {
        easy->is_fresh = va_arg(ap, long) != 0;
    } else if (option == CURLOPT_MAXAGE_CONN) {
        easy->most_idle_s = va_arg(ap, long);
    } else if (option == CURLOPT_PREREQFUNCTION) {
        easy->before_request = va_arg(ap, curl_prereq_callback);
    } else if (option == CURLOPT_PREREQDATA) {
        easy->before_request_user = va_arg(ap, void *);
    } else if (option == CURLOPT_PRIVATE) {
        easy->private = va_arg(ap, void *);
    } else if (option == CURLOPT_WRITEFUNCTION) {
        easy->write = va_arg(ap, curl_write_callback);
    } else if (option == CURLOPT_WRITEDATA) {
        easy->write_user = va_arg(ap, void *);
    } else if (option == CURLOPT_HEADERFUNCTION) {
        easy->header = va_arg(ap, curl_write_callback);
    } else if (option == CURLOPT_HEADERDATA) {
        easy->header_user = va_arg(ap, void *);
    } /* the others speak of real connections */
    va_end(ap);
    return CURLE_OK;
}

#undef curl_easy_getinfo
CURLcode curl_easy_getinfo(CURL *handle, CURLINFO info, ...)
{
    struct easy *easy = handle;
    CURLcode code = CURLE_OK;
    va_list ap;
    va_start(ap, info);
    if (info == CURLINFO_PRIVATE) {
        *va_arg(ap, void **) = easy->private;
    } else if (info == CURLINFO_CONNECT_TIME_T) {
        *va_arg(ap, curl_off_t *) = easy->exchange && easy->exchange->is_connected;
    } else if (info == CURLINFO_RESPONSE_CODE) {
        *va_arg(ap, long *) = easy->status;
    } else {
        code = CURLE_UNKNOWN_OPTION;
    }
    va_end(ap);
    return code;
}

/* What is handed on at a time always has room. */
CURLcode curl_easy_pause(CURL *handle, int bitmask)
{
    assert(false);
    return CURLE_OK;
}

void curl_easy_cleanup(CURL *handle)
{
    struct easy *easy = handle;
    if (easy) {
        assert(!easy->multi);
        free(easy);
    }
}

/* ---- the multi handle ------------------------------------------------------------------------ */

CURLM *curl_multi_init(void)
{
    struct multi *m = calloc(1, sizeof(*m));
    assert(m);
    return (CURLM *)m;
}

CURLMcode curl_multi_cleanup(CURLM *handle)
{
    assert(((struct multi *)handle)->count == 0);
    free(handle);
    return CURLM_OK;
}

#undef curl_multi_setopt
CURLMcode curl_multi_setopt(CURLM *handle, CURLMoption option, ...)
{
    struct multi *m = (struct multi *)handle;
    va_list ap;
    va_start(ap, option);
    if (option == CURLMOPT_SOCKETFUNCTION) {
        m->on_socket = va_arg(ap, curl_socket_callback);
    } else if (option == CURLMOPT_SOCKETDATA) {
        m->socket_user = va_arg(ap, void *);
    } else if (option == CURLMOPT_TIMERFUNCTION) {
        m->on_timer = va_arg(ap, curl_multi_timer_callback);
    } else if (option == CURLMOPT_TIMERDATA) {
        m->timer_user = va_arg(ap, void *);
    } else if (option == CURLMOPT_MAXCONNECTS) {
        m->most_idle = va_arg(ap, long);
    }
    va_end(ap);
    return CURLM_OK;
}

CURLMcode curl_multi_assign(CURLM *handle, curl_socket_t fd, void *socket_user)
{
    struct multi *m = (struct multi *)handle;
    for (size_t i = 0; i < m->count; i++) {
        if (m->handles[i]->exchange && m->handles[i]->exchange->fd == fd) {
            m->handles[i]->socket_user = socket_user;
            return CURLM_OK;
        }
    }
    return CURLM_BAD_SOCKET;
}

static int64_t monotonic_now(void)
{
    const struct world *w = world_get();
    return machine_monotonic_ns(w, w->current->machine);
}

/* When a handle runs out of time. */
static int64_t limit_of(const struct easy *easy)
{
    return easy->limit_ms != 0 ? easy->started + easy->limit_ms * MS : NEVER;
}

/* As curl does after each call: when it wants to be called at the latest. */
static void tell_timer(struct multi *m, CURLM *handle)
{
    int64_t due = NEVER;
    int64_t now = monotonic_now();
    for (size_t i = 0; i < m->count; i++) {
        const struct easy *easy = m->handles[i];
        int64_t at = easy->is_ended ? NEVER : !easy->exchange ? now : limit_of(easy);
        due = at < due ? at : due;
    }
    int64_t wait_ms = due == NEVER ? -1 : due <= now ? 0 : (due - now + MS - 1) / MS;
    (void)m->on_timer(handle, (long)wait_ms, m->timer_user);
}

CURLMcode curl_multi_add_handle(CURLM *handle, CURL *added)
{
    struct multi *m = (struct multi *)handle;
    struct easy *easy = added;
    assert(m->count < HANDLES_MAX);
    m->handles[m->count++] = easy;
    easy->multi = m;
    easy->started = monotonic_now();
    tell_timer(m, handle);
    return CURLM_OK;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void close_conn(struct multi *m, struct conn *c)
{
    size_t i = (size_t)(c - m->conns);
    memmove(c, c + 1, (--m->conn_count - i) * sizeof(*c));
}

static struct conn *find_conn(struct multi *m, uint64_t id)
{
    for (size_t i = 0; i < m->conn_count; i++) {
        if (m->conns[i].id == id) {
            return &m->conns[i];
        }
    }
    return NULL;
}

/* The connection for this handle. */
static const struct conn *take_conn(struct multi *m, struct easy *easy)
{
    struct conn *taken = NULL;
    int64_t now = monotonic_now();
    for (struct conn *c = m->conns; !taken && !easy->is_fresh && c < m->conns + m->conn_count;) {
        bool is_old = now - c->left_at > easy->most_idle_s * SEC;
        if (!c->is_busy && (c->is_spoiled || is_old)) {
            close_conn(m, c);
        } else if (!c->is_busy) {
            taken = c;
        } else {
            c++;
        }
    }
    if (!taken) {
        assert(m->conn_count < CONNS_MAX);
        taken = &m->conns[m->conn_count++];
        *taken = (struct conn){.id = ++m->last_conn, .server = (int)(m->last_conn % API_SERVERS)};
        tally_note("connection: %s", world_get()->current->name);
    }
    taken->is_busy = true;
    easy->conn = taken->id;
    return taken;
}

/* The handle is done with its connection. */
static void leave_conn(struct multi *m, struct easy *easy, bool is_whole)
{
    struct conn *c = find_conn(m, easy->conn);
    if (!c || !c->is_busy) {
        return;
    }
    c->is_busy = false;
    c->left_at = monotonic_now();
    if (!is_whole) {
        close_conn(m, c);
    }
    long idle = 0;
    for (size_t i = m->conn_count; i > 0; i--) {
        idle += !m->conns[i - 1].is_busy;
        if (!m->conns[i - 1].is_busy && idle > m->most_idle) {
            close_conn(m, &m->conns[i - 1]);
        }
    }
}

/* loop/curl_loop.h, which does it with a socket. */
void __wrap_curl_loop_spoil(CURL *handle);
void __wrap_curl_loop_spoil(CURL *handle)
{
    const struct easy *easy = handle;
    struct conn *c = easy->multi ? find_conn(easy->multi, easy->conn) : NULL;
    if (c) {
        tally_note("connection: %s gives one up", world_get()->current->name);
        c->is_spoiled = true;
    }
}

static void close_exchange(struct multi *m, struct easy *easy, bool is_whole)
{
    if (easy->exchange) {
        (void)m->on_socket(easy, easy->exchange->fd, CURL_POLL_REMOVE, m->socket_user,
                           easy->socket_user);
        exchange_leave(easy->exchange);
        leave_conn(m, easy, is_whole);
        easy->exchange = NULL;
        easy->socket_user = NULL;
    }
}

CURLMcode curl_multi_remove_handle(CURLM *handle, CURL *removed)
{
    struct multi *m = (struct multi *)handle;
    struct easy *easy = removed;
    for (size_t i = 0; i < m->count; i++) {
        if (m->handles[i] == easy) {
            close_exchange(m, easy, false);
            easy->multi = NULL;
            memmove(&m->handles[i], &m->handles[i + 1], (--m->count - i) * sizeof(m->handles[0]));
            tell_timer(m, handle);
            break;
        }
    }
    return CURLM_OK;
}

CURLMsg *curl_multi_info_read(CURLM *handle, int *left)
{
    struct multi *m = (struct multi *)handle;
    *left = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->handles[i]->is_ended && !m->handles[i]->is_told) {
            m->handles[i]->is_told = true;
            return &m->handles[i]->message;
        }
    }
    return NULL;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void end(struct multi *m, struct easy *easy, CURLcode code)
{
    easy->is_ended = true;
    easy->message = (CURLMsg){.msg = CURLMSG_DONE, .easy_handle = easy, .data = {.result = code}};
    close_exchange(m, easy, code == CURLE_OK);
}

static void start(struct multi *m, struct easy *easy)
{
    const char *type = "";
    if (easy->before_request &&
        easy->before_request(easy->before_request_user, NULL, NULL, 0, 0) != CURL_PREREQFUNC_OK) {
        end(m, easy, CURLE_ABORTED_BY_CALLBACK);
        return;
    }
    for (const struct curl_slist *h = easy->headers; h; h = h->next) {
        if (strncmp(h->data, "Content-Type: ", strlen("Content-Type: ")) == 0) {
            type = h->data + strlen("Content-Type: ");
        }
    }
    easy->exchange = exchange_start(world_get()->current, take_conn(m, easy)->server, easy->method,
                                    easy->path, easy->body, type);
    (void)m->on_socket(easy, easy->exchange->fd, CURL_POLL_IN, m->socket_user, easy->socket_user);
}

__attribute__((format(printf, 2, 3))) static void give_line(struct easy *easy, const char *fmt, ...)
{
    char line[128];
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    assert(len > 0 && (size_t)len < sizeof(line));
    (void)easy->header(line, 1, (size_t)len, easy->header_user);
}

static void give_head(struct easy *easy)
{
    const struct exchange *x = easy->exchange;
    char date[64];
    time_t seconds = (time_t)(x->date_ns / SEC);
    struct tm tm;
    (void)strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&seconds, &tm));
    easy->status = x->status;
    give_line(easy, "HTTP/1.1 %d \r\n", x->status);
    if (x->type[0] != '\0') {
        give_line(easy, "Content-Type: %s\r\n", x->type);
    }
    give_line(easy, "Date: %s\r\n", date);
    if (x->retry_after_s >= 0) {
        give_line(easy, "Retry-After: %d\r\n", x->retry_after_s);
    }
    give_line(easy, "\r\n");
}

/* Hands on some of what waits; false: the client takes no more. */
static bool give_bytes(struct easy *easy)
{
    struct exchange *x = easy->exchange;
    struct world *w = world_get();
    size_t most = x->len > CURL_MAX_WRITE_SIZE ? CURL_MAX_WRITE_SIZE : x->len;
    size_t len = world_one_in(w, 8) ? (size_t)world_between(w, 1, (int64_t)most) : most;
    bool taken = easy->write(x->bytes, 1, len, easy->write_user) == len;
    x->len -= len;
    memmove(x->bytes, x->bytes + len, x->len);
    return taken;
}

static void go_on(struct multi *m, struct easy *easy)
{
    static const CURLcode codes[] = {[EXCHANGE_WHOLE] = CURLE_OK,
                                     [EXCHANGE_REFUSED] = CURLE_COULDNT_CONNECT,
                                     [EXCHANGE_RESET] = CURLE_RECV_ERROR};
    struct exchange *x = easy->exchange;
    if (limit_of(easy) <= monotonic_now()) {
        end(m, easy, CURLE_OPERATION_TIMEDOUT);
        return;
    }
    if (x->status != 0 && easy->status == 0) {
        give_head(easy);
    }
    if (x->len > 0 && !give_bytes(easy)) {
        end(m, easy, CURLE_WRITE_ERROR);
    } else if (x->len > 0) {
        loop_feed(x->proc->loop, x->fd); /* the rest waits */
    } else if (x->end != EXCHANGE_OPEN) {
        end(m, easy, codes[x->end]);
    }
}

CURLMcode curl_multi_socket_action(CURLM *handle, curl_socket_t fd, int events, int *running)
{
    struct multi *m = (struct multi *)handle;
    for (size_t i = 0; i < m->count; i++) {
        struct easy *easy = m->handles[i];
        if (!easy->is_ended && !easy->exchange) {
            start(m, easy);
        } else if (!easy->is_ended &&
                   (easy->exchange->fd == fd || limit_of(easy) <= monotonic_now())) {
            go_on(m, easy);
        }
    }
    tell_timer(m, handle);
    *running = (int)m->count;
    return CURLM_OK;
}

CURLMcode curl_multi_socket_all(CURLM *handle, int *running)
{
    return curl_multi_socket_action(handle, CURL_SOCKET_TIMEOUT, 0, running);
}
