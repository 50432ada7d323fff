/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "dpuctl/commands.h"
#include "dpuctl/json_print.h"
#include "dpuctl/pods_look.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
    "Checks the whole chain from the DPU to a pod, link by link, and says how to mend what is "
    "broken. 'dpuctl doctor NODE' does that for another node, as far as the API server knows. "
    "Changes nothing, and needs no agent to be alive. Run it as root on the node, with the "
    "agent's own kubeconfig. Exit status: 0 whole (warnings are allowed), 1 broken, 2 unknown "
    "(nothing is broken, but not everything could be looked at), 64 wrong usage.";

enum { FLAG_BYTES = 320 }; /* a name that does not fit is none */

/* Of the whole chain; also the exit status. */
enum health { WHOLE, BROKEN, UNCLEAR };

static const char *const outcome_names[] = {
    [CHECK_PASS] = "pass", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail", [CHECK_SKIP] = "skip"};

void check_add(struct doctor *d, enum check_outcome outcome, const char *link, const char *mend,
               const char *found_format, ...)
{
    char found[2 * CHECK_TEXT_BYTES];
    va_list args;
    struct check_result *last = &d->results[CHECK_MAX - 1];
    if (d->count == CHECK_MAX && (outcome != CHECK_FAIL || last->outcome == CHECK_FAIL)) {
        return; /* more than anybody reads, but it has to be told that something is broken */
    }
    d->count -= d->count == CHECK_MAX;
    struct check_result *result = &d->results[d->count++];
    *result = (struct check_result){.outcome = outcome, .link = link};
    va_start(args, found_format);
    (void)vsnprintf(found, sizeof(found), found_format, args); /* cut again by the next */
    va_end(args);
    text_sanitize(result->found, sizeof(result->found), found, strlen(found));
    text_sanitize(result->mend, sizeof(result->mend), mend, strlen(mend));
}

static void examine(struct doctor *d)
{
    char dir[PATH_MAX];
    if (d->is_remote) {
        check_from_afar(d);
        return;
    }
    node_look_take(&d->config, &d->look);
    if (geteuid() != 0) {
        check_add(d, CHECK_SKIP, "user", "run it as root",
                  "not root: some of the files below may not be readable");
    }
    check_record(d);
    d->config.asks_runtime = pods_find_runtime(&d->config, dir);
    check_api(d);
    cni_scan_directory(admin_path(&d->config, d->config.cni_conf_dir, dir, sizeof(dir)), &d->cni);
    check_cni(d);
    check_cri(d);
    check_runtime(d);
    check_kubelet(d);
}

static size_t count_of(const struct doctor *d, enum check_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) {
        count += d->results[i].outcome == outcome;
    }
    return count;
}

static enum health health_of(const struct doctor *d)
{
    return count_of(d, CHECK_FAIL) > 0 ? BROKEN : count_of(d, CHECK_SKIP) > 0 ? UNCLEAR : WHOLE;
}

/* ---- for a person ---------------------------------------------------------------------------- */

static void print_result(const struct check_result *r, bool has_color)
{
    static const enum screen_color colors[] = {[CHECK_PASS] = SCREEN_GOOD,
                                               [CHECK_WARN] = SCREEN_DOUBT,
                                               [CHECK_FAIL] = SCREEN_BAD,
                                               [CHECK_SKIP] = SCREEN_FAINT};
    (void)printf("%s%s%s  %-8s %s\n", screen_on(has_color, colors[r->outcome]),
                 r->outcome == CHECK_FAIL ? "FAIL" : outcome_names[r->outcome],
                 screen_off(has_color), r->link, r->found);
    if (r->mend[0] != '\0') {
        (void)printf("               %s-> %s%s\n", screen_on(has_color, SCREEN_HEAD), r->mend,
                     screen_off(has_color));
    }
}

/* The links are in the order of the chain, so the first broken one explains later ones. */
static void print_end(const struct doctor *d)
{
    size_t warned = count_of(d, CHECK_WARN);
    size_t skipped = count_of(d, CHECK_SKIP);
    for (size_t i = 0; i < d->count; i++) {
        if (d->results[i].outcome == CHECK_FAIL) {
            (void)printf("\n%zu broken; begin with the first, %s: %s\n", count_of(d, CHECK_FAIL),
                         d->results[i].link, d->results[i].found);
            return;
        }
    }
    (void)printf("\nnothing is broken%s", warned + skipped > 0 ? "" : "\n");
    if (warned + skipped > 0) {
        (void)printf("; %zu to think about, %zu not looked at\n", warned, skipped);
    }
}

static bool print_text(const struct doctor *d)
{
    bool has_color = screen_has_color((enum admin_color)d->config.color);
    for (size_t i = 0; i < d->count; i++) {
        print_result(&d->results[i], has_color);
    }
    print_end(d);
    return fflush(stdout) == 0;
}

/* ---- for a program --------------------------------------------------------------------------- */

static json_t *tree_of(const struct doctor *d)
{
    static const char *const healths[] = {
        [WHOLE] = "Whole", [BROKEN] = "Broken", [UNCLEAR] = "Unknown"};
    CLEANUP(json) json_t *checks = json_array();
    for (size_t i = 0; i < d->count; i++) {
        const struct check_result *r = &d->results[i];
        json_t *check = json_pack("{s:s, s:s, s:s, s:s}", "link", r->link, "outcome",
                                  outcome_names[r->outcome], "found", r->found, "mend", r->mend);
        if (json_array_append_new(checks, check) != 0) {
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:s, s:O}", "node", d->config.agent.node_name, "version",
                     DPU_VERSION, "answer", healths[health_of(d)], "checks", checks);
}

static bool print(const struct doctor *d)
{
    if (d->config.output == ADMIN_TEXT) {
        return print_text(d);
    }
    return json_print(tree_of(d), d->config.output == ADMIN_YAML, stdout);
}

/* "doctor NODE ..." is "doctor --node-name=NODE ...", and another node. */
static void take_node(struct doctor *d, int argc, char **argv, char flag[static FLAG_BYTES])
{
    d->is_remote = argc > 1 && argv[1][0] != '-' && argv[1][0] != '\0';
    if (d->is_remote) {
        text_format(flag, FLAG_BYTES, "--node-name=%s", argv[1]);
        argv[1] = flag;
    }
}

int doctor_main(int argc, char **argv)
{
    char flag[FLAG_BYTES];
    int status = UNCLEAR;
    (void)signal(SIGPIPE, SIG_IGN);           /* seen by the flush */
    struct doctor *d = calloc(1, sizeof(*d)); /* large */
    if (!d) {
        (void)fputs("dpuctl doctor: out of memory\n", stderr);
        return status;
    }
    take_node(d, argc, argv, flag);
    if (admin_options_parse("dpuctl doctor", summary, argc, argv, &d->config, &status)) {
        log_setup(LOG_ERROR, LOG_TEXT, "");
        examine(d);
        status = print(d) ? (int)health_of(d) : UNCLEAR;
        admin_options_fini(&d->config);
    }
    free(d);
    return status;
}
