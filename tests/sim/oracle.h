/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says whether what the readers of the record are told is right. It knows the log of the model API
 * server, the true life of the DPU and what is broken at present, and shares no code with the
 * product: the rules are written anew, from docs/architecture.md. The record is decoded by its own
 * reader (record_reader.h), and what dpu-gate says is a text to it.
 */
#ifndef TESTS_SIM_ORACLE_H
#define TESTS_SIM_ORACLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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
    bool api_tells;      /* when it has committed a write */
    bool api_reads_well; /* what it answers is whole, in time, and of now */
    bool api_lags;       /* reads may show what was long ago */
    bool api_serves_watches;
    bool lease_is_edited;    /* somebody else plays with it: holder, duration, stamps */
    bool host_probe_accuses; /* the host sees by itself that the DPU is gone, which it was not
                                before */
    bool is_calm;            /* nothing at all is wrong */
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

/* "" while all is well. */
const char *oracle_failure(const struct oracle *o);
const char *oracle_rule(const struct oracle *o);
uint64_t oracle_renewals(const struct oracle *o);
uint64_t oracle_flips(const struct oracle *o);
uint64_t oracle_requests(const struct oracle *o);

#endif
