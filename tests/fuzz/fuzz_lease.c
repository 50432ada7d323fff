/* SPDX-License-Identifier: Apache-2.0 */
/* Any JSON: reading stays within its bounds, and whatever could be read can be renewed, keeps what
 * we do not know, and reads back as renewed; a repair leaves nothing to mend. */
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static void check_bounded(const struct lease_view *v)
{
    assert(strnlen(v->ns, sizeof(v->ns)) < sizeof(v->ns));
    assert(strnlen(v->name, sizeof(v->name)) < sizeof(v->name));
    assert(strnlen(v->uid, sizeof(v->uid)) < sizeof(v->uid));
    assert(strnlen(v->holder, sizeof(v->holder)) < sizeof(v->holder));
    assert(strnlen(v->renew_stamp, sizeof(v->renew_stamp)) < sizeof(v->renew_stamp));
    assert(strnlen(v->health_message, sizeof(v->health_message)) < sizeof(v->health_message));
    assert(v->duration_s <= INT32_MAX);
}

/* What was read and written reads back as the same microsecond. */
static void check_time(struct wall t)
{
    struct wall again;
    const struct rfc3339_text shown = rfc3339_text(t, true);
    int rc = rfc3339_parse(shown.text, strlen(shown.text), &again, NULL);
    assert(rc == 0 && wall_since(t, again) >= 0 && wall_since(t, again) < 1000);
}

static void check_renewal(json_t *lease, const struct lease_view *before)
{
    struct lease_view after;
    static const char boot_id[] = "0f3c1f00-1111-2222-3333-444455556666";
    const struct lease_agent agent = {.boot_id = boot_id, .version = "1"};
    lease_set_renewal(lease, (struct wall){NS_PER_SEC}, "me");
    lease_set_agent(lease, &agent);
    assert(lease_read(lease, &after, NULL) == 0);
    assert(after.renew_time_valid);
    assert(!text_is_empty(json_text_get(json_object_get(lease, "spec"), "acquireTime")));
    assert(!text_equal(before->renew_stamp, after.renew_stamp));
    assert(text_equal(before->uid, after.uid) && before->duration_s == after.duration_s);
    assert(text_equal(after.boot_id, boot_id));
    assert(after.health == LEASE_HEALTH_NONE && !text_is_empty(after.holder));
}

static void check_repair(json_t *lease)
{
    const struct lease_owner owner = {.node_name = "w1", .node_uid = "u"};
    CLEANUP(json) json_t *patch = lease_repair(lease, "me", 40, owner);
    assert(patch && json_object_update_recursive(lease, patch) == 0);
    struct lease_drift drift = lease_check(lease, "me", 40, owner);
    assert(!drift.duration && !drift.owner && !drift.holder_empty);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(json) json_t *lease = json_text_parse((const char *)data, size, NULL);
    struct lease_view view;
    if (!lease) {
        return 0;
    }
    (void)lease_renewed_by(lease); /* whatever it is */
    if (lease_read(lease, &view, NULL) == 0) {
        check_bounded(&view);
        if (view.renew_time_valid) {
            check_time(view.renew_time);
        }
        check_renewal(lease, &view);
        check_repair(lease);
        lease_set_health(lease, LEASE_HEALTH_UNHEALTHY, "x", (struct wall){0});
        assert(lease_read(lease, &view, NULL) == 0 && view.health == LEASE_HEALTH_UNHEALTHY);
        fuzz_tell(true);
    }
    return 0;
}
