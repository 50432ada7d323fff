/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the oracle share; see oracle.h. */
#ifndef TESTS_SIM_ORACLE_INTERNAL_H
#define TESTS_SIM_ORACLE_INTERNAL_H

#include "tests/sim/oracle.h"
#include "tests/sim/record_reader.h"

enum { ORACLE_TEXT_BYTES = 64, ORACLE_AGENTS = 3, ORACLE_BOOTS = 64 };

#define ORACLE_SEC INT64_C(1000000000)
#define ORACLE_MS  INT64_C(1000000)
/* A renewal or an answer, from one agent to the other, with both awake and nothing broken. */
#define ORACLE_LATENCY_NS (250 * ORACLE_MS)
/* A record that could not be written is tried again each second. */
#define ORACLE_REWRITE_NS (ORACLE_SEC + ORACLE_LATENCY_NS)

/* A bucket: it leaks, and must not run over. */
struct oracle_bucket {
    int64_t at;
    int64_t level_ns;
};

struct oracle {
    struct oracle_config config;
    char failure[ORACLE_FAILURE_BYTES];
    char rule[ORACLE_RULE_BYTES];
    uint64_t renewals;
    uint64_t flips;
    uint64_t requests;
    struct oracle_bucket all[ORACLE_AGENTS];
    struct oracle_bucket writes[ORACLE_AGENTS];

    /* The lease. */
    char uid[ORACLE_TEXT_BYTES];
    char stamp[ORACLE_TEXT_BYTES]; /* of the DPU's last renewal */
    int64_t renewed_at;            /* the last renewal of any kind; 0: none */
    int64_t counted_at;      /* the last that counts for whoever has seen the one before ... */
    int64_t before_at;       /* ... which was then */
    int64_t regular_since;   /* no gap between renewals since */
    int64_t forbidden_since; /* 0: the host may write the lease */
    int64_t edited_at;       /* somebody else played with it */
    int64_t longest_ns;      /* duration that stood on it since it was last in order */
    int64_t shortest_ns;     /* since the last renewal that counts; no longer than ours */
    bool is_reported;        /* the DPU says on it that it is not well */
    int64_t reported_since;
    int64_t reported_at; /* it last stood there */
    char report_stamp[ORACLE_TEXT_BYTES];
    int64_t report_renewed_at; /* that changed */
    int64_t gone_at;           /* it was last deleted, or went back */

    /* The newest moment at which ... */
    int64_t blind_at;        /* the host could have no evidence */
    int64_t murky_at;        /* it had no watch */
    int64_t stepped_at;      /* the DPU's clock was set */
    int64_t broken_at;       /* anything at all was wrong */
    int64_t host_down_at;    /* it did not run then, at the latest */
    int64_t host_down_since; /* it does not run, or write, since; 0: it does */
    int64_t writes_since;    /* the host runs and can write the record since; 0: it cannot */
    int64_t unsure_at;       /* a write may have been committed, and nobody told */
    int64_t accused_at;    /* a host probe of the host said no, or the record of one that is down */
    int64_t accused_since; /* a running host can see it since; 0: it cannot */
    int64_t outage_since;  /* nobody can know anything since; 0: they can */
    bool is_held;          /* ... and the DPU was ready and regular when that began */
    bool is_unwritten;     /* what the host says may not stand in the record */

    char boots[ORACLE_BOOTS][ORACLE_TEXT_BYTES]; /* of the DPU, the oldest first */
    size_t boot_count;
    bool is_forgotten; /* there was no page, or one of another boot of the host */

    char page[4096];           /* the last one that was legal, */
    struct record_read record; /* and what it says */
    char boot_id[ORACLE_TEXT_BYTES];
    bool was_ready; /* rightly so, in the present series of renewals */
    bool last_admitted;
    char reason[ORACLE_TEXT_BYTES]; /* of the last reading */
};

void oracle_fail(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
                 const char *rule, const char *what);
bool oracle_is_regular(const struct oracle *o, int64_t now);

/* oracle_rules.c */
/* `before` and `now` are pages in a row. */
void oracle_check_boot(struct oracle *o, const struct oracle_truth *t,
                       const struct record_read *before, const struct record_read *now);
void oracle_check(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
                  bool admits);

#endif
