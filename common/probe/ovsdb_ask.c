/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ovsdb_ask.h"

#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "probe/ovsdb_reply.h"
#include "probe/rpc_call.h"
#include "probe/unix_connect.h"

#include <ev.h>
#include <stdlib.h>

enum { NAME_BYTES = 64, PARAMS_BYTES = 400 };

struct ovsdb_ask {
    struct ev_loop *loop; /* borrowed */
    struct rpc_call *call;
    ovsdb_ask_fn *done;
    void *user;
    int64_t timeout_ns;
    ev_timer deadline;
    char socket[UNIX_CONNECT_PATH_BYTES];
    char column[NAME_BYTES];
    char key[NAME_BYTES];
    char params[PARAMS_BYTES];
    char value[OVSDB_ASK_VALUE_BYTES];
};

static enum probe_outcome judge(void *user, size_t index, const struct rpc_message *reply,
                                char words[static PROBE_WORDS_BYTES])
{
    struct ovsdb_ask *ask = user;
    (void)index; /* there is one question */
    return ovsdb_reply_value(reply, ask->column, ask->key, ask->value, sizeof(ask->value), words);
}

static void on_done(void *user, enum probe_outcome outcome, const char *words)
{
    struct ovsdb_ask *ask = user;
    ev_timer_stop(ask->loop, &ask->deadline);
    ask->done(ask->user, outcome, outcome == PROBE_PASSED ? ask->value : words);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    struct ovsdb_ask *ask = timer->data;
    char span[32];
    char words[PROBE_WORDS_BYTES];
    (void)rpc_call_cancel(ask->call); /* what it waited for is the only question */
    text_from_duration(ask->timeout_ns, span, sizeof(span));
    text_format(words, sizeof(words), "'%s' gives no answer within %s", ask->socket, span);
    ask->done(ask->user, PROBE_SILENT, words);
}

void ovsdb_ask_start(struct ovsdb_ask *ask)
{
    ev_now_update(ask->loop);
    ev_timer_set(&ask->deadline, (double)ask->timeout_ns / (double)NS_PER_SEC, 0.);
    ev_timer_start(ask->loop, &ask->deadline);
    rpc_call_start(ask->call, ask->socket);
}

static int make_call(struct ovsdb_ask *ask, struct err *e)
{
    const struct rpc_call_config config = {
        .questions = {{.method = "transact", .params_json = ask->params}},
        .judge = judge,
        .done = on_done,
        .user = ask,
    };
    return rpc_call_new(ask->loop, &config, &ask->call, e);
}

int ovsdb_ask_new(struct ev_loop *loop, const struct ovsdb_question *question, ovsdb_ask_fn *done,
                  void *user, struct ovsdb_ask **out, struct err *e)
{
    CLEANUP(free) struct ovsdb_ask *ask = calloc(1, sizeof(*ask));
    if (!ask) {
        return err_no_memory(e);
    }
    ask->loop = loop;
    ask->done = done;
    ask->user = user;
    ask->timeout_ns = question->timeout_ns;
    ev_timer_init(&ask->deadline, on_deadline, 0., 0.);
    ask->deadline.data = ask;
    if (!text_copy(ask->socket, sizeof(ask->socket), question->socket)) {
        return err_set(e, ERR_LIMIT, "the path '%s' of a socket has more than %zu bytes",
                       question->socket, sizeof(ask->socket) - 1);
    }
    text_format(ask->column, sizeof(ask->column), "%s", question->column);
    text_format(ask->key, sizeof(ask->key), "%s", question->key);
    text_format(ask->params, sizeof(ask->params),
                "[\"%s\",{\"op\":\"select\",\"table\":\"%s\",\"where\":[],\"columns\":[\"%s\"]}]",
                question->database, question->table, question->column);
    int rc = make_call(ask, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(ask);
    return 0;
}

void ovsdb_ask_free(struct ovsdb_ask *ask)
{
    if (ask) {
        ev_timer_stop(ask->loop, &ask->deadline);
        rpc_call_free(ask->call);
        free(ask);
    }
}
