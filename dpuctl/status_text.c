/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status_text.h"

#include "base/text.h"
#include "dpuctl/page.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <stdlib.h>
#include <string.h>

static enum screen_color color_of(enum node_answer answer)
{
    static const enum screen_color colors[] = {
        [NODE_READY] = SCREEN_GOOD, [NODE_NOT_READY] = SCREEN_BAD, [NODE_UNKNOWN] = SCREEN_DOUBT};
    return colors[answer];
}

static void label(FILE *out, bool has_color, const char *name)
{
    (void)fprintf(out, "  %s%s%s\t", screen_on(has_color, SCREEN_FAINT), name,
                  screen_off(has_color));
}

/* ---- the node itself ------------------------------------------------------------------------- */

static void put_head(const struct node_look *look, bool has_color, FILE *out)
{
    char span[SCREEN_SPAN_BYTES];
    char text[NAMES_MESSAGE_BYTES];
    const char *message = node_look_message(look);
    text_sanitize(text, sizeof(text), message, strlen(message));
    (void)fprintf(out, "%s%s%s", screen_on(has_color, color_of(look->answer)),
                  node_answer_name(look->answer), screen_off(has_color));
    (void)fprintf(out, " (%s)", readiness_reason_name(look->gate.reason));
    if (look->since.ns > 0) {
        (void)fprintf(out, " for %s", screen_span(mono_since(look->now, look->since), span));
    }
    (void)fprintf(out, "\n  %s\n\n", text);
}

static void put_record(const struct node_look *look, bool has_color, FILE *out)
{
    const struct record *r = &look->record;
    char span[SCREEN_SPAN_BYTES];
    char shown[PATH_MAX];
    text_sanitize(shown, sizeof(shown), look->path, strlen(look->path));
    label(out, has_color, "record");
    if (!look->has_record) {
        (void)fprintf(out, "%s: ", shown);
        text_sanitize(shown, sizeof(shown), look->problem, strlen(look->problem));
        (void)fprintf(out, "%s\n", shown);
        return;
    }
    int64_t left_ns = mono_since(r->verdict.valid_until, look->now);
    (void)fprintf(out, "%s (%s)\n\t", readiness_state_name(r->verdict.state), shown);
    if (r->verdict.observed.ns > 0) {
        (void)fprintf(out, "last renewal %s ago, ",
                      screen_span(mono_since(look->now, r->verdict.observed), span));
    }
    if (r->verdict.reason == REASON_HEALTH_CHECK_DISABLED) {
        (void)fputs("the health check is disabled\n", out);
    } else if (mono_is_never(r->verdict.valid_until)) {
        (void)fputs("valid until told otherwise\n", out);
    } else if (r->verdict.valid_until.ns == 0) {
        (void)fputs("no renewal was seen yet\n", out);
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
                  look->writer_exists ? ""
                  : r->pid == 1       ? " of its pod"
                                      : " (no such dpu-host-agent seen from here)");
    if (left_ns > 0) {
        (void)fprintf(out, "writes again within %s\n", screen_span(left_ns, span));
    } else {
        (void)fprintf(out, "%soverdue for %s%s\n", screen_on(has_color, SCREEN_BAD),
                      screen_span(left_ns, span), screen_off(has_color));
    }
}

static void put_node(const struct node_look *look, bool has_color, FILE *out)
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
        const char *problem = json_text_get(lease, "problem");
        (void)fprintf(out, "%s\n", problem ? problem : "no answer");
        return;
    }
    const char *holder = json_text_get(lease, "holder");
    const char *renewed = json_text_get(lease, "renewTime");
    const char *health = json_text_get(lease, "health");
    const char *message = json_text_get(lease, "healthMessage");
    (void)fprintf(out, "%s%s%s, %d s\n\t%s %s%s\n", holder ? "held by " : "held by nobody",
                  holder ? holder : "",
                  is_true(tree, "lease", "holderExpected") ? "" : " (not the one expected)",
                  (int)json_integer_value(json_object_get(lease, "durationSeconds")),
                  renewed ? "renewed" : "never renewed", renewed ? renewed : "",
                  is_true(tree, "lease", "uidOfRecord") ? "" : ", not the one of the record");
    if (health) {
        (void)fprintf(out,
                      "\t"
                      "the DPU says: %s%s%s\n",
                      health, message ? ", " : "", message ? message : "");
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
    const json_t *dpu = json_object_get(json_object_get(tree, "record"), "dpuClockSkewSeconds");
    const json_t *api = json_object_get(json_object_get(tree, "api"), "clockSkewSeconds");
    const char *separator = "";
    if (json_is_real(dpu) || json_is_real(api)) {
        label(out, has_color, "clocks");
        put_clock(out, "DPU (at its last renewal)", dpu, &separator);
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
        const char *taint = json_text_get(slice, "taint");
        (void)fprintf(out, ", slice published%s%s", taint ? ", tainted " : "", taint ? taint : "");
    } else if (slice) {
        const char *problem = json_text_get(slice, "problem");
        (void)fprintf(out, ", slice: %s", problem ? problem : "no answer");
    }
    (void)fputc('\n', out);
}

/* The columns are made at the end: everything is put into one text first. */
static int put_page(char **text, FILE *whole, size_t columns, FILE *out)
{
    bool is_whole = fclose(whole) == 0; /* this makes `*text` */
    if (is_whole) {
        page_wrap(*text, columns, out);
    }
    free(*text);
    return is_whole ? 0 : ERR_NOMEM;
}

int status_text_node(const struct node_look *look, const char *node, struct status_look how,
                     FILE *out)
{
    char *text = NULL;
    size_t len = 0;
    FILE *whole = open_memstream(&text, &len);
    if (!whole) {
        return ERR_NOMEM;
    }
    (void)fprintf(whole, "%s%s%s: ", screen_on(how.has_color, SCREEN_HEAD), node,
                  screen_off(how.has_color));
    put_node(look, how.has_color, whole);
    return put_page(&text, whole, how.columns, out);
}

int status_text_print(const struct node_look *look, const json_t *tree, struct status_look how,
                      FILE *out)
{
    char *text = NULL;
    size_t len = 0;
    int rc = status_text_node(look, json_text_get(tree, "node"), how, out);
    FILE *whole = rc == 0 ? open_memstream(&text, &len) : NULL;
    if (!whole) {
        return ERR_NOMEM;
    }
    put_lease(tree, how.has_color, whole);
    put_clocks(tree, how.has_color, whole);
    put_api(tree, how.has_color, whole);
    put_cni(tree, how.has_color, whole);
    put_dra(tree, how.has_color, whole);
    return put_page(&text, whole, how.columns, out);
}
