/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs have exercised, by name: a run that is green because nothing happened in it proves
 * nothing. It is counted where product and simulation meet, each time that something really comes
 * through there. tests/sim/counts says what the corpus has to exercise.
 */
#ifndef TESTS_SIM_TALLY_H
#define TESTS_SIM_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TALLY_NAMES = 256, TALLY_NAME_BYTES = 64 };

/* Plain: it may be copied between processes, and compared with memcmp. */
struct tally {
    struct tally_entry {
        char name[TALLY_NAME_BYTES];
        uint64_t count;
    } entries[TALLY_NAMES];
    size_t used;
};

/* Where tally_note counts from now on; as the world's. NULL: nowhere. Borrowed. */
void tally_use(struct tally *t);
void tally_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void tally_add(struct tally *sum, const struct tally *t);
void tally_print(const struct tally *t); /* sorted by name, one a line */
/* Prints each name in the file `path`, one a line, that was not counted; true if there is none. */
bool tally_has_all(const struct tally *t, const char *path);

#endif
