/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status_text.h"

#include "base/text.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <string.h>

static enum screen_color color_of(enum node_answer answer)
{
    static const enum screen_color colors[] = {
        [NODE_READY] = SCREEN_GOOD, [NODE_NOT_READY] = SCREEN_BAD, [NODE_UNKNOWN] = SCREEN_DOUBT};
    return colors[answer];
}

static void label(FILE *out, bool has_color, const char *name)
{
    (void)fprintf(out, "  %s%-7s%s ", screen_on(has_color, SCREEN_FAINT), name,
                  screen_off(has_color));
}

/* ---- the node itself ------------------------------------------------------------------------- */

static void put_head(const struct node_look *look, bool has_color, FILE *out)
{
    const struct readiness *v = &look->record.verdict;
    char span[SCREEN_SPAN_BYTES];
    char text[NAMES_MESSAGE_BYTES];
    const char *message = look->gate.message[0] != '\0' ? look->gate.message
                          : look->gate.note[0] != '\0'  ? look->gate.note
                                                        : v->message;
    text_sanitize(text, sizeof(text), message, strlen(message));
    (void)fprintf(out, "%s%s%s", screen_on(has_color, color_of(look->answer)),
                  node_answer_name(look->answer), screen_off(has_color));
    (void)fprintf(out, " (%s)", readiness_reason_name(look->gate.reason));
    if (look->has_record && v->reason == look->gate.reason && v->transition.ns > 0) {
        (void)fprintf(out, " for %s", screen_span(wall_since(look->wall, v->transition), span));
    }
    (void)fprintf(out, "\n  %s\n\n", text);
}

static void put_record(const struct node_look *look, bool has_color, FILE *out)
{
    const struct record *r = &look->record;
    char span[SCREEN_SPAN_BYTES];
    label(out, has_color, "record");
    if (!look->has_record) {
        (void)fprintf(out, "%s: %s\n", look->path, look->problem);
        return;
    }
    int64_t left_ns = mono_since(r->verdict.valid_until, look->now);
    (void)fprintf(out, "%s (%s)\n          ", readiness_state_name(r->verdict.state), look->path);
    if (r->verdict.observed.ns > 0) {
        (void)fprintf(out, "last renewal %s ago, ",
                      screen_span(mono_since(look->now, r->verdict.observed), span));
    }
    if (r->verdict.reason == REASON_HEALTH_CHECK_DISABLED) {
        (void)fputs("the health check is disabled\n", out);
    } else {
        (void)fprintf(out, left_ns > 0 ? "valid for %s\n" : "over for %s\n",
                      screen_span(left_ns, span));
    }
}

static void put_writer(const struct node_look *look, bool has_color, FILE *out)
{
    const struct record *r = &look->record;
    char span[SCREEN_SPAN_BYTES];
    if (!look->has_record) {
        return;
    }
    int64_t left_ns = mono_since(r->writer_until, look->now);
    label(out, has_color, "agent");
    (void)fprintf(out, "pid %d%s, ", (int)r->pid,
                  look->writer_exists ? "" : " (no such dpu-host-agent seen from here)");
    if (left_ns > 0) {
        (void)fprintf(out, "writes again within %s\n", screen_span(left_ns, span));
    } else {
        (void)fprintf(out, "%soverdue for %s%s\n", screen_on(has_color, SCREEN_BAD),
                      screen_span(left_ns, span), screen_off(has_color));
    }
}

void status_text_node(const struct node_look *look, bool has_color, FILE *out)
{
    put_head(look, has_color, out);
    label(out, has_color, "pods");
    (void)fprintf(out, "%s\n",
                  look->gate.admit ? "ADD is let through, STATUS answers 0"
                                   : "ADD fails at once, STATUS answers 50");
    put_record(look, has_color, out);
    put_writer(look, has_color, out);
}

/* ---- what was asked for ---------------------------------------------------------------------- */

static const char *get(const json_t *tree, const char *section, const char *key)
{
    return json_text_get(json_object_get(tree, section), key);
}

static bool is_true(const json_t *tree, const char *section, const char *key)
{
    return json_is_true(json_object_get(json_object_get(tree, section), key));
}

static void put_lease(const json_t *tree, bool has_color, FILE *out)
{
    const json_t *lease = json_object_get(tree, "lease");
    if (!lease) {
        return;
    }
    label(out, has_color, "lease");
    (void)fprintf(out, "%s/%s: ", json_text_get(lease, "namespace"), json_text_get(lease, "name"));
    if (!is_true(tree, "lease", "found")) {
        (void)fprintf(out, "%s\n", json_text_get(lease, "problem"));
        return;
    }
    const char *holder = json_text_get(lease, "holder");
    const char *renewed = json_text_get(lease, "renewTime");
    const char *health = json_text_get(lease, "health");
    const char *message = json_text_get(lease, "healthMessage");
    (void)fprintf(out, "%s%s%s, %d s\n          %s %s\n", holder ? "held by " : "held by nobody",
                  holder ? holder : "",
                  is_true(tree, "lease", "holderExpected") ? "" : " (not the one expected)",
                  (int)json_integer_value(json_object_get(lease, "durationSeconds")),
                  renewed ? "renewed" : "never renewed", renewed ? renewed : "");
    if (health) {
        (void)fprintf(out, "          the DPU says: %s%s%s\n", health, message ? ", " : "",
                      message ? message : "");
    }
}

static void put_clock(FILE *out, const char *whose, const json_t *skew, const char **separator)
{
    char span[SCREEN_SPAN_BYTES];
    if (json_is_real(skew)) {
        double s = json_real_value(skew);
        (void)fprintf(out, "%s%s %c%s", *separator, whose, s < 0 ? '-' : '+',
                      screen_span((int64_t)(s * 1e9), span));
        *separator = ", ";
    }
}

static void put_clocks(const json_t *tree, bool has_color, FILE *out)
{
    const json_t *dpu = json_object_get(json_object_get(tree, "lease"), "dpuClockSkewSeconds");
    const json_t *api = json_object_get(json_object_get(tree, "api"), "clockSkewSeconds");
    const char *separator = "";
    if (json_is_real(dpu) || json_is_real(api)) {
        label(out, has_color, "clocks");
        put_clock(out, "DPU", dpu, &separator);
        put_clock(out, "API server", api, &separator);
        (void)fputs(" against this host\n", out);
    }
}

static void put_api(const json_t *tree, bool has_color, FILE *out)
{
    const char *server = get(tree, "api", "server");
    const char *problem = get(tree, "api", "problem");
    label(out, has_color, "API");
    (void)fprintf(out, "%s%s%s\n", server ? server : "", server && problem ? ": " : "",
                  problem ? problem : "");
}

static void put_cni(const json_t *tree, bool has_color, FILE *out)
{
    const char *problem = get(tree, "cni", "problem");
    const char *first = get(tree, "cni", "first");
    const char *gate = get(tree, "cni", "gate");
    label(out, has_color, "CNI");
    if (problem || !first) {
        (void)fprintf(out, "%s\n", problem ? problem : "no configuration that a runtime could use");
    } else if (is_true(tree, "cni", "gated")) {
        (void)fprintf(out, "%s comes first (%s)%s\n", first, get(tree, "cni", "plugins"),
                      is_true(tree, "cni", "statusSupported")
                          ? ""
                          : ", without cniVersion 1.1.0: STATUS is not asked");
    } else {
        (void)fprintf(out, "%s comes first (%s)%s%s%s\n", first, get(tree, "cni", "plugins"),
                      gate ? "; the gate is in " : ", without dpu-gate", gate ? gate : "",
                      gate ? ", see dpuctl doctor" : "");
    }
}

static void put_dra(const json_t *tree, bool has_color, FILE *out)
{
    const json_t *dra = json_object_get(tree, "dra");
    const json_t *slice = json_object_get(dra, "slice");
    bool offers = json_is_true(json_object_get(dra, "registrationSocket"));
    if (!offers && !json_is_true(json_object_get(slice, "found"))) {
        return; /* not in use */
    }
    label(out, has_color, "DRA");
    (void)fprintf(out, "%s: %s", json_text_get(dra, "driver"),
                  offers ? "offered to the kubelet" : "not offered to the kubelet");
    if (json_is_true(json_object_get(slice, "found"))) {
        (void)fputs(json_is_true(json_object_get(slice, "tainted"))
                        ? ", slice published and tainted"
                        : ", slice published",
                    out);
    } else if (slice) {
        (void)fprintf(out, ", slice: %s", json_text_get(slice, "problem"));
    }
    (void)fputc('\n', out);
}

void status_text_print(const struct node_look *look, const json_t *tree, bool has_color, FILE *out)
{
    (void)fprintf(out, "%s%s%s: ", screen_on(has_color, SCREEN_HEAD), json_text_get(tree, "node"),
                  screen_off(has_color));
    status_text_node(look, has_color, out);
    put_lease(tree, has_color, out);
    put_clocks(tree, has_color, out);
    put_api(tree, has_color, out);
    put_cni(tree, has_color, out);
    put_dra(tree, has_color, out);
}
