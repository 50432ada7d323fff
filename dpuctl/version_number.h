/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of other programs, to be compared. Pure. */
#ifndef DPUCTL_VERSION_NUMBER_H
#define DPUCTL_VERSION_NUMBER_H

#include <stdint.h>

/* Of "2.0.3", "v1.34.1" or "1.7.27-0ubuntu1": greater for a later version; what follows the third
 * part does not count. 0 for NULL and for what has not three parts of one to five digits. */
int64_t version_number(const char *text);

#endif
