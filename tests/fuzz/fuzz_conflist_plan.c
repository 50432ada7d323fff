/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a source holds, or what stands in its place: a plan is one whole JSON object with the
 * gate first, or an error. */
#include "base/json.h"
#include "base/mem.h"
#include "host-agent/install/conflist.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>

/* What stands as it was planned stays so: a second look would write it for ever. */
static void check_again(const char *source, size_t len, const struct conflist_request *request,
                        const struct buf *plan)
{
    struct err e = ERR_INIT;
    struct conflist_request next = *request;
    CLEANUP(buf) struct buf again = {.max_bytes = 3 * CONFLIST_MAX_BYTES};
    next.standing = buf_text(plan);
    next.standing_len = plan->len;
    check(conflist_plan(source, len, &next, &again, &e) == 0);
    check(again.len == plan->len && memcmp(buf_text(&again), buf_text(plan), plan->len) == 0);
    check(conflist_says_same(&again, plan));
}

/* Returns whether there is a plan. */
static bool check_plan(const char *source, size_t len, const struct conflist_request *request)
{
    struct err e = ERR_INIT;
    struct json_slice made;
    CLEANUP(buf) struct buf plan = {.max_bytes = 3 * CONFLIST_MAX_BYTES};
    if (conflist_plan(source, len, request, &plan, &e) != 0) {
        check(e.msg[0] != '\0');
        return false;
    }
    check(json_scan_check(buf_text(&plan), plan.len, &made, NULL) == 0);
    check(json_scan_kind(json_scan_member(made, "name")) == JSON_KIND_TEXT);
    check(conflist_is_gated(buf_text(&plan), plan.len));
    check_again(source, len, request, &plan);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct conflist_request request = {.source_path = "/etc/cni/net.d/10-\"x.conf",
                                             .standing = (const char *)data,
                                             .standing_len = size,
                                             .readiness_file = "/run/other.json"};
    fuzz_tell(check_plan((const char *)data, size, &request));
    (void)check_plan(NULL, 0, &request);
    return 0;
}
