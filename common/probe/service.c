/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/service.h"

#include "base/attr.h"
#include "base/text.h"
#include "probe/ovsdb_reply.h"

#include <string.h>

enum {
    ANSWER_BYTES = 64 << 10, /* no message is longer: RPC_CALL_INBOX_BYTES */
    SHOWN_BYTES = 100,
};

#define SECONDS(n) ((n)*NS_PER_SEC)

/* A restart of OVS is over within seconds, but ovs-vswitchd with DOCA or DPDK is silent until its
 * ports are up. The daemons of OVN vanish together when their pod is rolled out; ovn-controller and
 * ovn-northd need some seconds more to find their databases again, and ovn-controller answers
 * nothing while it computes flows anew. */
#define OVS_PATIENCE(silent_s)                                                                     \
    {                                                                                              \
        [PROBE_REFUSED] = SECONDS(5), [PROBE_SILENT] = SECONDS(silent_s),                          \
        [PROBE_MISSING] = SECONDS(15), [PROBE_WRONG] = SECONDS(15),                                \
    }
#define OVN_PATIENCE(silent_s)                                                                     \
    {                                                                                              \
        [PROBE_REFUSED] = SECONDS(5), [PROBE_SILENT] = SECONDS(silent_s),                          \
        [PROBE_MISSING] = SECONDS(60), [PROBE_WRONG] = SECONDS(60),                                \
    }

static const struct service services[SERVICE_COUNT] = {
    {
        .name = "ovsdb",
        .is_of_ovs = true,
        .socket = "db.sock",
        .database = "Open_vSwitch",
        .questions = {{"list_dbs", "[]"}},
        .interval_ns = SECONDS(5),
        .timeout_ns = SECONDS(2),
        .patience_ns = OVS_PATIENCE(15),
    },
    {
        .name = "vswitchd",
        .is_of_ovs = true,
        .daemon = "ovs-vswitchd",
        .questions = {{"ofproto/list", "[]"}},
        .interval_ns = SECONDS(5),
        .timeout_ns = SECONDS(5),
        .patience_ns = OVS_PATIENCE(30),
    },
    {
        .name = "ovn-nb",
        .socket = "ovnnb_db.sock",
        .database = "OVN_Northbound",
        .questions = {{"list_dbs", "[]"}},
        .interval_ns = SECONDS(5),
        .timeout_ns = SECONDS(5),
        .patience_ns = OVN_PATIENCE(30),
    },
    {
        .name = "ovn-sb",
        .socket = "ovnsb_db.sock",
        .database = "OVN_Southbound",
        .questions = {{"list_dbs", "[]"}},
        .interval_ns = SECONDS(5),
        .timeout_ns = SECONDS(5),
        .patience_ns = OVN_PATIENCE(30),
    },
    {
        .name = "ovn-northd",
        .daemon = "ovn-northd",
        .questions = {{"status", "[]"},
                      {"nb-connection-status", "[]"},
                      {"sb-connection-status", "[]"}},
        .interval_ns = SECONDS(10),
        .timeout_ns = SECONDS(10),
        .patience_ns = OVN_PATIENCE(30),
    },
    {
        .name = "ovn-controller",
        .daemon = "ovn-controller",
        .questions = {{"connection-status", "[]"}, {"coverage/read-counter", "[\"lflow_run\"]"}},
        .interval_ns = SECONDS(10),
        .timeout_ns = SECONDS(20),
        .patience_ns = OVN_PATIENCE(60),
    },
    {
        /* Its socket is the database's, whose own probe is quicker. */
        .name = "ovnkube",
        .has_beat = true,
        .socket = "ovnsb_db.sock",
        .questions = {{"transact", "[\"OVN_Southbound\",{\"op\":\"select\",\"table\":\"SB_Global\","
                                   "\"where\":[],\"columns\":[\"options\"]}]"}},
        .interval_ns = SECONDS(15),
        .timeout_ns = SECONDS(5),
        .patience_ns = {[PROBE_REFUSED] = SECONDS(120),
                        [PROBE_SILENT] = SECONDS(120),
                        [PROBE_MISSING] = SECONDS(120),
                        [PROBE_WRONG] = SECONDS(120)},
    },
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

/* ---- answers --------------------------------------------------------------------------------- */

static enum probe_outcome say_seen(const char *method, const char *wanted, const char *seen,
                                   char *words)
{
    char shown[SHOWN_BYTES];
    text_sanitize(shown, sizeof(shown), seen, strlen(seen));
    text_format(words, PROBE_WORDS_BYTES, "'%s' answers '%s' instead of '%s'", method, shown,
                wanted);
    return PROBE_WRONG;
}

/* The end of a text without the blanks there. */
static void trim(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) {
        text[--len] = '\0';
    }
}

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    while (text) {
        if (strncmp(text, line, len) == 0 && (text[len] == '\n' || text[len] == '\0')) {
            return true;
        }
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return false;
}

static enum probe_outcome judge_text(const char *method, const char *bridge, char *answer,
                                     char *words)
{
    if (text_equal(method, "ofproto/list")) {
        return has_line(answer, bridge) ? PROBE_PASSED : say_seen(method, bridge, answer, words);
    }
    trim(answer);
    if (text_equal(method, "coverage/read-counter")) {
        if (!text_equal(answer, "0")) {
            return PROBE_PASSED;
        }
        text_format(words, PROBE_WORDS_BYTES, "it has computed no flows since its start");
        return PROBE_WRONG;
    }
    const char *wanted = text_equal(method, "status") ? "Status: active" : "connected";
    return text_equal(answer, wanted) ? PROBE_PASSED : say_seen(method, wanted, answer, words);
}

enum probe_outcome service_judge(const struct service *service, size_t index, const char *bridge,
                                 const struct rpc_message *reply,
                                 char words[static PROBE_WORDS_BYTES])
{
    const char *method = service->questions[index].method;
    char answer[ANSWER_BYTES];
    if (service->database) {
        return ovsdb_reply_has(reply, service->database, words);
    }
    if (reply->error.at || json_scan_kind(reply->result) != JSON_KIND_TEXT) {
        struct json_slice seen = reply->error.at ? reply->error : reply->result;
        text_sanitize(answer, SHOWN_BYTES, seen.at, seen.len);
        text_format(words, PROBE_WORDS_BYTES, "'%s' is answered with %s", method, answer);
        return PROBE_WRONG;
    }
    (void)json_scan_text(reply->result, answer, sizeof(answer)); /* a longer one has been refused */
    return judge_text(method, bridge, answer, words);
}

/* ---- the beat -------------------------------------------------------------------------------- */

static const char beat_key[] = "e2e_timestamp";

/* Both stamps are of this machine; one of the future is a step of its clock. */
static bool is_young(const char *value, struct wall now, int64_t limit_ns)
{
    int64_t seconds;
    if (text_to_i64(value, strlen(value), &seconds, NULL) != 0) {
        return false;
    }
    struct wall stamp = {.ns = mono_ns_mul(NS_PER_SEC, seconds)};
    int64_t age_ns = wall_since(now, stamp);
    return age_ns >= 0 && age_ns < limit_ns;
}

enum probe_outcome service_beat_step(struct service_beat *beat, const struct rpc_message *reply,
                                     struct mono now, struct wall wall_now,
                                     char words[static PROBE_WORDS_BYTES])
{
    char value[SERVICE_BEAT_BYTES];
    char span[32];
    enum probe_outcome outcome =
        ovsdb_reply_value(reply, "options", beat_key, value, sizeof(value), words);
    if (outcome != PROBE_PASSED) {
        return outcome;
    }
    bool is_first = !beat->has_begun;
    bool is_alive = is_first ? is_young(value, wall_now, beat->limit_ns)
                             : value[0] != '\0' && !text_equal(value, beat->last);
    if (is_first || is_alive) {
        beat->alive_at = now;
    }
    beat->has_begun = true;
    beat->was_alive = beat->was_alive || is_alive;
    text_format(beat->last, sizeof(beat->last), "%s", value);
    if (mono_since(now, beat->alive_at) < beat->limit_ns) {
        text_format(words, PROBE_WORDS_BYTES, "%s has not changed yet", beat_key);
        return beat->was_alive ? PROBE_PASSED : PROBE_UNKNOWN;
    }
    text_from_duration(beat->limit_ns, span,
                       sizeof(span)); /* a growing age would be news each time */
    text_format(words, PROBE_WORDS_BYTES, "%s of the southbound database %s %s", beat_key,
                value[0] ? "has not changed for" : "has not been there for", span);
    return PROBE_WRONG;
}
