/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_spec.h"

#include "base/text.h"
#include "base/time.h"

#include <stddef.h>
#include <string.h>

/* ---- services -------------------------------------------------------------------------------- */

#define SECONDS(n) ((n)*NS_PER_SEC)

/* The pause after a run that failed: what is certain shows soon, and so does that it is over. */
#define SERVICE_RETRY_NS NS_PER_SEC

/* A restart of OVS is over within seconds, but ovs-vswitchd with DOCA or DPDK is silent until its
 * ports are up. The daemons of OVN vanish together when their pod is rolled out; ovn-controller and
 * ovn-northd need some seconds more to find their databases again, and ovn-controller answers
 * nothing while it computes flows anew. */
#define PATIENCE(refused_s, silent_s, missing_s, wrong_s)                                          \
    .patience_ns = {[PROBE_REFUSED] = SECONDS(refused_s),                                          \
                    [PROBE_SILENT] = SECONDS(silent_s),                                            \
                    [PROBE_MISSING] = SECONDS(missing_s),                                          \
                    [PROBE_WRONG] = SECONDS(wrong_s)}
#define TIMES(interval_s, timeout_s)                                                               \
    .interval_ns = SECONDS(interval_s), .timeout_ns = SECONDS(timeout_s)
#define DATABASE(its_name, its_socket, its_database)                                               \
    .name = (its_name), .socket = (its_socket), .database = (its_database),                        \
    .questions = {{"list_dbs", "[]"}}

static const struct service services[SERVICE_COUNT] = {
    {DATABASE("ovsdb", "db.sock", "Open_vSwitch"), TIMES(5, 2), PATIENCE(5, 15, 15, 15),
     .is_of_ovs = true},
    {.name = "vswitchd",
     .daemon = "ovs-vswitchd",
     .questions = {{"ofproto/list", "[]"}},
     TIMES(5, 5),
     PATIENCE(5, 30, 15, 15),
     .is_of_ovs = true},
    {DATABASE("ovn-nb", "ovnnb_db.sock", "OVN_Northbound"), TIMES(5, 5), PATIENCE(5, 30, 60, 60)},
    {DATABASE("ovn-sb", "ovnsb_db.sock", "OVN_Southbound"), TIMES(5, 5), PATIENCE(5, 30, 60, 60)},
    {.name = "ovn-northd",
     .daemon = "ovn-northd",
     .questions = {{"status", "[]"},
                   {"nb-connection-status", "[]"},
                   {"sb-connection-status", "[]"}},
     TIMES(10, 10),
     PATIENCE(5, 30, 60, 60)},
    {.name = "ovn-controller",
     .daemon = "ovn-controller",
     .questions = {{"connection-status", "[]"}, {"coverage/read-counter", "[\"lflow_run\"]"}},
     TIMES(10, 20),
     PATIENCE(5, 60, 60, 60)},
    /* Its socket is the database's, whose own probe is quicker. */
    {.name = "ovnkube",
     .socket = "ovnsb_db.sock",
     .has_beat = true,
     .questions = {{"transact", "[\"OVN_Southbound\",{\"op\":\"select\",\"table\":\"SB_Global\","
                                "\"where\":[],\"columns\":[\"options\"]}]"}},
     TIMES(15, 5),
     PATIENCE(120, 120, 120, 120)},
};

const struct service *service_at(size_t index)
{
    return &services[index];
}

const struct service *service_find(const char *name, size_t name_len)
{
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        if (strlen(services[i].name) == name_len && memcmp(services[i].name, name, name_len) == 0) {
            return &services[i];
        }
    }
    return NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

#define TIME(member, least_ms, most_s)                                                             \
    .type = SETTING_TIME, .offset = offsetof(struct probe_spec, member),                           \
    .min = (least_ms)*NS_PER_MS, .max = (most_s)*NS_PER_SEC
#define NUMBER(member, least, most)                                                                \
    .type = SETTING_NUMBER, .offset = offsetof(struct probe_spec, member), .min = (least),         \
    .max = (most)

static const struct setting {
    const char *key;
    size_t offset; /* of an int64_t in ns, or of a uint32_t */
    int64_t min;
    int64_t max;
    enum { SETTING_TIME, SETTING_NUMBER, SETTING_CA, SETTING_CARRIER } type;
    bool is_of_url;
} settings[] = {
    {"interval", TIME(interval_ns, 100, 3600)},
    {"timeout", TIME(timeout_ns, 10, 600)},
    {"failures", NUMBER(thresholds.failures, 1, 100)},
    {"successes", NUMBER(thresholds.successes, 1, 100)},
    /* How long a failure of this kind is forgiven. */
    {"refused", TIME(thresholds.patience_ns[PROBE_REFUSED], 0, 3600)},
    {"silent", TIME(thresholds.patience_ns[PROBE_SILENT], 0, 3600)},
    {"denied", TIME(thresholds.patience_ns[PROBE_DENIED], 0, 3600)},
    {"missing", TIME(thresholds.patience_ns[PROBE_MISSING], 0, 3600)},
    {"wrong", TIME(thresholds.patience_ns[PROBE_WRONG], 0, 3600)},
    {"status", NUMBER(http_status, 100, 599), .is_of_url = true},
    {"ca", .type = SETTING_CA, .is_of_url = true},
    {"carrier", .type = SETTING_CARRIER},
};

struct span {
    const char *at;
    size_t len;
};

static bool span_is(struct span s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0;
}

static int parse_time(const struct setting *setting, struct span value, int64_t *out_ns,
                      struct err *e)
{
    int64_t ns;
    int rc = text_to_duration_ns(value.at, value.len, &ns, e);
    if (rc != 0) {
        return rc;
    }
    if (ns < setting->min || ns > setting->max) {
        char least[32];
        char most[32];
        text_from_duration(setting->min, least, sizeof(least));
        text_from_duration(setting->max, most, sizeof(most));
        return err_set(e, ERR_LIMIT, "'%.*s' is not between %s and %s", (int)value.len, value.at,
                       least, most);
    }
    *out_ns = ns;
    return 0;
}

static int parse_number(const struct setting *setting, struct span value, uint32_t *out,
                        struct err *e)
{
    uint64_t n;
    int rc = text_to_u64(value.at, value.len, &n, e);
    if (rc != 0) {
        return rc;
    }
    if (n < (uint64_t)setting->min || n > (uint64_t)setting->max) {
        return err_set(e, ERR_LIMIT, "'%.*s' is not between %d and %d", (int)value.len, value.at,
                       (int)setting->min, (int)setting->max);
    }
    *out = (uint32_t)n;
    return 0;
}

static int parse_ca(struct span value, struct probe_spec *spec, struct err *e)
{
    if (value.len == 0) { /* and not: the system's authorities */
        return err_set(e, ERR_PARSE, "'ca=' names no file");
    }
    if (value.len >= sizeof(spec->ca_file)) {
        return err_set(e, ERR_LIMIT, "the name of a file has at most %zu bytes",
                       sizeof(spec->ca_file) - 1);
    }
    memcpy(spec->ca_file, value.at, value.len);
    spec->ca_file[value.len] = '\0';
    return 0;
}

static int parse_setting(struct span key, struct span value, struct probe_spec *spec, struct err *e)
{
    size_t i = 0;
    while (i < ARRAY_LEN(settings) && !span_is(key, settings[i].key)) {
        i++;
    }
    if (i == ARRAY_LEN(settings)) {
        return err_set(e, ERR_PARSE,
                       "unknown setting '%.*s' (interval, timeout, failures, successes, refused, "
                       "silent, denied, missing, wrong, status, ca, carrier)",
                       (int)key.len, key.at);
    }
    const struct setting *setting = &settings[i];
    void *field = (char *)spec + setting->offset;
    if (setting->is_of_url && spec->kind != PROBE_HTTP) {
        return err_set(e, ERR_PARSE, "'%s' is for http:// and https://", setting->key);
    }
    switch (setting->type) {
    case SETTING_TIME:
        return parse_time(setting, value, field, e);
    case SETTING_NUMBER:
        return parse_number(setting, value, field, e);
    case SETTING_CA:
        return parse_ca(value, spec, e);
    case SETTING_CARRIER:
        break;
    }
    if (spec->kind != PROBE_NETDEV || !span_is(value, "up")) {
        return err_set(e, ERR_PARSE, "'carrier=up' is for netdev, and has no other value");
    }
    spec->wants_carrier = true;
    return 0;
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

/* ---- what is probed ---------------------------------------------------------------------------
 */

static const struct {
    const char *prefix;
    enum probe_kind kind;
} kinds[] = {
    {"exec:", PROBE_EXEC},    {"unix:", PROBE_UNIX},     {"http://", PROBE_HTTP},
    {"https://", PROBE_HTTP}, {"netdev:", PROBE_NETDEV}, {"pci:", PROBE_PCI},
};

/* Between two looks at sysfs; and how long a network interface may be away: it is made anew by a
 * driver that is loaded again. */
#define SYSFS_INTERVAL_NS  NS_PER_SEC
#define NETDEV_PATIENCE_NS (3 * NS_PER_SEC)

/* Stands for all services. */
static const char all_services[] = "ovn-kubernetes";

/* The kind that `text` begins with, or ARRAY_LEN(kinds). */
static size_t find_kind(const char *text)
{
    size_t i = 0;
    while (i < ARRAY_LEN(kinds) && strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) != 0) {
        i++;
    }
    return i;
}

static int take_service(const char *text, const struct service *service, struct probe_spec *spec,
                        struct err *e)
{
    const char *colon = strchr(text, ':');
    bool has_bridge = text_equal(service->daemon, "ovs-vswitchd");
    if (colon && (!has_bridge || !colon[1])) {
        return err_set(e, ERR_PARSE, "%s",
                       has_bridge ? "nothing follows 'vswitchd:'" : "nothing may follow its name");
    }
    spec->kind = PROBE_SERVICE;
    spec->service = service;
    spec->interval_ns = service->interval_ns;
    spec->timeout_ns = service->timeout_ns;
    spec->thresholds.failures = 1;
    memcpy(spec->thresholds.patience_ns, service->patience_ns,
           sizeof(spec->thresholds.patience_ns));
    if (!text_copy(spec->target, sizeof(spec->target), colon ? colon + 1 : "br-int")) {
        return err_set(e, ERR_LIMIT, "it is longer than %d bytes", PROBE_TARGET_BYTES - 1);
    }
    text_format(spec->name, sizeof(spec->name), "%s", colon ? text : service->name);
    return 0;
}

/* Looking costs next to nothing, and more often whenever the kernel says that something changed: so
 * it is time that counts, not looks. */
static void take_sysfs(struct probe_spec *spec)
{
    struct probe_thresholds *t = &spec->thresholds;
    spec->interval_ns = SYSFS_INTERVAL_NS;
    t->failures = 1;
    for (size_t i = 0; i < PROBE_OUTCOME_COUNT; i++) {
        t->patience_ns[i] = spec->kind == PROBE_NETDEV ? NETDEV_PATIENCE_NS : 0;
    }
}

static int take_what(const char *text, size_t index, struct probe_spec *spec, struct err *e)
{
    size_t kind = find_kind(text);
    const struct service *service =
        text_equal(text, all_services) ? service_at(index) : service_find(text, strcspn(text, ":"));
    if (service) {
        return take_service(text, service, spec, e);
    }
    if (kind == ARRAY_LEN(kinds)) {
        return err_set(e, ERR_PARSE,
                       "no service is called so, and it begins with none of 'exec:', 'unix:', "
                       "'http://', 'https://', 'netdev:' and 'pci:'");
    }
    const char *target = text + strlen(kinds[kind].prefix);
    spec->kind = kinds[kind].kind;
    if (text_is_empty(target)) {
        return err_set(e, ERR_PARSE, "nothing follows '%s'", kinds[kind].prefix);
    }
    if (!text_copy(spec->target, sizeof(spec->target), target)) {
        return err_set(e, ERR_LIMIT, "it is longer than %d bytes", PROBE_TARGET_BYTES - 1);
    }
    text_format(spec->name, sizeof(spec->name), "%s", text);
    if (spec->kind == PROBE_NETDEV || spec->kind == PROBE_PCI) {
        take_sysfs(spec);
    }
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

/* What follows the settings. A URL has none within it, whatever its password holds. */
static const char *what_of(const char *text)
{
    const char *end = find_kind(text) == ARRAY_LEN(kinds) ? strchr(text, ';') : NULL;
    const char *url = strstr(text, "://");
    return end && !(url && url < end) ? end + 1 : text;
}

size_t probe_spec_count(const char *text)
{
    return text_equal(what_of(text), all_services) ? SERVICE_COUNT : 1;
}

/* What follows from the rest. */
static void settle(struct probe_spec *spec)
{
    int64_t *wrong_ns = &spec->thresholds.patience_ns[PROBE_WRONG];
    bool is_service = spec->kind == PROBE_SERVICE;
    bool is_slow = spec->interval_ns > SERVICE_RETRY_NS;
    spec->retry_ns = is_service && is_slow ? SERVICE_RETRY_NS : spec->interval_ns;
    if (is_service && spec->service->has_beat) { /* the beat itself waits so long */
        spec->beat_limit_ns = *wrong_ns;
        *wrong_ns = 0;
    }
}

int probe_spec_parse(const char *text, size_t index, const struct probe_spec *defaults,
                     struct probe_spec *out, struct err *e)
{
    struct probe_spec spec = *defaults;
    const char *what = what_of(text);
    char shown[PROBE_SHOWN_BYTES];
    int rc = take_what(what, index, &spec, e);
    if (rc == 0 && what > text) {
        rc = parse_settings((struct span){.at = text, .len = (size_t)(what - text) - 1}, &spec, e);
    }
    if (rc != 0) {
        probe_spec_show(text, shown);
        (void)err_wrap(e, "probe '%s'", shown); /* says ERR_BUG where nobody wants a message */
        return rc;
    }
    settle(&spec);
    *out = spec;
    return 0;
}
