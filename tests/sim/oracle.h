/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says whether what the readers of the record are told is right. It knows the log of the model API
 * server, the true life of the DPU and what is broken at present, and shares no code with the
 * product: the rules are written anew, from docs/architecture.md. The record is decoded by its own
 * reader, and what dpu-gate says is a text to it.
 */
#ifndef TESTS_SIM_ORACLE_H
#define TESTS_SIM_ORACLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The oracle's own reader of the readiness record, from docs/architecture.md. */
enum { RECORD_READER_TEXT_BYTES = 64 };

struct record_read {
    char state[RECORD_READER_TEXT_BYTES];
    char reason[RECORD_READER_TEXT_BYTES];
    char boot_id[RECORD_READER_TEXT_BYTES];
    char dpu_boot_id[RECORD_READER_TEXT_BYTES];     /* "" if it does not say */
    char dpu_reboot_time[RECORD_READER_TEXT_BYTES]; /* same */
    bool admit;
    int64_t observed_ns;
    int64_t lease_until_ns;
    int64_t writer_until_ns;
    int64_t hold_until_ns;
};

/* What is wrong with it, or NULL. */
const char *record_reader_decode(const char *page, size_t len, struct record_read *out);

enum { ORACLE_FAILURE_BYTES = 700, ORACLE_RULE_BYTES = 24 };

struct oracle_config {
    int64_t interval_ns;
    int64_t duration_ns;
    int64_t stale_hold_ns;
    bool is_companion; /* ovnkube renews, and the DPU's agent must not */
};

/* The truth at a moment. */
struct oracle_truth {
    int64_t now;
    int64_t host_boot_ns; /* the host's boot clock */
    const char *host_boot_id;

    const char *dpu_boot_id;
    bool dpu_runs;    /* all that renews and reports, and gets the CPU */
    bool dpu_healthy; /* the probes would say so */
    bool dpu_link;    /* to the API server */
    bool host_runs;
    bool host_writes; /* its file system takes the record */
    bool host_link;
    bool host_watches;   /* a watch on the lease is open and works */
    bool api_up;         /* for everybody */
    bool api_writes;     /* takes them */
    bool api_forbids;    /* writes to the lease, by the host at least */
    bool api_tells;      /* when it has committed a write, in words that can be read */
    bool api_reads_well; /* what it answers is whole, in time, and of now */
    bool api_lags;       /* reads may show what was long ago */
    bool api_serves_watches;
    bool lease_is_edited;    /* somebody else plays with it: holder, duration, stamps */
    bool host_probe_accuses; /* the host sees by itself that the DPU is gone, which it was not
                                before */
    bool api_server_fails;   /* one of several: new connections reach the others, too */
    bool host_starves;       /* others have the CPU for most of the time */
    bool is_calm;            /* but for that nothing at all is wrong */
};

struct oracle;

struct oracle *oracle_new(const struct oracle_config *config);
void oracle_free(struct oracle *o);

/* From the API server's log: a change of the lease, `who` wrote it; NULL: it is not there. */
void oracle_lease(struct oracle *o, int64_t now, const char *who, const json_t *before,
                  const json_t *after);
/* A request that has arrived there. */
void oracle_request(struct oracle *o, int64_t now, const char *who, const char *method);
/* The host's process began, or the DPU's. `has_record`: the host found a legal one. */
void oracle_started(struct oracle *o, int64_t now, bool is_host, bool has_record);
/* The wall clock of either was set. */
void oracle_clock(struct oracle *o, int64_t now, bool is_host);

/* What is broken, whenever that changes, and at each reading. */
void oracle_look(struct oracle *o, const struct oracle_truth *truth);
/* A reading: the bytes of the record; NULL: there is none. False if a rule is broken. */
bool oracle_read(struct oracle *o, const struct oracle_truth *truth, const char *page, size_t len);
/* What dpu-gate makes of the same bytes at the same time. */
void oracle_gate(struct oracle *o, const struct oracle_truth *truth, bool admits,
                 const char *reason);

/* What the last reading told: its state, or "-" where it was the reader's own judgement; the
 * reason; whether it admits. Borrowed until the next. */
struct oracle_told {
    const char *state;
    const char *reason;
    bool admits;
};
struct oracle_told oracle_told(const struct oracle *o);

enum { ORACLE_TEXT_BYTES = 64, ORACLE_AGENTS = 3, ORACLE_BOOTS = 64 };

/* A bucket: it leaks, and must not run over. */
struct oracle_bucket {
    int64_t at;
    int64_t level_ns;
};

struct oracle {
    struct oracle_config config;
    char failure[ORACLE_FAILURE_BYTES];
    char rule[ORACLE_RULE_BYTES];
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
    int64_t stepped_at;      /* the DPU's clock was set, as far as the host can know */
    int64_t seen_at;         /* the last renewal that the host could see */
    int64_t broken_at;       /* anything at all was wrong */
    int64_t host_down_at;    /* it did not run then, at the latest */
    int64_t host_down_since; /* it does not run, or write, since; 0: it does */
    int64_t writes_since;    /* the host runs and can write the record since; 0: it cannot */
    int64_t passed_at;       /* one API server of several failed */
    int64_t unsure_at;       /* a write may have been committed, and nobody told */
    int64_t accused_at;    /* a host probe of the host said no, or the record of one that is down */
    int64_t accused_since; /* a running host can see it since; 0: it cannot */
    int64_t outage_since;  /* nobody can know anything since; 0: they can */
    bool is_held;          /* ... and the DPU was ready and regular when that began */
    int64_t tried_since;   /* ... past its deadline, with a host that tries; 0: not so */
    int64_t held_until;    /* and then it gets the time of a retry */
    bool is_unwritten;     /* what the host says may not stand in the record */

    char boots[ORACLE_BOOTS][ORACLE_TEXT_BYTES]; /* of the DPU, the oldest first */
    size_t boot_count;
    char renewed_boot[ORACLE_TEXT_BYTES]; /* of an old state that ovnkube renewed, unseen; "" */
    int old_boot_renewals;                /* in a row, under a boot that is over */
    int64_t told_at;                      /* a reboot, last time; 0: none was */
    bool is_clock_set; /* the host's wall clock, since it last told a reboot: stamps may come again
                        */
    bool is_forgotten; /* there was no page, or one of another boot of the host */

    char page[4096];           /* the last one that was legal, */
    struct record_read record; /* and what it says */
    char boot_id[ORACLE_TEXT_BYTES];
    bool was_ready; /* rightly so, in the present series of renewals */
    bool last_admitted;
    char reason[ORACLE_TEXT_BYTES]; /* of the last reading */
};

/* `before` and `now` are pages in a row. */
void oracle_check_boot(struct oracle *o, const struct oracle_truth *t,
                       const struct record_read *before, const struct record_read *now);
void oracle_check(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
                  bool admits);

#endif
