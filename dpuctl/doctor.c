/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/commands.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "dpuctl/check.h"
#include "dpuctl/json_print.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char summary[] =
    "Checks the whole chain from the DPU to a pod, link by link, and says how to mend what is "
    "broken. Changes nothing, and needs no agent to be alive. Run it as root on the node, with the "
    "agent's own kubeconfig. Exit status: 0 whole (warnings are allowed), 1 broken, 2 unknown "
    "(nothing is broken, but not everything could be looked at), 64 wrong usage.";

/* Of the whole chain; also the exit status. */
enum health { WHOLE, BROKEN, UNCLEAR };

struct doctor {
    struct admin_config config;
    struct node_look look;
    struct cni_scan scan;
    struct check_list list;
    struct check_versions versions;
};

static const char *const outcome_names[] = {
    [CHECK_PASS] = "pass", [CHECK_WARN] = "warn", [CHECK_FAIL] = "FAIL", [CHECK_SKIP] = "skip"};

static void examine(struct doctor *d)
{
    char dir[PATH_MAX];
    node_look_take(&d->config, &d->look);
    if (geteuid() != 0) {
        check_add(&d->list, CHECK_SKIP, "user", "run it as root",
                  "not root: some of the files below may not be readable");
    }
    check_record(&d->look, &d->config, &d->list);
    check_api(&d->look, &d->config, &d->list, &d->versions);
    cni_scan_directory(admin_path(&d->config, d->config.cni_conf_dir, dir, sizeof(dir)), &d->scan);
    check_cni(&d->scan, &d->versions, &d->config, &d->list);
    check_runtime(&d->versions, &d->config, &d->list);
    check_kubelet(&d->versions, &d->config, &d->list);
}

static size_t count_of(const struct check_list *list, enum check_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        count += list->results[i].outcome == outcome;
    }
    return count;
}

static enum health health_of(const struct check_list *list)
{
    return count_of(list, CHECK_FAIL) > 0   ? BROKEN
           : count_of(list, CHECK_SKIP) > 0 ? UNCLEAR
                                            : WHOLE;
}

/* ---- for a person ---------------------------------------------------------------------------- */

static void print_result(const struct check_result *r, bool has_color)
{
    static const enum screen_color colors[] = {[CHECK_PASS] = SCREEN_GOOD,
                                               [CHECK_WARN] = SCREEN_DOUBT,
                                               [CHECK_FAIL] = SCREEN_BAD,
                                               [CHECK_SKIP] = SCREEN_FAINT};
    (void)printf("%s%s%s  %-8s %s\n", screen_on(has_color, colors[r->outcome]),
                 outcome_names[r->outcome], screen_off(has_color), r->link, r->found);
    if (r->mend[0] != '\0') {
        (void)printf("               %s-> %s%s\n", screen_on(has_color, SCREEN_HEAD), r->mend,
                     screen_off(has_color));
    }
}

/* The links are in the order of the chain, so the first broken one explains later ones. */
static void print_end(const struct check_list *list)
{
    size_t warned = count_of(list, CHECK_WARN);
    size_t skipped = count_of(list, CHECK_SKIP);
    for (size_t i = 0; i < list->count; i++) {
        if (list->results[i].outcome == CHECK_FAIL) {
            (void)printf("\n%zu broken; begin with the first, %s: %s\n", count_of(list, CHECK_FAIL),
                         list->results[i].link, list->results[i].found);
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
    bool has_color = screen_has_color(&d->config);
    for (size_t i = 0; i < d->list.count; i++) {
        print_result(&d->list.results[i], has_color);
    }
    print_end(&d->list);
    return fflush(stdout) == 0;
}

/* ---- for a program --------------------------------------------------------------------------- */

static json_t *tree_of(const struct doctor *d)
{
    static const char *const words[] = {
        [CHECK_PASS] = "pass", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail", [CHECK_SKIP] = "skip"};
    static const char *const healths[] = {
        [WHOLE] = "Whole", [BROKEN] = "Broken", [UNCLEAR] = "Unknown"};
    CLEANUP(json) json_t *checks = json_array();
    for (size_t i = 0; i < d->list.count; i++) {
        const struct check_result *r = &d->list.results[i];
        json_t *check = json_pack("{s:s, s:s, s:s, s:s}", "link", r->link, "outcome",
                                  words[r->outcome], "found", r->found, "mend", r->mend);
        if (json_array_append_new(checks, check) != 0) {
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:s, s:O}", "node", d->config.agent.node_name, "version",
                     DPU_VERSION, "answer", healths[health_of(&d->list)], "checks", checks);
}

static bool print(const struct doctor *d)
{
    if (d->config.output == ADMIN_TEXT) {
        return print_text(d);
    }
    return json_print(tree_of(d), d->config.output == ADMIN_YAML, stdout);
}

int doctor_main(int argc, char **argv)
{
    int status = UNCLEAR;
    (void)signal(SIGPIPE, SIG_IGN);           /* seen by the flush */
    struct doctor *d = calloc(1, sizeof(*d)); /* large */
    if (!d) {
        (void)fputs("dpuctl doctor: out of memory\n", stderr);
        return status;
    }
    if (admin_options_parse("dpuctl doctor", summary, argc, argv, &d->config, &status)) {
        log_setup(LOG_ERROR, LOG_TEXT, "");
        examine(d);
        status = print(d) ? (int)health_of(&d->list) : UNCLEAR;
        admin_options_fini(&d->config);
    }
    free(d);
    return status;
}
