/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may go wrong, as a list: drawn from a seed or written down as text, several at once, each
 * healed at a time of its own. A list that fails can be made shorter.
 */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include "tests/sim/world.h"

enum { FAULTS_MAX = 96, FAULTS_TEXT_BYTES = 8192 };

/* The name of each is in faults.c. */
enum fault_kind {
    FAULT_API_DOWN,     /* for everybody; the parameter tells how, as for the next two */
    FAULT_HOST_CUT,     /* the host cannot reach it */
    FAULT_DPU_CUT,      /* nor the DPU */
    FAULT_NO_WRITES,    /* it reads only: etcd is full */
    FAULT_NO_WATCHES,   /* list and watch fail, reads do not */
    FAULT_WATCH_STUCK,  /* what is open goes silent */
    FAULT_WATCH_DENIED, /* 403 on list and watch */
    FAULT_COMPACTION,   /* 410 once */
    FAULT_GONE,         /* 410 on each watch */
    FAULT_RESTORE,      /* etcd comes back as it was: versions and leases go back */
    FAULT_WEBHOOK,      /* what is written to the lease is changed */
    FAULT_SLOW,         /* answers take seconds */
    FAULT_HOST_SLOW,    /* the host's server is far away, or busy: each of its requests takes a part
                           of an interval, the same each time */
    FAULT_DPU_SLOW,     /* so do the DPU's, while the host's do not */
    FAULT_GARBAGE,      /* answers cannot be read */
    FAULT_LOST_ANSWERS, /* a write is committed, and nobody says so */
    FAULT_STALE,        /* reads come from a server that lags behind */
    FAULT_THROTTLED,    /* 429 with Retry-After */
    FAULT_UNAUTHORIZED, /* 401 or 403 for the host */
    FAULT_TOUCHES, /* upstream's host writes renewTime, and somebody edits the lease again and again
                    */
    FAULT_DELETE,  /* the lease is deleted */
    FAULT_NEW_NODE,      /* the Node is made anew, and its lease collected */
    FAULT_FOREIGN,       /* somebody else holds the lease, and renews it */
    FAULT_HOSTILE,       /* nonsense on the lease */
    FAULT_DPU_DEAD,      /* killed; started again at the end */
    FAULT_DPU_STOPPED,   /* SIGSTOP */
    FAULT_DPU_UNHEALTHY, /* its probes fail */
    FAULT_DPU_SHUTDOWN,  /* SIGTERM; started again at the end */
    FAULT_DPU_CLOCK,     /* its wall clock steps */
    FAULT_HOST_DEAD,
    FAULT_HOST_STOPPED,
    FAULT_HOST_SUSPEND,
    FAULT_HOST_REBOOT,
    FAULT_HOST_CLOCK,
    FAULT_SECOND_HOST,  /* another host agent keeps the same lease with other options */
    FAULT_WRITE_DENIED, /* 403 or 422 on writes to leases, for all or for the host alone */
    FAULT_RECORD_LOST,  /* the record is removed */
    FAULT_DPU_REBOOT,   /* it comes back, with another boot id, at the end */
    FAULT_HOST_PROBE,   /* the host sees by itself that the DPU is gone */
    FAULT_FILES,        /* the record cannot be written (below) */
    FAULT_STARVED,      /* the host's agents, the DPU's, or all, get the CPU now and then only */
    FAULT_UNSURE,       /* 504, and the write may have been committed */
    FAULT_SERVER,       /* one of the API servers fails or lags, whatever its connections ask */
    FAULT_KINDS
};

struct fault {
    enum fault_kind kind;
    int64_t at;
    int64_t until;
    int64_t param; /* of its kind; 0 to 999 */
};

struct fault_list {
    struct fault items[FAULTS_MAX];
    size_t count;
};

/* The lengths that matter are around these two. */
void faults_draw(struct fault_list *list, uint64_t seed, int64_t interval_ns, int64_t duration_ns,
                 int64_t end);
/* "name@START+LENGTH:PARAM ...", seconds; the inverse returns false for a word it does not know. */
void faults_print(const struct fault_list *list, char out[static FAULTS_TEXT_BYTES]);
bool faults_parse(const char *text, struct fault_list *out);

/* Plans all of them in the world. The list outlives it. */
void faults_plan(const struct fault_list *list);

/* One of this kind is there now. */
bool faults_on(enum fault_kind kind);
/* It met something that it changed: counts that. */
void faults_struck(enum fault_kind kind);
bool faults_are_over(void); /* none of any kind */
/* Its parameter; 0 if there is none. */
int64_t faults_param(enum fault_kind kind);
int64_t faults_began(enum fault_kind kind); /* the last one of its kind */
bool faults_are_but(enum fault_kind kind);  /* there is none of any other kind */

/* A file system that fails the agents of the host (FAULT_FILES), in one of these ways. */
enum seam_file_fault {
    SEAM_FILE_NONE,
    SEAM_FILE_FULL,      /* nothing new can be made; what is there can be rewritten */
    SEAM_FILE_READ_ONLY, /* not even that */
    SEAM_FILE_BROKEN,    /* reads fail, too */
    SEAM_FILE_SHORT,     /* only a part of what is written arrives: the page is torn */
};

enum seam_file_fault seam_file_fault(void);

#endif
