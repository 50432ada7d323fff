/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/driver.h"

#include "outputs/kube_sync.h"
#include "tests/unit/metrics_view.h"

TEST(each_value_has_its_own_sample)
{
    static const struct {
        const char *sample;
        double value;
    } rows[] = {
        {"dra_health{health=\"unknown\"}", 0},
        {"dra_health{health=\"healthy\"}", 0},
        {"dra_health{health=\"unhealthy\"}", 1},
        {"dra_registered", 1},
        {"dra_leading", 1},
        {"dra_registrations_total", 21},
        {"dra_registration_failures_total", 22},
        {"dra_health_streams", 23},
        {"dra_health_reports_total", 24},
        {"dra_claims_prepared_total", 25},
        {"dra_claim_failures_total", 26},
        {"dra_claims_unprepared_total", 27},
        {"dra_slice_published", 1},
        {"dra_slice_updates_total", 28},
        {"dra_slice_failures_total", 29},
    };
    const struct dra_stats stats = {.is_registered = true,
                                    .is_leading = true,
                                    .is_slice_published = true,
                                    .registrations = 21,
                                    .rejections = 22,
                                    .health_streams = 23,
                                    .health_reports = 24,
                                    .claims_prepared = 25,
                                    .claim_failures = 26,
                                    .claims_unprepared = 27,
                                    .slice =
                                        &(struct kube_sync_stats){.written = 28, .failed = 29}};
    const struct readiness verdict = {.state = READINESS_NOT_READY, .reason = REASON_LEASE_EXPIRED};
    CLEANUP(buf) struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    driver_metrics_write(&stats, &verdict, &page);
    view_check(&page);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (view_value(&page, rows[i].sample) != rows[i].value) {
            fail_msg("%s is not %g", rows[i].sample, rows[i].value);
        }
    }
}
