/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the daemons and databases of OVS and OVN over JSON-RPC 1.0 on a unix socket: one connection
 * per run and place, on which all questions are asked at once and answered in their order. Ignores
 * the server's own requests. By default OVS sends no echo request on a unix socket, so none waits
 * for our answer.
 *
 * A hostile server costs no more than RPC_TOTAL_BYTES read, in pieces of what is there, and the
 * tree of RPC_INBOX_BYTES of JSON.
 */
#include "probe/probe_set.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/curl_loop.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Services answer within a millisecond, one after another. Whoever listens 10 to 20 ms later, at
 * the same time as those who asked others meanwhile, is woken once for all of them. */
#define GATHER_NS      (10 * NS_PER_MS)
#define ALONE_BELOW_NS (50 * GATHER_NS) /* of a timeout, which several places may share */

enum {
    RPC_QUESTION_BYTES = 2048,
    RPC_INBOX_BYTES = 64 << 10,   /* the largest object */
    RPC_TOTAL_BYTES = 1024 << 10, /* of one connection */
    RPC_PIECE_BYTES = 4096,       /* that is read at a time */
    SHOWN_BYTES = 100,
    PID_FILE_BYTES = 32,
};

/* ---- messages -------------------------------------------------------------------------------- */

enum rpc_kind {
    RPC_MORE,    /* no whole object yet */
    RPC_INVALID, /* what comes is no object of JSON-RPC */
    RPC_NOTICE,  /* a request or a notice: asks for nothing that we answer */
    RPC_REPLY,   /* its error is absent or null, unless it is one */
};

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

/* Reads the first of the objects that stand back to back, without length or newline (RFC 7047,
 * section 4). `bytes` is all that came since the last one, and the end of the stream with `is_end`.
 * With RPC_NOTICE and above it took `*out_len` bytes, and *out is owned; below it is NULL. Only
 * what ends in a brace can be whole, and a cut there spoils no token: what is wrong then stays
 * wrong, whatever follows. */
static enum rpc_kind rpc_message_read(const char *bytes, size_t len, bool is_end, json_t **out,
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

static const struct probe_answer passed = {.outcome = PROBE_PASSED};

/* Why an answer is wrong, and what was seen. */
PRINTF_LIKE(2, 3)
static struct probe_answer wrong(const json_t *seen, const char *format, ...)
{
    char why[PROBE_WORDS_BYTES];
    char shown[SHOWN_BYTES];
    CLEANUP(free) char *dumped = json_text_dump(seen);
    const char *text = json_is_string(seen) ? json_string_value(seen) : dumped;
    size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    text_vformat(why, sizeof(why), format, args);
    va_end(args);
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    text_sanitize(shown, sizeof(shown), text, len);
    return probe_answer_make(PROBE_WRONG, "%s: '%s'", why, shown);
}

/* What the operation `index` of a transaction selected; NULL: it is no array, as after an error. */
static const json_t *find_rows(const json_t *result, size_t index)
{
    const json_t *rows = json_object_get(json_array_get(result, index), "rows");
    return json_is_array(rows) ? rows : NULL;
}

/* Why a server that answers has lost, or has never had, what it serves (ovsdb-server(5), "Database"
 * of _Server). */
static const char *explain_disconnection(const char *model, bool has_schema)
{
    if (text_equal(model, "clustered")) {
        return has_schema ? "has lost its quorum" : "has not joined its cluster";
    }
    if (text_equal(model, "relay")) {
        return has_schema ? "has lost its source" : "has not reached its source";
    }
    return "is not connected";
}

/* Whether it is served, and not by name alone: a member of a cluster and a relay answer to the end.
 * A follower serves as well as a leader. */
static struct probe_answer judge_served(const struct service_question *q, const json_t *result)
{
    const json_t *rows = find_rows(result, 0);
    const json_t *without_schema = find_rows(result, 1);
    const json_t *row = json_array_get(rows, 0);
    const json_t *connected = json_object_get(row, "connected");
    if (!rows || !without_schema || (row && !json_is_boolean(connected))) {
        return wrong(result, "the server does not tell what it serves");
    }
    if (!row) {
        return probe_answer_make(PROBE_WRONG, "the server does not serve database '%s'", q->wanted);
    }
    bool has_schema = json_array_size(without_schema) == 0;
    if (json_is_true(connected) && has_schema) {
        return passed;
    }
    const char *model = json_string_value(json_object_get(row, "model"));
    return probe_answer_make(PROBE_WRONG, "the server of database '%s' %s", q->wanted,
                             json_is_true(connected) ? "has no schema of it"
                                                     : explain_disconnection(model, has_schema));
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

static struct probe_answer judge_value(const struct service_question *q, const json_t *result)
{
    const json_t *map = json_object_get(json_array_get(find_rows(result, 0), 0), q->wanted);
    struct probe_answer answer = passed;
    if (!text_equal(json_string_value(json_array_get(map, 0)), "map")) {
        return wrong(result, "the database's answer does not contain the requested row");
    }
    const json_t *value = find_in_map(map, q->key);
    const char *text = value ? json_string_value(value) : "";
    if (!text || !text_copy(answer.words, sizeof(answer.words), text)) {
        return wrong(value, "the database contains an invalid value");
    }
    return answer;
}

static struct probe_answer judge_text(const struct service_question *q, const char *wanted,
                                      const char *answer)
{
    char shown[SHOWN_BYTES];
    bool has_it = has_line(answer, wanted);
    size_t len = strlen(answer);
    if (has_it == (q->expected == ANSWER_LINE)) {
        return passed;
    }
    if (has_it) {
        return probe_answer_make(PROBE_WRONG, "it has computed no flows since its start");
    }
    while (len > 0 && answer[len - 1] == '\n') {
        len--;
    }
    text_sanitize(shown, sizeof(shown), answer, len);
    return probe_answer_make(PROBE_WRONG, "'%s' answers '%s' instead of '%s'", q->method, shown,
                             wanted);
}

/* A value of OVS's external_ids; "" if it is not there. */
static const char *text_of_id(const json_t *ids, const char *key)
{
    const char *text = json_string_value(find_in_map(ids, key));
    return text ? text : "";
}

/* A value that ovn-controller reads there: what is said for its chassis overrides what is said for
 * all (ovn-controller(8)). */
static const char *text_of_option(const json_t *ids, const char *chassis, const char *key)
{
    CLEANUP(free) char *own = mem_format("%s-%s", key, chassis);
    return text_of_id(ids, find_in_map(ids, own) ? own : key);
}

static const char *bridge_mappings_of(const json_t *ids)
{
    return text_of_option(ids, text_of_id(ids, "system-id"), "ovn-bridge-mappings");
}

/* Each bridge to which OVS's external_ids map a network, "NETWORK:BRIDGE,...": of the gateway, of a
 * localnet, of the uplink of a user-defined network. */
static struct probe_answer judge_bridges(const json_t *ids, const char *answer)
{
    const char *at = bridge_mappings_of(ids);
    while (*at != '\0') {
        char bridge[SERVICE_TARGET_BYTES];
        char shown[SHOWN_BYTES];
        size_t len = strcspn(at, ",");
        size_t network = strcspn(at, ":,");
        if (network + 1 < len && len - network <= sizeof(bridge)) {
            text_format(bridge, sizeof(bridge), "%.*s", (int)(len - network - 1), at + network + 1);
            text_sanitize(shown, sizeof(shown), bridge, strlen(bridge));
            if (!has_line(answer, bridge)) {
                return probe_answer_make(
                    PROBE_WRONG, "there is no bridge '%s', which ovn-bridge-mappings names", shown);
            }
        }
        at += len + (at[len] == ',');
    }
    return passed;
}

/* In the words of OVS's unixctl, which have no code. */
static bool is_unknown_command(const json_t *error)
{
    const char *text = json_string_value(error);
    return text && strstr(text, "is not a valid command");
}

/* What `reply` says to the question, unless that is of a beat: with the value that was asked for,
 * if any. `bridge`: what ovs-vswitchd must have,
 * beside those that OVS's external_ids `ids` name. */
static struct probe_answer service_judge(const struct service_question *q, const char *bridge,
                                         const json_t *ids, const json_t *reply)
{
    const json_t *error = find_member(reply, "error");
    const json_t *result = json_object_get(reply, "result");
    if (error && q->if_unknown && is_unknown_command(error)) {
        return probe_answer_make(PROBE_WRONG, "%s: '%s' is not yet a command", q->if_unknown,
                                 q->method);
    }
    if (error) {
        return wrong(error, "the answer to '%s' is an error", q->method);
    }
    if (q->expected == ANSWER_VALUE || q->expected == ANSWER_BEAT) {
        return judge_value(q, result);
    }
    if (q->expected == ANSWER_SERVES) {
        return judge_served(q, result);
    }
    if (!json_is_string(result)) {
        return wrong(result, "the answer to '%s' is not a text", q->method);
    }
    const char *text = json_string_value(result);
    return q->expected == ANSWER_BRIDGES ? judge_bridges(ids, text)
                                         : judge_text(q, q->wanted ? q->wanted : bridge, text);
}

/* ---- the beat -------------------------------------------------------------------------------- */

/* ovnkube writes the time to its northbound database every 30 s, northd copies it to the southbound
 * one: while it changes, all of them work. It is judged by its changes on our own clock; only the
 * first value may vouch by its age, so that a restart of ours waits for no change. */
struct service_beat {
    int64_t limit_ns; /* without a change */
    char last[PROBE_WORDS_BYTES];
    bool has_begun;       /* to be watched */
    bool was_alive;       /* it changed, or was young when it was first seen */
    struct mono alive_at; /* or when it was first looked at */
};

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

/* What `reply` says to question `q`: PROBE_UNKNOWN until the first value has changed or had its
 * time to. */
static struct probe_answer service_beat_step(struct service_beat *beat,
                                             const struct service_question *q, const json_t *reply,
                                             struct mono now, struct wall wall_now)
{
    struct probe_answer answer = service_judge(q, "", NULL, reply);
    const char *value = answer.words;
    if (answer.outcome != PROBE_PASSED) {
        return answer;
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
        return probe_answer_make(beat->was_alive ? PROBE_PASSED : PROBE_UNKNOWN,
                                 "%s has not changed yet", q->key);
    }
    /* The limit, since an age that grows is news each time. */
    return probe_answer_make(PROBE_WRONG, "%s of the southbound database %s %s", q->key,
                             value[0] ? "has not changed for" : "has been missing for",
                             text_span(beat->limit_ns).text);
}

/* ---- the chassis ----------------------------------------------------------------------------- */

/* What ovn-controller does shows in the southbound database alone: while none of its transactions
 * is taken, it goes on to answer that it is connected. The rows of its chassis tell: whether
 * another one has its encapsulation address, which keeps all that it writes from being taken;
 * whether they are there; whether it follows nb_cfg, whoever raises that. Behind is who stood still
 * between two looks at a value that was not the one asked for at the first: in a storm of changes a
 * chassis is behind at each look, and moves. */
struct service_chassis {
    bool is_known; /* of the former look: */
    json_int_t own;
    json_int_t asked;
};

/* Whether its southbound database is the one of this DPU, where its rows are looked for. */
static bool has_own_southbound(const json_t *ids, const char *chassis)
{
    const char *remote = text_of_option(ids, chassis, "ovn-remote");
    return remote[0] == '\0' || strncmp(remote, "unix:", 5) == 0;
}

/* The question: what is asked for, the rows of the chassis, and who has its address. The commit
 * commits nothing, there being nothing, and is refused while the server takes no writes. */
static void write_chassis_params(const char *chassis, const char *addresses, char *out,
                                 size_t out_bytes)
{
    CLEANUP(json) json_t *name = json_string(chassis);
    CLEANUP(json) json_t *address = json_stringn(addresses, strcspn(addresses, ","));
    CLEANUP(free) char *name_text = json_text_dump(name);
    CLEANUP(free) char *address_text = json_text_dump(address);
    text_format(out, out_bytes,
                "[\"OVN_Southbound\","
                "{\"op\":\"select\",\"table\":\"SB_Global\",\"where\":[],"
                "\"columns\":[\"nb_cfg\"]},"
                "{\"op\":\"select\",\"table\":\"Chassis_Private\","
                "\"where\":[[\"name\",\"==\",%s]],\"columns\":[\"nb_cfg\",\"chassis\"]},"
                "{\"op\":\"select\",\"table\":\"Encap\",\"where\":[[\"ip\",\"==\",%s]],"
                "\"columns\":[\"chassis_name\"]},"
                "{\"op\":\"commit\",\"durable\":false}]",
                name_text, address_text);
}

/* Who has the address in place of `chassis`, or NULL. */
static const char *find_thief(const json_t *encaps, const char *chassis)
{
    const char *thief = NULL;
    for (size_t i = 0; i < json_array_size(encaps); i++) {
        const json_t *owner = json_object_get(json_array_get(encaps, i), "chassis_name");
        if (text_equal(json_string_value(owner), chassis)) {
            return NULL;
        }
        thief = json_is_string(owner) ? json_string_value(owner) : thief;
    }
    return thief;
}

static bool is_behind(struct service_chassis *memory, json_int_t own, json_int_t asked)
{
    const struct service_chassis was = *memory;
    *memory = (struct service_chassis){.is_known = true, .own = own, .asked = asked};
    return was.is_known && was.own != was.asked && was.own == own;
}

/* What `reply` says of the chassis. */
static struct probe_answer service_chassis_step(struct service_chassis *memory, const char *chassis,
                                                const json_t *reply)
{
    const json_t *result = json_object_get(reply, "result");
    const json_t *global = json_array_get(find_rows(result, 0), 0);
    const json_t *rows = find_rows(result, 1);
    const json_t *encaps = find_rows(result, 2);
    const json_t *row = json_array_get(rows, 0);
    char shown[SHOWN_BYTES];
    char other[SHOWN_BYTES];
    if (find_member(reply, "error") || !global || !rows || !encaps) {
        return wrong(reply, "the southbound database does not show the chassis");
    }
    if (find_member(json_array_get(result, 3), "error")) {
        return passed; /* nobody can write */
    }
    text_sanitize(shown, sizeof(shown), chassis, strlen(chassis));
    const char *thief = find_thief(encaps, chassis);
    if (thief) {
        text_sanitize(other, sizeof(other), thief, strlen(thief));
        return probe_answer_make(PROBE_WRONG,
                                 "chassis '%s' has the encapsulation address of chassis '%s'",
                                 other, shown);
    }
    const json_t *reference = json_array_get(json_object_get(row, "chassis"), 0);
    if (!text_equal(json_string_value(reference), "uuid")) { /* but an empty set */
        return probe_answer_make(PROBE_WRONG, "the southbound database has no chassis '%s'", shown);
    }
    json_int_t own = json_integer_value(json_object_get(row, "nb_cfg"));
    json_int_t asked = json_integer_value(json_object_get(global, "nb_cfg"));
    return is_behind(memory, own, asked)
               ? probe_answer_make(PROBE_WRONG, "chassis '%s' has not followed since nb_cfg %lld",
                                   shown, (long long)own)
               : passed;
}

/* ---- where they listen ----------------------------------------------------------------------- */

/* Where a daemon of OVS or OVN takes commands: DIR/NAME.PID.ctl, by the number in DIR/NAME.pid.
 * Never by a pattern: who is killed leaves his socket behind, beside that of his successor. */
static struct probe_answer find_unixctl(const char *dir, const char *daemon,
                                        char out[static UNIX_PATH_BYTES])
{
    char path[UNIX_PATH_BYTES];
    CLEANUP(buf) struct buf file = {.max_bytes = PID_FILE_BYTES};
    struct err e = ERR_INIT;
    uint64_t pid;
    text_format(path, sizeof(path), "%s/%s.pid", dir, daemon);
    int rc = file_read(path, &file, &e);
    if (rc == ERR_AUTH) {
        return unix_connect_denied(path);
    }
    if (rc != 0) {
        return probe_answer_make(probe_outcome_is_our_lack(e.sys_errno) ? PROBE_UNABLE
                                 : rc == ERR_NOTFOUND                   ? PROBE_MISSING
                                                                        : PROBE_WRONG,
                                 "%s", e.msg);
    }
    size_t len = strcspn(buf_text(&file), "\n");
    if (len == 0) { /* made, and not yet written */
        return probe_answer_make(PROBE_MISSING, "'%s' is empty", path);
    }
    if (text_to_u64(buf_text(&file), len, &pid, NULL) != 0) {
        return probe_answer_make(PROBE_WRONG, "'%s' does not contain a process ID", path);
    }
    text_format(out, UNIX_PATH_BYTES, "%s/%s.%.*s.ctl", dir, daemon, (int)len, buf_text(&file));
    return passed;
}

/* Where the database of OVS has a socket unit, systemd listens in its place, and whoever connects
 * would start it: hence no connection without the daemon's pid file, which goes when it ends. */
static struct probe_answer find_socket(const struct service_place *place, const char *dir,
                                       char out[static UNIX_PATH_BYTES])
{
    struct probe_answer answer = passed;
    if (place->daemon) {
        answer = find_unixctl(dir, place->daemon, out);
    }
    if (place->socket) {
        text_format(out, UNIX_PATH_BYTES, "%s/%s", dir, place->socket);
    }
    return answer;
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Of the path: the longest name of a socket is that of ovn-controller's, with the largest pid. */
enum { SOCKET_NAME_BYTES = 32, DIR_BYTES = UNIX_PATH_BYTES - SOCKET_NAME_BYTES };

struct service_probe {
    struct probe probe;
    struct service_beat beat;
    struct service_chassis chassis;
    json_t *ids;     /* OVS's external_ids, once the run knows them; owned */
    ev_io ready;     /* fd -1: no run */
    ev_timer listen; /* until the answers are read */
    size_t question;
    size_t visits;    /* connections, in all runs */
    size_t received;  /* in all */
    struct buf inbox; /* nothing is held between two runs */
};

static const struct service_question *asked(const struct service_probe *p)
{
    return &p->probe.spec.service->questions[p->question];
}

static void hang_up(struct service_probe *p)
{
    ev_timer_stop(p->probe.loop, &p->listen);
    if (p->ready.fd >= 0) {
        ev_io_stop(p->probe.loop, &p->ready);
        (void)close(p->ready.fd); /* nothing more is wanted of it */
        ev_io_set(&p->ready, -1, EV_READ);
    }
    buf_fini(&p->inbox);
}

static const char *service_stop(struct probe *probe)
{
    struct service_probe *p = (struct service_probe *)probe;
    hang_up(p);
    json_decref(TAKE(p->ids));
    return asked(p)->method;
}

/* Another one that cannot be asked has a probe of its own, and does not fail this one. */
static void end_answered(struct service_probe *p, struct probe_answer answer)
{
    probe_end(&p->probe, p->probe.has_answered ? passed : answer);
}

/* The message names the question between `before` and `behind`. */
static void end_run(struct service_probe *p, enum probe_outcome outcome, const char *before,
                    const char *behind)
{
    end_answered(p, probe_answer_make(outcome, "%s '%s'%s", before, asked(p)->method, behind));
}

static void end_closed(struct service_probe *p)
{
    end_run(p, PROBE_REFUSED, "the connection was closed without an answer to", "");
}

/* The chassis that the service is, or "". */
static const char *chassis_of(const struct service_probe *p)
{
    const char *named = p->probe.spec.target;
    return named[0] ? named : text_of_id(p->ids, "system-id");
}

static const struct service_place *place_of(const struct service_probe *p, size_t question)
{
    const struct service *service = p->probe.spec.service;
    const struct service_question *q = &service->questions[question];
    return q->at ? q->at : service->place;
}

/* A fresh socket takes so little at once. */
static bool ask(struct service_probe *p, size_t question)
{
    char params[RPC_QUESTION_BYTES];
    char text[RPC_QUESTION_BYTES + SHOWN_BYTES];
    const struct service_question *q = &p->probe.spec.service->questions[question];
    if (q->expected == ANSWER_CHASSIS) {
        write_chassis_params(chassis_of(p), text_of_option(p->ids, chassis_of(p), "ovn-encap-ip"),
                             params, sizeof(params));
    }
    text_format(text, sizeof(text), "{\"id\":%zu,\"method\":\"%s\",\"params\":%s}", question,
                q->method, q->params_json ? q->params_json : params);
    ssize_t len = (ssize_t)strlen(text);
    return send(p->ready.fd, text, (size_t)len, MSG_NOSIGNAL) == len;
}

/* What belongs to the same place as the next question, at once. */
static void ask_all(struct service_probe *p)
{
    const struct service_question *questions = p->probe.spec.service->questions;
    const struct service_place *place = place_of(p, p->question);
    for (size_t i = p->question; questions[i].method && place_of(p, i) == place; i++) {
        if (!ask(p, i)) {
            end_closed(p);
            return;
        }
    }
}

static const char *dir_of(const struct service_place *place, const struct probe_spec *spec)
{
    return place->is_of_ovs ? spec->ovs_run_dir : spec->ovn_run_dir;
}

/* Asks the question where it belongs. */
static void visit(struct service_probe *p)
{
    const struct service_place *place = place_of(p, p->question);
    char path[UNIX_PATH_BYTES];
    int fd;
    hang_up(p);
    p->probe.has_answered = asked(p)->at != NULL;
    struct probe_answer answer = find_socket(place, dir_of(place, &p->probe.spec), path);
    if (answer.outcome == PROBE_PASSED) {
        answer = unix_connect(path, &fd);
    }
    if (answer.outcome != PROBE_PASSED) {
        end_answered(p, answer);
        return;
    }
    p->visits++;
    p->received = 0;
    ev_io_set(&p->ready, fd, EV_READ);
    bool is_short = p->probe.spec.timeout_ns < ALONE_BELOW_NS;
    int64_t gather_ns = 2 * GATHER_NS - clock_mono_now().ns % GATHER_NS;
    loop_timer_arm(p->probe.loop, &p->listen, is_short ? 0 : gather_ns);
    ask_all(p);
}

/* There is another question: it was asked with this one, or is to be asked elsewhere. */
static void go_on(struct service_probe *p)
{
    const struct service_place *place = place_of(p, p->question);
    p->question++;
    if (place_of(p, p->question) != place) {
        visit(p);
    }
}

/* Whether the questions behind OVS's external_ids have an answer: a chassis without a name, or of
 * another southbound database, has no rows to be looked at, and who named one bridge means it. */
static bool has_more_to_ask(const struct service_probe *p)
{
    const struct probe_spec *spec = &p->probe.spec;
    if (asked(p)[1].expected == ANSWER_BRIDGES) {
        return text_equal(spec->name, spec->service->name) && bridge_mappings_of(p->ids)[0];
    }
    return has_own_southbound(p->ids, chassis_of(p)) && chassis_of(p)[0];
}

static struct probe_answer take_ids(struct service_probe *p, const json_t *reply)
{
    const json_t *row = json_array_get(find_rows(json_object_get(reply, "result"), 0), 0);
    p->ids = json_incref(json_object_get(row, "external_ids"));
    return probe_answer_make(has_more_to_ask(p) ? PROBE_PASSED : PROBE_UNKNOWN,
                             "there is nothing more to ask");
}

static struct probe_answer judge(struct service_probe *p, const json_t *reply)
{
    const struct service_question *q = asked(p);
    if (q->expected == ANSWER_BEAT) {
        return service_beat_step(&p->beat, q, reply, clock_mono_now(), clock_wall_now());
    }
    if (q->expected == ANSWER_IDS) {
        return take_ids(p, reply);
    }
    if (q->expected == ANSWER_CHASSIS) {
        return service_chassis_step(&p->chassis, chassis_of(p), reply);
    }
    return service_judge(q, p->probe.spec.target, p->ids, reply);
}

static void take_reply(struct service_probe *p, const json_t *reply)
{
    const struct service_question *q = asked(p);
    const json_t *id = json_object_get(reply, "id");
    if (!json_is_integer(id) || json_integer_value(id) != (json_int_t)p->question) {
        end_run(p, PROBE_WRONG, "what answers", " answers another request");
        return;
    }
    struct probe_answer answer = judge(p, reply);
    if (answer.outcome == PROBE_PASSED && q[1].method) {
        go_on(p);
    } else if (q->expected == ANSWER_CHASSIS) { /* asked of another one, and about this one */
        probe_end(&p->probe, answer);
    } else {
        end_answered(p, answer);
    }
}

static bool is_running(const struct service_probe *p)
{
    return p->ready.fd >= 0;
}

static void take_messages(struct service_probe *p, bool is_end)
{
    while (is_running(p)) {
        CLEANUP(json) json_t *message = NULL;
        size_t len;
        enum rpc_kind kind =
            rpc_message_read(buf_text(&p->inbox), p->inbox.len, is_end, &message, &len);
        if (kind == RPC_MORE) {
            return;
        }
        if (kind == RPC_INVALID) {
            end_run(p, PROBE_WRONG, "what answers", " does not speak JSON-RPC");
            return;
        }
        buf_consume(&p->inbox, len);
        if (kind == RPC_REPLY) {
            take_reply(p, message);
        }
    }
}

static void on_listen(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct service_probe *p = w->data;
    ev_io_start(loop, &p->ready);
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
    struct service_probe *p = w->data;
    size_t visit_no = p->visits;
    char piece[RPC_PIECE_BYTES];
    size_t room = RPC_INBOX_BYTES - p->inbox.len;
    ssize_t got = recv(w->fd, piece, room < sizeof(piece) ? room : sizeof(piece), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got > 0 && buf_append(&p->inbox, piece, (size_t)got, NULL) == 0) { /* there is room */
        p->received += (size_t)got;
    }
    take_messages(p, got <= 0 || p->inbox.len == RPC_INBOX_BYTES);
    if (!is_running(p) || p->visits != visit_no) {
        return;
    }
    if (got <= 0) {
        end_closed(p);
    } else if (p->inbox.len == RPC_INBOX_BYTES || p->received > RPC_TOTAL_BYTES) {
        end_run(p, PROBE_WRONG, "what answers", " sends more than the probe asked for");
    }
}

/* ---- the probe of a service ------------------------------------------------------------------ */

static void service_start(struct probe *probe)
{
    struct service_probe *p = (struct service_probe *)probe;
    p->question = 0;
    visit(p);
}

static int service_init(struct probe *probe, struct err *e)
{
    struct service_probe *p = (struct service_probe *)probe;
    p->beat.limit_ns = probe->spec.beat_limit_ns;
    p->inbox.max_bytes = RPC_INBOX_BYTES;
    ev_io_init(&p->ready, on_ready, -1, EV_READ);
    p->ready.data = p;
    ev_timer_init(&p->listen, on_listen, 0, 0);
    p->listen.data = p;
    for (; asked(p)->method; p->question++) {
        const char *dir = dir_of(place_of(p, p->question), &probe->spec);
        if (strlen(dir) >= DIR_BYTES) {
            return err_set(e, ERR_LIMIT, "the directory '%s' has more than %d bytes", dir,
                           DIR_BYTES - 1);
        }
    }
    return 0;
}

const struct probe_method probe_method_service = {.bytes = sizeof(struct service_probe),
                                                  .init = service_init,
                                                  .start = service_start,
                                                  .stop = service_stop};
