/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ovs_rpc.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "probe/probe_set.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHOWN_BYTES = 100, PID_FILE_BYTES = 32 };

/* ---- messages -------------------------------------------------------------------------------- */

/* A member that is there and not null. */
static json_t *find_member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static enum rpc_kind kind_of(const json_t *object)
{
    if (find_member(object, "method")) {
        return RPC_NOTICE;
    }
    bool is_answer = find_member(object, "error") || json_object_get(object, "result");
    return is_answer && json_object_get(object, "id") ? RPC_REPLY : RPC_INVALID;
}

/* Only what ends in a brace can be whole, and a cut there spoils no token: what is wrong then stays
 * wrong, whatever follows. */
enum rpc_kind rpc_message_read(const char *bytes, size_t len, bool is_end, json_t **out,
                               size_t *out_len)
{
    static const char blanks[] = " \t\r\n";
    *out = NULL;
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
    CLEANUP(json) json_t *object = json_loadb(bytes, len, JSON_DISABLE_EOF_CHECK, &why);
    if (!object) {
        bool is_cut = json_error_code(&why) == json_error_premature_end_of_input;
        return is_cut || is_end ? RPC_MORE : RPC_INVALID;
    }
    bool has_nul =
        memchr(bytes, '\0', (size_t)why.position); /* jansson passes over it, uncounted */
    enum rpc_kind kind = has_nul ? RPC_INVALID : kind_of(object);
    if (kind != RPC_INVALID) {
        *out_len = (size_t)why.position;
        *out = TAKE(object);
    }
    return kind;
}

/* ---- what is expected of an answer ----------------------------------------------------------- */

static enum probe_outcome wrong(char words[static PROBE_WORDS_BYTES], const json_t *seen,
                                const char *format, ...) PRINTF_LIKE(3, 4);

/* Says why an answer is wrong, and adds what was seen unless that is NULL. */
static enum probe_outcome wrong(char words[static PROBE_WORDS_BYTES], const json_t *seen,
                                const char *format, ...)
{
    char shown[SHOWN_BYTES];
    va_list args;
    va_start(args, format);
    text_vformat(words, PROBE_WORDS_BYTES, format, args);
    va_end(args);
    if (seen) {
        CLEANUP(free) char *text = json_text_dump(seen);
        size_t used = strlen(words);
        text_sanitize(shown, sizeof(shown), text, strlen(text));
        text_format(words + used, PROBE_WORDS_BYTES - used, ": '%s'", shown);
    }
    return PROBE_WRONG;
}

static bool lists(const json_t *array, const char *wanted)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (text_equal(json_string_value(json_array_get(array, i)), wanted)) {
            return true;
        }
    }
    return false;
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

static enum probe_outcome judge_value(const struct service_question *q, const json_t *result,
                                      char words[static PROBE_WORDS_BYTES])
{
    const json_t *rows = json_object_get(json_array_get(result, 0), "rows");
    const json_t *map = json_object_get(json_array_get(rows, 0), q->wanted);
    if (!text_equal(json_string_value(json_array_get(map, 0)), "map")) {
        return wrong(words, result, "the database's answer does not contain the requested row");
    }
    const json_t *value = find_in_map(map, q->key);
    const char *text = value ? json_string_value(value) : "";
    if (!text || !text_copy(words, PROBE_WORDS_BYTES, text)) {
        return wrong(words, value, "the database contains an invalid value");
    }
    return PROBE_PASSED;
}

static enum probe_outcome judge_text(const struct service_question *q, const char *bridge,
                                     const char *answer, char words[static PROBE_WORDS_BYTES])
{
    char shown[SHOWN_BYTES];
    const char *wanted = q->expected == ANSWER_BRIDGE ? bridge : q->wanted;
    size_t len = strlen(answer);
    while (len > 0 && (answer[len - 1] == '\n' || answer[len - 1] == ' ')) {
        len--;
    }
    text_sanitize(shown, sizeof(shown), answer, len);
    bool is_same = text_equal(shown, wanted);
    if (q->expected == ANSWER_IS_NOT) {
        return is_same ? wrong(words, NULL, "it has computed no flows since its start")
                       : PROBE_PASSED;
    }
    if (q->expected == ANSWER_BRIDGE ? has_line(answer, bridge) : is_same) {
        return PROBE_PASSED;
    }
    return wrong(words, NULL, "'%s' answers '%s' instead of '%s'", q->method, shown, wanted);
}

enum probe_outcome service_judge(const struct service_question *q, const char *bridge,
                                 const json_t *reply, char words[static PROBE_WORDS_BYTES])
{
    const json_t *error = find_member(reply, "error");
    const json_t *result = json_object_get(reply, "result");
    if (error) {
        return wrong(words, error, "the answer to '%s' is an error", q->method);
    }
    if (q->expected == ANSWER_VALUE || q->expected == ANSWER_BEAT) {
        return judge_value(q, result, words);
    }
    if (q->expected == ANSWER_LISTS) {
        return lists(result, q->wanted)
                   ? PROBE_PASSED
                   : wrong(words, result, "the server does not serve database '%s'", q->wanted);
    }
    return json_is_string(result)
               ? judge_text(q, bridge, json_string_value(result), words)
               : wrong(words, result, "the answer to '%s' is not a text", q->method);
}

/* ---- the beat -------------------------------------------------------------------------------- */

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

enum probe_outcome service_beat_step(struct service_beat *beat,
                                     const struct service_question *question, const json_t *reply,
                                     struct mono now, struct wall wall_now,
                                     char words[static PROBE_WORDS_BYTES])
{
    char value[PROBE_WORDS_BYTES];
    char span[32];
    if (service_judge(question, "", reply, value) != PROBE_PASSED) {
        return wrong(words, NULL, "%s", value);
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
        text_format(words, PROBE_WORDS_BYTES, "%s has not changed yet", question->key);
        return beat->was_alive ? PROBE_PASSED : PROBE_UNKNOWN;
    }
    text_from_duration(beat->limit_ns, span, sizeof(span)); /* a growing age is news each time */
    return wrong(words, NULL, "%s of the southbound database %s %s", question->key,
                 value[0] ? "has not changed for" : "has been missing for", span);
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Of the path: the longest name of a socket is that of ovn-controller's, with the largest pid. */
enum { SOCKET_NAME_BYTES = 32, DIR_BYTES = UNIX_PATH_BYTES - SOCKET_NAME_BYTES };

struct service_probe {
    struct probe probe;
    struct service_beat beat;
    const char *dir; /* of its sockets; borrowed */
    ev_io ready;     /* fd -1: no run */
    size_t question;
    size_t inbox_len;
    size_t received; /* in all */
    char inbox[RPC_INBOX_BYTES];
};

static const struct service_question *asked(const struct service_probe *p)
{
    return &p->probe.spec.service->questions[p->question];
}

static const char *service_stop(struct probe *probe)
{
    struct service_probe *p = (struct service_probe *)probe;
    if (p->ready.fd >= 0) {
        ev_io_stop(probe->loop, &p->ready);
        (void)close(p->ready.fd); /* nothing more is wanted of it */
        ev_io_set(&p->ready, -1, EV_READ);
    }
    return asked(p)->method;
}

/* What is said of it stands before and behind the question. Returns false: the run is over. */
static bool end_run(struct service_probe *p, enum probe_outcome outcome, const char *before,
                    const char *behind)
{
    probe_end(&p->probe, outcome, "%s '%s'%s", before, asked(p)->method, behind);
    return false;
}

static bool end_closed(struct service_probe *p)
{
    return end_run(p, PROBE_REFUSED, "the connection was closed without an answer to", "");
}

/* Returns whether the run goes on. A fresh socket takes so little at once. */
static bool ask(struct service_probe *p)
{
    char text[RPC_QUESTION_BYTES];
    const struct service_question *q = asked(p);
    text_format(text, sizeof(text), "{\"id\":%zu,\"method\":\"%s\",\"params\":%s}", p->question,
                q->method, q->params_json);
    ssize_t len = (ssize_t)strlen(text);
    return send(p->ready.fd, text, (size_t)len, MSG_NOSIGNAL) == len || end_closed(p);
}

/* The same. */
static bool take_reply(struct service_probe *p, const json_t *reply)
{
    char words[PROBE_WORDS_BYTES] = "";
    const struct service_question *q = asked(p);
    const json_t *id = json_object_get(reply, "id");
    if (!json_is_integer(id) || json_integer_value(id) != (json_int_t)p->question) {
        return end_run(p, PROBE_WRONG, "what answers", " answers another request");
    }
    enum probe_outcome outcome =
        q->expected == ANSWER_BEAT
            ? service_beat_step(&p->beat, q, reply, clock_mono_now(), clock_wall_now(), words)
            : service_judge(q, p->probe.spec.target, reply, words);
    bool is_last = p->question + 1 == SERVICE_QUESTIONS_MAX || !q[1].method;
    if (outcome != PROBE_PASSED || is_last) {
        probe_end(&p->probe, outcome, "%s", words); /* may start the next run */
        return false;
    }
    p->question++;
    return ask(p);
}

static bool take_messages(struct service_probe *p, bool is_end)
{
    for (;;) {
        CLEANUP(json) json_t *message = NULL;
        size_t len;
        enum rpc_kind kind = rpc_message_read(p->inbox, p->inbox_len, is_end, &message, &len);
        if (kind == RPC_MORE) {
            return true;
        }
        if (kind == RPC_INVALID) {
            return end_run(p, PROBE_WRONG, "what answers", " does not speak JSON-RPC");
        }
        p->inbox_len -= len;
        memmove(p->inbox, p->inbox + len, p->inbox_len);
        if (kind == RPC_REPLY && !take_reply(p, message)) {
            return false;
        }
    }
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
    struct service_probe *p = w->data;
    ssize_t got = recv(w->fd, p->inbox + p->inbox_len, sizeof(p->inbox) - p->inbox_len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    p->inbox_len += got > 0 ? (size_t)got : 0;
    p->received += got > 0 ? (size_t)got : 0;
    if (!take_messages(p, got <= 0 || p->inbox_len == sizeof(p->inbox))) {
        return;
    }
    if (got <= 0) {
        (void)end_closed(p);
    } else if (p->inbox_len == sizeof(p->inbox) || p->received > RPC_TOTAL_BYTES) {
        (void)end_run(p, PROBE_WRONG, "what answers", " sends more than the probe asked for");
    }
}

/* ---- the probe of a service ------------------------------------------------------------------ */

/* Where a daemon of OVS or OVN takes commands: DIR/NAME.PID.ctl, by the number in DIR/NAME.pid.
 * Never by a pattern: who is killed leaves his socket behind, beside that of his successor. */
static enum probe_outcome find_unixctl(const char *dir, const char *daemon,
                                       char out[static UNIX_PATH_BYTES], char *words)
{
    char path[UNIX_PATH_BYTES];
    CLEANUP(buf) struct buf file = {.max_bytes = PID_FILE_BYTES};
    struct err e = ERR_INIT;
    uint64_t pid;
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
        text_format(words, PROBE_WORDS_BYTES, "'%s' does not contain a process ID", path);
        return PROBE_WRONG;
    }
    text_format(out, UNIX_PATH_BYTES, "%s/%s.%.*s.ctl", dir, daemon, (int)len, buf_text(&file));
    return PROBE_PASSED;
}

static void service_start(struct probe *probe)
{
    struct service_probe *p = (struct service_probe *)probe;
    char path[UNIX_PATH_BYTES];
    char words[PROBE_WORDS_BYTES] = "";
    int fd;
    enum probe_outcome outcome = PROBE_PASSED;
    if (p->probe.spec.service->socket) {
        text_format(path, sizeof(path), "%s/%s", p->dir, p->probe.spec.service->socket);
    } else {
        outcome = find_unixctl(p->dir, p->probe.spec.service->daemon, path, words);
    }
    if (outcome == PROBE_PASSED) {
        outcome = unix_connect(path, &fd, words);
    }
    if (outcome != PROBE_PASSED) {
        probe_end(probe, outcome, "%s", words);
        return;
    }
    p->question = 0;
    p->inbox_len = 0;
    p->received = 0;
    ev_io_set(&p->ready, fd, EV_READ);
    ev_io_start(probe->loop, &p->ready);
    (void)ask(p); /* it ends the run if that fails */
}

static int service_init(struct probe *probe, struct err *e)
{
    struct service_probe *p = (struct service_probe *)probe;
    const struct probe_spec *spec = &probe->spec;
    p->dir = spec->service->is_of_ovs ? spec->ovs_run_dir : spec->ovn_run_dir;
    p->beat.limit_ns = spec->beat_limit_ns;
    ev_io_init(&p->ready, on_ready, -1, EV_READ);
    p->ready.data = p;
    return strlen(p->dir) < DIR_BYTES
               ? 0
               : err_set(e, ERR_LIMIT, "the directory '%s' has more than %d bytes", p->dir,
                         DIR_BYTES - 1);
}

const struct probe_method probe_method_service = {.bytes = sizeof(struct service_probe),
                                                  .init = service_init,
                                                  .start = service_start,
                                                  .stop = service_stop};
