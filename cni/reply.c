/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/reply.h"

#include "base/json.h"
#include "base/text.h"
#include "cni/cni_version.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An error's texts, of which each byte may need an escape of two, and what is around them. */
enum { REPLY_BYTES = 2 * (CNI_MSG_BYTES + CNI_DETAILS_BYTES) + 1024 };

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

static bool put(const char *bytes, size_t len)
{
    return fwrite(bytes, 1, len, stdout) == len;
}

/* Past this point nobody can be told of a failure but by the exit status. */
static int finish(bool is_put)
{
    return fflush(stdout) == 0 && is_put ? EXIT_SUCCESS : EXIT_FAILURE;
}

int reply_bytes(const char *bytes, size_t len)
{
    return finish(put(bytes, len));
}

int reply_error(const struct cni_error *error, const char *version)
{
    char json[REPLY_BYTES] = "";
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_raw(&w, "{\n    \"cniVersion\": ");
    json_put_text(&w, version);
    json_put_raw(&w, ",\n    \"code\": ");
    json_put_i64(&w, error->code);
    json_put_raw(&w, ",\n    \"msg\": ");
    json_put_text(&w, error->msg);
    if (error->details[0] != '\0') {
        json_put_raw(&w, ",\n    \"details\": ");
        json_put_text(&w, error->details);
    }
    json_put_raw(&w, "\n}\n");
    (void)reply_bytes(json, w.used); /* the exit status is 1 in any case */
    return EXIT_FAILURE;
}

int reply_result(struct json_slice result, const char *version)
{
    char head[REPLY_BYTES] = "";
    struct json_writer w = {.out = head, .max_bytes = sizeof(head)};
    struct json_slice found;
    struct json_slice key;
    struct json_slice value;
    if (json_scan_field(result, "cniVersion", &found) && found.len > sizeof("\"\"") - 1) {
        return finish(put(result.at, result.len) && put("\n", 1));
    }
    json_put_raw(&w, "{\"cniVersion\":");
    json_put_text(&w, version);
    bool is_put = put(head, w.used);
    struct json_walk walk = json_walk_start(result);
    while (is_put && json_walk_next(&walk, &key, &value)) {
        is_put = json_scan_folds(key, "cniVersion") ||
                 (put(",", 1) && put(key.at, key.len) && put(":", 1) && put(value.at, value.len));
    }
    return finish(is_put && put("}\n", 2));
}

int reply_versions(void)
{
    char json[REPLY_BYTES] = "";
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_raw(&w, "{\"cniVersion\":\"" CNI_VERSION_CURRENT "\",\"supportedVersions\":[");
    for (size_t i = 0; cni_versions[i]; i++) {
        json_put_raw(&w, i > 0 ? "," : "");
        json_put_text(&w, cni_versions[i]);
    }
    json_put_raw(&w, "]}\n");
    return reply_bytes(json, w.used);
}
