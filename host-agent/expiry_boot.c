/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which boot of the DPU renews. Only another one that was never seen before, on a lease that has
 * just been renewed (or a report that has), is a reboot: a boot's id is random and does not come
 * back, so that of an older state, or of a second DPU that writes the same lease, is no news.
 */
#include "base/text.h"
#include "host-agent/expiry_internal.h"

static bool was_seen(const struct expiry_boot *boot, const char *id)
{
    for (size_t i = 0; i < EXPIRY_SEEN_BOOTS; i++) {
        if (text_equal(boot->seen[i], id)) {
            return true;
        }
    }
    return false;
}

void expiry_know_boot(struct expiry *x, const char *id)
{
    struct expiry_boot *boot = &x->boot;
    if (id[0] == '\0') {
        return; /* an older dpu-agent, or upstream's: nothing is claimed */
    }
    if (!was_seen(boot, id)) {
        text_format(boot->seen[boot->seen_next], NAMES_BOOT_ID_BYTES, "%s", id);
        boot->seen_next = (boot->seen_next + 1) % EXPIRY_SEEN_BOOTS;
    }
    text_format(boot->id, sizeof(boot->id), "%s", id);
}

bool expiry_take_boot(struct expiry *x, const struct lease_view *lease, bool renewed)
{
    const struct expiry_boot *boot = &x->boot;
    bool is_first = boot->id[0] == '\0';
    bool ours = text_equal(lease->holder, x->config.holder);
    if (!ours || lease->boot_id[0] == '\0' || (!renewed && !is_first)) {
        return false;
    }
    if (was_seen(boot, lease->boot_id)) {
        return false;
    }
    expiry_know_boot(x, lease->boot_id);
    return !is_first;
}
