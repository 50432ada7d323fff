/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/cni_names.h"

#include "base/text.h"

#include <string.h>

bool cni_is_configuration(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot &&
           (text_equal(dot, ".conf") || text_equal(dot, ".conflist") || text_equal(dot, ".json"));
}
