/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table in host-agent/mark.h. */
#include "host-agent/mark.h"

#include "base/text.h"
#include "tests/support/case.h"

#define AT(n) ((struct mono){(n)*NS_PER_SEC})

/* A request's answer: one of enum mark_answer, or our lease as one of these shows it. What is
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
    enum mark_outcome outcome;
    int proof_at; /* the n-th request was sent at n */
};

static const struct row rows[] = {
    {"taken", {MARK_LEASE}, MARK_TAKEN, 0},
    {"a proxy's page", {MARK_GARBLED}, MARK_NONSENSE, 0},
    {"renewed: 409", {MARK_CONFLICTS, RENEWED}, MARK_CONFLICT, 1},
    {"renewed: no answer", {MARK_NO_ANSWER, RENEWED}, MARK_CONFLICT, 1},
    {"renewed: 500", {MARK_FAILS, RENEWED}, MARK_CONFLICT, 1},
    {"renewed: 403", {MARK_FORBIDS, RENEWED}, MARK_CONFLICT, 1},
    {"renewed: who knows the order?", {MARK_CONFLICTS, OPAQUE}, MARK_CONFLICT, 1},
    {"made anew", {MARK_NOT_FOUND, OTHER_LEASE}, MARK_CONFLICT, 1},
    {"only the answer was lost", {MARK_NO_ANSWER, OURS}, MARK_TAKEN, 0},
    {"500, and yet taken", {MARK_FAILS, OURS}, MARK_TAKEN, 0},
    {"409 to the client's own retry", {MARK_CONFLICTS, OURS}, MARK_TAKEN, 0},
    {"a policy of today", {MARK_FORBIDS, SAME}, MARK_DENIED, 1},
    {"takes no writes", {MARK_FAILS, SAME}, MARK_REFUSED, 1},
    {"somebody touched it", {MARK_CONFLICTS, MOVED, MARK_LEASE}, MARK_TAKEN, 2},
    {"somebody writes all the time", {MARK_CONFLICTS, SAME, MARK_CONFLICTS, MOVED}, MARK_TAKEN, 0},
    {"not answered", {MARK_NO_ANSWER, SAME}, MARK_UNANSWERED, 0},
    {"not answered, and touched", {MARK_NO_ANSWER, MOVED}, MARK_UNANSWERED, 0},
    {"touched, then not answered",
     {MARK_CONFLICTS, MOVED, MARK_NO_ANSWER, MOVED},
     MARK_UNANSWERED,
     0},
    {"touched, then the answer was lost",
     {MARK_CONFLICTS, MOVED, MARK_NO_ANSWER, OURS},
     MARK_TAKEN,
     0},
    {"409 without a reason", {MARK_CONFLICTS, SAME, MARK_CONFLICTS, SAME}, MARK_CONFLICT, 3},
    {"404 of what is there", {MARK_NOT_FOUND, SAME, MARK_NOT_FOUND, SAME}, MARK_CONFLICT, 3},
    {"touched, then denied", {MARK_CONFLICTS, MOVED, MARK_FORBIDS, MOVED}, MARK_DENIED, 3},
    {"touched, then refused", {MARK_CONFLICTS, MOVED, MARK_FAILS, MOVED}, MARK_REFUSED, 3},
    {"restored, and nobody renewed", {MARK_CONFLICTS, RESTORED, MARK_LEASE}, MARK_TAKEN, 2},
    {"gone", {MARK_NOT_FOUND, MARK_NOT_FOUND}, MARK_ABSENT, 1},
    {"gone and forbidden", {MARK_FORBIDS, MARK_NOT_FOUND}, MARK_ABSENT, 1},
    {"unreadable", {MARK_FAILS, MARK_GARBLED}, MARK_NONSENSE, 1},
    {"no way there", {MARK_UNSENT}, MARK_LOST, 0},
    {"no way there any more", {MARK_CONFLICTS, SAME, MARK_UNSENT}, MARK_LOST, 2},
    {"no way back", {MARK_FAILS, MARK_UNSENT}, MARK_LOST, 1},
    {"cut off", {MARK_NO_ANSWER, MARK_NO_ANSWER}, MARK_LOST, 1},
    {"cut off after 409", {MARK_CONFLICTS, MARK_NO_ANSWER}, MARK_LOST, 1},
    {"nothing about the lease", {MARK_FORBIDS, MARK_FORBIDS}, MARK_LOST, 1},
    {"fails at all", {MARK_FAILS, MARK_FAILS}, MARK_LOST, 1},
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
static enum mark_action answer(struct mark *m, int reply, int n)
{
    const struct lease_view lease = show(reply, n);
    enum mark_answer is = reply >= SAME ? MARK_LEASE : (enum mark_answer)reply;
    return mark_step(m, is, is == MARK_LEASE ? &lease : NULL, reply == OURS, AT(n));
}

static void start(struct mark *m)
{
    const struct lease_view lease = judged();
    mark_start(m, &lease, AT(0));
    assert_int_equal(m->action, MARK_PATCH);
    assert_string_equal(m->version, "10");
}

TEST(each_pair_of_answers_has_its_outcome)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct mark m;
        start(&m);
        print_message("%s\n", row->name);
        for (int n = 0; m.action != MARK_END; n++) {
            assert_between(n, 0, ARRAY_LEN(row->replies) - 1);
            assert_int_equal(m.action, n % 2 == 0 ? MARK_PATCH : MARK_GET);
            enum mark_action next = answer(&m, row->replies[n], n);
            assert_int_equal(next, m.action);
        }
        assert_string_equal(mark_outcome_name(m.outcome), mark_outcome_name(row->outcome));
        assert_int_equal(m.proof_at.ns, AT(row->proof_at).ns);
    }
}

TEST(the_second_patch_is_made_of_the_version_that_the_get_showed)
{
    static const int each[] = {SAME, MOVED, RESTORED};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        const struct lease_view shown = show(each[i], 1);
        struct mark m;
        start(&m);
        (void)answer(&m, MARK_CONFLICTS, 0);
        assert_int_equal(answer(&m, each[i], 1), MARK_PATCH);
        assert_string_equal(m.version, shown.resource_version);
    }
}
