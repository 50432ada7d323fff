/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes readiness records with the code that ships, for tests in other languages.
 *
 *     record-tool encode [KEY=VALUE]...     prints a page
 *
 * Keys: state, admit, reason, message, node, boot-id, pid, duration (seconds); observed, valid,
 * writer and hold are points in time: seconds from now ("-3", "37.5"), "never" or, for observed,
 * "none". Without any key: a DPU of this boot that renewed its 40 s lease a second ago.
 */
#include "base/clock.h"
#include "base/text.h"
#include "contract/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse_time(const char *value, struct mono now, struct mono *out, struct err *e)
{
    int64_t span_ns;
    if (text_equal(value, "never")) {
        *out = MONO_NEVER;
        return 0;
    }
    if (text_equal(value, "none")) {
        *out = (struct mono){0};
        return 0;
    }
    int rc = text_to_duration_ns(value, strlen(value), &span_ns, e);
    if (rc == 0) {
        struct mono after_boot = {1}; /* a machine that has just started has no long past */
        *out = mono_max(mono_add(now, span_ns), after_boot);
    }
    return rc;
}

static int parse_number(const char *value, uint32_t *out, struct err *e)
{
    uint64_t number;
    int rc = text_to_u64(value, strlen(value), &number, e);
    if (rc == 0 && number > INT32_MAX) {
        return err_set(e, ERR_LIMIT, "'%s' is too large", value);
    }
    if (rc == 0) {
        *out = (uint32_t)number;
    }
    return rc;
}

static int parse_word(const char *key, const char *value, struct readiness *v, struct err *e)
{
    bool known = true;
    if (text_equal(key, "state")) {
        known = readiness_state_from_name(value, &v->state);
    } else if (text_equal(key, "reason")) {
        known = readiness_reason_from_name(value, &v->reason);
    } else if (text_equal(key, "admit")) {
        v->admit = text_equal(value, "true");
        known = v->admit || text_equal(value, "false");
    } else {
        return err_set(e, ERR_PARSE, "there is no key '%s'", key);
    }
    return known ? 0 : err_set(e, ERR_PARSE, "%s: '%s' is none of its words", key, value);
}

static int set_key(struct record *r, struct mono now, const char *key, const char *value,
                   struct err *e)
{
    const struct {
        const char *key;
        struct mono *time;
    } times[] = {{"observed", &r->verdict.observed},
                 {"valid", &r->verdict.lease_until},
                 {"writer", &r->writer_until},
                 {"hold", &r->hold_until}};
    const struct {
        const char *key;
        char *text;
        size_t bytes;
    } texts[] = {{"message", r->verdict.message, sizeof(r->verdict.message)},
                 {"node", r->node, sizeof(r->node)},
                 {"boot-id", r->boot_id, sizeof(r->boot_id)}};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        if (text_equal(key, times[i].key)) {
            return parse_time(value, now, times[i].time, e);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (text_equal(key, texts[i].key)) {
            return text_copy(texts[i].text, texts[i].bytes, value)
                       ? 0
                       : err_set(e, ERR_LIMIT, "%s is too long", key);
        }
    }
    if (text_equal(key, "rebooted")) { /* seconds since 1970 */
        int64_t at_s;
        int rc = text_to_i64(value, strlen(value), &at_s, e);
        r->verdict.dpu_rebooted = (struct wall){rc == 0 ? mono_ns_mul(at_s, NS_PER_SEC) : 0};
        return rc;
    }
    if (text_equal(key, "duration")) {
        return parse_number(value, &r->verdict.lease.duration_s, e);
    }
    if (text_equal(key, "pid")) {
        uint32_t pid = 0;
        int rc = parse_number(value, &pid, e);
        r->pid = (int32_t)pid;
        return rc;
    }
    return parse_word(key, value, &r->verdict, e);
}

static int encode(int count, char **settings, struct err *e)
{
    struct mono now = clock_mono_now();
    struct record r = {
        .node = "worker-1",
        .verdict = {.state = READINESS_READY,
                    .admit = true,
                    .reason = REASON_LEASE_RENEWED,
                    .message = "the DPU renews its lease",
                    .observed = mono_add(now, -1 * NS_PER_SEC),
                    .lease_until = mono_add(now, 39 * NS_PER_SEC),
                    .transition = clock_wall_now(),
                    .lease = {.ns = NAMES_LEASE_NAMESPACE,
                              .name = NAMES_LEASE_PREFIX "worker-1",
                              .uid = "6a6c2c1e-1111-2222-3333-444455556666",
                              .renew_stamp = "2026-11-20T10:00:00.000000Z",
                              .resource_version = "123",
                              .duration_s = 40}},
        .writer_until = mono_add(now, 14 * NS_PER_SEC),
        .hold_until = mono_add(now, 339 * NS_PER_SEC),
        .written = clock_wall_now(),
        .pid = (int32_t)getpid(),
    };
    char page[RECORD_PAGE_BYTES];
    int rc = clock_boot_id(r.boot_id, e);
    for (int i = 0; rc == 0 && i < count; i++) {
        char *equals = strchr(settings[i], '=');
        if (!equals) {
            return err_set(e, ERR_PARSE, "'%s' is not KEY=VALUE", settings[i]);
        }
        *equals = '\0';
        rc = set_key(&r, now, settings[i], equals + 1, e);
    }
    if (rc == 0) {
        rc = record_encode(&r, page, e);
    }
    if (rc == 0 && (fwrite(page, sizeof(page), 1, stdout) != 1 || fflush(stdout) != 0)) {
        return err_set(e, ERR_IO, "writing the page failed");
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    int rc = ERR_PARSE;
    if (argc >= 2 && text_equal(argv[1], "encode")) {
        rc = encode(argc - 2, argv + 2, &e);
    } else {
        (void)err_set(&e, ERR_PARSE, "usage: record-tool encode [KEY=VALUE]...");
    }
    if (rc != 0) {
        (void)fprintf(stderr, "record-tool: %s\n", e.msg);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
