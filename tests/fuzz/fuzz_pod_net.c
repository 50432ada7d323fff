/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever stands in CNI's cache, or in a namespace's list of interfaces: texts that end, and a
 * device that can be put into a path. */
#include "probe/pod_net.c" /* two steps are its own */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pod_net p = {.count = 0};
    struct content seen;
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    pod_net_take_cache(&p, text, size, "cid");
    assert(p.count <= POD_NET_LINKS_MAX);
    bool has_device = false;
    for (size_t i = 0; i < p.count; i++) {
        const struct pod_net_link *l = &p.links[i];
        assert(l->name[0] != '\0' && !strchr(l->name, '/'));
        assert(l->ends.count <= POD_NET_NAMES_MAX);
        for (size_t k = 0; k < l->ends.count; k++) {
            assert(l->ends.each[k][0] != '\0' && !strchr(l->ends.each[k], '/'));
        }
        assert(l->device[0] == '\0' || (strlen(l->device) == 12 && !strchr(l->device, '/')));
        has_device |= l->device[0] != '\0';
    }
    fuzz_tell(has_device || p.count > 1);
    pod_net_read_dev(&p, text, &seen); /* reads within the text */
    free(text);
    return 0;
}
