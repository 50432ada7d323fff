/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_patience.h"

uint32_t kube_patience_ms(const struct kube_patience *p, bool is_write)
{
    return KUBE_PATIENCE_MS + p->longer_ms[is_write];
}

void kube_patience_learn(struct kube_patience *p, bool is_write, bool is_answered, int64_t took_ms)
{
    uint32_t now_ms = kube_patience_ms(p, is_write);
    if (is_answered && took_ms < KUBE_PATIENCE_MS) {
        p->longer_ms[is_write] = 0;
    } else if (!is_answered && took_ms >= now_ms) { /* of many that hung together, once */
        uint32_t twice_ms = 2 * now_ms;
        p->longer_ms[is_write] =
            (twice_ms < KUBE_PATIENCE_MAX_MS ? twice_ms : KUBE_PATIENCE_MAX_MS) - KUBE_PATIENCE_MS;
    }
}
