/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world around one renewer: an API server that answers as told, time passed in.
 *
 * A case may be a script, words that are played from left to right:
 *
 *   healthy>get   an event, and what the renewer sends then: get, put, report, create, none,
 * stopped
 *   @2  +0.1      the next event is at 2 s; it is 0.1 s after the last
 *   wake tick     the renewer is woken when it asked for it; or at this time
 *   ok created    the request under way is answered with the lease (200); with one made anew (201)
 *   503 lost      it is answered with this status; it gets no answer
 *   late          it is answered by 200, after the time that it was waited for
 *   healthy sick  the probes find that the DPU is well; that it is not
 *   stop          SIGTERM
 *   uid=u2        somebody changes the lease on the server: uid=, name=, holder=, stamp=, health=
 *   renewed       a claim about the last step holds: renewed, fresh, cancel, silent (no note),
 *                 asleep (nothing is due), reports=HEALTH, says=MESSAGE, wakes=SECONDS,
 *                 waits=SECONDS (from now on)
 *   -renewed      it does not
 *   !as_it_says   the last step wrote a note with these words, _ for a blank
 *
 * So "wake created>get -renewed ok>put" reads: the renewer is woken when it asked for it, and its
 * request is answered by a lease that was made anew. It sends a GET then, and has not renewed. The
 * GET is answered with the lease, and it sends a PUT.
 */
#ifndef TESTS_UNIT_RENEWER_WORLD_H
#define TESTS_UNIT_RENEWER_WORLD_H

#include "dpu-agent/renewer.h"

#include "base/err.h"
#include "base/text.h"
#include "tests/support/case.h"

#define BOOT_NS (1000 * NS_PER_SEC)
#define SEC(n)  ((struct mono){(int64_t)((n)*1e9) + BOOT_NS})

struct world {
    bool is_unreachable; /* the API server, where a request fails */
    struct renewer r;
    struct renewer_update out;
    struct lease_view lease; /* on the server */
    struct mono now;         /* of the last step */
    struct wall stamp;       /* of the renewal under way */
    unsigned puts;
};

/* The lease shows this renewTime. */
static inline void world_show(struct world *w, struct wall stamp)
{
    w->lease.renew_time = stamp;
    w->lease.renew_time_valid = true;
    text_format(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), "%s",
                rfc3339_text(stamp, true).text);
}

/* One that somebody else wrote. */
static inline void world_show_theirs(struct world *w, unsigned number)
{
    world_show(w, (struct wall){(INT64_C(1000000) + number) * NS_PER_SEC});
}

/* ---- events ---------------------------------------------------------------------------------- */

static inline void world_step(struct world *w, struct renewer_event event)
{
    enum renewer_action under_way = w->r.under_way;
    w->now = event.now;
    renewer_step(&w->r, &event, &w->out);
    assert_true(mono_before(event.now, w->out.wake_at) || w->out.stopped);
    assert_true(w->out.action != RENEWER_NONE || (w->out.deadline_ms == 0 && !w->out.fresh));
    assert_true(w->out.health != LEASE_HEALTH_NONE || text_is_empty(w->out.message));
    /* Never two requests at a time. */
    assert_false(w->out.action != RENEWER_NONE && under_way != RENEWER_NONE &&
                 event.kind != RENEWER_ANSWER && !w->out.cancel);
    if (w->out.action == RENEWER_PUT_RENEWAL || w->out.action == RENEWER_CREATE) {
        w->stamp = (struct wall){++w->puts * NS_PER_SEC};
    }
}

static inline void world_tick(struct world *w, struct mono now)
{
    world_step(w, (struct renewer_event){.kind = RENEWER_TICK, .now = now});
}

static inline void world_health(struct world *w, struct mono now, enum probe_health health,
                                const char *message)
{
    world_step(w, (struct renewer_event){
                      .kind = RENEWER_HEALTH, .now = now, .health = health, .message = message});
}

/* The request under way succeeds, with a lease. */
static inline void world_answer(struct world *w, struct mono now, int http_status)
{
    struct renewer_event event = {.kind = RENEWER_ANSWER,
                                  .now = now,
                                  .http_status = http_status,
                                  .retry_after_ms = -1,
                                  .lease = &w->lease};
    assert_int_not_equal(w->r.under_way, RENEWER_NONE);
    bool is_creation = w->r.under_way == RENEWER_CREATE;
    if (w->r.under_way == RENEWER_PUT_RENEWAL || is_creation) {
        event.sent_time = w->stamp;
    }
    if (event.sent_time.ns != 0 && (http_status == 200 || is_creation)) {
        world_show(w, w->stamp);
    }
    world_step(w, event);
}

static inline void world_ok(struct world *w, struct mono now)
{
    world_answer(w, now, 200);
}

/* The answer to a request that was told of as not answered. */
static inline void world_late(struct world *w, struct mono now, int http_status)
{
    world_step(
        w, (struct renewer_event){
               .kind = RENEWER_LATE, .now = now, .http_status = http_status, .lease = &w->lease});
}

/* The request under way fails; `status` 0: no answer. */
static inline void world_fail(struct world *w, struct mono now, int code, int status,
                              int64_t retry_after_ms)
{
    assert_int_not_equal(w->r.under_way, RENEWER_NONE);
    world_step(w, (struct renewer_event){.kind = RENEWER_ANSWER,
                                         .now = now,
                                         .code = code,
                                         .http_status = status,
                                         .retry_after_ms = retry_after_ms,
                                         .is_unreachable = w->is_unreachable,
                                         .message = "the server said no",
                                         .sent_time = w->r.under_way == RENEWER_PUT_RENEWAL
                                                          ? w->stamp
                                                          : (struct wall){0}});
}

static inline void world_conflict(struct world *w, struct mono now)
{
    world_fail(w, now, ERR_CONFLICT, 409, -1);
}

/* ---- scripts --------------------------------------------------------------------------------- */

static inline int code_of_status(int status)
{
    return status == 409                    ? ERR_CONFLICT
           : status == 404                  ? ERR_NOTFOUND
           : status == 401 || status == 403 ? ERR_AUTH
           : status >= 500 || status == 0   ? ERR_RETRY
                                            : ERR_PARSE;
}

/* False if it is none. */
static inline bool play_event(struct world *w, const char *word)
{
    if (text_equal(word, "wake")) {
        world_tick(w, w->out.wake_at);
    } else if (text_equal(word, "tick")) {
        world_tick(w, w->now);
    } else if (text_equal(word, "ok")) {
        world_ok(w, w->now);
    } else if (text_equal(word, "created")) {
        world_answer(w, w->now, 201);
    } else if (text_equal(word, "late")) {
        world_late(w, w->now, 200);
    } else if (text_equal(word, "lost")) {
        world_fail(w, w->now, ERR_RETRY, 0, -1);
    } else if (text_equal(word, "healthy")) {
        world_health(w, w->now, PROBE_HEALTHY, "");
    } else if (text_equal(word, "sick")) {
        world_health(w, w->now, PROBE_UNHEALTHY, "down");
    } else if (text_equal(word, "stop")) {
        world_step(w, (struct renewer_event){.kind = RENEWER_STOP, .now = w->now});
    } else {
        int status = (int)strtol(word, NULL, 10);
        if (status <= 0) {
            return false;
        }
        world_fail(w, w->now, code_of_status(status), status, -1);
    }
    return true;
}

static inline void expect_action(const struct world *w, enum renewer_action action)
{
    assert_int_equal(w->out.action, action);
}

static inline const char *world_note(const struct world *w, enum renewer_note_kind kind)
{
    for (size_t i = 0; i < w->out.note_count; i++) {
        if (w->out.notes[i].kind == kind) {
            return w->out.notes[i].text;
        }
    }
    return NULL;
}

static inline bool has_note(const struct world *w, const char *words)
{
    bool is_there = false;
    for (size_t i = 0; i < w->out.note_count; i++) {
        is_there = is_there || strstr(w->out.notes[i].text, words);
    }
    return is_there;
}

static inline void expect_note(const struct world *w, enum renewer_note_kind kind,
                               const char *words)
{
    const char *text = world_note(w, kind);
    if (!text || !strstr(text, words)) {
        fail_msg("'%s' instead of '%s'", text ? text : "", words);
    }
}

/* KEY=VALUE: what the server's lease shows from now on, or what the last step has to have. */
static inline bool play_value(struct world *w, const char *key, const char *value)
{
    static const char *const health[] = {"none", "unhealthy", "shutdown"};
    struct lease_view *l = &w->lease;
    const struct {
        const char *key;
        char *text;
        size_t bytes;
    } texts[] = {{"uid", l->uid, sizeof(l->uid)},
                 {"name", l->name, sizeof(l->name)},
                 {"holder", l->holder, sizeof(l->holder)},
                 {"stamp", l->renew_stamp, sizeof(l->renew_stamp)}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (text_equal(key, texts[i].key)) {
            text_format(texts[i].text, texts[i].bytes, "%s", value);
            return true;
        }
    }
    if (text_equal(key, "health")) {
        l->health = text_equal(value, "none")       ? LEASE_HEALTH_NONE
                    : text_equal(value, "shutdown") ? LEASE_HEALTH_SHUTDOWN
                                                    : LEASE_HEALTH_UNHEALTHY;
        return true;
    }
    if (text_equal(key, "reports")) {
        return text_equal(health[w->out.health], value);
    }
    if (text_equal(key, "says")) {
        return text_equal(w->out.message, value);
    }
    struct mono from = text_equal(key, "waits") ? w->now : SEC(0);
    return mono_since(w->out.wake_at, from) == (int64_t)(strtod(value, NULL) * 1e9);
}

/* Whether the last step was as the word says; KEY=VALUE may also set it. */
static inline bool play_claim(struct world *w, char *word)
{
    const struct {
        const char *word;
        bool is_so;
    } claims[] = {{"renewed", w->out.renewed},        {"fresh", w->out.fresh},
                  {"cancel", w->out.cancel},          {"stopped", w->out.stopped},
                  {"silent", w->out.note_count == 0}, {"asleep", mono_is_never(w->out.wake_at)}};
    bool wanted = word[0] != '-';
    char *at = word + !wanted;
    char *value = strchr(at, '=');
    if (at[0] == '!') {
        for (char *c = at; *c; c++) {
            *c = *c == '_' ? ' ' : *c;
        }
        return has_note(w, at + 1) == wanted;
    }
    if (value) {
        *value = '\0';
        return play_value(w, at, value + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
        if (text_equal(at, claims[i].word)) {
            return claims[i].is_so == wanted;
        }
    }
    return false;
}

/* Plays a script: the top of this file has its legend. */
static inline void play(struct world *w, const char *script)
{
    static const char *const actions[] = {"none", "get", "put", "report", "create"};
    char word[64];
    int len = 0;
    for (const char *at = script; sscanf(at, " %63s%n", word, &len) == 1; at += len) {
        char *expected = strchr(word, '>');
        if (expected) {
            *expected++ = '\0';
        }
        if (word[0] == '@') {
            w->now = SEC(strtod(word + 1, NULL));
        } else if (word[0] == '+') {
            w->now = mono_add(w->now, (int64_t)(strtod(word + 1, NULL) * 1e9));
        } else if (!play_event(w, word) && !play_claim(w, word)) {
            fail_msg("'%s': not so: '%s'", script, at);
        }
        const char *seen = w->out.stopped ? "stopped" : actions[w->out.action];
        if (expected && !text_equal(expected, seen)) {
            fail_msg("'%s' at '%s': %s instead of %s", script, at, seen, expected);
        }
    }
}

/* A case that is one script. */
#define SCRIPT(name, begin, script)                                                                \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct world w = begin();                                                                  \
        play(&w, script);                                                                          \
    }

/* Passes the time until there is a request under way. */
static inline void await_request(struct world *w)
{
    while (w->r.under_way == RENEWER_NONE) {
        play(w, "wake");
    }
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static inline struct renewer_config world_config(void)
{
    return (struct renewer_config){.lease_ns = "ovn-kubernetes",
                                   .lease_name = "ovn-dpu-w1",
                                   .holder = "ovnkube-dpu-node",
                                   .interval_ns = 10 * NS_PER_SEC,
                                   .duration_ns = 40 * NS_PER_SEC,
                                   .seed = 7};
}

static inline struct world starting_with(struct renewer_config config)
{
    struct world w = {.now = SEC(0),
                      .lease = {.ns = "ovn-kubernetes",
                                .name = "ovn-dpu-w1",
                                .uid = "uid-1",
                                .resource_version = "1",
                                .holder = "ovnkube-dpu-node",
                                .duration_s = 40}};
    renewer_init(&w.r, &config);
    return w;
}

static inline struct world starting(void)
{
    return starting_with(world_config());
}

/* Healthy since 0, lease read at once, first renewal answered at 0.1. */
static inline struct world renewing(void)
{
    struct world w = starting();
    play(&w, "tick>get healthy @0.05 ok>put @0.1 ok>none");
    return w;
}

static inline struct world reporting(void)
{
    struct world w = renewing();
    play(&w, "@1 sick @1.1 ok");
    return w;
}

static inline struct world announcing(void)
{
    struct world w = renewing();
    w.r.config.announce_shutdown = true;
    return w;
}

static inline void upstream_renews(struct world *w)
{
    world_show_theirs(w, ++w->puts);
}

/* Healthy since 0, upstream's second renewal seen at 10. */
static inline struct world accompanying(void)
{
    struct world w = starting();
    w.r.config.is_companion = true;
    w.r.config.announce_shutdown = true;
    upstream_renews(&w);
    play(&w, "tick @0.05 ok @0.1 healthy>get @0.15 ok>none -renewed"); /* the first: a baseline */
    upstream_renews(&w);
    play(&w, "@10.2 tick>get @10.25 ok renewed !another_program_renews");
    return w;
}

#endif
