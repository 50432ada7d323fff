/* SPDX-License-Identifier: Apache-2.0 */
/* An exclusive flock on a file, as long as it is open: the kernel gives it back when its holder
 * ends, however it ends. */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#include "base/attr.h"
#include "base/err.h"

/* Makes the file if there is none. Never blocks. `*out_fd` is the caller's to close, which unlocks.
 * Errors: ERR_CONFLICT (somebody else holds it), ERR_IO. */
NODISCARD int file_lock(const char *path, int *out_fd, struct err *e);

#endif
