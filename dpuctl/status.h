/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl status: is the DPU of this node ready, and how is that known? */
#ifndef DPUCTL_STATUS_H
#define DPUCTL_STATUS_H

int status_main(int argc, char **argv);

#endif
