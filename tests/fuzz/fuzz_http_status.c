/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes: more of them never turn a verdict on a status line around. */
#include "probe/http_status.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    enum http_status_outcome settled = HTTP_STATUS_MORE;
    int first = 0;
    for (size_t len = 0; len <= size; len++) {
        int status = 0;
        enum http_status_outcome outcome = http_status_parse(text, len, &status);
        assert(outcome != HTTP_STATUS_DONE || (status >= 100 && status <= 599));
        if (settled == HTTP_STATUS_MORE) {
            settled = outcome;
            first = status;
        }
        assert(outcome == settled && (outcome != HTTP_STATUS_DONE || status == first));
        if (outcome == HTTP_STATUS_MORE) {
            assert(len < HTTP_STATUS_LINE_MAX_BYTES);
        } else if (len > 2 * HTTP_STATUS_LINE_MAX_BYTES) {
            break;
        }
    }
    return 0;
}
