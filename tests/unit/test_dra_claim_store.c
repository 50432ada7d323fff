/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_store.h"

#include "base/text.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int looks; /* into directories */

/* By the linker (--wrap). */
DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
DIR *__wrap_opendir(const char *name)
{
    looks++;
    return __real_opendir(name);
}

static int setup(void **state)
{
    char dir[] = "/tmp/claim-store-XXXXXX";
    struct claim_store *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(claim_store_init(s, dir, NULL), 0);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    char command[PATH_MAX + 16];
    struct claim_store *s = *state;
    s->dir[strlen(s->dir) - strlen("/claims")] = '\0';
    (void)snprintf(command, sizeof(command), "rm -r %s", s->dir);
    assert_int_equal(system(command), 0);
    free(s);
    return 0;
}

static int take(const struct claim_store *s, const char *uid, enum claim_use use, struct err *e)
{
    struct stored_claim other;
    const struct claim_ref ref = {.ns = "shop", .uid = uid, .name = uid};
    return claim_store_take(s, &ref, use, &other, e);
}

/* "uid uid ..." */
static const char *all(const struct claim_store *s)
{
    static char out[256];
    struct stored_claim claim = {.uid = ""};
    out[0] = '\0';
    while (claim_store_next(s, claim.uid, &claim)) {
        (void)strcat(out, claim.uid);
        (void)strcat(out, " ");
    }
    return out;
}

static void what_is_taken_is_there_until_it_is_dropped(void **state)
{
    struct claim_store *s = *state;
    struct stored_claim claim;
    assert_string_equal(all(s), "");
    assert_int_equal(take(s, "u2", CLAIM_USE_SHARED, NULL), 0);
    assert_int_equal(take(s, "u1", CLAIM_USE_SHARED, NULL), 0);
    assert_int_equal(take(s, "u1", CLAIM_USE_SHARED, NULL), 0);
    assert_string_equal(all(s), "u1 u2 ");
    assert_true(claim_store_next(s, "u1", &claim));
    assert_string_equal(claim.ns, "shop");
    assert_string_equal(claim.name, "u2");
    assert_int_equal(claim.use, CLAIM_USE_SHARED);
    claim_store_drop(s, "u1");
    claim_store_drop(s, "u1");
    assert_string_equal(all(s), "u2 ");
}

static void claim_that_has_the_device_alone_keeps_others_out(void **state)
{
    static const struct {
        enum claim_use first;
        enum claim_use second;
        int rc;
    } rows[] = {
        {CLAIM_USE_ALONE, CLAIM_USE_ALONE, ERR_CONFLICT},
        {CLAIM_USE_ALONE, CLAIM_USE_SHARED, ERR_CONFLICT},
        {CLAIM_USE_SHARED, CLAIM_USE_ALONE, ERR_CONFLICT},
        {CLAIM_USE_SHARED, CLAIM_USE_SHARED, 0},
        {CLAIM_USE_ALONE, CLAIM_USE_ADMIN, 0},
        {CLAIM_USE_ADMIN, CLAIM_USE_ALONE, 0},
    };
    struct claim_store *s = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(take(s, "first", rows[i].first, NULL), 0);
        assert_int_equal(take(s, "first", rows[i].first, NULL), 0); /* never in its own way */
        assert_int_equal(take(s, "second", rows[i].second, NULL), rows[i].rc);
        assert_string_equal(all(s), rows[i].rc == 0 ? "first second " : "first ");
        claim_store_drop(s, "first");
        assert_int_equal(take(s, "second", rows[i].second, NULL), 0);
        claim_store_drop(s, "second");
    }
}

static void conflict_names_the_other_claim(void **state)
{
    struct claim_store *s = *state;
    struct stored_claim other;
    struct err e = ERR_INIT;
    const struct claim_ref ref = {.ns = "shop", .uid = "u2", .name = "late"};
    assert_int_equal(take(s, "u1", CLAIM_USE_ALONE, NULL), 0);
    assert_int_equal(claim_store_take(s, &ref, CLAIM_USE_ALONE, &other, &e), ERR_CONFLICT);
    assert_string_equal(other.uid, "u1");
    assert_non_null(strstr(e.msg, "claim 'shop/u1', which has it alone"));
}

static void one_look_shows_who_is_in_the_way(void **state)
{
    struct claim_store *s = *state;
    char uid[] = "u0";
    for (; uid[1] <= '9'; uid[1]++) {
        looks = 0;
        assert_int_equal(take(s, uid, CLAIM_USE_SHARED, NULL), 0);
        assert_int_equal(looks, 1);
    }
}

static void uid_that_names_no_file_is_not_kept(void **state)
{
    static const char *const uids[] = {"", "..", "../u", "a/b", "a b"};
    struct claim_store *s = *state;
    for (size_t i = 0; i < ARRAY_LEN(uids); i++) {
        assert_int_equal(take(s, uids[i], CLAIM_USE_SHARED, NULL), ERR_PARSE);
        claim_store_drop(s, uids[i]);
    }
    assert_string_equal(all(s), "");
}

static void what_is_no_claim_is_passed_over(void **state)
{
    static const char *const targets[] = {"shared",      "shared ",    "shared x",  "shared /x",
                                          "shared x/",   "shared X/y", "other x/y", "sharedx x/y",
                                          "/etc/passwd", "alone x/y/z"};
    struct claim_store *s = *state;
    char path[PATH_MAX + 8];
    assert_int_equal(take(s, "m", CLAIM_USE_SHARED, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        (void)snprintf(path, sizeof(path), "%s/a%zu", s->dir, i);
        assert_int_equal(symlink(targets[i], path), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/file", s->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(all(s), "m ");
}

static void directory_that_cannot_be_made_is_an_error_but_no_conflict(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct claim_store nowhere = {.dir = "/proc/claims"};
    assert_int_equal(take(&nowhere, "u", CLAIM_USE_ALONE, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/proc/claims/u"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_taken_is_there_until_it_is_dropped),
        TEST(claim_that_has_the_device_alone_keeps_others_out),
        TEST(conflict_names_the_other_claim),
        TEST(one_look_shows_who_is_in_the_way),
        TEST(uid_that_names_no_file_is_not_kept),
        TEST(what_is_no_claim_is_passed_over),
        cmocka_unit_test(directory_that_cannot_be_made_is_an_error_but_no_conflict),
    };
    return cmocka_run_group_tests_name("dra_claim_store", tests, NULL, NULL);
}
