/* SPDX-License-Identifier: Apache-2.0 */
/* Another boot of the DPU under a renewal is a reboot, and nothing else is one. */
#include "tests/support/case.h"
#include "tests/unit/verdict_world.h"

#define BOOT(letter) letter "aaaaaaa-0000-0000-0000-000000000000"

static void boot(struct world *w, const char *id)
{
    (void)text_copy(w->lease.boot_id, sizeof(w->lease.boot_id), id);
}

static const char *known(const struct world *w)
{
    return w->x.readiness.dpu_boot_id;
}

/* Renewed at 1 by boot a. */
static void world_booted(struct world *w)
{
    world_init(w, NULL, SEC(0));
    world_tick(w, SEC(0));
    boot(w, BOOT("a"));
    world_read(w, SEC(0), SEC(0.01));
    assert_false(w->out.rebooted);
    world_renew(w, 1);
    assert_false(w->out.rebooted);
    assert_string_equal(known(w), BOOT("a"));
}

/* Boot a comes back behind b, and its host knows nothing of it. */
static void expect_lasting_boot(struct world w)
{
    w.x.readiness.dpu_boot_before[0] = '\0'; /* the host has rebooted since */
    boot(&w, BOOT("a"));
    world_stamp(&w, 5);
    world_version(&w, 1);
    world_mark(&w, MARK_TAKEN, SEC(12), SEC(12.1));
    for (int at = 13; at <= 15; at++) {
        world_renew(&w, at);
        assert_false(w.out.rebooted);
        assert_string_equal(known(&w), BOOT("b"));
    }
    world_renew(&w, 16); /* nobody mends it: the DPU's clock was behind */
    assert_true(w.out.rebooted);
    assert_string_equal(known(&w), BOOT("a"));
}

/* A companion's lease is renewed by ovnkube, under the id of before until it is mended. */
TEST_READY(a_boot_on_an_etcd_that_was_restored_is_news_only_if_it_lasts)
{
    world_booted(w);
    boot(w, BOOT("b"));
    world_renew(w, 11);
    expect_lasting_boot(*w);
    world_renew(w, 11.5);
    expect_lasting_boot(*w);
    struct world restarted = *w;
    world_restart(&restarted, 12, 341);
    boot(&restarted, BOOT("a"));
    world_renew_unseen(&restarted, 12);
    world_version(&restarted, 1);
    world_list(&restarted, SEC(12.1)); /* the record knows both */
    assert_false(restarted.out.rebooted);
    assert_string_equal(known(&restarted), BOOT("b"));
}

TEST_READY(reboot_while_nobody_watched_is_told_of_a_lease_never_seen_renewed)
{
    world_init(w, NULL, SEC(0));
    boot(w, BOOT("a"));
    world_read(w, SEC(0), SEC(0.01));
    assert_string_equal(known(w), BOOT("a"));
    world_restart(w, 30, 0);
    boot(w, BOOT("b"));
    world_read(w, SEC(30), SEC(30.1));
    assert_false(w->out.rebooted);
    world_renew(w, 31);
    assert_true(w->out.rebooted);
    world_restart(w, 40, 0);
    world_read(w, SEC(40), SEC(40.1));
    boot(w, BOOT("a")); /* that boot is past */
    world_renew(w, 42);
    assert_false(w->out.rebooted);
}

TEST_READY(another_boot_under_a_renewal_is_one_reboot)
{
    world_booted(w);
    boot(w, BOOT("b"));
    world_renew(w, 11); /* well within the lease: nothing else tells */
    assert_true(w->out.rebooted);
    assert_true(w->out.rewrite);
    assert_false(w->out.verdict_changed);
    assert_string_equal(known(w), BOOT("b"));
    world_renew(w, 21); /* the agent's restart is none */
    assert_false(w->out.rebooted);
}

TEST_READY(whoever_does_not_say_claims_nothing)
{
    /* upstream's, or an older dpu-agent */
    world_renew(w, 11);
    assert_string_equal(known(w), "");
    boot(w, BOOT("a")); /* it says for the first time */
    world_renew(w, 21);
    assert_false(w->out.rebooted);
    boot(w, "");
    world_renew(w, 31);
    assert_false(w->out.rebooted);
    assert_string_equal(known(w), BOOT("a"));
    static const char *const boots[] = {BOOT("b"), BOOT("c"), BOOT("d"), BOOT("e")};
    for (size_t i = 0; i < ARRAY_LEN(boots); i++) { /* however many there were */
        boot(w, boots[i]);
        world_renew(w, 41 + (double)i);
        assert_true(w->out.rebooted);
    }
    boot(w, "");
    world_renew(w, 51);
    assert_false(w->out.rebooted);
}

TEST_READY(two_dpus_on_one_lease_are_no_endless_reboots)
{
    int count = 0;
    world_booted(w);
    for (int i = 0; i < 100; i++) {
        boot(w, i % 2 == 0 ? BOOT("b") : BOOT("a"));
        world_renew(w, 11 + i);
        count += w->out.rebooted;
    }
    assert_int_equal(count, 1);
}

TEST_READY(a_reboot_while_the_host_was_away_is_seen_at_the_first_look)
{
    static const struct {
        const char *id;
        double stamp_at;
        bool rebooted;
    } rows[] = {
        {BOOT("a"), 21, false}, {BOOT("b"), 21, true}, {BOOT("b"), 1, false}, {"", 21, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_booted(w);
        world_restart(w, 30, 341);
        world_version(w, 1);
        assert_string_equal(known(w), BOOT("a"));
        world_stamp(w, rows[i].stamp_at);
        boot(w, rows[i].id);
        world_list(w, SEC(30.1));
        assert_int_equal(w->out.rebooted, rows[i].rebooted);
    }
}

/* An old state of the lease, from a backup of etcd, or a DPU that came up with its clock behind. */
TEST_READY(a_stamp_from_before_the_restart_tells_of_no_boot_until_another_follows)
{
    world_booted(w);
    world_renew(w, 11);
    world_restart(w, 30, 341);
    world_version(w, 1);
    world_stamp(w, 5);
    boot(w, BOOT("b"));
    world_read(w, SEC(30), SEC(30.1));
    assert_false(w->out.rebooted);
    assert_string_equal(known(w), BOOT("a"));
    world_mark(w, MARK_CONFLICT, SEC(30.1), SEC(30.2)); /* which of both states stands? */
    world_renew(w, 31);
    assert_true(w->out.confirm); /* a watch may tell of the past, a read does not */
    world_read(w, SEC(31), SEC(31.1));
    assert_true(w->out.rebooted);
    assert_string_equal(known(w), BOOT("b"));
}
