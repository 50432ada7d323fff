/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which machine wrote a renewTime, the DPU or this host? ovn-kubernetes' own health check writes
 * one on the host, too, each time that it starts. It names the machine in its User-Agent, and the
 * API server keeps that name in managedFields. What this host wrote is no sign of life of the DPU.
 *
 * A DPU may have the host's name. Its renewals are known by their rhythm: two gaps in a row that
 * are alike and shorter than the lease. A host that is restarted with a back-off has no such
 * rhythm. CORE.
 */
#ifndef HOST_AGENT_RENEWAL_ORIGIN_H
#define HOST_AGENT_RENEWAL_ORIGIN_H

#include "contract/lease.h"

enum { RENEWAL_ORIGIN_HOST_BYTES = 65 }; /* a Linux host name */

struct renewal_origin {
    char host[RENEWAL_ORIGIN_HOST_BYTES]; /* set by the owner; "": nobody can say */
    char uid[NAMES_UID_BYTES];            /* of the lease as last seen; "": none yet */
    char newest[NAMES_STAMP_BYTES];       /* its renewTime */
    struct lease_view dpu;                /* the lease with the newest renewTime of the DPU */
    struct wall host_wrote;               /* the last renewTime in the host's name; 0: none */
    int64_t gap_ns;                       /* between the last two of them; 0: there are no two */
    bool is_same_name;                    /* the DPU has the host's name */
};

/*
 * Replaces a renewTime in `lease` that this host wrote by the DPU's newest one. `writer` is who
 * wrote it by managedFields, or NULL. The first look at a lease is left as it is: it is no renewal.
 * Returns true if this host wrote the renewTime since the last look.
 */
bool renewal_origin_tell(struct renewal_origin *o, struct lease_view *lease, const char *writer);

#endif
