/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a source holds: a plan is one whole JSON object with the gate first, or an error. */
#include "base/cleanup.h"
#include "host-agent/install/conflist_plan.h"
#include "tests/fuzz/fuzz.h"
#include "json/json_scan.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct conflist_request request = {.source_path = "/etc/cni/net.d/10-\"x.conf",
                                             .network = "n",
                                             .readiness_file = "/run/other.json"};
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf plan;
    buf_init(&plan, 2 * CONFLIST_MAX_BYTES);
    if (conflist_plan((const char *)data, size, &request, &plan, &e) != 0) {
        if (e.msg[0] == '\0') {
            abort();
        }
        return 0;
    }
    struct json_slice made;
    if (json_scan_check(buf_text(&plan), plan.len, &made, NULL) != 0 ||
        json_scan_kind(json_scan_member(made, "name")) != JSON_KIND_TEXT ||
        !conflist_is_gated(buf_text(&plan), plan.len)) {
        abort();
    }
    fuzz_tell(true);
    return 0;
}
