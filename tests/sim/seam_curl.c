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

enum { HANDLES_MAX = 64 };

struct multi;

struct easy {
    struct multi *multi;
    char path[EXCHANGE_PATH_BYTES];
    const char *method; /* borrowed, static */
    const char *body;   /* borrowed */
    struct curl_slist *headers;
    int64_t limit_ms; /* 0: none */
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

static void close_exchange(struct multi *m, struct easy *easy)
{
    if (easy->exchange) {
        (void)m->on_socket(easy, easy->exchange->fd, CURL_POLL_REMOVE, m->socket_user,
                           easy->socket_user);
        exchange_leave(easy->exchange);
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
            close_exchange(m, easy);
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
    close_exchange(m, easy);
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
    easy->exchange =
        exchange_start(world_get()->current, easy->method, easy->path, easy->body, type);
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
