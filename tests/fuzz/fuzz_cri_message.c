/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a container runtime answers: texts that end, names that can be put into a path. */
#include "base/text.h"
#include "grpc/cri_message.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static void on_sandbox(void *user, const struct cri_sandbox *s)
{
    size_t *count = user;
    assert(++*count <= CRI_SANDBOXES_MAX);
    assert(s->id[0] != '\0' && memchr(s->id, '\0', sizeof(s->id)));
    assert(text_is_dns1123_subdomain(s->ns) && text_is_dns1123_subdomain(s->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = 0;
    struct cri_version version;
    struct cri_network network;
    struct cri_detail detail;
    if (cri_read_list(data, size, on_sandbox, &count, NULL) != 0) {
        assert(count == 0);
    }
    fuzz_tell(count > 0);
    if (cri_read_version(data, size, &version, NULL) == 0) {
        assert(memchr(version.name, '\0', sizeof(version.name)));
    }
    if (cri_read_network(data, size, &network, NULL) == 0) {
        assert(memchr(network.message, '\0', sizeof(network.message)));
    }
    if (cri_read_detail(data, size, &detail, NULL) == 0) {
        assert(detail.pid >= 0);
        assert(detail.netns[0] == '\0' || detail.netns[0] == '/');
        assert(memchr(detail.netns, '\0', sizeof(detail.netns)));
    }
    return 0;
}
