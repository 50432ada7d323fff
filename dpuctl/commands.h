/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of dpuctl. argv[0] is the last word of the command; each returns the exit status. */
#ifndef DPUCTL_COMMANDS_H
#define DPUCTL_COMMANDS_H

/* Is the DPU of this node ready, and how is that known? */
int status_main(int argc, char **argv);
/* The same of another node, argv[1], as the API server tells of it. */
int status_of_node(int argc, char **argv);
/* Every DPU of the cluster. */
int nodes_main(int argc, char **argv);
/* The readiness of this node, live, as dpu-gate sees it. */
int watch_main(int argc, char **argv);
/* Which link of the chain from the DPU to a pod is broken, and how to mend it. */
int doctor_main(int argc, char **argv);
/* Which pods of this node have lost their network, and what follows? */
int pods_main(int argc, char **argv);
/* Plays the kubelet's part against a DRA plugin and shows what it would know: registers, opens the
 * health stream, keeps the cache of dra_cache.h, tries again when the stream ends. */
int dra_watch_main(int argc, char **argv);

#endif
