/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a request without a deadline of its own may take. CORE: plain arithmetic.
 *
 * KUBE_PATIENCE_MS, and twice as much after each that was not enough, up to KUBE_PATIENCE_MAX_MS,
 * until one is answered within the first again: what is given up always after the same time fails
 * for ever where a name server or an API server is slow. Reads and writes learn apart: a loaded
 * etcd is slow to write and fast to read.
 */
#ifndef KUBE_KUBE_PATIENCE_H
#define KUBE_KUBE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { KUBE_PATIENCE_MS = 5000, KUBE_PATIENCE_MAX_MS = 40000 };

struct kube_patience {
    uint32_t longer_ms[2]; /* of reads, of writes: beyond KUBE_PATIENCE_MS */
};

/* Start with {0}. */
uint32_t kube_patience_ms(const struct kube_patience *p, bool is_write);

/* A request has ended after `took_ms`: it was answered, or not in time. */
void kube_patience_learn(struct kube_patience *p, bool is_write, bool is_answered, int64_t took_ms);

#endif
