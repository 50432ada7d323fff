/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/grpc/listen.h"

#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/support/h2_client.h"

#include <errno.h>
#include <ev.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

struct world {
    struct ev_loop *loop;
    char dir[64];
    char path[96];
    struct grpc_router router;
    struct grpc_listener *listener;
    int drained;
    struct grpc_call *held;
};

static void echo(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)user;
    grpc_call_reply(call, message, len);
}

static void hold(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)message;
    (void)len;
    ((struct world *)user)->held = call;
}

static void on_drained(void *user)
{
    ((struct world *)user)->drained++;
}

static int try_start(struct world *w, const char *path, struct grpc_listener **out, struct err *e)
{
    const struct grpc_listener_config config = {
        .loop = w->loop,
        .name = "test",
        .path = path,
        .mode = 0600,
        .router = &w->router,
        .on_drained = on_drained,
        .user = w,
    };
    return grpc_listener_start(&config, out, e);
}

static struct grpc_listener *start(struct world *w, const char *path)
{
    struct grpc_listener *l = NULL;
    struct err e = ERR_INIT;
    if (try_start(w, path, &l, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return l;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->loop = ev_loop_new(EVFLAG_AUTO);
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/dpu-grpc-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->path, sizeof(w->path), "%s/test.sock", w->dir);
    const struct grpc_method methods[] = {{"/t.S/Echo", GRPC_UNARY, echo, w},
                                          {"/t.S/Hold", GRPC_UNARY, hold, w}};
    grpc_router_add(&w->router, methods, ARRAY_LEN(methods));
    w->listener = start(w, w->path);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    grpc_listener_free(w->listener);
    (void)unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0); /* no hidden name is left behind */
    ev_loop_destroy(w->loop);
    free(w);
    return 0;
}

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void turn(struct world *w, int times)
{
    for (int i = 0; i < times; i++) {
        (void)ev_run(w->loop, EVRUN_NOWAIT);
    }
}

/* Runs both ends until `s` is closed; returns false if the connection is. */
static bool run_until_closed(struct world *w, struct h2_client *c, int fd,
                             const struct h2_stream *s)
{
    for (int i = 0; i < 200 && !s->is_closed; i++) {
        if (h2_client_exchange(c, fd) < 0) {
            return false;
        }
        turn(w, 1);
    }
    return s->is_closed;
}

static void assert_echo_works(struct world *w, const char *path)
{
    CLEANUP(fd) int fd = dial(path);
    assert_true(fd >= 0);
    struct h2_client *c = h2_client_new(NULL, false);
    struct h2_stream *s = h2_client_stream(c, h2_client_call(c, "/t.S/Echo", "hello", 5));
    assert_true(run_until_closed(w, c, fd, s));
    assert_int_equal(s->grpc_status, 0);
    assert_memory_equal(s->body + GRPC_PREFIX_BYTES, "hello", 5);
    h2_client_free(c);
}

TEST_WITH(call_goes_through_a_real_socket, setup, teardown)
{
    struct world *w = *state;
    assert_echo_works(w, w->path);
}

TEST_WITH(several_servers_share_a_loop, setup, teardown)
{
    struct world *w = *state;
    char other[96];
    (void)snprintf(other, sizeof(other), "%s/other.sock", w->dir);
    struct grpc_listener *second = start(w, other);
    assert_echo_works(w, other);
    assert_echo_works(w, w->path);
    grpc_listener_free(second);
    assert_int_equal(dial(other), -1);
    assert_echo_works(w, w->path);
}

TEST_WITH(socket_has_exactly_the_mode_asked_for, setup, teardown)
{
    struct world *w = *state;
    struct stat st;
    assert_int_equal(lstat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

TEST_WITH(stale_socket_is_replaced, setup, teardown)
{
    struct world *w = *state;
    char stale[96];
    (void)snprintf(stale, sizeof(stale), "%s/stale.sock", w->dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", stale);
    int old = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(old, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(close(old), 0); /* crashed: the name stays */
    assert_int_equal(dial(stale), -1);
    struct grpc_listener *l = start(w, stale);
    assert_echo_works(w, stale);
    grpc_listener_free(l);
}

TEST_WITH(file_that_is_no_socket_is_left_alone, setup, teardown)
{
    struct world *w = *state;
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/file", w->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fclose(file);
    struct grpc_listener *l;
    assert_int_equal(try_start(w, path, &l, NULL), ERR_CONFLICT);
    assert_int_equal(unlink(path), 0);
}

TEST_WITH(path_length_is_checked_at_107_bytes, setup, teardown)
{
    struct world *w = *state;
    char path[128];
    struct grpc_listener *l;
    memset(path, 'x', sizeof(path));
    memcpy(path, w->dir, strlen(w->dir));
    path[strlen(w->dir)] = '/';
    path[108] = '\0';
    assert_int_equal(try_start(w, path, &l, NULL), ERR_LIMIT);
    path[107] = '\0';
    assert_int_equal(try_start(w, path, &l, NULL), 0);
    grpc_listener_free(l);
}

TEST_WITH(missing_directory_is_an_error, setup, teardown)
{
    struct grpc_listener *l;
    struct err e = ERR_INIT;
    assert_int_equal(try_start(*state, "/nonexistent/x.sock", &l, &e), ERR_IO);
    assert_int_equal(e.sys_errno, ENOENT);
}

TEST_WITH(successor_keeps_its_name_when_we_stop, setup, teardown)
{
    struct world *w = *state;
    struct grpc_listener *successor = start(w, w->path);
    assert_false(grpc_listener_is_in_place(w->listener));
    assert_true(grpc_listener_is_in_place(successor));
    grpc_listener_free(w->listener);
    w->listener = successor;
    assert_echo_works(w, w->path);
}

TEST_WITH(broken_http_costs_its_own_connection_only, setup, teardown)
{
    struct world *w = *state;
    static const char garbage[] = "GET / HTTP/1.1\r\n\r\n";
    CLEANUP(fd) int bad = dial(w->path);
    turn(w, 3);
    assert_int_equal(send(bad, garbage, sizeof(garbage) - 1, MSG_NOSIGNAL), sizeof(garbage) - 1);
    turn(w, 3);
    char in[512];
    ssize_t len;
    do {
        len = recv(bad, in, sizeof(in), MSG_DONTWAIT);
    } while (len > 0);
    assert_int_equal(len, 0);
    assert_echo_works(w, w->path);
}

/* The listener has closed it. */
static bool is_closed(int fd)
{
    char bytes[512];
    ssize_t len;
    do {
        len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (len > 0);
    return len == 0 || errno != EAGAIN;
}

TEST_WITH(connection_silent_for_longest_makes_room, setup, teardown)
{
    struct world *w = *state;
    int fds[GRPC_CONNECTIONS_MAX + 3];
    size_t closed = 0;
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial(w->path);
        assert_true(fds[i] >= 0);
        turn(w, 2);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        closed += is_closed(fds[i]);
        assert_int_equal(is_closed(fds[i]), i < 3);
    }
    assert_int_equal(closed, 3); /* they are bounded */
    assert_echo_works(w, w->path);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)close(fds[i]);
    }
    turn(w, 5);
    assert_echo_works(w, w->path);
}

TEST_WITH(connection_with_a_call_under_way_stays, setup, teardown)
{
    struct world *w = *state;
    int fds[3 * GRPC_CONNECTIONS_MAX];
    CLEANUP(fd) int fd = dial(w->path);
    struct h2_client *c = h2_client_new(NULL, false);
    struct h2_stream *s = h2_client_stream(c, h2_client_call(c, "/t.S/Hold", "", 0));
    for (int i = 0; i < 50 && !w->held; i++) {
        (void)h2_client_exchange(c, fd);
        turn(w, 1);
    }
    assert_non_null(w->held);
    CLEANUP(fd) int half_fd = dial(w->path);
    struct h2_client *half = h2_client_new(NULL, false);
    (void)h2_client_open(half, &(struct h2_request){.path = "/t.S/Echo", .stays_open = true});
    for (int i = 0; i < 20; i++) {
        (void)h2_client_exchange(half, half_fd);
        turn(w, 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial(w->path);
        turn(w, 2);
    }
    assert_true(is_closed(half_fd)); /* half a request is not under way */
    h2_client_free(half);
    assert_echo_works(w, w->path); /* another's call goes through meanwhile */
    grpc_call_reply(w->held, "x", 1);
    assert_true(run_until_closed(w, c, fd, s));
    assert_int_equal(s->grpc_status, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)close(fds[i]);
    }
    h2_client_free(c);
}

TEST_WITH(foreign_user_is_turned_away, setup, teardown)
{
    struct world *w = *state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(w->dir, 0755), 0);
    assert_int_equal(chmod(w->path, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        memcpy(address.sun_path, w->path, strlen(w->path));
        bool is_refused = setuid(65534) == 0 &&
                          connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                          recv(fd, &byte, 1, 0) <= 0; /* no SETTINGS for strangers */
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    for (int i = 0; i < 5000 && waitpid(child, &status, WNOHANG) == 0; i++) {
        turn(w, 1);
        (void)usleep(1000);
    }
    assert_int_equal(status, 0);
}

TEST_WITH(shutdown_drains_what_is_under_way, setup, teardown)
{
    struct world *w = *state;
    CLEANUP(fd) int fd = dial(w->path);
    struct h2_client *c = h2_client_new(NULL, false);
    struct h2_stream *s = h2_client_stream(c, h2_client_call(c, "/t.S/Hold", "", 0));
    for (int i = 0; i < 50 && !w->held; i++) {
        (void)h2_client_exchange(c, fd);
        turn(w, 1);
    }
    assert_non_null(w->held);
    grpc_listener_shutdown(w->listener);
    assert_int_equal(dial(w->path), -1);
    turn(w, 3);
    assert_int_equal(w->drained, 0);
    grpc_call_reply(w->held, "bye", 3);
    assert_true(run_until_closed(w, c, fd, s));
    assert_true(c->got_goaway);
    turn(w, 3);
    assert_int_equal(w->drained, 1);
    h2_client_free(c);
}

TEST_WITH(shutdown_without_peers_drains_at_once, setup, teardown)
{
    struct world *w = *state;
    grpc_listener_shutdown(w->listener);
    assert_int_equal(w->drained, 1);
    turn(w, 2);
    assert_int_equal(w->drained, 1);
}
