/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl doctor: which link of the chain from the DPU to a pod is broken, and how to mend it. */
#ifndef DPUCTL_DOCTOR_H
#define DPUCTL_DOCTOR_H

int doctor_main(int argc, char **argv);

#endif
