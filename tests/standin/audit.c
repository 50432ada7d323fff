/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/audit.h"

#include "base/clock.h"
#include "base/time.h"
#include "standin/need.h"

#include <stdlib.h>

void audit_init(struct audit *a)
{
    *a = (struct audit){.file = NULL};
}

void audit_fini(struct audit *a)
{
    if (a->file) {
        (void)fclose(a->file); /* each line was flushed */
    }
}

void audit_write(struct audit *a, const struct audit_entry *e)
{
    char when[RFC3339_BYTES];
    const char *resource = e->target->kind ? e->target->kind->plural : "";
    if (!a->file) {
        return;
    }
    rfc3339_format_micro(clock_wall_now(), when);
    json_t *line = need(json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:I, s:I}", "bootNs",
        (json_int_t)clock_mono_now().ns, "time", when, "user", e->user, "verb",
        api_verb_name(e->target->verb), "resource", resource, "namespace", e->target->ns, "name",
        e->target->name, "path", e->path, "code", e->code, "reason", e->reason, "fault",
        e->fault ? e->fault : "", "conn", (json_int_t)e->conn, "bytes", (json_int_t)e->bytes));
    char *text = need(json_dumps(line, JSON_COMPACT));
    (void)fprintf(a->file, "%s\n", text); /* a full disk shows in the tests */
    (void)fflush(a->file);
    free(text);
    json_decref(line);
}
