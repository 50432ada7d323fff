/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-dra-driver: its options, its metrics and its HTTP page. It judges nothing: it shows what the
 * record says (record_reader.h) as a DRA device (dra/dra_service.h).
 */
#ifndef DRA_DRIVER_DRIVER_H
#define DRA_DRIVER_DRIVER_H

#include "base/err.h"
#include "base/mem.h"
#include "dra-driver/dra/dra_service.h"
#include "kube/kube_answer.h"
#include "loop/agent_options.h"
#include "loop/agent_page.h"
#include "loop/option.h"

#include <stdbool.h>

struct ev_loop;
struct kube_client;
struct record_reader;

/* Const once option_parse(driver_options_program(), ...) is done. Texts are owned: free with
 * option_fini. */
struct driver_config {
    struct agent_config agent; /* node, API, page and log; it has no lease */
    char *readiness_file;      /* an absolute path */
    bool events;               /* on the Pods that claim the DPU */
    struct dra_options dra;
    char *host_root; /* an absolute path, or "" */
};

/* Static: lives as long as the program. */
const struct option_program *driver_options_program(void);

/* The sources of the page; all borrowed, and must outlive it. */
struct driver_page {
    const struct driver_config *config; /* also its address */
    const struct dra_service *service;
    const struct record_reader *record;
    const struct kube_client *api;
    struct agent_page *page; /* made here: end it with agent_page_stop */
};

/* /readyz: the kubelet has registered the driver, whatever the DPU does. Without an address it does
 * nothing. Errors: ERR_PARSE for the address. */
NODISCARD int driver_page_start(struct driver_page *p, struct ev_loop *loop, struct err *e);

/* The values of the metrics; docs/metrics.md is the reference. */
void driver_metrics_write(const struct dra_stats *stats, const struct readiness *verdict,
                          struct buf *page);

#endif
