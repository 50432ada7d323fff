/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server says: the client ends, or waits for more, or calls it broken. */
#include "grpc/grpc_client.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static void on_message(void *user, const uint8_t *message, size_t len)
{
    *(size_t *)user += len;
    assert(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grpc_client *c;
    size_t total = 0;
    const uint8_t *bytes;
    size_t len;
    if (grpc_client_new("/t.S/M", "", 0, on_message, &total, &c, NULL) != 0) {
        return 0;
    }
    while (grpc_client_output(c, &bytes, &len, NULL) == 0 && len > 0) {
        grpc_client_sent(c, len);
    }
    if (grpc_client_recv(c, data, size, NULL) == 0) {
        assert(total <= size * 64); /* header compression aside, nothing comes from nothing */
        fuzz_tell(total > 0);
        assert(strlen(grpc_client_text(c)) < GRPC_CLIENT_TEXT_BYTES);
    }
    while (grpc_client_output(c, &bytes, &len, NULL) == 0 && len > 0) {
        grpc_client_sent(c, len);
    }
    grpc_client_free(c);
    return 0;
}
