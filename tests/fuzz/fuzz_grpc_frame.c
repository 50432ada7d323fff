/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes, cut anywhere, give the same messages; the text codecs stay within their bounds. */
#include "grpc/frame.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGE_BYTES = 64 };

struct outcome {
    size_t messages;
    size_t payload_bytes;
    enum grpc_deframed last;
};

static struct outcome run(const uint8_t *data, size_t size, size_t step)
{
    struct grpc_deframer d = {.max_bytes = MAX_MESSAGE_BYTES};
    struct outcome o = {.last = GRPC_NEED_MORE};
    for (size_t at = 0; at < size; at += step) {
        struct grpc_slice in = {.bytes = data + at, .len = size - at < step ? size - at : step};
        struct grpc_slice part;
        while ((o.last = grpc_deframe(&d, &in, &part)) != GRPC_NEED_MORE) {
            if (o.last == GRPC_PAYLOAD) {
                assert(part.bytes >= data && part.bytes + part.len <= data + size);
                o.payload_bytes += part.len;
            } else if (o.last == GRPC_MESSAGE) {
                o.messages++;
            } else {
                return o;
            }
        }
    }
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = run(data, size, size ? size : 1);
    struct outcome single = run(data, size, 1);
    assert(whole.messages == single.messages && whole.payload_bytes == single.payload_bytes);
    assert(whole.last == single.last);
    fuzz_tell(whole.messages > 0);

    char *text = malloc(size + 1);
    char *encoded = malloc(3 * size + 1);
    char *decoded = malloc(size + 1);
    if (text && encoded && decoded) {
        if (size > 0) {
            memcpy(text, data, size);
        }
        text[size] = '\0';
        grpc_percent_encode(text, encoded, 3 * size + 1);
        grpc_percent_decode(encoded, strlen(encoded), decoded, size + 1);
        assert(strcmp(text, decoded) == 0);
        grpc_percent_decode(text, strlen(text), decoded, size / 2 + 1);
        grpc_percent_encode(text, encoded, size / 2 + 1);
    }
    free(decoded);
    free(encoded);
    free(text);
    return 0;
}
