/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_spec.h"

#include "base/text.h"
#include "base/time.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

enum { SHOWN_BYTES = 64, SETTINGS_BYTES = 1024 };

/* ---- services -------------------------------------------------------------------------------- */

#define SECONDS(n) ((n)*NS_PER_SEC)

/* The pause after a run that failed: what is certain shows soon, and so does that it is over. */
#define SERVICE_RETRY_NS NS_PER_SEC

/* A restart of OVS is over within seconds, but ovs-vswitchd with DOCA or DPDK is silent until its
 * ports are up. The daemons of OVN vanish together when their pod is rolled out; ovn-controller and
 * ovn-northd need some seconds more to find their databases again, and ovn-controller answers
 * nothing while it computes flows anew. */
#define TIMES(interval_s, timeout_s, refused_s, silent_s, missing_s, wrong_s)                      \
    .interval_ns = SECONDS(interval_s), .timeout_ns = SECONDS(timeout_s),                          \
    .patience_ns = {[PROBE_REFUSED] = SECONDS(refused_s),                                          \
                    [PROBE_SILENT] = SECONDS(silent_s),                                            \
                    [PROBE_MISSING] = SECONDS(missing_s),                                          \
                    [PROBE_WRONG] = SECONDS(wrong_s)}
/* Of the server's own database: the row of one that it serves, and that row again if its schema is
 * missing, since a schema is too long to be sent. */
#define SELECT_DATABASE(where, columns)                                                            \
    "{\"op\":\"select\",\"table\":\"Database\",\"where\":[" where "],\"columns\":[" columns "]}"
#define SELECT_SERVED(database)                                                                    \
    "[\"_Server\"," SELECT_DATABASE(                                                               \
        "[\"name\",\"==\",\"" database "\"]",                                                      \
        "\"connected\",\"model\"") "," SELECT_DATABASE("[\"name\",\"==\",\"" database              \
                                                       "\"],[\"schema\",\"==\",[\"set\",[]]]",     \
                                                       "\"name\"") "]"
#define SERVED(database)                                                                           \
    {                                                                                              \
        "transact", SELECT_SERVED(database), ANSWER_SERVES, .wanted = (database)                   \
    }
#define SELECT_COLUMN(database, table, column)                                                     \
    "[\"" database "\",{\"op\":\"select\",\"table\":\"" table "\",\"where\":[],"                   \
    "\"columns\":[\"" column "\"]}]"
#define SELECT_IDS SELECT_COLUMN("Open_vSwitch", "Open_vSwitch", "external_ids")
/* Asks for a value in a map of the table that has one row. */
#define VALUE(database, table, map, its_key, is_expected)                                          \
    {                                                                                              \
        .method = "transact", .params_json = SELECT_COLUMN(database, table, map),                  \
        .expected = (is_expected), .wanted = (map), .key = (its_key)                               \
    }

/* What it means that ovs-vswitchd does not know a command which it has from its first configuration
 * on. */
#define WAITS "it waits for its database"

/* It outlives its own end where systemd listens for it. */
static const struct service_place ovs_database = {
    .is_of_ovs = true, .socket = "db.sock", .daemon = "ovsdb-server"};
static const struct service_place ovs_vswitchd = {.is_of_ovs = true, .daemon = "ovs-vswitchd"};
static const struct service_place northbound = {.socket = "ovnnb_db.sock"};
static const struct service_place southbound = {.socket = "ovnsb_db.sock"};
static const struct service_place northd = {.daemon = "ovn-northd"};
static const struct service_place controller = {.daemon = "ovn-controller"};

const struct service services[SERVICE_COUNT] = {
    {.name = "ovsdb",
     .place = &ovs_database,
     .questions = {SERVED("Open_vSwitch")},
     TIMES(5, 2, 5, 15, 15, 15)},
    {.name = "vswitchd",
     .place = &ovs_vswitchd,
     .target_what = "bridge",
     .target = "br-int",
     .questions = {{"ofproto/list", "[]", ANSWER_LINE, .if_unknown = WAITS},
                   {"transact", SELECT_IDS, ANSWER_IDS, .at = &ovs_database},
                   {"ofproto/list", "[]", ANSWER_BRIDGES, .if_unknown = WAITS}},
     TIMES(5, 5, 5, 30, 15, 15)},
    {.name = "ovn-nb",
     .place = &northbound,
     .questions = {SERVED("OVN_Northbound")},
     TIMES(5, 5, 5, 30, 60, 60)},
    {.name = "ovn-sb",
     .place = &southbound,
     .questions = {SERVED("OVN_Southbound")},
     TIMES(5, 5, 5, 30, 60, 60)},
    {.name = "ovn-northd",
     .place = &northd,
     .questions = {{"status", "[]", ANSWER_LINE, .wanted = "Status: active"},
                   {"nb-connection-status", "[]", ANSWER_LINE, .wanted = "connected"},
                   {"sb-connection-status", "[]", ANSWER_LINE, .wanted = "connected"}},
     TIMES(10, 10, 5, 30, 60, 60)},
    {.name = "ovn-controller",
     .place = &controller,
     .target_what = "chassis",
     .questions = {{"connection-status", "[]", ANSWER_LINE, .wanted = "connected"},
                   {"debug/status", "[]", ANSWER_LINE, .wanted = "running"},
                   {"coverage/read-counter", "[\"lflow_run\"]", ANSWER_NO_LINE, .wanted = "0"},
                   {"transact", SELECT_IDS, ANSWER_IDS, .at = &ovs_database},
                   {"transact", SELECT_SERVED("OVN_Southbound"), ANSWER_SERVES,
                    .wanted = "OVN_Southbound", .at = &southbound},
                   {"transact", NULL, ANSWER_CHASSIS, .at = &southbound}},
     TIMES(10, 20, 5, 60, 60, 60)},
    /* Its socket is the database's, whose own probe is quicker. */
    {.name = "ovnkube",
     .place = &southbound,
     .questions = {VALUE("OVN_Southbound", "SB_Global", "options", "e2e_timestamp", ANSWER_BEAT)},
     TIMES(15, 5, 120, 120, 120, 120)},
};

struct probe_spec probe_spec_of_node_name(const char *ovs_run_dir)
{
    static const struct service ovs = {
        .name = "node-name",
        .place = &ovs_database,
        .questions = {VALUE("Open_vSwitch", "Open_vSwitch", "external_ids", "host-k8s-nodename",
                            ANSWER_VALUE)},
    };
    return (struct probe_spec){.kind = PROBE_SERVICE,
                               .name = "node-name",
                               .interval_ns = SECONDS(5),
                               .retry_ns = SECONDS(5),
                               .timeout_ns = SECONDS(2),
                               .service = &ovs,
                               .ovs_run_dir = ovs_run_dir};
}

/* The service that `text` names up to a colon, or NULL. */
static const struct service *find_service(const char *text)
{
    size_t len = strcspn(text, ":");
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        if (strlen(services[i].name) == len && strncmp(services[i].name, text, len) == 0) {
            return &services[i];
        }
    }
    return NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct probe_spec, member)

static const struct setting {
    const char *key;
    size_t offset; /* of an int64_t */
    const char *least;
    const char *most;
    enum { SETTING_TIME, SETTING_NUMBER, SETTING_CA, SETTING_CARRIER } type;
    bool is_of_url;
    bool is_count;
} settings[] = {
    {"interval", AT(interval_ns), "100ms", "3600s", .type = SETTING_TIME},
    {"timeout", AT(timeout_ns), "10ms", "600s", .type = SETTING_TIME},
    {"failures", AT(thresholds.failures), "1", "100", .type = SETTING_NUMBER},
    {"successes", AT(thresholds.successes), "1", "100", .type = SETTING_NUMBER},
    /* How long a failure of this kind is forgiven. */
    {"refused", AT(thresholds.patience_ns[PROBE_REFUSED]), "0s", "3600s", .type = SETTING_TIME},
    {"silent", AT(thresholds.patience_ns[PROBE_SILENT]), "0s", "3600s", .type = SETTING_TIME},
    {"denied", AT(thresholds.patience_ns[PROBE_DENIED]), "0s", "3600s", .type = SETTING_TIME},
    {"missing", AT(thresholds.patience_ns[PROBE_MISSING]), "0s", "3600s", .type = SETTING_TIME},
    {"wrong", AT(thresholds.patience_ns[PROBE_WRONG]), "0s", "3600s", .type = SETTING_TIME},
    {"status", AT(http_status), "100", "599", .type = SETTING_NUMBER, .is_of_url = true},
    {"ca", .type = SETTING_CA, .is_of_url = true},
    {"carrier", .type = SETTING_CARRIER},
    {"least", AT(at_least), "1", "100", .type = SETTING_NUMBER, .is_count = true},
};

/* A time in ns, or a number. */
static int read_amount(const struct setting *setting, const char *text, int64_t *out, struct err *e)
{
    return setting->type == SETTING_TIME ? text_to_duration_ns(text, strlen(text), out, e)
                                         : text_to_i64(text, strlen(text), out, e);
}

static int parse_amount(const struct setting *setting, const char *value, int64_t *out,
                        struct err *e)
{
    int64_t n;
    int64_t least;
    int64_t most;
    int rc = read_amount(setting, value, &n, e);
    if (rc != 0) {
        return rc;
    }
    bool is_known = read_amount(setting, setting->least, &least, NULL) == 0 &&
                    read_amount(setting, setting->most, &most, NULL) == 0;
    assert(is_known);
    if (n < least || n > most) {
        return err_set(e, ERR_LIMIT, "'%s' is not between %s and %s", value, setting->least,
                       setting->most);
    }
    *out = n;
    return 0;
}

static int parse_ca(const char *value, struct probe_spec *spec, struct err *e)
{
    if (value[0] == '\0') { /* and not: the system's authorities */
        return err_set(e, ERR_PARSE, "'ca=' needs a file");
    }
    if (!text_copy(spec->ca_file, sizeof(spec->ca_file), value)) {
        return err_set(e, ERR_LIMIT, "the name of a file has at most %zu bytes",
                       sizeof(spec->ca_file) - 1);
    }
    return 0;
}

static int parse_setting(const char *key, const char *value, struct probe_spec *spec, struct err *e)
{
    const struct setting *setting = settings;
    const struct setting *end = settings + ARRAY_LEN(settings);
    while (setting < end && !text_equal(key, setting->key)) {
        setting++;
    }
    if (setting == end) {
        return err_set(e, ERR_PARSE,
                       "unknown setting '%s' (interval, timeout, failures, successes, refused, "
                       "silent, denied, missing, wrong, status, ca, carrier, least)",
                       key);
    }
    if (setting->is_of_url && spec->kind != PROBE_HTTP) {
        return err_set(e, ERR_PARSE, "'%s' works only with http:// and https://", key);
    }
    if (setting->is_count && spec->kind != PROBE_NETDEV && spec->kind != PROBE_BGP) {
        return err_set(e, ERR_PARSE, "'%s' works only with netdev: and bgp:", key);
    }
    if (setting->type == SETTING_CA) {
        return parse_ca(value, spec, e);
    }
    if (setting->type != SETTING_CARRIER) {
        return parse_amount(setting, value, (void *)((char *)spec + setting->offset), e);
    }
    if (spec->kind != PROBE_NETDEV || !text_equal(value, "up")) {
        return err_set(e, ERR_PARSE,
                       "'carrier' works only with netdev:, and its only value is 'up'");
    }
    spec->wants_carrier = true;
    return 0;
}

/* "key=value,key=value" */
static int parse_settings(const char *text, size_t len, struct probe_spec *spec, struct err *e)
{
    char parted[SETTINGS_BYTES] = "";
    char *at = parted;
    if (len >= sizeof(parted)) {
        return err_set(e, ERR_LIMIT, "its settings have more than %d bytes", SETTINGS_BYTES - 1);
    }
    memcpy(parted, text, len);
    while (*at != '\0') {
        char *key = at;
        at += strcspn(at, ",");
        if (*at == ',') {
            *at++ = '\0';
        }
        char *equals = strchr(key, '=');
        if (!equals) {
            return err_set(e, ERR_PARSE, "'%s' is not a setting (KEY=VALUE)", key);
        }
        *equals = '\0';
        int rc = parse_setting(key, equals + 1, spec, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- what is probed -------------------------------------------------------------------------- */

/* How long a network interface may be away: it is made anew by a driver that is loaded again. */
#define NETDEV_PATIENCE_NS (3 * NS_PER_SEC)

static const struct kind {
    const char *prefix;
    enum probe_kind kind;
    bool is_of_sysfs;
    int64_t patience_ns; /* of sysfs */
} kinds[] = {
    {"exec:", .kind = PROBE_EXEC},
    {"unix:", .kind = PROBE_UNIX},
    {"bgp:", .kind = PROBE_BGP},
    {"http://", .kind = PROBE_HTTP},
    {"https://", .kind = PROBE_HTTP},
    {"pci:", .kind = PROBE_PCI, .is_of_sysfs = true},
    {"netdev:", .kind = PROBE_NETDEV, .is_of_sysfs = true, .patience_ns = NETDEV_PATIENCE_NS},
};

/* Stands for all services. */
static const char all_services[] = "ovn-kubernetes";

/* The kind that `text` begins with, or NULL. */
static const struct kind *find_kind(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

static int take_service(const char *text, const struct service *service, struct probe_spec *spec,
                        struct err *e)
{
    const char *colon = strchr(text, ':');
    const char *target = colon ? colon + 1 : service->target;
    const char *what = service->target_what;
    if (colon && !what) {
        return err_set(e, ERR_PARSE, "its name must stand alone");
    }
    if (colon && !target[0]) {
        return err_set(e, ERR_PARSE, "'%s:' needs a %s", service->name, what);
    }
    spec->kind = PROBE_SERVICE;
    spec->service = service;
    spec->interval_ns = service->interval_ns;
    spec->timeout_ns = service->timeout_ns;
    spec->thresholds.failures = 1;
    memcpy(spec->thresholds.patience_ns, service->patience_ns,
           sizeof(spec->thresholds.patience_ns));
    if (!text_copy(spec->target, SERVICE_TARGET_BYTES, target ? target : "")) {
        return err_set(e, ERR_LIMIT, "a %s's name has at most %d bytes", what,
                       SERVICE_TARGET_BYTES - 1);
    }
    text_format(spec->name, sizeof(spec->name), "%s", colon ? text : service->name);
    return 0;
}

/* Looking costs next to nothing, and more often whenever the kernel says that something changed: so
 * it is time that counts, not looks. */
static void take_sysfs(const struct kind *kind, struct probe_spec *spec)
{
    spec->interval_ns = NS_PER_SEC;
    spec->thresholds.failures = 1;
    for (size_t i = 0; i < PROBE_OUTCOME_COUNT; i++) {
        spec->thresholds.patience_ns[i] = kind->patience_ns;
    }
}

static int take_what(const char *text, size_t index, struct probe_spec *spec, struct err *e)
{
    const struct kind *kind = find_kind(text);
    const struct service *service =
        text_equal(text, all_services) ? &services[index] : find_service(text);
    if (service) {
        return take_service(text, service, spec, e);
    }
    if (!kind) {
        return err_set(
            e, ERR_PARSE,
            "it is not a known service, and does not begin with 'exec:', 'unix:', 'bgp:', "
            "'http://', 'https://', 'netdev:' or 'pci:'");
    }
    const char *target = text + strlen(kind->prefix);
    spec->kind = kind->kind;
    if (text_is_empty(target)) {
        return err_set(e, ERR_PARSE, "nothing follows '%s'", kind->prefix);
    }
    if (!text_copy(spec->target, sizeof(spec->target), target)) {
        return err_set(e, ERR_LIMIT, "it has more than %d bytes", PROBE_TARGET_BYTES - 1);
    }
    text_format(spec->name, sizeof(spec->name), "%s", text);
    if (kind->is_of_sysfs) {
        take_sysfs(kind, spec);
    }
    return 0;
}

/* The start of a probe's text. Where an '@' follows, no more than what it begins with is shown:
 * http://USER:PASSWORD@HOST is a secret. */
static void show_start(const char *text, char out[static SHOWN_BYTES])
{
    static const char more[] = "...";
    const char *colon = strchr(text, ':');
    if (!colon || !strchr(colon, '@')) {
        text_sanitize(out, SHOWN_BYTES, text, strlen(text));
        return;
    }
    size_t len = (size_t)(colon - text) + 1;
    len += strncmp(colon, "://", 3) == 0 ? 2 : 0;
    text_sanitize(out, SHOWN_BYTES - (sizeof(more) - 1), text, len);
    memcpy(out + strlen(out), more, sizeof(more));
}

int probe_spec_refuse(const char *text, int rc, struct err *e)
{
    char shown[SHOWN_BYTES];
    show_start(text, shown);
    (void)err_wrap(e, "probe '%s'", shown); /* says ERR_BUG where nobody wants a message */
    return rc;
}

/* The probe itself, behind its settings. A URL has none within it, whatever its password holds. */
static const char *what_of(const char *text)
{
    const char *end = find_kind(text) ? NULL : strchr(text, ';');
    const char *url = strstr(text, "://");
    return end && !(url && url < end) ? end + 1 : text;
}

size_t probe_spec_count(const char *text)
{
    return text_equal(what_of(text), all_services) ? SERVICE_COUNT : 1;
}

/* Fills in the settings of a service that were not given. */
static void settle_service(struct probe_spec *spec)
{
    int64_t *wrong_ns = &spec->thresholds.patience_ns[PROBE_WRONG];
    if (spec->retry_ns > SERVICE_RETRY_NS) {
        spec->retry_ns = SERVICE_RETRY_NS;
    }
    if (spec->service->questions[0].expected == ANSWER_BEAT) { /* the beat itself waits so long */
        spec->beat_limit_ns = *wrong_ns;
        *wrong_ns = 0;
    }
}

int probe_spec_parse(const char *text, size_t index, const struct probe_spec *defaults,
                     struct probe_spec *out, struct err *e)
{
    struct probe_spec spec = *defaults;
    const char *what = what_of(text);
    int rc = take_what(what, index, &spec, e);
    if (rc == 0 && what > text) {
        rc = parse_settings(text, (size_t)(what - text) - 1, &spec, e);
    }
    if (rc != 0) {
        return probe_spec_refuse(text, rc, e);
    }
    spec.retry_ns = spec.interval_ns;
    if (spec.kind == PROBE_SERVICE) {
        settle_service(&spec);
    }
    *out = spec;
    return 0;
}
