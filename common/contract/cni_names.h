/* SPDX-License-Identifier: Apache-2.0 */
/* Names that container runtimes go by. */
#ifndef CONTRACT_CNI_NAMES_H
#define CONTRACT_CNI_NAMES_H

#include <stdbool.h>

/* Whether a runtime takes a file of that name for a CNI configuration: by its ending alone (libcni,
 * ConfFiles), so that a hidden file counts, too. */
bool cni_is_configuration(const char *file);

#endif
