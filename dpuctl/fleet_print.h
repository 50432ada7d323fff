/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet for people and for programs. Whether it could be written is seen by ferror, where a
 * function does not tell. */
#ifndef DPUCTL_FLEET_PRINT_H
#define DPUCTL_FLEET_PRINT_H

#include "base/attr.h"
#include "dpuctl/fleet_reader.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { FLEET_SPAN_BYTES = 32 };

struct fleet_screen {
    bool is_wide;
    bool has_color;
};

bool fleet_shows(enum fleet_filter filter, const struct fleet_row *row);

/* "12s", "4m10s", "3h2m", "5d1h": one word; the sign is dropped. Returns `out`. */
const char *fleet_span(int64_t ns, char out[static FLEET_SPAN_BYTES]);

/* The rows of the filter in columns, and a line that counts them all. */
void fleet_print_table(const struct fleet *fleet, enum fleet_filter filter,
                       struct fleet_screen screen, FILE *out);

/* All that is known of one row, a line each. */
void fleet_print_row(const struct fleet_row *row, struct wall now, FILE *out);

/* docs/dpuctl.md describes both; members are only ever added. Return owned, NULL when out of
 * memory. */
json_t *fleet_json(const struct fleet *fleet, enum fleet_filter filter);
json_t *fleet_row_json(const struct fleet_row *row);

#endif
