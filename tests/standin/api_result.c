/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api_result.h"

#include "standin/need.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };

void api_result_fini(struct api_result *r)
{
    json_decref(r->body);
    *r = (struct api_result)API_RESULT_INIT;
}

void api_result_ok(struct api_result *r, int code, json_t *body)
{
    json_decref(r->body);
    r->code = code;
    r->body = need(body);
}

static json_t *new_status(int code, const char *reason, const char *message)
{
    json_t *status = need(json_pack("{s:s, s:s, s:{}, s:s, s:s}", "kind", "Status", "apiVersion",
                                    "v1", "metadata", "status", "Failure", "message", message));
    if (reason[0]) {
        (void)json_object_set_new(status, "reason", json_string(reason));
    }
    (void)json_object_set_new(status, "code", json_integer(code));
    return status;
}

bool api_fail(struct api_result *r, int code, const char *reason, const char *fmt, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    api_result_ok(r, code, new_status(code, reason, message));
    return false;
}

bool api_fail_not_found(struct api_result *r, const struct api_kind *kind, const char *name)
{
    char resource[API_NAME_BYTES];
    api_kind_resource(kind, resource);
    return api_fail(r, 404, "NotFound", "%s \"%s\" not found", resource, name);
}

bool api_fail_exists(struct api_result *r, const struct api_kind *kind, const char *name)
{
    char resource[API_NAME_BYTES];
    api_kind_resource(kind, resource);
    return api_fail(r, 409, "AlreadyExists", "%s \"%s\" already exists", resource, name);
}

bool api_fail_conflict(struct api_result *r, const struct api_kind *kind, const char *name,
                       const char *why)
{
    char resource[API_NAME_BYTES];
    api_kind_resource(kind, resource);
    return api_fail(r, 409, "Conflict", "Operation cannot be fulfilled on %s \"%s\": %s", resource,
                    name, why);
}

bool api_fail_invalid(struct api_result *r, const struct api_kind *kind, const char *name,
                      const char *what)
{
    return api_fail(r, 422, "Invalid", "%s%s%s \"%s\" is invalid: %s", kind->kind,
                    kind->group[0] ? "." : "", kind->group, name, what);
}

json_t *api_expired_status(uint64_t asked, uint64_t oldest)
{
    char message[MESSAGE_BYTES];
    (void)snprintf(message, sizeof(message), "too old resource version: %" PRIu64 " (%" PRIu64 ")",
                   asked, oldest);
    return new_status(410, "Expired", message);
}
