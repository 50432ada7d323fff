/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_core.h"

#include <string.h>

#define FULL_NS    (KUBE_BUCKET_BURST * KUBE_BUCKET_REFILL_NS)
#define RESERVE_NS (KUBE_BUCKET_RESERVE * KUBE_BUCKET_REFILL_NS)

static void earn(struct kube_bucket *b, struct mono now)
{
    int64_t elapsed_ns = mono_since(now, b->credited);
    if (elapsed_ns > 0) {
        int64_t credit_ns = mono_ns_add(b->credit_ns, elapsed_ns);
        b->credit_ns = credit_ns < FULL_NS ? credit_ns : FULL_NS;
        b->credited = now;
    }
}

void kube_bucket_init(struct kube_bucket *b, struct mono now)
{
    *b = (struct kube_bucket){.credit_ns = FULL_NS, .credited = now};
}

int64_t kube_bucket_take(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    b->credit_ns -= KUBE_BUCKET_REFILL_NS;
    return b->credit_ns < 0 ? -b->credit_ns : 0;
}

bool kube_bucket_try(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    if (b->credit_ns < KUBE_BUCKET_REFILL_NS) {
        return false;
    }
    b->credit_ns -= KUBE_BUCKET_REFILL_NS;
    return true;
}

void kube_bucket_take_urgent(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    if (b->credit_ns >= RESERVE_NS + KUBE_BUCKET_REFILL_NS) {
        b->credit_ns -= KUBE_BUCKET_REFILL_NS;
    }
}

void kube_bucket_return(struct kube_bucket *b)
{
    b->credit_ns += KUBE_BUCKET_REFILL_NS;
}

/* ---- how long ----------------------------------------------------------------------------------
 */

uint32_t kube_patience_ms(const struct kube_patience *p, enum kube_patience_kind kind)
{
    return KUBE_PATIENCE_MS + p->longer_ms[kind];
}

void kube_patience_learn(struct kube_patience *p, enum kube_patience_kind kind, bool is_answered,
                         int64_t took_ms)
{
    uint32_t now_ms = kube_patience_ms(p, kind);
    if (is_answered && took_ms < KUBE_PATIENCE_MS) {
        p->longer_ms[kind] = 0;
    } else if (!is_answered && took_ms >= now_ms) { /* of many that hung together, once */
        uint32_t twice_ms = 2 * now_ms;
        p->longer_ms[kind] =
            (twice_ms < KUBE_PATIENCE_MAX_MS ? twice_ms : KUBE_PATIENCE_MAX_MS) - KUBE_PATIENCE_MS;
    }
}

/* ---- lines -------------------------------------------------------------------------------------
 */

enum watch_line_result watch_line_next(const char **bytes, size_t *len, size_t max_bytes,
                                       const char **out_line, size_t *out_len)
{
    while (*len > 0) {
        const char *line = *bytes;
        const char *end = memchr(line, '\n', *len);
        size_t line_len = end ? (size_t)(end - line) : *len;
        if (line_len > max_bytes) {
            return WATCH_LINE_TOO_LONG;
        }
        if (!end) {
            return WATCH_LINE_MORE;
        }
        *bytes += line_len + 1;
        *len -= line_len + 1;
        if (line_len > 0) {
            *out_line = line;
            *out_len = line_len;
            return WATCH_LINE_READY;
        }
    }
    return WATCH_LINE_MORE;
}
