/* SPDX-License-Identifier: Apache-2.0 */
/* Any file as checkpoint: an empty cache, or one whose entries are whole. */
#include "dpuctl/dra_checkpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dra_cache *c = calloc(1, sizeof(*c));
    if (!c) {
        return 0;
    }
    int rc = dra_checkpoint_parse(c, "boot", (const char *)data, size, NULL);
    for (size_t i = 0; i < DRA_CACHE_DEVICES_MAX; i++) {
        const struct dra_entry *entry = &c->entries[i];
        assert(rc == 0 || entry->driver[0] == '\0');
        assert(entry->driver[0] == '\0' || entry->timeout_ns > 0);
        assert(strnlen(entry->message, sizeof(entry->message)) < sizeof(entry->message));
    }
    free(c);
    return 0;
}
