/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/reply.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "cni/cni_version.h"
#include "json/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cni_fail(struct cni_error *error, int code, const char *details, const char *fmt, ...)
{
    char msg[CNI_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap); /* truncation is the bound */
    va_end(ap);
    error->code = code;
    text_sanitize(error->msg, sizeof(error->msg), msg, strlen(msg));
    text_sanitize(error->details, sizeof(error->details), details, strlen(details));
    return code;
}

static int print(const json_t *json, size_t flags)
{
    /* Past this point nobody can be told of a failure but by the exit status. */
    if (!json || json_dumpf(json, stdout, flags) != 0 || fputc('\n', stdout) == EOF ||
        fflush(stdout) != 0) {
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int reply_error(const struct cni_error *error, const char *version)
{
    CLEANUP(json)
    json_t *json =
        json_pack("{s:s, s:i, s:s, s:s*}", "cniVersion", version, "code", error->code, "msg",
                  error->msg, "details", error->details[0] ? error->details : NULL);
    (void)print(json, JSON_INDENT(4)); /* the exit status is 1 in any case */
    return EXIT_FAILURE;
}

int reply_json(const json_t *json)
{
    return print(json, JSON_COMPACT);
}

int reply_versions(void)
{
    CLEANUP(json)
    json_t *json = json_pack("{s:s, s:[]}", "cniVersion", CNI_VERSION_CURRENT, "supportedVersions");
    json_t *list = json_object_get(json, "supportedVersions");
    for (size_t i = 0; list && cni_versions[i]; i++) {
        if (json_array_append_new(list, json_string(cni_versions[i])) != 0) {
            return EXIT_FAILURE;
        }
    }
    return print(json, JSON_COMPACT);
}
