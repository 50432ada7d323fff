/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/exchange.h"

#include "tests/sim/api.h"
#include "tests/sim/tally.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct step {
    struct exchange *exchange;
    void (*run)(struct exchange *x);
};

static void release(struct exchange *x)
{
    if (x->is_client_gone && x->is_server_done && x->tasks == 0) {
        free(x->body);
        free(x->bytes);
        free(x);
    }
}

struct exchange *exchange_start(struct proc *proc, const char *method, const char *path,
                                const char *body, const char *content_type, bool is_fresh)
{
    struct exchange *x = calloc(1, sizeof(*x));
    assert(x);
    x->proc = proc;
    x->fd = world_get()->next_fd++;
    x->is_fresh = is_fresh;
    x->retry_after_s = -1;
    x->body = body ? strdup(body) : NULL;
    (void)snprintf(x->method, sizeof(x->method), "%s", method);
    (void)snprintf(x->path, sizeof(x->path), "%s", path);
    (void)snprintf(x->content_type, sizeof(x->content_type), "%s", content_type);
    api_connect(x);
    return x;
}

void exchange_leave(struct exchange *x)
{
    x->is_client_gone = true;
    api_left(x);
    release(x);
}

static void wake(struct exchange *x)
{
    if (!x->is_client_gone && x->proc->loop) {
        loop_feed(x->proc->loop, x->fd);
    }
}

void exchange_head(struct exchange *x, int status, const char *type, int retry_after_s)
{
    tally_note("answer: %s %d", x->proc->name, status);
    x->status = status;
    x->retry_after_s = retry_after_s;
    x->date_ns = INT64_C(1790000000) * SEC + world_get()->now;
    (void)snprintf(x->type, sizeof(x->type), "%s", type);
    wake(x);
}

void exchange_write(struct exchange *x, const char *bytes, size_t len)
{
    if (x->is_client_gone || len == 0) {
        return;
    }
    if (x->len + len > x->capacity) {
        x->capacity = 2 * (x->len + len);
        x->bytes = realloc(x->bytes, x->capacity);
        assert(x->bytes);
    }
    memcpy(x->bytes + x->len, bytes, len);
    x->len += len;
    wake(x);
}

void exchange_finish(struct exchange *x, enum exchange_end end)
{
    if (x->is_server_done) {
        return;
    }
    x->is_server_done = true;
    x->end = end;
    wake(x);
    release(x);
}

static void run_step(void *user)
{
    struct step step = *(struct step *)user;
    free(user);
    step.run(step.exchange);
    step.exchange->tasks--;
    release(step.exchange);
}

void exchange_later(struct exchange *x, int64_t at, void (*run)(struct exchange *x))
{
    struct step *step = malloc(sizeof(*step));
    assert(step);
    *step = (struct step){.exchange = x, .run = run};
    x->tasks++;
    world_at(world_get(), at, run_step, step);
}

void exchange_drop_tasks(struct world *w)
{
    for (size_t i = 0; i < w->task_count; i++) {
        if (w->tasks[i].run == run_step) {
            struct step *step = w->tasks[i].user;
            struct exchange *x = step->exchange;
            x->is_server_done = --x->tasks == 0 || x->is_server_done;
            release(x);
            free(step);
        }
    }
    w->task_count = 0;
}
