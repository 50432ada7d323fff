/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_spec.h"

#include "base/mono.h"
#include "base/text.h"

#include <string.h>

static const struct {
    const char *prefix;
    enum probe_kind kind;
} kinds[] = {
    {"exec:", PROBE_EXEC},
    {"unix:", PROBE_UNIX},
    {"http://", PROBE_HTTP},
};

struct span {
    const char *at;
    size_t len;
};

static bool span_is(struct span s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0;
}

static int parse_time(struct span value, int64_t min_ns, int64_t max_ns, int64_t *out_ns,
                      struct err *e)
{
    int64_t ns;
    int rc = text_to_duration_ns(value.at, value.len, &ns, e);
    if (rc != 0) {
        return rc;
    }
    if (ns < min_ns || ns > max_ns) {
        char least[32];
        char most[32];
        text_from_duration(min_ns, least, sizeof(least));
        text_from_duration(max_ns, most, sizeof(most));
        return err_set(e, ERR_LIMIT, "'%.*s' is not between %s and %s", (int)value.len, value.at,
                       least, most);
    }
    *out_ns = ns;
    return 0;
}

static int parse_threshold(struct span value, uint32_t *out, struct err *e)
{
    uint64_t n;
    int rc = text_to_u64(value.at, value.len, &n, e);
    if (rc != 0) {
        return rc;
    }
    if (n < 1 || n > 100) {
        return err_set(e, ERR_LIMIT, "'%.*s' is not between 1 and 100", (int)value.len, value.at);
    }
    *out = (uint32_t)n;
    return 0;
}

static int parse_setting(struct span key, struct span value, struct probe_spec *spec, struct err *e)
{
    if (span_is(key, "interval")) {
        int rc = parse_time(value, 100 * NS_PER_MS, 3600 * NS_PER_SEC, &spec->interval_ns, e);
        spec->retry_ns = spec->interval_ns;
        return rc;
    }
    if (span_is(key, "timeout")) {
        return parse_time(value, 10 * NS_PER_MS, 600 * NS_PER_SEC, &spec->timeout_ns, e);
    }
    if (span_is(key, "failures")) {
        return parse_threshold(value, &spec->thresholds.failures, e);
    }
    if (span_is(key, "successes")) {
        return parse_threshold(value, &spec->thresholds.successes, e);
    }
    return err_set(e, ERR_PARSE, "unknown setting '%.*s' (interval, timeout, failures, successes)",
                   (int)key.len, key.at);
}

/* "key=value,key=value" */
static int parse_settings(struct span all, struct probe_spec *spec, struct err *e)
{
    while (all.len > 0) {
        const char *comma = memchr(all.at, ',', all.len);
        size_t len = comma ? (size_t)(comma - all.at) : all.len;
        const char *equals = memchr(all.at, '=', len);
        if (!equals) {
            return err_set(e, ERR_PARSE, "'%.*s' is no setting (KEY=VALUE)", (int)len, all.at);
        }
        struct span key = {.at = all.at, .len = (size_t)(equals - all.at)};
        struct span value = {.at = equals + 1, .len = len - key.len - 1};
        int rc = parse_setting(key, value, spec, e);
        if (rc != 0) {
            return rc;
        }
        size_t step = comma ? len + 1 : len;
        all.at += step;
        all.len -= step;
    }
    return 0;
}

/* The kind that `text` begins with, or ARRAY_LEN(kinds). */
static size_t find_kind(const char *text)
{
    size_t i = 0;
    while (i < ARRAY_LEN(kinds) && strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) != 0) {
        i++;
    }
    return i;
}

static int parse_what(const char *text, struct probe_spec *spec, struct err *e)
{
    size_t kind = find_kind(text);
    if (kind == ARRAY_LEN(kinds)) {
        return err_set(e, ERR_PARSE,
                       "it begins with none of 'exec:', 'unix:' and 'http://' (https is not "
                       "supported)");
    }
    const char *target = text + strlen(kinds[kind].prefix);
    spec->kind = kinds[kind].kind;
    if (text_is_empty(target)) {
        return err_set(e, ERR_PARSE, "nothing follows '%s'", kinds[kind].prefix);
    }
    if (!text_copy(spec->target, sizeof(spec->target), target)) {
        return err_set(e, ERR_LIMIT, "it is longer than %d bytes", PROBE_TARGET_BYTES - 1);
    }
    (void)text_copy(spec->name, sizeof(spec->name), text); /* the target fits, so this does */
    return 0;
}

void probe_spec_show(const char *text, char out[static PROBE_SHOWN_BYTES])
{
    static const char more[] = "...";
    const char *colon = strchr(text, ':');
    if (!colon || !strchr(colon, '@')) {
        text_sanitize(out, PROBE_SHOWN_BYTES, text, strlen(text));
        return;
    }
    size_t len = (size_t)(colon - text) + 1;
    len += strncmp(colon, "://", 3) == 0 ? 2 : 0;
    text_sanitize(out, PROBE_SHOWN_BYTES - (sizeof(more) - 1), text, len);
    memcpy(out + strlen(out), more, sizeof(more));
}

/* The end of the settings in front of the probe; NULL if there are none. A URL is none, whatever
 * its password holds. */
static const char *end_of_settings(const char *text)
{
    const char *end = find_kind(text) == ARRAY_LEN(kinds) ? strchr(text, ';') : NULL;
    const char *url = strstr(text, "://");
    return end && url && url < end ? NULL : end;
}

int probe_spec_parse(const char *text, const struct probe_spec *defaults, struct probe_spec *out,
                     struct err *e)
{
    struct probe_spec spec = *defaults;
    const char *what = text;
    const char *end = end_of_settings(text);
    char shown[PROBE_SHOWN_BYTES];
    int rc = 0;
    if (end) {
        rc = parse_settings((struct span){.at = text, .len = (size_t)(end - text)}, &spec, e);
        what = end + 1;
    }
    if (rc == 0) {
        rc = parse_what(what, &spec, e);
    }
    if (rc != 0) {
        probe_spec_show(text, shown);
        (void)err_wrap(e, "probe '%s'", shown); /* says ERR_BUG where nobody wants a message */
        return rc;
    }
    *out = spec;
    return 0;
}
