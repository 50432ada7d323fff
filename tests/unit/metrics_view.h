/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a metrics page back, and holds all of it to the rules of the text format. */
#ifndef TESTS_UNIT_METRICS_VIEW_H
#define TESTS_UNIT_METRICS_VIEW_H

#include "loop/metrics.h"
#include "tests/support/case.h"

enum { VIEW_NAME_BYTES = 512 };

/* The text after "NAME " or "NAME{LABELS} " of the one line that begins so; NULL if none does. */
static inline const char *view_find(const struct buf *page, const char *sample)
{
    const char *found = NULL;
    size_t len = strlen(sample);
    for (const char *line = buf_text(page); *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, sample, len) == 0 && line[len] == ' ') {
            assert_null(found); /* no sample twice */
            found = line + len + 1;
        }
    }
    return found;
}

/* The value of a sample without the common prefix, like `readiness_admit`. */
static inline double view_value(const struct buf *page, const char *sample)
{
    char name[VIEW_NAME_BYTES];
    (void)snprintf(name, sizeof(name), "dpu_heartbeat_%s", sample);
    const char *text = view_find(page, name);
    if (!text) {
        fail_msg("no sample %s in\n%s", name, buf_text(page));
    }
    return strtod(text, NULL);
}

static inline bool view_has(const struct buf *page, const char *sample)
{
    char name[VIEW_NAME_BYTES];
    (void)snprintf(name, sizeof(name), "dpu_heartbeat_%s", sample);
    return view_find(page, name) != NULL;
}

/* The sum over all label sets of a family. */
static inline double view_sum(const struct buf *page, const char *family)
{
    char start[VIEW_NAME_BYTES];
    double sum = 0;
    (void)snprintf(start, sizeof(start), "dpu_heartbeat_%s{", family);
    for (const char *line = buf_text(page); *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, start, strlen(start)) == 0) {
            sum += strtod(strstr(line, "} ") + 2, NULL);
        }
    }
    return sum;
}

/* HELP, TYPE and samples of a family stand together; each has its help as a sentence; counters and
 * only they end in _total. */
static inline void view_check(const struct buf *page)
{
    char family[VIEW_NAME_BYTES] = "";
    char type[32] = "";
    const char *line = buf_text(page);
    for (; *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        if (strncmp(line, "# HELP ", 7) == 0) {
            size_t len = strcspn(line + 7, " ");
            char again[VIEW_NAME_BYTES + 16];
            assert_true(len < sizeof(family) && end[-1] == '.');
            memcpy(family, line + 7, len);
            family[len] = '\0';
            (void)snprintf(again, sizeof(again), "# HELP %s ", family);
            assert_null(strstr(end, again)); /* no family twice */
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            size_t len = strlen(family);
            assert_memory_equal(line + 7, family, len);
            size_t type_len = strcspn(line + 8 + len, "\n");
            assert_true(type_len < sizeof(type));
            memcpy(type, line + 8 + len, type_len);
            type[type_len] = '\0';
            bool is_total = len > 6 && strcmp(family + len - 6, "_total") == 0;
            assert_int_equal(is_total, strcmp(type, "counter") == 0);
        } else {
            size_t len = strcspn(line, "{ ");
            size_t family_len = strlen(family);
            assert_true(family_len > 0 && len >= family_len);
            assert_memory_equal(line, family, family_len);
            assert_true(len == family_len || strcmp(type, "histogram") == 0);
        }
    }
}

#endif
