/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the abstract world share. */
#ifndef TESTS_EXPLORE_PARTS_H
#define TESTS_EXPLORE_PARTS_H

#include "tests/explore/world.h"

#define NEVER   INT64_MAX
#define WALL_NS (INT64_C(1790000000) * NS_PER_SEC) /* the wall clocks at 0 */

/* The world is one thing, and no event of it can be told without it. */
struct scene {
    struct explorer *e;
    struct world *w;
};

static inline struct mono mono_of(int64_t ns)
{
    return (struct mono){ns};
}

static inline int64_t later(int64_t at, int64_t span_ns)
{
    return at == NEVER ? NEVER : at + span_ns;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- server.c ---- */

void number_text(char *out, size_t bytes, const char *prefix, uint64_t number);
/* The lease as the shells pass it to the cores. */
void lease_show(const struct explorer *e, const struct lease *lease, struct lease_view *out);
/* A change: it gets the next version, and the watch is about to bring it. */
void lease_commit(struct world *w, struct lease lease);
void watch_emit(struct world *w);
bool watch_is_held(const struct world *w);

struct request *request_send(struct scene s, struct request *r, enum request_kind kind,
                             int64_t due_ns, int64_t end_ns);
/* The owner gives it up; what is under way may arrive all the same. */
void request_drop(struct world *w, struct request *r);
void request_break(struct world *w, struct request *r); /* its connection breaks */
/* When it is served, answered, not waited for any more, or given up; NEVER: there is none. */
int64_t request_due(const struct request *r);
bool request_is_answered(const struct world *w, const struct request *r);
bool request_has_ended(const struct world *w, const struct request *r);
bool request_is_overdue(const struct world *w, const struct request *r);
/* Serves one request that has arrived; false: none has. */
bool server_step(struct scene s);

/* ---- sides.c ---- */

void host_start(struct scene s);
void host_kill(struct scene s);
void host_tell_probes(struct scene s);
void host_break_watch(struct scene s);
bool host_step(struct scene s); /* one thing that is due; false: nothing is */

void dpu_start(struct scene s);
void dpu_kill(struct scene s);
void dpu_say(struct scene s); /* what its probes say */
void dpu_event(struct scene s, struct renewer_event event);
bool dpu_step(struct scene s);

#endif
