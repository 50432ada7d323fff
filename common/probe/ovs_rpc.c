/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ovs_rpc.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "probe/probe_method.h"

#include <errno.h>
#include <ev.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHOWN_BYTES = 100, PID_FILE_BYTES = 32 };

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_there(const json_t *value)
{
    return value && !json_is_null(value);
}

static enum rpc_kind read_object(json_t *object, struct rpc_message *out)
{
    const json_t *method = json_object_get(object, "method");
    struct rpc_message m = {.object = object,
                            .id = json_object_get(object, "id"),
                            .params = json_object_get(object, "params"),
                            .result = json_object_get(object, "result"),
                            .error = json_object_get(object, "error")};
    *out = m;
    if (is_there(method)) {
        bool is_echo = text_equal(json_string_value(method), "echo");
        return is_echo && is_there(m.id) && is_there(m.params) ? RPC_ECHO : RPC_NOTICE;
    }
    out->error = is_there(m.error) ? m.error : NULL;
    return m.id && (out->error || m.result) ? RPC_REPLY : RPC_INVALID;
}

/* Only what ends in a brace can be whole, and a cut there spoils no token: what is wrong then stays
 * wrong, whatever follows. */
enum rpc_kind rpc_message_read(const char *bytes, size_t len, bool is_end, struct rpc_message *out,
                               size_t *out_len)
{
    static const char blanks[] = " \t\r\n";
    *out = (struct rpc_message){.object = NULL};
    json_error_t why;
    size_t begin = 0;
    size_t end = len;
    while (begin < len && memchr(blanks, bytes[begin], sizeof(blanks) - 1)) {
        begin++;
    }
    while (end > begin && memchr(blanks, bytes[end - 1], sizeof(blanks) - 1)) {
        end--;
    }
    if (begin == end || (bytes[begin] == '{' && bytes[end - 1] != '}' && !is_end)) {
        return RPC_MORE;
    }
    if (bytes[begin] != '{') {
        return RPC_INVALID;
    }
    json_t *object = json_loadb(bytes, len, JSON_DISABLE_EOF_CHECK, &why);
    if (!object) {
        bool is_cut = json_error_code(&why) == json_error_premature_end_of_input;
        return is_cut || is_end ? RPC_MORE : RPC_INVALID;
    }
    *out_len = (size_t)why.position;
    bool has_nul = memchr(bytes, '\0', *out_len); /* which jansson passes over, uncounted */
    enum rpc_kind kind = has_nul ? RPC_INVALID : read_object(object, out);
    if (kind == RPC_INVALID) {
        *out = (struct rpc_message){.object = NULL};
        json_decref(object);
    }
    return kind;
}

/* ---- what is expected of an answer ----------------------------------------------------------- */

/* The value as it came; "" without one. */
static void show(const json_t *value, char shown[static SHOWN_BYTES])
{
    CLEANUP(free) char *text = value ? json_text_dump(value) : NULL;
    text_sanitize(shown, SHOWN_BYTES, text ? text : "", text ? strlen(text) : 0);
}

static enum probe_outcome wrong(char *words, const char *what, const json_t *seen)
{
    char shown[SHOWN_BYTES];
    show(seen, shown);
    text_format(words, PROBE_WORDS_BYTES, "%s: '%s'", what, shown);
    return PROBE_WRONG;
}

static enum probe_outcome judge_databases(const struct rpc_message *reply, const char *database,
                                          char *words)
{
    char what[64];
    if (reply->error) {
        return wrong(words, "'list_dbs' is answered with an error", reply->error);
    }
    for (size_t i = 0; i < json_array_size(reply->result); i++) {
        if (text_equal(json_string_value(json_array_get(reply->result, i)), database)) {
            return PROBE_PASSED;
        }
    }
    text_format(what, sizeof(what), "database '%s' is not among those served", database);
    return wrong(words, what, reply->result);
}

/* ["map",[[KEY,VALUE],...]] (RFC 7047, section 5.1) */
static const json_t *find_in_map(const json_t *map, const char *key)
{
    const json_t *pairs = json_array_get(map, 1);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i);
        if (text_equal(json_string_value(json_array_get(pair, 0)), key)) {
            return json_array_get(pair, 1);
        }
    }
    return NULL;
}

enum probe_outcome ovsdb_reply_value(const struct rpc_message *reply, const char *column,
                                     const char *key, char *out, size_t out_bytes,
                                     char words[static PROBE_WORDS_BYTES])
{
    if (reply->error) {
        return wrong(words, "the database answers with an error", reply->error);
    }
    const json_t *rows = json_object_get(json_array_get(reply->result, 0), "rows");
    const json_t *map = json_object_get(json_array_get(rows, 0), column);
    if (!text_equal(json_string_value(json_array_get(map, 0)), "map")) {
        return wrong(words, "the database answers without the row that was asked for",
                     reply->result);
    }
    const json_t *value = find_in_map(map, key);
    const char *text = value ? json_string_value(value) : "";
    if (!text || strlen(text) >= out_bytes) {
        return wrong(words, "the database holds a value that cannot be used", value);
    }
    text_format(out, out_bytes, "%s", text);
    return PROBE_PASSED;
}

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (; text; text = strchr(text, '\n')) {
        text += *text == '\n';
        if (strncmp(text, line, len) == 0 && (text[len] == '\n' || text[len] == '\0')) {
            return true;
        }
    }
    return false;
}

static enum probe_outcome judge_text(const char *method, const char *bridge, const char *answer,
                                     char *words)
{
    bool is_list = text_equal(method, "ofproto/list");
    const char *wanted = is_list                        ? bridge
                         : text_equal(method, "status") ? "Status: active"
                                                        : "connected";
    char shown[SHOWN_BYTES];
    size_t len = strlen(answer);
    while (len > 0 && (answer[len - 1] == '\n' || answer[len - 1] == ' ')) {
        len--;
    }
    text_sanitize(shown, sizeof(shown), answer, len);
    if (text_equal(method, "coverage/read-counter")) {
        text_format(words, PROBE_WORDS_BYTES, "it has computed no flows since its start");
        return text_equal(shown, "0") ? PROBE_WRONG : PROBE_PASSED;
    }
    if (is_list ? has_line(answer, bridge) : text_equal(shown, wanted)) {
        return PROBE_PASSED;
    }
    text_format(words, PROBE_WORDS_BYTES, "'%s' answers '%s' instead of '%s'", method, shown,
                wanted);
    return PROBE_WRONG;
}

enum probe_outcome service_judge(const struct service *service, size_t index, const char *bridge,
                                 const struct rpc_message *reply,
                                 char words[static PROBE_WORDS_BYTES])
{
    const char *method = service->questions[index].method;
    char shown[SHOWN_BYTES];
    if (service->database) {
        return judge_databases(reply, service->database, words);
    }
    if (!reply->error && json_is_string(reply->result)) {
        return judge_text(method, bridge, json_string_value(reply->result), words);
    }
    show(reply->error ? reply->error : reply->result, shown);
    text_format(words, PROBE_WORDS_BYTES, "'%s' is answered with %s", method, shown);
    return PROBE_WRONG;
}

/* ---- the beat -------------------------------------------------------------------------------- */

static const char beat_key[] = "e2e_timestamp";

/* Both stamps are of this machine; one of the future is a step of its clock. */
static bool is_young(const char *value, struct wall now, int64_t limit_ns)
{
    int64_t seconds;
    if (text_to_i64(value, strlen(value), &seconds, NULL) != 0) {
        return false;
    }
    struct wall stamp = {.ns = mono_ns_mul(NS_PER_SEC, seconds)};
    int64_t age_ns = wall_since(now, stamp);
    return age_ns >= 0 && age_ns < limit_ns;
}

enum probe_outcome service_beat_step(struct service_beat *beat, const struct rpc_message *reply,
                                     struct mono now, struct wall wall_now,
                                     char words[static PROBE_WORDS_BYTES])
{
    char value[sizeof(beat->last)];
    char span[32];
    enum probe_outcome outcome =
        ovsdb_reply_value(reply, "options", beat_key, value, sizeof(value), words);
    if (outcome != PROBE_PASSED) {
        return outcome;
    }
    bool is_first = !beat->has_begun;
    bool is_alive = is_first ? is_young(value, wall_now, beat->limit_ns)
                             : value[0] != '\0' && !text_equal(value, beat->last);
    if (is_first || is_alive) {
        beat->alive_at = now;
    }
    beat->has_begun = true;
    beat->was_alive = beat->was_alive || is_alive;
    text_format(beat->last, sizeof(beat->last), "%s", value);
    if (mono_since(now, beat->alive_at) < beat->limit_ns) {
        text_format(words, PROBE_WORDS_BYTES, "%s has not changed yet", beat_key);
        return beat->was_alive ? PROBE_PASSED : PROBE_UNKNOWN;
    }
    text_from_duration(beat->limit_ns, span, sizeof(span)); /* a growing age is news each time */
    text_format(words, PROBE_WORDS_BYTES, "%s of the southbound database %s %s", beat_key,
                value[0] ? "has not changed for" : "has not been there for", span);
    return PROBE_WRONG;
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Looks at the answer to the question `index`. PROBE_PASSED: go on; else the call ends so. */
typedef enum probe_outcome rpc_judge_fn(void *user, size_t index, const struct rpc_message *reply,
                                        char words[static PROBE_WORDS_BYTES]);

/* It has no clock: whoever starts it sets a deadline and cancels. `done` comes exactly once per
 * start, unless cancelled; it may start the call anew, and must not free it. */
struct rpc_call {
    struct ev_loop *loop;                     /* borrowed */
    const struct service_question *questions; /* SERVICE_QUESTIONS_MAX; borrowed */
    rpc_judge_fn *judge;
    probe_done_fn *done;
    void *user;
    ev_io ready; /* fd -1: no run */
    size_t question;
    size_t outbox_len;
    size_t inbox_len;
    size_t received; /* in all */
    char outbox[RPC_OUTBOX_BYTES];
    char inbox[RPC_INBOX_BYTES];
};

static void call_stop(struct rpc_call *c)
{
    if (c->ready.fd >= 0) {
        ev_io_stop(c->loop, &c->ready);
        (void)close(c->ready.fd); /* nothing more is wanted of it */
        ev_io_set(&c->ready, -1, EV_READ);
    }
}

/* Returns false: the run does not go on. */
static bool call_end(struct rpc_call *c, enum probe_outcome outcome, const char *words)
{
    call_stop(c);
    c->done(c->user, outcome, words); /* may start the next run */
    return false;
}

static const char *asked(const struct rpc_call *c)
{
    return c->questions[c->question].method;
}

static bool call_end_closed(struct rpc_call *c)
{
    char words[PROBE_WORDS_BYTES];
    text_format(words, sizeof(words), "the connection was closed without an answer to '%s'",
                asked(c));
    return call_end(c, PROBE_REFUSED, words);
}

static bool call_end_wrong(struct rpc_call *c, const char *what)
{
    char words[PROBE_WORDS_BYTES];
    text_format(words, sizeof(words), "what answers '%s' %s", asked(c), what);
    return call_end(c, PROBE_WRONG, words);
}

/* Questions are shorter than half of the outbox, which answered echoes leave to them. */
static void queue_question(struct rpc_call *c)
{
    const struct service_question *q = &c->questions[c->question];
    text_format(c->outbox + c->outbox_len, sizeof(c->outbox) - c->outbox_len,
                "{\"id\":%zu,\"method\":\"%s\",\"params\":%s}", c->question, q->method,
                q->params_json);
    c->outbox_len += strlen(c->outbox + c->outbox_len);
}

/* Returns false if the connection is gone. What the server sent before may still tell why. */
static bool call_flush(struct rpc_call *c)
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
    int fd = c->ready.fd;
    ev_io_stop(c->loop, &c->ready);
    ev_io_set(&c->ready, fd, c->outbox_len > 0 ? EV_READ | EV_WRITE : EV_READ);
    ev_io_start(c->loop, &c->ready);
    return true;
}

/* These return whether the run goes on. */

static bool take_reply(struct rpc_call *c, const struct rpc_message *m)
{
    char words[PROBE_WORDS_BYTES] = "";
    if (!json_is_integer(m->id) || json_integer_value(m->id) != (json_int_t)c->question) {
        return call_end_wrong(c, "was asked by somebody else");
    }
    enum probe_outcome outcome = c->judge(c->user, c->question, m, words);
    if (outcome != PROBE_PASSED) {
        return call_end(c, outcome, words);
    }
    if (c->question + 1 == SERVICE_QUESTIONS_MAX || !c->questions[c->question + 1].method) {
        return call_end(c, PROBE_PASSED, "");
    }
    c->question++;
    queue_question(c);
    return true;
}

static bool answer_echo(struct rpc_call *c, const struct rpc_message *m)
{
    CLEANUP(json)
    json_t *answer = json_pack("{s:O, s:O, s:n}", "id", m->id, "result", m->params, "error");
    size_t most = sizeof(c->outbox) / 2; /* the other half is for a question */
    size_t room = c->outbox_len < most ? most - c->outbox_len : 0;
    size_t len = json_dumpb(answer, c->outbox + c->outbox_len, room, JSON_COMPACT);
    if (len > room) {
        return call_end_wrong(c, "sends more echo requests than it reads answers");
    }
    c->outbox_len += len;
    return true;
}

static bool take_messages(struct rpc_call *c, bool is_end)
{
    for (;;) {
        CLEANUP(rpc_message) struct rpc_message m;
        size_t len;
        enum rpc_kind kind = rpc_message_read(c->inbox, c->inbox_len, is_end, &m, &len);
        if (kind == RPC_MORE) {
            return true;
        }
        if (kind == RPC_INVALID) {
            return call_end_wrong(c, "does not speak JSON-RPC");
        }
        c->inbox_len -= len;
        memmove(c->inbox, c->inbox + len, c->inbox_len);
        if ((kind == RPC_ECHO && !answer_echo(c, &m)) ||
            (kind == RPC_REPLY && !take_reply(c, &m))) {
            return false;
        }
    }
}

static bool call_receive(struct rpc_call *c)
{
    ssize_t got = recv(c->ready.fd, c->inbox + c->inbox_len, sizeof(c->inbox) - c->inbox_len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    c->inbox_len += got > 0 ? (size_t)got : 0;
    c->received += got > 0 ? (size_t)got : 0;
    if (!take_messages(c, got <= 0 || c->inbox_len == sizeof(c->inbox))) {
        return false;
    }
    if (got <= 0) {
        return call_end_closed(c);
    }
    if (c->inbox_len == sizeof(c->inbox) || c->received > RPC_TOTAL_BYTES) {
        return call_end_wrong(c, "sends more than is asked for");
    }
    return true;
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    struct rpc_call *c = w->data;
    if ((revents & EV_READ) && !call_receive(c)) {
        return;
    }
    if (!call_flush(c)) {
        call_end_closed(c);
    }
}

static void call_start(struct rpc_call *c, const char *path)
{
    char words[PROBE_WORDS_BYTES];
    int fd;
    c->question = 0;
    c->outbox_len = 0;
    c->inbox_len = 0;
    c->received = 0;
    enum probe_outcome outcome = unix_connect(path, &fd, words);
    if (outcome != PROBE_PASSED) {
        call_end(c, outcome, words);
        return;
    }
    ev_io_set(&c->ready, fd, EV_READ);
    queue_question(c);
    if (!call_flush(c)) {
        call_end_closed(c);
    }
}

static void call_init(struct rpc_call *c, struct ev_loop *loop,
                      const struct service_question *questions, rpc_judge_fn *judge,
                      probe_done_fn *done, void *user)
{
    c->loop = loop;
    c->questions = questions;
    c->judge = judge;
    c->done = done;
    c->user = user;
    ev_io_init(&c->ready, on_ready, -1, EV_READ);
    c->ready.data = c;
}

/* ---- the name of the node -------------------------------------------------------------------- */

struct ovsdb_ask {
    struct rpc_call call;
    ovsdb_ask_fn *done;
    void *user;
    int64_t timeout_ns;
    ev_timer deadline;
    char socket[UNIX_PATH_BYTES];
    char value[OVSDB_ASK_VALUE_BYTES];
};

static enum probe_outcome ask_judge(void *user, size_t index, const struct rpc_message *reply,
                                    char words[static PROBE_WORDS_BYTES])
{
    struct ovsdb_ask *ask = user;
    (void)index; /* there is one question */
    return ovsdb_reply_value(reply, "external_ids", "host-k8s-nodename", ask->value,
                             sizeof(ask->value), words);
}

static void ask_done(void *user, enum probe_outcome outcome, const char *words)
{
    struct ovsdb_ask *ask = user;
    ev_timer_stop(ask->call.loop, &ask->deadline);
    ask->done(ask->user, outcome, outcome == PROBE_PASSED ? ask->value : words);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    struct ovsdb_ask *ask = timer->data;
    char span[32];
    char words[PROBE_WORDS_BYTES];
    text_from_duration(ask->timeout_ns, span, sizeof(span));
    text_format(words, sizeof(words), "'%s' gives no answer within %s", ask->socket, span);
    call_end(&ask->call, PROBE_SILENT, words);
}

void ovsdb_ask_start(struct ovsdb_ask *ask)
{
    ev_now_update(ask->call.loop);
    ev_timer_set(&ask->deadline, (double)ask->timeout_ns / (double)NS_PER_SEC, 0.);
    ev_timer_start(ask->call.loop, &ask->deadline);
    call_start(&ask->call, ask->socket);
}

int ovsdb_ask_new(struct ev_loop *loop, const char *socket, int64_t timeout_ns, ovsdb_ask_fn *done,
                  void *user, struct ovsdb_ask **out, struct err *e)
{
    static const struct service_question questions[SERVICE_QUESTIONS_MAX] = {
        {"transact", "[\"Open_vSwitch\",{\"op\":\"select\",\"table\":\"Open_vSwitch\","
                     "\"where\":[],\"columns\":[\"external_ids\"]}]"}};
    if (strlen(socket) >= UNIX_PATH_BYTES) {
        return err_set(e, ERR_LIMIT, "the path '%s' of a socket has more than %d bytes", socket,
                       UNIX_PATH_BYTES - 1);
    }
    struct ovsdb_ask *ask = MEM_NEW(struct ovsdb_ask);
    call_init(&ask->call, loop, questions, ask_judge, ask_done, ask);
    ask->done = done;
    ask->user = user;
    ask->timeout_ns = timeout_ns;
    ev_timer_init(&ask->deadline, on_deadline, 0., 0.);
    ask->deadline.data = ask;
    text_format(ask->socket, sizeof(ask->socket), "%s", socket);
    *out = ask;
    return 0;
}

void ovsdb_ask_free(struct ovsdb_ask *ask)
{
    if (ask) {
        ev_timer_stop(ask->call.loop, &ask->deadline);
        call_stop(&ask->call);
        free(ask);
    }
}

/* ---- the probe of a service ------------------------------------------------------------------ */

/* Of the path: the longest name of a socket is that of ovn-controller's, with the largest pid. */
enum { SOCKET_NAME_BYTES = 32, DIR_BYTES = UNIX_PATH_BYTES - SOCKET_NAME_BYTES, BRIDGE_BYTES = 64 };

struct service_probe {
    struct probe_run run;
    struct rpc_call call;
    const struct service *service; /* static */
    struct service_beat beat;
    char dir[DIR_BYTES];
    char bridge[BRIDGE_BYTES];
};

/* Where a daemon of OVS or OVN takes commands: DIR/NAME.PID.ctl, by the number in DIR/NAME.pid.
 * Never by a pattern: who is killed leaves his socket behind, beside that of his successor. */
static enum probe_outcome find_unixctl(const char *dir, const char *daemon,
                                       char out[static UNIX_PATH_BYTES], char *words)
{
    char path[UNIX_PATH_BYTES];
    CLEANUP(buf) struct buf file;
    struct err e = ERR_INIT;
    uint64_t pid;
    buf_init(&file, PID_FILE_BYTES);
    text_format(path, sizeof(path), "%s/%s.pid", dir, daemon);
    int rc = file_read(path, &file, &e);
    if (rc == ERR_AUTH) {
        unix_connect_denied(path, words);
        return PROBE_DENIED;
    }
    text_format(words, PROBE_WORDS_BYTES, "%s", e.msg);
    if (rc != 0 && probe_outcome_is_our_lack(e.sys_errno)) {
        return PROBE_UNABLE;
    }
    if (rc != 0) {
        return rc == ERR_NOTFOUND ? PROBE_MISSING : PROBE_WRONG;
    }
    size_t len = strcspn(buf_text(&file), "\n");
    if (len == 0) { /* made, and not yet written */
        text_format(words, PROBE_WORDS_BYTES, "'%s' is empty", path);
        return PROBE_MISSING;
    }
    if (text_to_u64(buf_text(&file), len, &pid, NULL) != 0) {
        text_format(words, PROBE_WORDS_BYTES, "'%s' holds no process id", path);
        return PROBE_WRONG;
    }
    text_format(out, UNIX_PATH_BYTES, "%s/%s.%.*s.ctl", dir, daemon, (int)len, buf_text(&file));
    return PROBE_PASSED;
}

static enum probe_outcome on_answer(void *user, size_t index, const struct rpc_message *reply,
                                    char words[static PROBE_WORDS_BYTES])
{
    struct service_probe *p = user;
    if (p->service->has_beat) {
        return service_beat_step(&p->beat, reply, clock_mono_now(), clock_wall_now(), words);
    }
    return service_judge(p->service, index, p->bridge, reply, words);
}

static void on_answered(void *user, enum probe_outcome outcome, const char *words)
{
    struct service_probe *p = user;
    p->run.done(p->run.user, outcome, words);
}

static void service_start(struct probe_run *run)
{
    struct service_probe *p = (struct service_probe *)run;
    char path[UNIX_PATH_BYTES];
    char words[PROBE_WORDS_BYTES] = "";
    enum probe_outcome outcome = PROBE_PASSED;
    if (p->service->socket) {
        text_format(path, sizeof(path), "%s/%s", p->dir, p->service->socket);
    } else {
        outcome = find_unixctl(p->dir, p->service->daemon, path, words);
    }
    if (outcome == PROBE_PASSED) {
        call_start(&p->call, path);
    } else {
        run->done(run->user, outcome, words);
    }
}

static const char *service_cancel(struct probe_run *run)
{
    struct service_probe *p = (struct service_probe *)run;
    call_stop(&p->call);
    return asked(&p->call);
}

static int service_init(struct probe_run *run, const struct probe_spec *spec, struct err *e)
{
    struct service_probe *p = (struct service_probe *)run;
    const char *dir = spec->service->is_of_ovs ? spec->ovs_run_dir : spec->ovn_run_dir;
    p->service = spec->service;
    p->beat.limit_ns = spec->beat_limit_ns;
    call_init(&p->call, run->loop, p->service->questions, on_answer, on_answered, p);
    if (!text_copy(p->dir, sizeof(p->dir), dir)) {
        return err_set(e, ERR_LIMIT, "the directory '%s' has more than %d bytes", dir,
                       DIR_BYTES - 1);
    }
    if (!text_copy(p->bridge, sizeof(p->bridge), spec->target)) {
        return err_set(e, ERR_LIMIT, "bridge '%s' has more than %d bytes", spec->target,
                       BRIDGE_BYTES - 1);
    }
    return 0;
}

static void service_fini(struct probe_run *run)
{
    call_stop(&((struct service_probe *)run)->call);
}

const struct probe_method probe_method_service = {.run_bytes = sizeof(struct service_probe),
                                                  .init = service_init,
                                                  .start = service_start,
                                                  .cancel = service_cancel,
                                                  .fini = service_fini};
