/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/grpc/grpc_server.h"

#include "base/log.h"
#include "tests/support/case.h"
#include "tests/support/h2_client.h"

#include <curl/curl.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

/* A server with one handler of each temper, and a client. */
struct world {
    struct h2_peer peer;
    struct h2_client *client; /* the peer's */
    struct grpc_call *held;   /* of /test.S/Hold and /test.S/Watch */
    int handled;
    int cancelled;
    int drained;
};

static void on_cancel(void *user, struct grpc_call *call)
{
    struct world *w = user;
    assert_ptr_equal(w->held, call);
    w->held = NULL;
    w->cancelled++;
}

static void echo(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    ((struct world *)user)->handled++;
    grpc_call_reply(call, message, len);
}

static void hold(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct world *w = user;
    w->handled++;
    w->held = call;
    grpc_call_on_cancel(call, on_cancel, w);
}

static void refuse(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    grpc_call_end(call, GRPC_UNAVAILABLE, "100%% caf\xc3\xa9\n");
}

enum { BIG_BYTES = 100000 };

static uint8_t big_byte(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

static void big(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    uint8_t *reply = malloc(BIG_BYTES);
    assert_non_null(reply);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        reply[i] = big_byte(i);
    }
    grpc_call_reply(call, reply, BIG_BYTES);
    free(reply);
}

/* As much as there may be; a request that is as large gets one byte less. */
static void huge(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    size_t reply_len = GRPC_REPLY_MAX_BYTES + (len < GRPC_REQUEST_MAX_BYTES);
    uint8_t *reply = calloc(1, reply_len);
    assert_non_null(reply);
    grpc_call_reply(call, reply, reply_len);
    free(reply);
}

static const struct grpc_method methods[] = {
    {"/test.S/Echo", echo},      {"/test.S/Hold", hold}, {"/test.S/Fail", refuse},
    {"/test.S/Big", big},        {"/test.S/Huge", huge}, {"/test.S/Watch", hold},
    {"/test.S/NoWatch", refuse},
};

/* This process' clocks, libev's among them, are ahead by so much. */
static int64_t ahead_s;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, out);
    out->tv_sec += ahead_s;
    return rc;
}

static void up(struct world *w)
{
    ahead_s = 0;
    h2_peer_start(&w->peer, methods, ARRAY_LEN(methods), w);
    w->client = w->peer.client;
}

/* Of ours and the server's end of the client's connection, and what else there is. */
static void for_each_fd(const struct world *w, void (*then)(const struct world *w, int fd))
{
    for (int fd = 3; fd <= w->client->fd + 1; fd++) {
        then(w, fd);
    }
}

static void shrink_buffer(const struct world *w, int fd)
{
    int small = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)); /* if it is a socket */
}

static void open_manual_window(struct world *w)
{
    h2_client_free(w->client);
    w->client = w->peer.client = h2_client_new(w->peer.loop, w->peer.path, true);
}

static void down(struct world *w)
{
    h2_peer_stop(&w->peer);
}

WORLD(up, down)

static struct h2_stream *pumped(struct world *w, int32_t id)
{
    assert_int_equal(h2_client_pump(w->client), 0);
    return h2_client_stream(w->client, id);
}

static struct h2_stream *call(struct world *w, const char *path, const char *message)
{
    return pumped(w, h2_client_call(w->client, path, message, strlen(message)));
}

static struct h2_stream *open_request(struct world *w, const struct h2_request *r)
{
    return pumped(w, h2_client_open(w->client, r));
}

/* Headers and trailers, and nothing between. */
static void assert_status_only(const struct h2_stream *s, int status)
{
    assert_int_equal(s->header_frames, 2);
    assert_string_equal(s->http_status, "200");
    assert_string_equal(s->content_type, "application/grpc");
    assert_int_equal(s->body_len, 0);
    assert_int_equal(s->grpc_status, status);
    assert_true(s->is_closed);
}

static void assert_message(const struct h2_stream *s, int index, const char *want)
{
    const uint8_t *got = NULL;
    int len = h2_stream_message(s, index, &got);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(got, want, strlen(want));
}

static void assert_ok(const struct h2_stream *s, const char *want)
{
    assert_int_equal(s->header_frames, 2);
    assert_string_equal(s->http_status, "200");
    assert_string_equal(s->content_type, "application/grpc");
    assert_int_equal(s->grpc_status, 0);
    assert_int_equal(s->error_code, 0);
    assert_true(s->is_closed);
    assert_message(s, 0, want);
}

/* The server has closed it. */
static bool is_closed(int fd)
{
    char bytes[512];
    ssize_t len;
    do {
        len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (len > 0);
    return len == 0 || errno != EAGAIN;
}

/* ---- what is easily got wrong on top of nghttp2 ---- */

TEST_IN(trailers_wait_for_a_body_larger_than_the_window)
{
    open_manual_window(w);
    h2_peer_turn(&w->peer, 2);
    for_each_fd(w, shrink_buffer);
    struct h2_stream *s = call(w, "/test.S/Big", "");
    assert_int_equal(s->body_len, 65535);
    assert_int_equal(s->grpc_status, -1);
    assert_false(s->is_closed);
    while (!s->is_closed) {
        h2_client_consume(w->client, 1, 20000);
        assert_int_equal(h2_client_pump(w->client), 0);
    }
    const uint8_t *got = NULL;
    assert_int_equal(h2_stream_message(s, 0, &got), BIG_BYTES);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        assert_true(got[i] == big_byte(i));
    }
    assert_int_equal(s->grpc_status, 0);
}

TEST_IN(unknown_path_is_unimplemented)
{
    static const char *const paths[] = {"/test.S/Nope", "/other.S/Echo", "/test.S", "nonsense",
                                        "/"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char message[64];
        (void)snprintf(message, sizeof(message), "unknown method %s", paths[i]);
        struct h2_stream *s = call(w, paths[i], "");
        assert_status_only(s, GRPC_UNIMPLEMENTED);
        char *said = curl_easy_unescape(NULL, s->grpc_message, 0, NULL);
        assert_string_equal(said, message);
        curl_free(said);
    }
    const struct h2_request no_body = {.path = "/test.S/Nope", .stays_open = true};
    assert_status_only(open_request(w, &no_body), GRPC_UNIMPLEMENTED); /* it is not waited for */
}

TEST_IN(failure_has_no_message)
{
    struct h2_stream *s = call(w, "/test.S/Fail", "x");
    assert_status_only(s, GRPC_UNAVAILABLE);
    assert_string_equal(s->grpc_message, "100%25%20caf%C3%A9%0A"); /* as on the wire */
    assert_status_only(call(w, "/test.S/NoWatch", "x"), GRPC_UNAVAILABLE);
}

TEST_IN(oversized_request_costs_its_own_stream_only)
{
    static const uint8_t prefix[] = {0, 0x7f, 0xff, 0xff, 0xff, 'x'};
    struct h2_stream *watch = call(w, "/test.S/Watch", "");
    assert_int_equal(w->client->max_concurrent_streams, GRPC_STREAMS_MAX);
    struct h2_stream *s = open_request(w, &(struct h2_request){.path = "/test.S/Echo",
                                                               .body = prefix,
                                                               .body_len = sizeof(prefix),
                                                               .stays_open = true});
    assert_status_only(s, GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(s->error_code, 0); /* NO_ERROR: stop sending */
    assert_false(watch->is_closed);
    assert_ok(call(w, "/test.S/Echo", "still here"), "still here");
}

TEST_IN(request_bytes_of_all_streams_together_are_bounded)
{
    enum { PART = 900000, STREAMS = 6 };
    uint8_t *body = calloc(1, PART);
    static const uint8_t prefix[GRPC_PREFIX_BYTES] = {0, 0, 0x10, 0, 0}; /* 1 MiB */
    assert_non_null(body);
    memcpy(body, prefix, sizeof(prefix));
    int refused = 0;
    (void)pumped(w, h2_client_call(w->client, "/test.S/Watch", body, PART)); /* that is handled */
    for (int i = 0; i < STREAMS; i++) {
        struct h2_stream *s = open_request(
            w, &(struct h2_request){
                   .path = "/test.S/Echo", .body = body, .body_len = PART, .stays_open = true});
        refused += s->grpc_status == GRPC_RESOURCE_EXHAUSTED;
        if (i == STREAMS - 2) {
            assert_int_equal(refused, 1); /* four fit into 4 MiB, */
            h2_client_cancel(w->client, 3);
        }
    }
    free(body);
    assert_int_equal(refused, 1); /* and another one when the first has gone */
}

TEST_IN(input_cut_into_single_bytes_is_understood)
{
    w->client->chunk_bytes = 1;
    assert_ok(call(w, "/test.S/Echo", "split"), "split");
}

/* ---- requests ---- */

TEST_IN(first_frame_is_settings_without_being_asked)
{
    uint8_t in[64];
    CLEANUP(fd) int fd = h2_dial(w->peer.path);
    h2_peer_turn(&w->peer, 3);
    assert_true(recv(fd, in, sizeof(in), 0) > 9);
    assert_int_equal(in[3], NGHTTP2_SETTINGS);
}

TEST_IN(requests_may_come_as_kubelets_send_them)
{
    static const struct h2_request rows[] = {
        {.authority = "localhost"},
        {.authority = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fdpu-reg.sock"},
        {.authority = "/var/lib/kubelet/plugins_registry/dpu-reg.sock"},
        {.authority = ""},
        {.content_type = "application/grpc+proto"},
        {.content_type = "application/grpc;charset=x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h2_request request = rows[i];
        request.path = "/test.S/Echo";
        request.body = "\0\0\0\0\1a";
        request.body_len = 6;
        assert_ok(open_request(w, &request), "a");
    }
}

TEST_IN(malformed_requests_are_told_apart)
{
    static const struct {
        struct h2_request request;
        const char *http_status;
        int status;
    } rows[] = {
        {{.path = "/test.S/Echo", .method = "GET"}, "405", GRPC_INTERNAL},
        {{.path = "/test.S/Echo", .content_type = "text/plain"}, "415", GRPC_INTERNAL},
        {{.path = "/test.S/Echo", .content_type = "application/grpcx"}, "415", GRPC_INTERNAL},
        {{.path = "/test.S/Echo", .body = "\1\0\0\0\1x", .body_len = 6}, "200", GRPC_UNIMPLEMENTED},
        {{.path = "/test.S/Echo", .body = "\7\0\0\0\1x", .body_len = 6}, "200", GRPC_INTERNAL},
        {{.path = "/test.S/Echo", .body = "\0\0\0\0\2x", .body_len = 6}, "200", GRPC_INTERNAL},
        {{.path = "/test.S/Echo", .body = "\0\0", .body_len = 2}, "200", GRPC_INTERNAL},
        {{.path = "/test.S/Echo"}, "200", GRPC_INTERNAL},
        {{.path = "/test.S/Echo", .body = "\0\0\0\0\0\0\0\0\0\0", .body_len = 10},
         "200",
         GRPC_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h2_stream *s = open_request(w, &rows[i].request);
        assert_string_equal(s->http_status, rows[i].http_status);
        assert_int_equal(s->grpc_status, rows[i].status);
        assert_int_equal(s->body_len, 0);
    }
    assert_int_equal(w->handled, 0);
    assert_ok(call(w, "/test.S/Echo", "fine"), "fine");
}

/* In one piece, so that the server reads all of it before it can answer. */
TEST_IN(what_comes_behind_a_malformed_message_is_passed_over)
{
    uint8_t all[512];
    size_t used = 0;
    const uint8_t *bytes;
    ssize_t len;
    const struct h2_request request = {
        .path = "/test.S/Echo", .body = "\7\0\0\0\1x", .body_len = 6, .stays_open = true};
    int32_t id = h2_client_open(w->client, &request);
    for (int i = 0; i < 2; i++) {
        while ((len = nghttp2_session_mem_send(w->client->session, &bytes)) > 0) {
            memcpy(all + used, bytes, (size_t)len);
            used += (size_t)len;
        }
        h2_client_send(w->client, id, "more", 4, false);
    }
    assert_int_equal(send(w->client->fd, all, used, 0), used);
    assert_status_only(pumped(w, id), GRPC_INTERNAL);
}

TEST_IN(reply_beyond_the_limit_is_resource_exhausted)
{
    static const uint8_t request[GRPC_REQUEST_MAX_BYTES];
    const uint8_t *got;
    assert_status_only(call(w, "/test.S/Huge", ""), GRPC_RESOURCE_EXHAUSTED);
    struct h2_stream *s =
        pumped(w, h2_client_call(w->client, "/test.S/Huge", request, sizeof(request)));
    assert_int_equal(h2_stream_message(s, 0, &got), GRPC_REPLY_MAX_BYTES);
}

TEST_IN(body_may_come_in_pieces_long_after_its_headers)
{
    static const struct {
        const char *bytes;
        size_t len;
    } pieces[] = {{"\0\2a", 3}, {"b", 1}, {"", 0}}; /* END_STREAM on an empty DATA frame */
    int32_t id = h2_client_open(w->client, &(struct h2_request){.path = "/test.S/Echo",
                                                                .body = "\0\0\0",
                                                                .body_len = 3,
                                                                .stays_open = true});
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        (void)pumped(w, id);
        assert_int_equal(w->handled, 0);
        h2_client_send(w->client, id, pieces[i].bytes, pieces[i].len, pieces[i].len == 0);
    }
    assert_ok(pumped(w, id), "ab");
}

/* ---- asynchronous answers, cancellation, deadlines ---- */

TEST_IN(cancelled_call_is_given_up)
{
    int32_t id = h2_client_call(w->client, "/test.S/Hold", "", 0);
    (void)pumped(w, id);
    h2_client_cancel(w->client, id);
    assert_int_equal(h2_client_pump(w->client), 0);
    assert_int_equal(w->cancelled, 1);
}

TEST_IN(lost_connection_cancels_its_calls)
{
    (void)call(w, "/test.S/Watch", "");
    (void)shutdown(w->client->fd, SHUT_RDWR);
    h2_peer_turn(&w->peer, 3);
    assert_int_equal(w->cancelled, 1);
    open_manual_window(w);
    (void)call(w, "/test.S/Watch", "");
    (void)shutdown(w->client->fd, SHUT_RD);
    grpc_call_send(w->held, "x", 1); /* which nobody takes */
    h2_peer_turn(&w->peer, 3);
    assert_int_equal(w->cancelled, 2);
}

static void feed(const struct world *w, int fd)
{
    ev_feed_fd_event(w->peer.loop, fd, EV_READ);
}

static void note_end(struct ev_loop *loop, ev_timer *timer, int events)
{
    *(bool *)timer->data = true;
}

TEST_IN(what_is_not_ready_after_all_is_waited_for_quietly)
{
    bool has_ended = false;
    ev_timer timer;
    ev_timer_init(&timer, note_end, 0.05, 0.);
    timer.data = &has_ended;
    assert_ok(call(w, "/test.S/Echo", "x"), "x");
    for_each_fd(w, feed);
    h2_peer_turn(&w->peer, 1);
    ev_timer_start(w->peer.loop, &timer);
    (void)ev_run(w->peer.loop, EVRUN_ONCE);
    assert_true(has_ended); /* nothing else woke it */
    assert_ok(call(w, "/test.S/Echo", "x"), "x");
    h2_client_free(h2_client_new(w->peer.loop, w->peer.path, false));
    open_manual_window(w);
    assert_ok(call(w, "/test.S/Echo", "x"), "x"); /* it is accepted at once */
}

static const char *read_log(int fd, char out[static 512])
{
    ssize_t len = read(fd, out, 511);
    out[len > 0 ? len : 0] = '\0';
    return out;
}

TEST_IN(each_call_is_logged_once_with_its_end)
{
    static const struct {
        const char *path;
        enum grpc_status status;
    } rows[] = {
        {"/test.S/Echo", GRPC_OK},
        {"/test.S/Fail", GRPC_UNAVAILABLE},
        {"/test.S/Huge", GRPC_RESOURCE_EXHAUSTED},
        {"/test.S/None", GRPC_UNIMPLEMENTED},
        {"/test.S/Hold", GRPC_CANCELLED},
        {"/test.S/Watch", GRPC_CANCELLED},
    };
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    log_setup(LOG_DEBUG, LOG_TEXT, "");
    log_set_fd(ends[1]);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char line[512];
        char said[128];
        int32_t id = h2_client_call(w->client, rows[i].path, "x", 1);
        (void)pumped(w, id);
        if (rows[i].status == GRPC_CANCELLED) {
            assert_string_equal(read_log(ends[0], line), "");
            h2_client_cancel(w->client, id);
            (void)pumped(w, id);
        }
        (void)snprintf(said, sizeof(said), "test: call of %s: %s after ", rows[i].path,
                       grpc_status_name((int)rows[i].status));
        const char *at = strstr(read_log(ends[0], line), said);
        assert_non_null(at);
        assert_null(strstr(at + 1, "test: call"));
    }
    log_set_fd(STDERR_FILENO);
    log_setup(LOG_INFO, LOG_TEXT, "");
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST_IN(request_that_never_completes_is_ended)
{
    struct h2_stream *watch = call(w, "/test.S/Watch", ""); /* its request is complete */
    struct h2_stream *s =
        open_request(w, &(struct h2_request){.path = "/test.S/Echo", .stays_open = true});
    ahead_s = GRPC_REQUEST_S - 1;
    assert_int_equal(h2_client_pump(w->client), 0);
    assert_false(s->is_closed);
    ahead_s = GRPC_REQUEST_S;
    assert_int_equal(h2_client_pump(w->client), 0);
    assert_status_only(s, GRPC_DEADLINE_EXCEEDED);
    assert_false(watch->is_closed);
}

/* ---- streaming ---- */

TEST_IN(reports_go_out_at_once)
{
    struct h2_stream *s = call(w, "/test.S/Watch", "");
    static const char *const reports[] = {"one", "two", ""};
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        grpc_call_send(w->held, reports[i], strlen(reports[i]));
        assert_int_equal(h2_client_pump(w->client), 0);
        assert_message(s, (int)i, reports[i]);
    }
    grpc_call_end(w->held, GRPC_OK, "%s", "");
    assert_int_equal(h2_client_pump(w->client), 0);
    assert_true(s->is_closed);
    assert_int_equal(s->grpc_status, 0);
    assert_int_equal(s->header_frames, 2);
}

TEST_IN(client_that_stops_reading_gets_the_newest_report)
{
    open_manual_window(w);
    enum { REPORT = 60000 };
    char *report = malloc(REPORT);
    assert_non_null(report);
    struct h2_stream *s = call(w, "/test.S/Watch", "");
    for (int i = 0; i < 100; i++) {
        memset(report, 'a' + i % 26, REPORT);
        grpc_call_send(w->held, report, REPORT);
        assert_int_equal(h2_client_pump(w->client), 0); /* nothing is consumed: window shut */
    }
    free(report);
    assert_int_equal(s->body_len, 65535);
    for (int i = 0; i < 10; i++) {
        h2_client_consume(w->client, 1, s->body_len < 65535 ? 0 : 60000);
        assert_int_equal(h2_client_pump(w->client), 0);
    }
    const uint8_t *got = NULL;
    assert_int_equal(h2_stream_message(s, 0, &got), REPORT);
    assert_int_equal(got[0], 'a');
    assert_int_equal(h2_stream_message(s, 1, &got), REPORT); /* in flight when it shut */
    assert_int_equal(got[0], 'b');
    assert_int_equal(h2_stream_message(s, 2, &got), REPORT); /* the newest; the rest is gone */
    assert_int_equal(got[0], 'a' + 99 % 26);
    assert_int_equal(h2_stream_message(s, 3, &got), -1);
}

TEST_IN(last_report_goes_out_before_the_end)
{
    struct h2_stream *s = call(w, "/test.S/Watch", "");
    grpc_call_send(w->held, "old", 3);
    grpc_call_send(w->held, "last", 4);
    grpc_call_end(w->held, GRPC_UNAVAILABLE, "stopping");
    assert_int_equal(h2_client_pump(w->client), 0);
    assert_message(s, 0, "last");
    assert_int_equal(s->grpc_status, GRPC_UNAVAILABLE);
    assert_string_equal(s->grpc_message, "stopping");
}

TEST_IN(ping_flood_without_reading_ends_the_connection)
{
    assert_int_equal(h2_client_pump(w->client), 0);
    int rc = 0;
    for (int i = 0; i < 100000 && rc == 0; i++) {
        h2_client_ping(w->client);
        rc = h2_client_push(w->client);
    }
    assert_int_not_equal(rc, 0);
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void on_drained(void *user)
{
    ((struct world *)user)->drained++;
}

static int try_start(struct world *w, const char *path, struct grpc_server **out, struct err *e)
{
    const struct grpc_server_config config = {.loop = w->peer.loop,
                                              .name = "test",
                                              .path = path,
                                              .methods = methods,
                                              .method_count = ARRAY_LEN(methods),
                                              .on_drained = on_drained,
                                              .user = w};
    return grpc_server_start(&config, out, e);
}

static struct grpc_server *start(struct world *w, const char *path)
{
    struct grpc_server *s = NULL;
    struct err e = ERR_INIT;
    if (try_start(w, path, &s, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return s;
}

static void assert_echo_works(struct world *w, const char *path)
{
    struct h2_client *c = h2_client_new(w->peer.loop, path, false);
    int32_t id = h2_client_call(c, "/test.S/Echo", "hello", 5);
    assert_int_equal(h2_client_pump(c), 0);
    assert_ok(h2_client_stream(c, id), "hello");
    h2_client_free(c);
}

TEST_IN(stale_socket_is_replaced)
{
    char stale[96];
    (void)snprintf(stale, sizeof(stale), "%s/stale.sock", w->peer.dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", stale);
    int old = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(old, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(close(old), 0); /* crashed: the name stays */
    assert_int_equal(h2_dial(stale), -1);
    struct stat st;
    struct grpc_server *l = start(w, stale);
    assert_echo_works(w, stale);
    assert_echo_works(w, w->peer.path); /* two share a loop */
    assert_int_equal(lstat(stale, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    grpc_server_free(l);
}

static int lowest_free_fd(const struct world *w)
{
    int fd = dup(w->client->fd);
    assert_int_equal(close(fd), 0);
    return fd;
}

TEST_IN(what_cannot_be_listened_on_is_an_error)
{
    char path[128];
    struct grpc_server *s;
    struct err e = ERR_INIT;
    int lowest = lowest_free_fd(w);
    memset(path, 'x', sizeof(path));
    memcpy(path, w->peer.dir, strlen(w->peer.dir));
    path[strlen(w->peer.dir)] = '/';
    path[107] = '\0'; /* the longest */
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(try_start(w, path, &s, NULL), ERR_CONFLICT); /* it is left alone */
    assert_int_equal(unlink(path), 0);
    grpc_server_free(start(w, path));
    assert_int_equal(try_start(w, "/nonexistent/x.sock", &s, &e), ERR_IO);
    assert_int_equal(e.sys_errno, ENOENT);
    assert_int_equal(lowest_free_fd(w), lowest);
}

TEST_IN(successor_keeps_its_name_when_we_stop)
{
    struct grpc_server *successor = start(w, w->peer.path);
    assert_false(grpc_server_is_in_place(w->peer.server));
    assert_true(grpc_server_is_in_place(successor));
    grpc_server_free(w->peer.server);
    w->peer.server = successor;
    assert_echo_works(w, w->peer.path);
}

TEST_IN(broken_http_costs_its_own_connection_only)
{
    static const char garbage[] = "GET / HTTP/1.1\r\n\r\n";
    CLEANUP(fd) int bad = h2_dial(w->peer.path);
    h2_peer_turn(&w->peer, 3);
    assert_int_equal(send(bad, garbage, sizeof(garbage) - 1, MSG_NOSIGNAL), sizeof(garbage) - 1);
    h2_peer_turn(&w->peer, 3);
    assert_true(is_closed(bad));
    assert_echo_works(w, w->peer.path);
}

TEST_IN(connection_silent_for_longest_makes_room)
{
    int fds[GRPC_CONNECTIONS_MAX + 3];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = h2_dial(w->peer.path);
        assert_true(fds[i] >= 0);
        h2_peer_turn(&w->peer, 2);
        if (i == 5) {
            assert_ok(call(w, "/test.S/Echo", "x"), "x"); /* by the one that is the oldest */
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        assert_int_equal(is_closed(fds[i]), i < 4); /* they are bounded */
        (void)close(fds[i]);
    }
    h2_peer_turn(&w->peer, 5);
    CLEANUP(fd) int silent = h2_dial(w->peer.path);
    assert_echo_works(w, w->peer.path);
    assert_false(is_closed(silent)); /* there is room again */
    assert_ok(call(w, "/test.S/Echo", "x"), "x");
}

TEST_IN(without_descriptors_it_pauses_and_goes_on)
{
    char byte;
    struct rlimit full;
    assert_int_equal(h2_client_pump(w->client), 0);
    CLEANUP(fd) int late = h2_dial(w->peer.path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &full), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)lowest_free_fd(w), .rlim_max = full.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    h2_peer_turn(&w->peer, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0);
    h2_peer_turn(&w->peer, 2);
    assert_int_equal(recv(late, &byte, 1, MSG_DONTWAIT), -1);
    ahead_s = 1;
    h2_peer_turn(&w->peer, 3);
    assert_int_equal(recv(late, &byte, 1, MSG_DONTWAIT), 1); /* of its SETTINGS */
}

TEST_IN(connection_with_a_call_under_way_stays)
{
    int fds[3 * GRPC_CONNECTIONS_MAX];
    struct h2_stream *s = call(w, "/test.S/Hold", "");
    struct h2_client *half = h2_client_new(w->peer.loop, w->peer.path, false);
    (void)h2_client_open(half, &(struct h2_request){.path = "/test.S/Echo", .stays_open = true});
    assert_int_equal(h2_client_pump(half), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = h2_dial(w->peer.path);
        h2_peer_turn(&w->peer, 2);
    }
    assert_int_equal(h2_client_pump(half), -1); /* half a request is not under way */
    h2_client_free(half);
    assert_echo_works(w, w->peer.path); /* another's call goes through meanwhile */
    assert_int_equal(s->header_frames, 0);
    grpc_call_reply(w->held, "x", 1);
    assert_int_equal(h2_client_pump(w->client), 0);
    assert_ok(s, "x");
    assert_int_equal(w->cancelled, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)close(fds[i]);
    }
}

TEST_IN(foreign_user_is_turned_away)
{
    assert_int_equal(chmod(w->peer.dir, 0755), 0);
    assert_int_equal(chmod(w->peer.path, 0666), 0);
    CLEANUP(fd) int root = h2_dial(w->peer.path);
    assert_int_equal(seteuid(65534), 0); /* as an agent of its own user, whom root may ask */
    h2_peer_turn(&w->peer, 3);
    assert_int_equal(seteuid(0), 0);
    assert_false(is_closed(root));
    pid_t child = fork();
    if (child == 0) {
        char byte;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        memcpy(address.sun_path, w->peer.path, strlen(w->peer.path));
        bool is_refused = setuid(65534) == 0 &&
                          connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                          recv(fd, &byte, 1, 0) <= 0; /* no SETTINGS for strangers */
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    for (int i = 0; i < 5000 && waitpid(child, &status, WNOHANG) == 0; i++) {
        h2_peer_turn(&w->peer, 1);
        (void)usleep(1000);
    }
    assert_int_equal(status, 0);
}

TEST_IN(shutdown_drains_what_is_under_way)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/other.sock", w->peer.dir);
    struct grpc_server *server = start(w, path);
    struct h2_client *c = h2_client_new(w->peer.loop, path, false);
    struct h2_stream *s = h2_client_stream(c, h2_client_call(c, "/test.S/Hold", "", 0));
    assert_int_equal(h2_client_pump(c), 0);
    assert_non_null(w->held);
    grpc_server_shutdown(server);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(h2_client_pump(c), 0);
    assert_true(c->got_goaway);
    assert_int_equal(c->goaway_error, 0);
    assert_int_equal(w->drained, 0);
    grpc_call_reply(w->held, "bye", 3);
    assert_int_equal(h2_client_pump(c), -1);
    assert_ok(s, "bye");
    assert_int_equal(w->drained, 1);
    h2_client_free(c);
    grpc_server_free(server);
    server = start(w, path);
    grpc_server_shutdown(server); /* without peers: at once */
    assert_int_equal(w->drained, 2);
    h2_peer_turn(&w->peer, 2);
    grpc_server_free(server);
    server = start(w, path);
    int fd = h2_dial(path);
    h2_peer_turn(&w->peer, 2);
    grpc_server_shutdown(server);
    grpc_server_free(server);
    assert_int_equal(close(fd), 0);
    assert_int_equal(w->drained, 2); /* nobody waits for that any more */
}
