/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes, however many have come: a message stays within them, and more bytes do not change it.
 */
#include "grpc/grpc_unary.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

enum { MAX_MESSAGE_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grpc_slice message = {.bytes = NULL};
    size_t whole_at = 0;
    CLEANUP(buf) struct buf in = {.max_bytes = size + 1};
    for (size_t len = 0; len <= size; len++) {
        enum grpc_framing framing = grpc_first_message(&in, MAX_MESSAGE_BYTES, &message);
        if (framing == GRPC_WHOLE) {
            assert(message.len <= MAX_MESSAGE_BYTES);
            assert(whole_at == 0 ? message.len + GRPC_PREFIX_BYTES == len : whole_at <= len);
            whole_at = whole_at == 0 ? len : whole_at;
        } else {
            assert(whole_at == 0);
        }
        assert(len == size || buf_append(&in, data + len, 1, NULL) == 0);
    }
    fuzz_tell(whole_at > 0);
    return 0;
}
