/* SPDX-License-Identifier: Apache-2.0 */
/* Any file of --config is applied or refused with a message that names the file; nothing leaks. */
#include "host-agent/host_options.h"
#include "loop/option.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct option_program *program = host_options_program();
    struct host_config config = {.dra = false};
    struct err e = ERR_INIT;
    int rc = option_apply_yaml(program, &config, "f", (const char *)data, size, &e);
    assert(rc == e.code);
    assert(rc == 0 || strncmp(e.msg, "file 'f'", 8) == 0);
    fuzz_tell(rc == 0);
    option_fini(program, &config);
    return 0;
}
