/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of a unit test. Each registers itself and runs in the order of the file:
 *
 *     TEST(expired_lease_turns_not_ready) { ... }
 *     TEST_WITH(record_is_replaced, make_directory, remove_directory) { ... *state ... }
 *     TEST_IN(record_is_replaced) { ... w->... }  in a file with WORLD(up, down)
 *
 * main() is in case.c.
 */
#ifndef TESTS_SUPPORT_CASE_H
#define TESTS_SUPPORT_CASE_H

/* For cmocka, and what nearly every case needs. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#undef stop /* cmocka 2 calls a macro so, and tests their functions */
#undef assert_in_range

/* In place of assert_in_range(), which cmocka 2 has deprecated, and which is unsigned. */
#define assert_between(value, least, most)                                                         \
    do {                                                                                           \
        int64_t value_ = (int64_t)(value);                                                         \
        int64_t least_ = (int64_t)(least);                                                         \
        int64_t most_ = (int64_t)(most);                                                           \
        if (value_ < least_ || value_ > most_) {                                                   \
            fail_msg("%" PRId64 " is not between %" PRId64 " and %" PRId64, value_, least_,        \
                     most_);                                                                       \
        }                                                                                          \
    } while (0)

void case_add(const char *name, CMUnitTestFunction run, CMFixtureFunction up,
              CMFixtureFunction down);
void case_group(CMFixtureFunction up, CMFixtureFunction down);

/* A case with a set-up and a tear-down of its own; `state` is theirs. */
#define TEST_WITH(name, up, down)                                                                  \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        case_add(#name, name, up, down);                                                           \
    }                                                                                              \
    static void name(void **state)

/* What the cases of a file have each of its own: a zeroed `struct world`, furnished by up(w) and
 * cleared by down(w), whatever came of the case. */
#define WORLD(up, down)                                                                            \
    static int world_set_up(void **state)                                                          \
    {                                                                                              \
        *state = calloc(1, sizeof(struct world));                                                  \
        assert_non_null(*state);                                                                   \
        up(*state);                                                                                \
        return 0;                                                                                  \
    }                                                                                              \
    static int world_tear_down(void **state)                                                       \
    {                                                                                              \
        down(*state);                                                                              \
        free(*state);                                                                              \
        return 0;                                                                                  \
    }                                                                                              \
    static inline void world_renew(struct world *w) /* for the next row of a table */              \
    {                                                                                              \
        down(w);                                                                                   \
        memset(w, 0, sizeof(*w));                                                                  \
        up(w);                                                                                     \
    }

#define TEST_IN(name)                                                                              \
    static void name(struct world *w);                                                             \
    static void name##_case(void **state)                                                          \
    {                                                                                              \
        name(*state);                                                                              \
    }                                                                                              \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        case_add(#name, name##_case, world_set_up, world_tear_down);                               \
    }                                                                                              \
    static void name(struct world *w)

#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    static void name##_case(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        name();                                                                                    \
    }                                                                                              \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        case_add(#name, name##_case, NULL, NULL);                                                  \
    }                                                                                              \
    static void name(void)

/* Set-up and tear-down around all cases of the file. */
#define TEST_GROUP(up, down)                                                                       \
    __attribute__((constructor)) static void case_group_add(void)                                  \
    {                                                                                              \
        case_group(up, down);                                                                      \
    }

#endif
