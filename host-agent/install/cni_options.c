/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_options.h"

#include "base/text.h"

#include <string.h>

const char *cni_options_conflist(const struct cni_options *o)
{
    return strcmp(o->source, "05-dpu-gate.conflist") > 0 ? "05-dpu-gate.conflist"
                                                         : "00-dpu-gate.conflist";
}

static bool is_file_name(const char *name)
{
    return !text_is_empty(name) && !strchr(name, '/') && name[0] != '.' && strlen(name) < 200;
}

int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                      struct err *e)
{
    if (o->conf_dir[0] != '/' || strlen(o->conf_dir) > CNI_DIR_MAX_BYTES) {
        return option_refuse(origins, "cni-conf-dir", o->conf_dir, "an absolute path", e);
    }
    if (!is_file_name(o->source)) {
        return option_refuse(origins, "cni-source", o->source,
                             "the name of a file in --cni-conf-dir", e);
    }
    if (strcmp(o->source, cni_options_conflist(o)) <= 0) {
        return option_refuse(
            origins, "cni-source", o->source,
            "a name that sorts behind 00-dpu-gate.conflist, or the runtime would not take "
            "that",
            e);
    }
    return 0;
}
