/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "dpuctl/screen.h"

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

static void put_clean(const char *text, FILE *out)
{
    char shown[PATH_MAX];
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    (void)fputs(shown, out);
}

/* ---- the node itself ------------------------------------------------------------------------- */

static void put_head(const struct node_look *look, bool has_color, FILE *out)
{
    char span[SCREEN_SPAN_BYTES];
    (void)fprintf(out, "%s%s%s", screen_on(has_color, color_of(look->answer)),
                  node_answer_name(look->answer), screen_off(has_color));
    (void)fprintf(out, " (%s)", readiness_reason_name(look->gate.reason));
    if (look->since.ns > 0) {
        (void)fprintf(out, " for %s", screen_span(mono_since(look->now, look->since), span));
    }
    (void)fputs("\n  ", out);
    put_clean(node_look_message(look), out);
    (void)fputs("\n\n", out);
}

static void put_record(const struct node_look *look, bool has_color, FILE *out)
{
    const struct record *r = &look->record;
    char span[SCREEN_SPAN_BYTES];
    label(out, has_color, "record");
    if (!look->has_record) {
        put_clean(look->path, out);
        (void)fputs(": ", out);
        put_clean(look->problem, out);
        (void)fputc('\n', out);
        return;
    }
    int64_t left_ns = mono_since(r->verdict.lease_until, look->now);
    (void)fprintf(out, "%s (", readiness_state_name(r->verdict.state));
    put_clean(look->path, out);
    (void)fputs(")\n\t", out);
    if (r->verdict.observed.ns > 0) {
        (void)fprintf(out, "last renewal %s ago, ",
                      screen_span(mono_since(look->now, r->verdict.observed), span));
    }
    if (r->verdict.reason == REASON_HEALTH_CHECK_DISABLED) {
        (void)fputs("the health check is disabled\n", out);
    } else if (mono_is_never(r->verdict.lease_until)) {
        (void)fputs("valid until told otherwise\n", out);
    } else if (r->verdict.lease_until.ns == 0) {
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

static void put_dpu(const struct node_look *look, bool has_color, FILE *out)
{
    const struct readiness *v = &look->record.verdict;
    char span[SCREEN_SPAN_BYTES];
    if (!look->has_record || v->dpu_boot_id[0] == '\0') {
        return;
    }
    label(out, has_color, "DPU");
    (void)fputs("boot ", out);
    put_clean(v->dpu_boot_id, out);
    if (v->dpu_rebooted.ns > 0) {
        (void)fprintf(out, ", %srebooted %s ago%s", screen_on(has_color, SCREEN_DOUBT),
                      screen_span(wall_since(clock_wall_now(), v->dpu_rebooted), span),
                      screen_off(has_color));
    }
    (void)fputc('\n', out);
}

static void put_witnesses(const struct node_look *look, bool has_color, FILE *out)
{
    static const char *const words[] = {
        [TESTIMONY_NONE] = "has not been well since this host was started: proves nothing",
        [TESTIMONY_WELL] = "well",
        [TESTIMONY_FAILED] = "failed"};
    static const enum screen_color colors[] = {[TESTIMONY_NONE] = SCREEN_DOUBT,
                                               [TESTIMONY_WELL] = SCREEN_GOOD,
                                               [TESTIMONY_FAILED] = SCREEN_BAD};
    const struct readiness_witnesses *w = &look->record.verdict.witnesses;
    for (size_t i = 0; look->has_record && i < w->count; i++) {
        enum readiness_testimony says = w->each[i].says;
        label(out, has_color, i == 0 ? "probes" : "");
        put_clean(w->each[i].probe, out);
        (void)fprintf(out, ": %s%s%s\n", screen_on(has_color, colors[says]), words[says],
                      screen_off(has_color));
    }
}

static void put_node(const struct node_look *look, bool has_color, FILE *out)
{
    put_head(look, has_color, out);
    label(out, has_color, "pods");
    (void)fprintf(out, "%s, STATUS answers %d\n",
                  look->gate.admit ? "ADD is let through" : "ADD fails at once",
                  gate_status_code(&look->gate));
    put_record(look, has_color, out);
    put_writer(look, has_color, out);
    put_dpu(look, has_color, out);
    put_witnesses(look, has_color, out);
}

/* ---- what was asked for ---------------------------------------------------------------------- */

static void put_health(const struct lease_view *l, FILE *out)
{
    if (l->health != LEASE_HEALTH_NONE) {
        (void)fprintf(out, "\tthe DPU says: %s%s",
                      l->health == LEASE_HEALTH_SHUTDOWN ? NAMES_HEALTH_SHUTDOWN
                                                         : NAMES_HEALTH_UNHEALTHY,
                      l->health_message[0] != '\0' ? ", " : "");
        put_clean(l->health_message, out);
        (void)fputc('\n', out);
    }
}

static void put_lease(const struct status *s, bool has_color, FILE *out)
{
    const struct agent_config *a = &s->config->agent;
    const struct lease_view *l = &s->lease_view;
    const struct readiness_lease *of_record = &s->look.record.verdict.lease;
    if (!s->lease.is_asked) {
        return;
    }
    label(out, has_color, "lease");
    (void)fprintf(out, "%s/%s: ", a->lease_namespace, a->lease_name);
    if (!s->lease.is_found) {
        put_clean(s->lease.problem[0] != '\0' ? s->lease.problem : "no answer", out);
        (void)fputc('\n', out);
        return;
    }
    bool is_held = l->holder[0] != '\0';
    bool is_renewed = l->renew_stamp[0] != '\0';
    (void)fputs(is_held ? "held by " : "held by nobody", out);
    put_clean(l->holder, out);
    (void)fprintf(out, "%s, %u s\n\t%s ",
                  text_equal(l->holder, a->holder_identity) ? "" : " (not the one expected)",
                  l->duration_s, is_renewed ? "renewed" : "never renewed");
    put_clean(l->renew_stamp, out);
    (void)fprintf(out, "%s\n",
                  s->look.has_record && text_equal(l->uid, of_record->uid)
                      ? ""
                      : ", not the one of the record");
    put_health(l, out);
}

static void put_clock(const char *whose, int64_t skew_ns, FILE *out)
{
    char span[SCREEN_SPAN_BYTES];
    (void)fprintf(out, "%s %c%s", whose, skew_ns < 0 ? '-' : '+', screen_span(skew_ns, span));
}

static void put_clocks(const struct status *s, bool has_color, FILE *out)
{
    int64_t dpu_ns = 0;
    bool has_dpu = node_look_dpu_skew(&s->look, &dpu_ns);
    if (!has_dpu && !s->has_api_skew) {
        return;
    }
    label(out, has_color, "clocks");
    if (has_dpu) {
        put_clock("DPU (at its last renewal)", dpu_ns, out);
    }
    if (s->has_api_skew) {
        (void)fputs(has_dpu ? ", " : "", out);
        put_clock("API server", s->api_skew_ns, out);
    }
    (void)fputs(" against this host\n", out);
}

static void put_api(const struct status *s, bool has_color, FILE *out)
{
    label(out, has_color, "API");
    put_clean(s->server, out);
    (void)fputs(s->server[0] != '\0' && s->api_problem[0] != '\0' ? ": " : "", out);
    put_clean(s->api_problem, out);
    (void)fputc('\n', out);
}

static void put_cni(const struct status *s, bool has_color, FILE *out)
{
    const struct cni_entry *first = cni_scan_first(&s->cni);
    const struct cni_entry *gated = cni_scan_gated(&s->cni);
    label(out, has_color, "CNI");
    if (s->cni.problem[0] != '\0' || !first) {
        put_clean(s->cni.problem[0] != '\0' ? s->cni.problem
                                            : "no configuration that a runtime could use",
                  out);
        (void)fputc('\n', out);
        return;
    }
    (void)fprintf(out, "%s comes first (%s)", first->file, first->types);
    if (first->is_gated) {
        (void)fputs(
            first->speaks_status ? "\n" : ", without cniVersion 1.1.0: STATUS is not asked\n", out);
    } else if (gated) {
        (void)fprintf(out, "; the gate is in %s, see dpuctl doctor\n", gated->file);
    } else {
        (void)fputs(", without dpu-gate\n", out);
    }
}

static void put_dra(const struct status *s, bool has_color, FILE *out)
{
    if (!s->offers_device && !s->slice.is_found) {
        return; /* not in use */
    }
    label(out, has_color, "DRA");
    (void)fprintf(out, "%s: %s", s->config->driver,
                  s->offers_device ? "offered to the kubelet" : "not offered to the kubelet");
    if (s->slice.is_found) {
        (void)fprintf(out, ", slice published%s", s->taint[0] != '\0' ? ", tainted " : "");
        put_clean(s->taint, out);
    } else if (s->slice.is_asked) {
        (void)fputs(", slice: ", out);
        put_clean(s->slice.problem[0] != '\0' ? s->slice.problem : "no answer", out);
    }
    (void)fputc('\n', out);
}

static void put_pods(const struct status *s, bool has_color, FILE *out)
{
    if (s->has_pods) {
        label(out, has_color, "network");
        (void)fprintf(out,
                      s->pods_lost > 0 ? "%zu of %zu pods have lost it: see dpuctl pods"
                                       : "%zu of %zu pods have lost it",
                      s->pods_lost, s->pods);
        if (s->pods_unseen > 0) {
            (void)fprintf(out, "; of %zu it cannot be told", s->pods_unseen);
        }
        (void)fputc('\n', out);
    }
}

static void put_all(const struct status *s, bool has_color, FILE *out)
{
    put_lease(s, has_color, out);
    put_clocks(s, has_color, out);
    put_api(s, has_color, out);
    put_cni(s, has_color, out);
    put_dra(s, has_color, out);
    put_pods(s, has_color, out);
}

/* The columns are made at the end: everything is put into one text first. */
bool status_print(const struct node_look *look, const char *node, const struct status *s,
                  struct status_screen screen, FILE *out)
{
    CLEANUP(free) char *text = NULL;
    size_t len = 0;
    FILE *whole = open_memstream(&text, &len);
    if (!whole) {
        return false;
    }
    (void)fprintf(whole, "%s%s%s: ", screen_on(screen.has_color, SCREEN_HEAD), node,
                  screen_off(screen.has_color));
    put_node(look, screen.has_color, whole);
    if (s) {
        put_all(s, screen.has_color, whole);
    }
    if (fclose(whole) != 0) { /* this makes `text` */
        return false;
    }
    screen_wrap(text, screen.columns, out);
    return true;
}
