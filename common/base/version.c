/* SPDX-License-Identifier: Apache-2.0 */
#include "base/version.h"

#include "base/build_commit.h" /* made by cmake/Commit.cmake */

const char *version_text(void)
{
    return DPU_COMMIT[0] == '\0' ? DPU_VERSION : DPU_VERSION " (commit " DPU_COMMIT ")";
}
