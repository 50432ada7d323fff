/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_options.h"

#include "base/text.h"

#include <string.h>

static int refuse(const struct option_origins *origins, const char *name, const char *value,
                  const char *allowed, struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    char shown[64];
    text_sanitize(shown, sizeof(shown), value, strlen(value));
    option_describe_origin(origins, name, from);
    return err_set(e, ERR_PARSE, "%s: '%s' is not usable; allowed: %s", from, shown, allowed);
}

static bool ends_with(const char *text, const char *tail)
{
    size_t len = strlen(text);
    size_t tail_len = strlen(tail);
    return len > tail_len && strcmp(text + len - tail_len, tail) == 0;
}

static bool is_file_name(const char *name)
{
    return !text_is_empty(name) && !strchr(name, '/') && name[0] != '.' && strlen(name) < 200;
}

int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                      struct err *e)
{
    if (o->conf_dir[0] != '/' || strlen(o->conf_dir) > 2048) {
        return refuse(origins, "cni-conf-dir", o->conf_dir, "an absolute path", e);
    }
    if (!is_file_name(o->source)) {
        return refuse(origins, "cni-source", o->source, "the name of a file in --cni-conf-dir", e);
    }
    if (!is_file_name(o->conflist) || !ends_with(o->conflist, ".conflist")) {
        return refuse(origins, "cni-conflist", o->conflist,
                      "the name of a file in --cni-conf-dir that ends in .conflist", e);
    }
    if (strcmp(o->conflist, o->source) >= 0) {
        return refuse(origins, "cni-conflist", o->conflist,
                      "a name that sorts before --cni-source, or the runtime would not take it", e);
    }
    return 0;
}
