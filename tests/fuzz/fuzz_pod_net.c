/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever stands in CNI's cache, or in a namespace's list of interfaces: texts that end, and a
 * device that can be put into a path. */
#include "probe/pod_net.c" /* two steps are its own */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pod_net p = {.index = 0};
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    pod_net_take_cache(&p, text, size, "cid");
    assert(p.others.count <= POD_NET_NAMES_MAX && p.ends.count <= POD_NET_NAMES_MAX);
    for (size_t i = 0; i < p.ends.count; i++) {
        assert(p.ends.each[i][0] != '\0' && !strchr(p.ends.each[i], '/'));
    }
    assert(p.device[0] == '\0' || (strlen(p.device) == 12 && !strchr(p.device, '/')));
    fuzz_tell(p.device[0] != '\0' || p.others.count > 0);
    (void)pod_net_read_dev(&p, text); /* reads within the text */
    free(text);
    return 0;
}
