/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/micro_time.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FRACTION_DIGITS = 6 };

static const char LAYOUT[] = "2006-01-02T15:04:05.000000Z07:00";
static const int64_t ZERO_TIME_S = -62135596800; /* 0001-01-01T00:00:00Z, Go's zero */

struct parser {
    const char *text; /* all of it */
    const char *at;
    char *fault; /* MICRO_TIME_FAULT_BYTES; "" while all is well */
};

static void refuse(struct parser *p, const char *element)
{
    if (p->fault[0] == '\0') {
        (void)snprintf(p->fault, MICRO_TIME_FAULT_BYTES,
                       "parsing time \"%.120s\" as \"%s\": cannot parse \"%.120s\" as \"%s\"",
                       p->text, LAYOUT, p->at, element);
    }
}

static void refuse_range(struct parser *p, const char *what)
{
    if (p->fault[0] == '\0') {
        (void)snprintf(p->fault, MICRO_TIME_FAULT_BYTES, "parsing time \"%.120s\": %s out of range",
                       p->text, what);
    }
}

/* Between `min_digits` and `max_digits` digits. */
static int take_number(struct parser *p, int min_digits, int max_digits, const char *element)
{
    int value = 0;
    int count = 0;
    while (count < max_digits && isdigit((unsigned char)p->at[count])) {
        value = value * 10 + (p->at[count] - '0');
        count++;
    }
    if (count < min_digits) {
        refuse(p, element);
        return 0;
    }
    p->at += p->fault[0] ? 0 : count;
    return value;
}

static void take_literal(struct parser *p, const char *literal)
{
    if (strncmp(p->at, literal, strlen(literal)) != 0) {
        refuse(p, literal);
    } else if (p->fault[0] == '\0') {
        p->at += strlen(literal);
    }
}

static void check_range(struct parser *p, int value, int min, int max, const char *what)
{
    if (value < min || value > max) {
        refuse_range(p, what);
    }
}

static int take_fraction(struct parser *p)
{
    if ((*p->at != '.' && *p->at != ',') || !isdigit((unsigned char)p->at[1])) {
        refuse(p, ".000000");
        return 0;
    }
    const char *start = p->at++;
    int micros = take_number(p, FRACTION_DIGITS, FRACTION_DIGITS, ".000000");
    if (p->fault[0] && p->at == start + 1) {
        p->at = start; /* Go shows the point as well */
        p->fault[0] = '\0';
        refuse(p, ".000000");
    }
    return micros;
}

/* Seconds east of UTC. */
static int take_zone(struct parser *p)
{
    if (*p->at == 'Z') {
        p->at++;
        return 0;
    }
    const char *z = p->at;
    bool shaped = (z[0] == '+' || z[0] == '-') && isdigit((unsigned char)z[1]) &&
                  isdigit((unsigned char)z[2]) && z[3] == ':' && isdigit((unsigned char)z[4]) &&
                  isdigit((unsigned char)z[5]);
    if (!shaped) {
        refuse(p, "Z07:00");
        return 0;
    }
    int hours = (z[1] - '0') * 10 + (z[2] - '0');
    int minutes = (z[4] - '0') * 10 + (z[5] - '0');
    check_range(p, hours, 0, 24, "time zone offset hour");
    check_range(p, minutes, 0, 60, "time zone offset minute");
    p->at += 6;
    return (z[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
}

static int days_in(int month, int year)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : DAYS[(month + 11) % 12];
}

static struct tm take_date_time(struct parser *p)
{
    struct tm t = {0};
    t.tm_year = take_number(p, 4, 4, "2006");
    take_literal(p, "-");
    t.tm_mon = take_number(p, 2, 2, "01");
    check_range(p, t.tm_mon, 1, 12, "month");
    take_literal(p, "-");
    t.tm_mday = take_number(p, 2, 2, "02");
    take_literal(p, "T");
    t.tm_hour = take_number(p, 1, 2, "15");
    check_range(p, t.tm_hour, 0, 23, "hour");
    take_literal(p, ":");
    t.tm_min = take_number(p, 2, 2, "04");
    check_range(p, t.tm_min, 0, 59, "minute");
    take_literal(p, ":");
    t.tm_sec = take_number(p, 2, 2, "05");
    check_range(p, t.tm_sec, 0, 59, "second");
    return t;
}

int micro_time_decode(const char *text, char out_utc[static MICRO_TIME_BYTES],
                      char out_fault[static MICRO_TIME_FAULT_BYTES])
{
    struct parser p = {.text = text, .at = text, .fault = out_fault};
    out_fault[0] = '\0';
    struct tm t = take_date_time(&p);
    int micros = out_fault[0] ? 0 : take_fraction(&p);
    int east_s = out_fault[0] ? 0 : take_zone(&p);
    if (out_fault[0] == '\0' && *p.at != '\0') {
        (void)snprintf(out_fault, MICRO_TIME_FAULT_BYTES,
                       "parsing time \"%.120s\": extra text: \"%.120s\"", text, p.at);
    }
    if (out_fault[0] == '\0') {
        check_range(&p, t.tm_mday, 1, days_in(t.tm_mon, t.tm_year), "day");
    }
    if (out_fault[0]) {
        return ERR_PARSE;
    }
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    time_t seconds = timegm(&t) - east_s;
    if (seconds == ZERO_TIME_S && micros == 0) {
        out_utc[0] = '\0';
        return 0;
    }
    (void)gmtime_r(&seconds, &t);
    (void)snprintf(out_utc, MICRO_TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ",
                   t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec,
                   micros);
    return 0;
}
