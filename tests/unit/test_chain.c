/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table in host-agent/chain.h. */
#include "host-agent/chain.h"

#include "base/text.h"
#include "tests/support/case.h"

#define AT(n) ((struct mono){(n)*NS_PER_SEC})

/* A request's answer: one of enum chain_answer, or our lease as one of these shows it. What is
 * judged is version 10, stamped "judged". */
enum {
    SAME = 100,
    OURS,  /* with the text of this mark */
    MOVED, /* somebody wrote, and it is not the DPU */
    RENEWED,
    OTHER_LEASE,
    RESTORED, /* by a backup of etcd: another stamp under an older version */
    OPAQUE,   /* the same, under a version that is no number */
};

struct row {
    const char *name;
    int replies[4]; /* PATCH, GET, PATCH, GET */
    enum chain_outcome outcome;
    int proof_at; /* the n-th request was sent at n */
};

static const struct row rows[] = {
    {"taken", {CHAIN_LEASE}, CHAIN_TAKEN, 0},
    {"a proxy's page", {CHAIN_GARBLED}, CHAIN_NONSENSE, 0},
    {"renewed: 409", {CHAIN_CONFLICTS, RENEWED}, CHAIN_CONFLICT, 1},
    {"renewed: no answer", {CHAIN_NO_ANSWER, RENEWED}, CHAIN_CONFLICT, 1},
    {"renewed: 500", {CHAIN_FAILS, RENEWED}, CHAIN_CONFLICT, 1},
    {"renewed: 403", {CHAIN_FORBIDS, RENEWED}, CHAIN_CONFLICT, 1},
    {"renewed: who knows the order?", {CHAIN_CONFLICTS, OPAQUE}, CHAIN_CONFLICT, 1},
    {"made anew", {CHAIN_NOT_FOUND, OTHER_LEASE}, CHAIN_CONFLICT, 1},
    {"only the answer was lost", {CHAIN_NO_ANSWER, OURS}, CHAIN_TAKEN, 0},
    {"500, and yet taken", {CHAIN_FAILS, OURS}, CHAIN_TAKEN, 0},
    {"409 to the client's own retry", {CHAIN_CONFLICTS, OURS}, CHAIN_TAKEN, 0},
    {"a policy of today", {CHAIN_FORBIDS, SAME}, CHAIN_DENIED, 1},
    {"takes no writes", {CHAIN_FAILS, SAME}, CHAIN_REFUSED, 1},
    {"somebody touched it", {CHAIN_CONFLICTS, MOVED, CHAIN_LEASE}, CHAIN_TAKEN, 2},
    {"somebody writes all the time",
     {CHAIN_CONFLICTS, SAME, CHAIN_CONFLICTS, MOVED},
     CHAIN_TAKEN,
     0},
    {"lost, and then somebody writes",
     {CHAIN_NO_ANSWER, SAME, CHAIN_CONFLICTS, MOVED},
     CHAIN_TAKEN,
     0},
    {"409 without a reason", {CHAIN_CONFLICTS, SAME, CHAIN_CONFLICTS, SAME}, CHAIN_CONFLICT, 3},
    {"404 of what is there", {CHAIN_NOT_FOUND, SAME, CHAIN_NOT_FOUND, SAME}, CHAIN_CONFLICT, 3},
    {"lost twice", {CHAIN_NO_ANSWER, SAME, CHAIN_NO_ANSWER, SAME}, CHAIN_LOST, 3},
    {"lost twice, moved", {CHAIN_NO_ANSWER, SAME, CHAIN_NO_ANSWER, MOVED}, CHAIN_LOST, 3},
    {"lost, then taken", {CHAIN_NO_ANSWER, SAME, CHAIN_LEASE}, CHAIN_TAKEN, 2},
    {"lost, then renewed", {CHAIN_NO_ANSWER, SAME, CHAIN_CONFLICTS, RENEWED}, CHAIN_CONFLICT, 3},
    {"lost twice, but ours", {CHAIN_NO_ANSWER, SAME, CHAIN_NO_ANSWER, OURS}, CHAIN_TAKEN, 0},
    {"touched, then denied", {CHAIN_CONFLICTS, MOVED, CHAIN_FORBIDS, MOVED}, CHAIN_DENIED, 3},
    {"touched, then refused", {CHAIN_CONFLICTS, MOVED, CHAIN_FAILS, MOVED}, CHAIN_REFUSED, 3},
    {"restored, and nobody renewed", {CHAIN_CONFLICTS, RESTORED, CHAIN_LEASE}, CHAIN_TAKEN, 2},
    {"gone", {CHAIN_NOT_FOUND, CHAIN_NOT_FOUND}, CHAIN_ABSENT, 1},
    {"gone and forbidden", {CHAIN_FORBIDS, CHAIN_NOT_FOUND}, CHAIN_ABSENT, 1},
    {"unreadable", {CHAIN_FAILS, CHAIN_GARBLED}, CHAIN_NONSENSE, 1},
    {"no way there", {CHAIN_UNSENT}, CHAIN_LOST, 0},
    {"no way there any more", {CHAIN_CONFLICTS, SAME, CHAIN_UNSENT}, CHAIN_LOST, 2},
    {"no way back", {CHAIN_FAILS, CHAIN_UNSENT}, CHAIN_LOST, 1},
    {"cut off", {CHAIN_NO_ANSWER, CHAIN_NO_ANSWER}, CHAIN_LOST, 1},
    {"cut off after 409", {CHAIN_CONFLICTS, CHAIN_NO_ANSWER}, CHAIN_LOST, 1},
    {"nothing about the lease", {CHAIN_FORBIDS, CHAIN_FORBIDS}, CHAIN_LOST, 1},
    {"fails at all", {CHAIN_FAILS, CHAIN_FAILS}, CHAIN_LOST, 1},
};

static struct lease_view judged(void)
{
    return (struct lease_view){.uid = "uid-1", .renew_stamp = "judged", .resource_version = "10"};
}

static struct lease_view show(int shown, int n)
{
    struct lease_view lease = judged();
    if (shown == RESTORED) {
        text_format(lease.resource_version, sizeof(lease.resource_version), "7");
    } else if (shown == OPAQUE) {
        text_format(lease.resource_version, sizeof(lease.resource_version), "x7");
    } else if (shown != SAME) {
        text_format(lease.resource_version, sizeof(lease.resource_version), "%d", 11 + n);
    }
    if (shown == OTHER_LEASE) {
        text_format(lease.uid, sizeof(lease.uid), "uid-2");
    } else if (shown == RENEWED || shown == RESTORED || shown == OPAQUE) {
        text_format(lease.renew_stamp, sizeof(lease.renew_stamp), "another");
    }
    return lease;
}

/* To the n-th request. */
static enum chain_action answer(struct chain *c, int reply, int n)
{
    const struct lease_view lease = show(reply, n);
    enum chain_answer is = reply >= SAME ? CHAIN_LEASE : (enum chain_answer)reply;
    return chain_step(c, is, is == CHAIN_LEASE ? &lease : NULL, reply == OURS, AT(n));
}

static void start(struct chain *c)
{
    const struct lease_view lease = judged();
    chain_start(c, &lease, AT(0));
    assert_int_equal(c->action, CHAIN_PATCH);
    assert_string_equal(c->version, "10");
}

TEST(each_pair_of_answers_has_its_outcome)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct chain c;
        start(&c);
        print_message("%s\n", row->name);
        for (int n = 0; c.action != CHAIN_END; n++) {
            assert_between(n, 0, ARRAY_LEN(row->replies) - 1);
            assert_int_equal(c.action, n % 2 == 0 ? CHAIN_PATCH : CHAIN_GET);
            enum chain_action next = answer(&c, row->replies[n], n);
            assert_int_equal(next, c.action);
        }
        assert_string_equal(chain_outcome_name(c.outcome), chain_outcome_name(row->outcome));
        assert_int_equal(c.proof_at.ns, AT(row->proof_at).ns);
    }
}

TEST(the_second_patch_is_made_of_the_version_that_the_get_showed)
{
    static const int each[] = {SAME, MOVED, RESTORED};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        const struct lease_view shown = show(each[i], 1);
        struct chain c;
        start(&c);
        (void)answer(&c, CHAIN_CONFLICTS, 0);
        assert_int_equal(answer(&c, each[i], 1), CHAIN_PATCH);
        assert_string_equal(c.version, shown.resource_version);
    }
}
