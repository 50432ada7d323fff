/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target once over every file of the directories given: a regression test that needs
 * no fuzzing compiler. Fails if a directory holds nothing, or nothing of it is accepted, so that it
 * cannot pass by running nothing. */
#include "tests/fuzz/fuzz.h"

#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_INPUT_BYTES = 4 << 20 };

static int accepted;

void fuzz_count_accepted(void)
{
    accepted++;
}

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    CLEANUP(free) uint8_t *data = malloc(MAX_INPUT_BYTES);
    if (!file || !data) {
        perror(path);
        return -1;
    }
    size_t size = fread(data, 1, MAX_INPUT_BYTES, file);
    (void)fclose(file); /* only read */
    return LLVMFuzzerTestOneInput(data, size);
}

static int replay_directory(const char *path)
{
    int files = 0;
    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        return -1;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char file[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(file, sizeof(file), "%s/%s", path, entry->d_name); /* short by design */
        if (replay_file(file) != 0) {
            files = -1;
            break;
        }
        files++;
    }
    (void)closedir(dir); /* read-only */
    return files;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        accepted = 0;
        int files = replay_directory(argv[i]);
        (void)printf("%s: %d inputs, %d accepted\n", argv[i], files, accepted);
        if (files <= 0 || accepted == 0) {
            (void)fprintf(stderr, "%s: nothing is proven by that\n", argv[i]);
            return 1;
        }
    }
    return argc > 1 ? 0 : 1;
}
