/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/audit.h"

#include "base/clock.h"
#include "base/rfc3339.h"
#include "standin/need.h"

#include <stdlib.h>

void audit_init(struct audit *a)
{
    *a = (struct audit){.counters = need(json_object())};
}

void audit_fini(struct audit *a)
{
    if (a->file) {
        (void)fclose(a->file); /* each line was flushed */
    }
    json_decref(a->counters);
}

void audit_reset(struct audit *a)
{
    (void)json_object_clear(a->counters);
}

static void count(struct audit *a, const struct audit_entry *e, const char *resource)
{
    char key[4 * API_NAME_BYTES];
    (void)snprintf(key, sizeof(key), "%s %s %s %d", e->user, api_verb_name(e->target->verb),
                   resource, e->code);
    json_int_t before = json_integer_value(json_object_get(a->counters, key));
    (void)json_object_set_new(a->counters, key, json_integer(before + 1));
}

void audit_write(struct audit *a, const struct audit_entry *e)
{
    char when[RFC3339_BYTES];
    const char *resource = e->target->kind ? e->target->kind->plural : "";
    count(a, e, resource);
    if (!a->file) {
        return;
    }
    rfc3339_format_micro(clock_wall_now(), when);
    json_t *line = need(json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:I}",
                                  "bootNs", (json_int_t)clock_mono_now().ns, "time", when, "user",
                                  e->user, "verb", api_verb_name(e->target->verb), "resource",
                                  resource, "namespace", e->target->ns, "name", e->target->name,
                                  "path", e->path, "code", e->code, "reason", e->reason, "fault",
                                  e->fault ? e->fault : "", "conn", (json_int_t)e->conn));
    char *text = need(json_dumps(line, JSON_COMPACT));
    (void)fprintf(a->file, "%s\n", text); /* a full disk shows in the tests */
    (void)fflush(a->file);
    free(text);
    json_decref(line);
}
