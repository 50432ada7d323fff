/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/scratch.h"

#include "tests/support/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "/tmp/dpu-test-"

void scratch_make(char out_dir[static SCRATCH_BYTES])
{
    (void)snprintf(out_dir, SCRATCH_BYTES, PREFIX "XXXXXX");
    assert_non_null(mkdtemp(out_dir));
}

bool scratch_run(const char *format, ...)
{
    char command[SCRATCH_PATH_BYTES];
    va_list ap;
    va_start(ap, format);
    int len = vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    assert_between(len, 1, sizeof(command) - 1);
    return system(command) == 0;
}

void scratch_remove(const char *dir)
{
    assert_memory_equal(dir, PREFIX, strlen(PREFIX));
    assert_null(strchr(dir + strlen(PREFIX), '/'));
    assert_true(scratch_run("rm -r --one-file-system %s", dir));
}

void scratch_put(const char *dir, const char *name, const char *text)
{
    char path[SCRATCH_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755); /* may be there */
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
