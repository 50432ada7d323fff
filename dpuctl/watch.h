/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl watch: the readiness of this node, live, as dpu-gate sees it. */
#ifndef DPUCTL_WATCH_H
#define DPUCTL_WATCH_H

int watch_main(int argc, char **argv);

#endif
