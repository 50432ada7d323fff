/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of KEP-4680 for the kubelet's health cache. */
#include "dpuctl/dra_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mono T0 = {1000 * NS_PER_SEC};

static struct mono at(int64_t seconds)
{
    return mono_add(T0, seconds * NS_PER_SEC);
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct dra_cache));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* A message about dpu0 alone. */
static size_t say(struct dra_cache *c, int health, const char *message, int64_t timeout_s,
                  struct mono now)
{
    size_t left_out;
    struct dra_report said = {.pool = "n",
                              .device = "dpu0",
                              .health = health,
                              .message = message,
                              .timeout_s = timeout_s};
    size_t changed = dra_cache_update(c, &said, 1, now, &left_out);
    assert_int_equal(left_out, 0);
    return changed;
}

/* NULL if nothing is known of it. */
static const struct dra_entry *find(const struct dra_cache *c, const char *device)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->entries[i].pool, "n") == 0 && strcmp(c->entries[i].device, device) == 0) {
            return &c->entries[i];
        }
    }
    return NULL;
}

static const struct dra_entry *dpu0(const struct dra_cache *c)
{
    return find(c, "dpu0");
}

static void state_counts_until_its_timeout_and_not_longer(void **state)
{
    struct dra_cache *c = *state;
    (void)say(c, DRA_HEALTHY, "", 0, T0);
    assert_int_equal(dra_cache_health(dpu0(c), at(29)), DRA_HEALTHY);
    assert_int_equal(dra_cache_health(dpu0(c), at(30)), DRA_HEALTHY);
    assert_int_equal(dra_cache_health(dpu0(c), (struct mono){at(30).ns + 1}), DRA_UNKNOWN);
}

static void devices_own_timeout_beats_the_default(void **state)
{
    static const struct {
        int64_t timeout_s;
        int64_t counts_s;
    } rows[] = {{5, 5}, {100, 100}, {0, 30}, {-7, 30}, {INT64_MAX, 1000000}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct dra_cache *c = *state;
        c->count = 0;
        (void)say(c, DRA_UNHEALTHY, "", rows[i].timeout_s, T0);
        assert_int_equal(dra_cache_health(dpu0(c), at(rows[i].counts_s)), DRA_UNHEALTHY);
        if (rows[i].timeout_s != INT64_MAX) {
            assert_int_equal(dra_cache_health(dpu0(c), at(rows[i].counts_s + 1)), DRA_UNKNOWN);
        }
    }
}

static void identical_report_is_no_change_but_confirms(void **state)
{
    struct dra_cache *c = *state;
    assert_int_equal(say(c, DRA_HEALTHY, "well", 10, T0), 1);
    assert_int_equal(say(c, DRA_HEALTHY, "well", 10, at(8)), 0);
    assert_false(dpu0(c)->has_changed);
    assert_int_equal(dra_cache_health(dpu0(c), at(18)), DRA_HEALTHY);
}

static void other_health_message_or_timeout_is_a_change(void **state)
{
    struct dra_cache *c = *state;
    (void)say(c, DRA_HEALTHY, "a", 10, T0);
    assert_int_equal(say(c, DRA_UNHEALTHY, "a", 10, T0), 1);
    assert_int_equal(say(c, DRA_UNHEALTHY, "b", 10, T0), 1);
    assert_int_equal(say(c, DRA_UNHEALTHY, "b", 11, T0), 1);
    assert_int_equal(say(c, DRA_UNHEALTHY, "b", 11, T0), 0);
}

static void unknown_number_on_the_wire_is_unknown(void **state)
{
    struct dra_cache *c = *state;
    static const int numbers[] = {0, 3, -1, 99};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        (void)say(c, numbers[i], "", 0, T0);
        assert_int_equal(dpu0(c)->health, DRA_UNKNOWN);
    }
}

static void device_left_out_keeps_its_state_until_it_is_stale(void **state)
{
    struct dra_cache *c = *state;
    size_t left_out;
    const struct dra_report both[] = {
        {.pool = "n", .device = "dpu0", .health = DRA_HEALTHY, .message = "m", .timeout_s = 10},
        {.pool = "n", .device = "dpu1", .health = DRA_HEALTHY, .message = "m", .timeout_s = 10},
    };
    assert_int_equal(dra_cache_update(c, both, 2, T0, &left_out), 2);
    assert_int_equal(dra_cache_update(c, both, 1, at(5), &left_out), 0);
    assert_int_equal(dra_cache_health(find(c, "dpu1"), at(5)), DRA_HEALTHY);
    assert_int_equal(dra_cache_update(c, both, 1, at(11), &left_out), 1);
    const struct dra_entry *dpu1 = find(c, "dpu1");
    assert_true(dpu1->has_changed);
    assert_int_equal(dpu1->health, DRA_UNKNOWN);
    assert_string_equal(dpu1->message, "");
    assert_int_equal(dra_cache_update(c, both, 1, at(12), &left_out), 0); /* told once */
}

static void empty_list_after_staleness_makes_all_unknown(void **state)
{
    struct dra_cache *c = *state;
    size_t left_out;
    (void)say(c, DRA_HEALTHY, "m", 10, T0);
    assert_int_equal(dra_cache_update(c, NULL, 0, at(9), &left_out), 0);
    assert_int_equal(dra_cache_update(c, NULL, 0, at(11), &left_out), 1);
    assert_int_equal(dpu0(c)->health, DRA_UNKNOWN);
}

static void long_message_is_cut_at_1024_bytes(void **state)
{
    struct dra_cache *c = *state;
    char message[1100];
    memset(message, 'x', sizeof(message));
    message[1024] = '\0';
    (void)say(c, DRA_HEALTHY, message, 0, T0);
    assert_string_equal(dpu0(c)->message, message);
    message[1024] = 'x';
    message[1025] = '\0';
    (void)say(c, DRA_HEALTHY, message, 0, T0);
    assert_int_equal(strlen(dpu0(c)->message), 1024);
    assert_string_equal(dpu0(c)->message + 1021, "...");
    memcpy(message + 1020, "\xc3\xa4", 2); /* the cut would fall into a character */
    (void)say(c, DRA_HEALTHY, message, 0, T0);
    assert_string_equal(dpu0(c)->message + 1020, "...");
}

static void what_does_not_fit_is_counted(void **state)
{
    struct dra_cache *c = *state;
    struct dra_report said[DRA_CACHE_DEVICES_MAX + 2];
    char names[DRA_CACHE_DEVICES_MAX + 2][8];
    size_t left_out;
    for (size_t i = 0; i < ARRAY_LEN(said); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "d%zu", i);
        said[i] = (struct dra_report){.pool = "n", .device = names[i], .message = ""};
    }
    assert_int_equal(dra_cache_update(c, said, ARRAY_LEN(said), T0, &left_out),
                     DRA_CACHE_DEVICES_MAX);
    assert_int_equal(left_out, 2);
}

static void device_named_twice_counts_once(void **state)
{
    struct dra_cache *c = *state;
    size_t left_out;
    const struct dra_report twice[] = {
        {.pool = "n", .device = "dpu0", .health = DRA_HEALTHY, .message = ""},
        {.pool = "n", .device = "dpu0", .health = DRA_UNHEALTHY, .message = ""},
    };
    assert_int_equal(dra_cache_update(c, twice, 2, T0, &left_out), 1);
    assert_int_equal(dpu0(c)->health, DRA_UNHEALTHY); /* the last word */
}

static void what_a_plugin_says_stays_on_its_line(void **state)
{
    struct dra_cache *c = *state;
    char line[DRA_CACHE_LINE_BYTES];
    size_t left_out;
    const struct dra_report said = {
        .pool = "n\n", .device = "\033[2J", .health = DRA_HEALTHY, .message = "a\007\xff\r\nb"};
    assert_int_equal(dra_cache_update(c, &said, 1, T0, &left_out), 1);
    dra_cache_describe(&c->entries[0], "d.example.com", at(7), line);
    assert_string_equal(line, "Healthy    d.example.com/n / [2J  7 s of 30 s ago  a ?  b");
    dra_cache_describe(&c->entries[0], "d.example.com", at(31), line);
    assert_string_equal(line, "Unknown    d.example.com/n / [2J  31 s of 30 s ago  ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(state_counts_until_its_timeout_and_not_longer),
        TEST(devices_own_timeout_beats_the_default),
        TEST(identical_report_is_no_change_but_confirms),
        TEST(other_health_message_or_timeout_is_a_change),
        TEST(unknown_number_on_the_wire_is_unknown),
        TEST(device_left_out_keeps_its_state_until_it_is_stale),
        TEST(empty_list_after_staleness_makes_all_unknown),
        TEST(long_message_is_cut_at_1024_bytes),
        TEST(what_does_not_fit_is_counted),
        TEST(device_named_twice_counts_once),
        TEST(what_a_plugin_says_stays_on_its_line),
    };
    return cmocka_run_group_tests_name("dra_cache", tests, NULL, NULL);
}
