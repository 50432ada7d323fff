/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/node_name.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "probe/ovs_rpc.h"

#include <ev.h>
#include <limits.h>
#include <string.h>

#define LOG_AGAIN_NS (60 * NS_PER_SEC)

enum { WHY_BYTES = 400 };

struct node_name {
    struct ev_loop *loop; /* borrowed */
    ev_timer next;
    struct ovsdb_ask *ask;
    struct node_name_handlers handlers;
    char name[OVSDB_ASK_VALUE_BYTES]; /* "" before the first */
    char why[WHY_BYTES];
    struct log_repeat complaints;
};

static void complain(struct node_name *n, const char *why)
{
    bool is_news = !text_equal(n->why, why) && n->name[0] == '\0';
    if (is_news || log_repeat_due(&n->complaints, clock_mono_now(), LOG_AGAIN_NS)) {
        log_warn("node", "%s: %s%s",
                 n->name[0] != '\0' ? "the node's name may be old"
                                    : "waiting for the name of the node that this DPU serves",
                 why, n->complaints.more);
    }
    if (is_news) {
        text_format(n->why, sizeof(n->why), "%s", why);
        n->handlers.missing(n->handlers.user, n->why);
    }
}

static void take(struct node_name *n, const char *name)
{
    struct err e = ERR_INIT;
    if (text_equal(n->name, name)) {
        log_repeat_reset(&n->complaints);
        return;
    }
    if (n->handlers.found(n->handlers.user, name, &e) != 0) {
        complain(n, e.msg);
        return;
    }
    text_format(n->name, sizeof(n->name), "%s", name);
    n->why[0] = '\0';
}

static void on_answer(void *user, enum probe_outcome outcome, const char *text)
{
    struct node_name *n = user;
    if (outcome != PROBE_PASSED) {
        complain(n, text);
    } else if (text[0] == '\0') {
        complain(n, NODE_NAME_SOURCE " is not set; set it, or give --node-name");
    } else {
        take(n, text);
    }
    ev_timer_again(n->loop, &n->next);
}

static void on_next(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct node_name *n = timer->data;
    (void)events;
    ev_timer_stop(loop, timer); /* until there is an answer */
    ovsdb_ask_start(n->ask);
}

int node_name_new(struct ev_loop *loop, const char *rundir,
                  const struct node_name_handlers *handlers, struct node_name **out, struct err *e)
{
    char socket[PATH_MAX];
    const struct ovsdb_question question = {.socket = socket,
                                            .database = "Open_vSwitch",
                                            .table = "Open_vSwitch",
                                            .column = "external_ids",
                                            .key = "host-k8s-nodename",
                                            .timeout_ns = NODE_NAME_TIMEOUT_NS};
    CLEANUP(free) struct node_name *n = calloc(1, sizeof(*n));
    if (!n) {
        return err_set(e, ERR_NOMEM, "out of memory for the node's name");
    }
    n->loop = loop;
    n->handlers = *handlers;
    ev_timer_init(&n->next, on_next, 0., (double)NODE_NAME_PERIOD_NS / (double)NS_PER_SEC);
    n->next.data = n;
    text_format(socket, sizeof(socket), "%s/db.sock", rundir);
    int rc = ovsdb_ask_new(loop, &question, on_answer, n, &n->ask, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(n);
    return 0;
}

void node_name_start(struct node_name *n)
{
    ovsdb_ask_start(n->ask);
}

const char *node_name_awaited(const struct node_name *n)
{
    return n ? n->why : "";
}

void node_name_free(struct node_name *n)
{
    if (n) {
        ev_timer_stop(n->loop, &n->next);
        ovsdb_ask_free(n->ask);
        free(n);
    }
}
