/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes: what is read can be written again and reads alike; what is not says so. */
#include "base/text.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct text_address address;
    struct text_address again;
    struct err e = ERR_INIT;
    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (text_to_address(text, &address, &e) == 0) {
        char written[TEXT_HOST_BYTES + 16];
        bool is_v6 = strchr(address.host, ':') != NULL;
        (void)snprintf(written, sizeof(written), is_v6 ? "[%s]:%u" : "%s:%u", address.host,
                       (unsigned)address.port); /* sized for it */
        assert(text_to_address(written, &again, &e) == 0);
        fuzz_tell(true);
        assert(strcmp(address.host, again.host) == 0 && address.port == again.port);
    } else {
        assert(e.code == ERR_PARSE && e.msg[0] != '\0');
    }
    free(text);
    return 0;
}
