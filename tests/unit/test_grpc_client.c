/* SPDX-License-Identifier: Apache-2.0 */
/* Our client against our server, in memory. */
#include "grpc/grpc_client.h"

#include "host-agent/grpc/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct grpc_router router;
    struct grpc_conn *server;
    struct grpc_client *client;
    struct grpc_call *watch;
    int messages;
    char last[64];
};

static void echo(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)user;
    grpc_call_reply(call, message, len);
}

static void refuse(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)user;
    (void)message;
    (void)len;
    grpc_call_fail(call, GRPC_UNAVAILABLE, "not today: caf\xc3\xa9, 100%%");
}

static void watch(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)message;
    (void)len;
    ((struct world *)user)->watch = call;
}

static void wake(void *user)
{
    (void)user;
}

static void on_message(void *user, const uint8_t *message, size_t len)
{
    struct world *w = user;
    w->messages++;
    assert_true(len < sizeof(w->last));
    memcpy(w->last, message, len);
    w->last[len] = '\0';
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    const struct grpc_method methods[] = {{"/t.S/Echo", GRPC_UNARY, echo, w},
                                          {"/t.S/Refuse", GRPC_UNARY, refuse, w},
                                          {"/t.S/Watch", GRPC_SERVER_STREAM, watch, w}};
    grpc_router_add(&w->router, methods, ARRAY_LEN(methods));
    struct grpc_conn_config config = {.router = &w->router, .wake = wake};
    assert_int_equal(grpc_conn_new(&config, (struct mono){0}, &w->server, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    grpc_client_free(w->client);
    grpc_conn_free(w->server);
    free(w);
    return 0;
}

static void pump(struct world *w)
{
    bool moved = true;
    while (moved) {
        const uint8_t *bytes;
        size_t len;
        moved = false;
        while (grpc_client_output(w->client, &bytes, &len, NULL) == 0 && len > 0) {
            assert_int_equal(grpc_conn_recv(w->server, bytes, len, (struct mono){0}, NULL), 0);
            grpc_client_sent(w->client, len);
            moved = true;
        }
        while (grpc_conn_output(w->server, &bytes, &len, NULL) == 0 && len > 0) {
            assert_int_equal(grpc_client_recv(w->client, bytes, 1, NULL), 0); /* bytewise */
            grpc_conn_sent(w->server, 1);
            moved = true;
        }
    }
}

static void open_call(struct world *w, const char *method, const char *message)
{
    assert_int_equal(
        grpc_client_new(method, message, strlen(message), on_message, w, &w->client, NULL), 0);
    pump(w);
}

static void unary_call_brings_its_message_and_ok(void **state)
{
    struct world *w = *state;
    open_call(w, "/t.S/Echo", "hello");
    assert_true(grpc_client_is_over(w->client));
    assert_int_equal(grpc_client_status(w->client), GRPC_OK);
    assert_int_equal(w->messages, 1);
    assert_string_equal(w->last, "hello");
}

static void failure_brings_status_and_decoded_text(void **state)
{
    struct world *w = *state;
    open_call(w, "/t.S/Refuse", "");
    assert_true(grpc_client_is_over(w->client));
    assert_int_equal(grpc_client_status(w->client), GRPC_UNAVAILABLE);
    assert_string_equal(grpc_client_text(w->client), "not today: caf\xc3\xa9, 100%");
    assert_int_equal(w->messages, 0);
}

static void unknown_method_is_unimplemented(void **state)
{
    struct world *w = *state;
    open_call(w, "/t.S/Nothing", "");
    assert_int_equal(grpc_client_status(w->client), GRPC_UNIMPLEMENTED);
}

static void stream_brings_messages_until_its_end(void **state)
{
    struct world *w = *state;
    open_call(w, "/t.S/Watch", "");
    assert_false(grpc_client_is_over(w->client));
    static const char *const reports[] = {"one", "", "three"};
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        assert_int_equal(grpc_call_send(w->watch, reports[i], strlen(reports[i]), NULL), 0);
        pump(w);
        assert_int_equal(w->messages, i + 1);
        assert_string_equal(w->last, reports[i]);
    }
    grpc_call_end(w->watch, GRPC_OK, "");
    pump(w);
    assert_true(grpc_client_is_over(w->client));
    assert_int_equal(grpc_client_status(w->client), GRPC_OK);
}

static void server_that_speaks_something_else_is_an_error(void **state)
{
    struct world *w = *state;
    static const char http1[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nxxxxxxxxxxxxx";
    assert_int_equal(grpc_client_new("/t.S/Echo", "", 0, on_message, w, &w->client, NULL), 0);
    int rc = grpc_client_recv(w->client, (const uint8_t *)http1, sizeof(http1) - 1, NULL);
    assert_true(rc != 0 || !grpc_client_is_over(w->client));
    assert_int_equal(w->messages, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unary_call_brings_its_message_and_ok),
        TEST(failure_brings_status_and_decoded_text),
        TEST(unknown_method_is_unimplemented),
        TEST(stream_brings_messages_until_its_end),
        TEST(server_that_speaks_something_else_is_an_error),
    };
    return cmocka_run_group_tests_name("grpc_client", tests, NULL, NULL);
}
