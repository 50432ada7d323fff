/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands install-cni and uninstall-cni of dpu-host-agent. */
#ifndef INSTALL_CNI_COMMANDS_H
#define INSTALL_CNI_COMMANDS_H

#include <stdbool.h>

/* Runs the subcommand that argv[1] names; false if it names none. */
bool cni_commands_run(int argc, char **argv, char **env, int *exit_status);

#endif
