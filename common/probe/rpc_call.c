/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rpc_call.h"

#include "base/text.h"
#include "probe/rpc_frame.h"
#include "probe/unix_connect.h"

#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rpc_call {
    struct ev_loop *loop; /* borrowed */
    struct rpc_call_config config;
    ev_io ready; /* fd -1: no run */
    size_t question;
    char outbox[RPC_CALL_OUTBOX_BYTES];
    size_t outbox_len;
    struct rpc_frame frame;
    size_t inbox_len;
    size_t received; /* in all */
    char inbox[RPC_CALL_INBOX_BYTES];
};

static void stop(struct rpc_call *c)
{
    if (c->ready.fd >= 0) {
        ev_io_stop(c->loop, &c->ready);
        (void)close(c->ready.fd); /* nothing more is wanted of it */
        ev_io_set(&c->ready, -1, EV_READ);
    }
}

static void end(struct rpc_call *c, enum probe_outcome outcome, const char *words)
{
    stop(c);
    c->config.done(c->config.user, outcome, words); /* may start the next run */
}

static const char *asked(const struct rpc_call *c)
{
    return c->config.questions[c->question].method;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void wait_for(struct rpc_call *c, int events)
{
    int fd = c->ready.fd;
    ev_io_stop(c->loop, &c->ready);
    ev_io_set(&c->ready, fd, events);
    ev_io_start(c->loop, &c->ready);
}

static void queue_question(struct rpc_call *c)
{
    const struct rpc_question *q = &c->config.questions[c->question];
    c->outbox_len += rpc_message_ask(c->question, q->method, q->params_json,
                                     c->outbox + c->outbox_len, sizeof(c->outbox) - c->outbox_len);
}

/* Returns false if the connection is gone. What the server sent before may still tell why. */
static bool flush(struct rpc_call *c)
{
    while (c->outbox_len > 0) {
        ssize_t sent = send(c->ready.fd, c->outbox, c->outbox_len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno == EAGAIN) {
            break;
        }
        if (sent < 0) {
            return false;
        }
        c->outbox_len -= (size_t)sent;
        memmove(c->outbox, c->outbox + sent, c->outbox_len);
    }
    wait_for(c, c->outbox_len > 0 ? EV_READ | EV_WRITE : EV_READ);
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void end_closed(struct rpc_call *c)
{
    char words[PROBE_WORDS_BYTES];
    text_format(words, sizeof(words), "the connection was closed without an answer to '%s'",
                asked(c));
    end(c, PROBE_REFUSED, words);
}

static void end_wrong(struct rpc_call *c, const char *what)
{
    char words[PROBE_WORDS_BYTES];
    text_format(words, sizeof(words), "what answers '%s' %s", asked(c), what);
    end(c, PROBE_WRONG, words);
}

/* These return whether the run goes on. */

static bool take_reply(struct rpc_call *c, const struct rpc_message *m)
{
    char words[PROBE_WORDS_BYTES] = "";
    if (!rpc_message_has_id(m, c->question)) {
        end_wrong(c, "was asked by somebody else");
        return false;
    }
    enum probe_outcome outcome = c->config.judge(c->config.user, c->question, m, words);
    if (outcome != PROBE_PASSED) {
        end(c, outcome, words);
        return false;
    }
    c->question++;
    if (c->question == RPC_QUESTIONS_MAX || !asked(c)) {
        end(c, PROBE_PASSED, "");
        return false;
    }
    queue_question(c);
    return true;
}

static bool take_echo(struct rpc_call *c, const struct rpc_message *m)
{
    size_t most = sizeof(c->outbox) / 2; /* the other half is for a question */
    size_t len = c->outbox_len < most
                     ? rpc_message_answer_echo(m, c->outbox + c->outbox_len, most - c->outbox_len)
                     : 0;
    if (len == 0) {
        end_wrong(c, "sends more echo requests than it reads answers");
        return false;
    }
    c->outbox_len += len;
    return true;
}

static bool take_message(struct rpc_call *c, size_t len)
{
    struct rpc_message m;
    if (rpc_message_read(c->inbox, len, &m, NULL) != 0) {
        end_wrong(c, "does not speak JSON-RPC");
        return false;
    }
    switch (m.kind) {
    case RPC_NOTICE:
        return true;
    case RPC_ECHO:
        return take_echo(c, &m);
    case RPC_REPLY:
        return take_reply(c, &m);
    }
    return true;
}

static bool take_messages(struct rpc_call *c)
{
    for (;;) {
        size_t len;
        switch (rpc_frame_find(&c->frame, c->inbox, c->inbox_len, &len)) {
        case RPC_FRAME_INVALID:
            end_wrong(c, "does not speak JSON-RPC");
            return false;
        case RPC_FRAME_MORE:
            return true;
        case RPC_FRAME_DONE:
            break;
        }
        if (!take_message(c, len)) {
            return false;
        }
        c->inbox_len -= len;
        memmove(c->inbox, c->inbox + len, c->inbox_len);
    }
}

static bool receive(struct rpc_call *c)
{
    ssize_t got = recv(c->ready.fd, c->inbox + c->inbox_len, sizeof(c->inbox) - c->inbox_len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (got <= 0) {
        end_closed(c);
        return false;
    }
    c->inbox_len += (size_t)got;
    c->received += (size_t)got;
    if (!take_messages(c)) {
        return false;
    }
    if (c->inbox_len == sizeof(c->inbox) || c->received > RPC_CALL_TOTAL_BYTES) {
        end_wrong(c, "sends more than is asked for");
        return false;
    }
    return true;
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    struct rpc_call *c = w->data;
    if ((revents & EV_READ) && !receive(c)) {
        return;
    }
    if (!flush(c)) {
        end_closed(c);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void rpc_call_start(struct rpc_call *call, const char *path)
{
    char words[PROBE_WORDS_BYTES];
    int fd;
    call->question = 0;
    call->outbox_len = 0;
    call->inbox_len = 0;
    call->received = 0;
    call->frame = (struct rpc_frame){.scanned = 0};
    enum probe_outcome outcome = unix_connect(path, &fd, words);
    if (outcome != PROBE_PASSED) {
        end(call, outcome, words);
        return;
    }
    ev_io_set(&call->ready, fd, EV_READ);
    queue_question(call);
    if (!flush(call)) {
        end_closed(call);
    }
}

const char *rpc_call_cancel(struct rpc_call *call)
{
    stop(call);
    return asked(call);
}

static bool fits(const struct rpc_call *c)
{
    char scratch[RPC_CALL_OUTBOX_BYTES];
    for (size_t i = 0; i < RPC_QUESTIONS_MAX && c->config.questions[i].method; i++) {
        const struct rpc_question *q = &c->config.questions[i];
        if (rpc_message_ask(i, q->method, q->params_json, scratch, sizeof(scratch) / 2) == 0) {
            return false;
        }
    }
    return true;
}

int rpc_call_new(struct ev_loop *loop, const struct rpc_call_config *config, struct rpc_call **out,
                 struct err *e)
{
    struct rpc_call *c = calloc(1, sizeof(*c));
    if (!c) {
        return err_no_memory(e);
    }
    c->loop = loop;
    c->config = *config;
    ev_io_init(&c->ready, on_ready, -1, EV_READ);
    c->ready.data = c;
    if (!fits(c)) {
        free(c);
        return err_set(e, ERR_LIMIT, "a question has more than %d bytes",
                       RPC_CALL_OUTBOX_BYTES / 2);
    }
    *out = c;
    return 0;
}

void rpc_call_free(struct rpc_call *call)
{
    if (call) {
        stop(call);
        free(call);
    }
}
