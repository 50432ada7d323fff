/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP page that both agents have: /metrics for Prometheus, /livez and /readyz for a kubelet,
 * /statusz for people and programs; where there is something to say, /servingz for a platform that
 * acts on what the agent looks after. Loop thread only.
 *
 * A port that is taken is no reason to stop judging a DPU: it is logged each minute and tried again
 * each second. So in a rolling update the new agent takes the port over from the old one.
 */
#ifndef LOOP_AGENT_PAGE_H
#define LOOP_AGENT_PAGE_H

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "loop/metrics.h"

#include <jansson.h>
#include <stdbool.h>

struct ev_loop;
struct agent_page;

enum {
    AGENT_PAGE_WORDS_BYTES = 400,
    AGENT_PAGE_MAX_CONNECTIONS = 128, /* 16 KiB each; less where a quarter of RLIMIT_NOFILE is */
    AGENT_PAGE_IDLE_SECONDS = 10,     /* without progress: then a connection is closed */
};

/* A question about the agent; `words` are shown either way. */
typedef bool agent_page_ask_fn(void *user, char words[static AGENT_PAGE_WORDS_BYTES]);

/* Writes the words, which may be cut: they are for people. Returns `yes`. */
bool agent_page_answer(char words[static AGENT_PAGE_WORDS_BYTES], bool yes, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* A span for /statusz. Returns owned. */
static inline json_t *agent_page_seconds(int64_t ns)
{
    return json_real((double)ns / (double)NS_PER_SEC);
}

struct agent_page_config {
    const char *address;         /* HOST:PORT, [IPV6]:PORT or :PORT; "" for no page; borrowed */
    const char *program;         /* "dpu-agent"; static */
    agent_page_ask_fn *is_live;  /* false: the process should be restarted */
    agent_page_ask_fn *is_ready; /* false: do not count on this agent yet */
    /* False: what it looks after does not work; NULL: no such page. */
    agent_page_ask_fn *is_serving;
    void (*write_metrics)(void *user, struct buf *page);
    json_t *(*describe)(const void *user); /* /statusz; returns owned, or NULL */
    void *user;
};

/* Without an address `*out` is NULL. Errors: ERR_PARSE for an address that can never work. */
NODISCARD int agent_page_start(struct ev_loop *loop, const struct agent_page_config *config,
                               struct agent_page **out, struct err *e);
void agent_page_stop(struct agent_page *page); /* accepts NULL; not within a callback */

#endif
