/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/tally.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tally *the_tally; /* as the world's */

void tally_use(struct tally *t)
{
    the_tally = t;
}

static void count(struct tally *t, const char *name, uint64_t many)
{
    size_t i = 0;
    while (i < t->used && strcmp(t->entries[i].name, name) != 0) {
        i++;
    }
    assert(i < TALLY_NAMES);
    if (i == t->used) {
        (void)snprintf(t->entries[t->used++].name, TALLY_NAME_BYTES, "%s", name);
    }
    t->entries[i].count += many;
}

void tally_note(const char *fmt, ...)
{
    char name[TALLY_NAME_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    if (the_tally) {
        count(the_tally, name, 1);
    }
}

void tally_add(struct tally *sum, const struct tally *t)
{
    for (size_t i = 0; i < t->used; i++) {
        count(sum, t->entries[i].name, t->entries[i].count);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tally_entry *)a)->name, ((const struct tally_entry *)b)->name);
}

void tally_print(const struct tally *t)
{
    struct tally sorted = *t;
    qsort(sorted.entries, sorted.used, sizeof(sorted.entries[0]), by_name);
    for (size_t i = 0; i < sorted.used; i++) {
        (void)printf("%10llu  %s\n", (unsigned long long)sorted.entries[i].count,
                     sorted.entries[i].name);
    }
}

static bool has(const struct tally *t, const char *name)
{
    for (size_t i = 0; i < t->used; i++) {
        if (strcmp(t->entries[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

bool tally_has_all(const struct tally *t, const char *path)
{
    char line[256];
    bool has_all = true;
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        return false;
    }
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#' && !has(t, line)) {
            (void)printf("%10d  %s\n", 0, line);
            has_all = false;
        }
    }
    (void)fclose(f); /* read-only */
    return has_all;
}
