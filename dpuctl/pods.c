/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl pods: which pods of this node have lost their network, and what follows. */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "dpuctl/commands.h"
#include "dpuctl/json_print.h"
#include "dpuctl/pods_look.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char summary[] =
    "The pods of this node, oldest first: when each was made, whether its network is there or lost "
    "(as when the DPU was reset), and what follows by --on-lost-network. Asks the container "
    "runtime and the kernel, and no agent. Run it as root on the node. Exit status: 0 none has "
    "lost it, 1 some have, 2 unknown (also of one pod only), 64 wrong usage.";

enum answer { NONE_LOST, SOME_LOST, UNCLEAR };

static const char *network_of(const struct pods_pod *pod)
{
    static const char *const names[] = {[POD_NET_UNSEEN] = "Unknown",
                                        [POD_NET_UNKNOWN] = "Unknown",
                                        [POD_NET_WHOLE] = "There",
                                        [POD_NET_AWAY] = "Away",
                                        [POD_NET_LOST] = "Lost"};
    return pod->has_host_network ? "Host" : names[pod->net.evidence];
}

/* What the agent does, or leaves to people. */
static const char *what_follows(const struct admin_config *config, const struct pods_pod *pod)
{
    static const char stops[] = "gets a new sandbox, unless its restartPolicy is Never, or "
                                "OnFailure in a Job";
    static const char *const by_mode[] = {"reported", "new pods are refused meanwhile", stops};
    enum { REPORTED, REFUSED };
    if (pod->net.evidence != POD_NET_LOST) {
        return "";
    }
    if (config->on_lost_network == REFUSED && !pod->net.is_by_device) {
        return by_mode[REPORTED]; /* the pod may have done it */
    }
    return text_is_empty(config->cri_socket) ? "nothing: dpu-host-agent has no --cri-socket"
                                             : by_mode[config->on_lost_network];
}

/* When the DPU's reboot was seen, as the record has it; 0: of none that is known. */
static struct wall reboot_of(const struct admin_config *config)
{
    return config->record_rc == 0 ? config->record.verdict.dpu_rebooted : (struct wall){0};
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_pod(const struct admin_config *config, const struct pods_pod *pod, int width)
{
    char made[RFC3339_BYTES];
    char words[POD_NET_WORDS_BYTES];
    char name[2 * CRI_NAME_BYTES];
    bool has_color = screen_has_color((enum admin_color)config->color);
    enum screen_color color = pod->net.evidence == POD_NET_LOST   ? SCREEN_BAD
                              : pod->net.evidence == POD_NET_AWAY ? SCREEN_DOUBT
                                                                  : SCREEN_PLAIN;
    rfc3339_format_seconds(pod->sandbox.made, made);
    text_sanitize(words, sizeof(words), pod->net.words, strlen(pod->net.words));
    text_format(name, sizeof(name), "%s/%s", pod->sandbox.ns, pod->sandbox.name);
    struct wall reboot = reboot_of(config);
    (void)printf("%-*s  %s  %s%-7s%s", width, name, made, screen_on(has_color, color),
                 network_of(pod), screen_off(has_color));
    if (reboot.ns != 0) {
        (void)printf("  made %s the DPU's reboot",
                     pod->sandbox.made.ns < reboot.ns ? "before" : "after");
    }
    const char *follows = what_follows(config, pod);
    (void)printf("%s%s%s%s\n", words[0] ? "  " : "", words, follows[0] ? "; " : "", follows);
}

static void print_text(const struct admin_config *config, const struct pods_look *look)
{
    size_t width = strlen("POD");
    for (size_t i = 0; i < look->count; i++) {
        const struct cri_sandbox *s = &look->pods[i].sandbox;
        size_t len = strlen(s->ns) + 1 + strlen(s->name);
        width = len > width ? len : width;
    }
    (void)printf("%-*s  %-20s  %s\n", (int)width, "POD", "MADE", "NETWORK");
    for (size_t i = 0; i < look->count; i++) {
        print_pod(config, &look->pods[i], (int)width);
    }
}

static json_t *tree_of(const struct admin_config *config, const struct pods_look *look)
{
    static const char *const modes[] = {"report", "status", "restart"};
    struct wall reboot = reboot_of(config);
    CLEANUP(json) json_t *pods = json_array();
    for (size_t i = 0; i < look->count; i++) {
        const struct pods_pod *pod = &look->pods[i];
        const struct cri_sandbox *s = &pod->sandbox;
        char made[RFC3339_BYTES];
        rfc3339_format_seconds(s->made, made);
        json_t *is_older = reboot.ns != 0 ? json_boolean(s->made.ns < reboot.ns) : json_null();
        json_t *tree = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s}", "namespace", s->ns,
                                 "name", s->name, "uid", s->uid, "sandbox", s->id, "madeTime", made,
                                 "madeBeforeReboot", is_older, "network", network_of(pod), "seen",
                                 pod->net.words);
        if (json_array_append_new(pods, tree) != 0) {
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:O}", "node", config->agent.node_name, "onLostNetwork",
                     text_is_empty(config->cri_socket) ? "off" : modes[config->on_lost_network],
                     "lost", (int)look->lost, "unseen", (int)look->unseen, "pods", pods);
}

static bool print(const struct admin_config *config, const struct pods_look *look)
{
    switch ((enum admin_output)config->output) {
    case ADMIN_JSON:
    case ADMIN_YAML:
        return json_print(tree_of(config, look), config->output == ADMIN_YAML, stdout);
    case ADMIN_NAME:
        for (size_t i = 0; i < look->count; i++) {
            if (look->pods[i].net.evidence == POD_NET_LOST) {
                (void)printf("%s/%s\n", look->pods[i].sandbox.ns, look->pods[i].sandbox.name);
            }
        }
        break;
    case ADMIN_TEXT:
        print_text(config, look);
        break;
    }
    return fflush(stdout) == 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum answer examine(const struct admin_config *config)
{
    char socket[PATH_MAX];
    struct pods_look look = {.count = 0};
    struct err e = ERR_INIT;
    if (!pods_find_runtime(config, socket)) {
        (void)fputs("dpuctl pods: no container runtime's socket is here: give --cri-socket=FILE\n",
                    stderr);
        return UNCLEAR;
    }
    if (pods_look_take(config, socket, &look, &e) != 0) {
        (void)fprintf(stderr, "dpuctl pods: %s\n", e.msg);
        return UNCLEAR;
    }
    bool is_printed = print(config, &look);
    enum answer answer = look.lost > 0 ? SOME_LOST : look.unseen > 0 ? UNCLEAR : NONE_LOST;
    pods_look_fini(&look);
    return is_printed ? answer : UNCLEAR;
}

int pods_main(int argc, char **argv)
{
    struct admin_config config;
    int status = UNCLEAR;
    (void)signal(SIGPIPE, SIG_IGN); /* seen by the flush */
    if (admin_options_parse("dpuctl pods", summary, argc, argv, &config, &status)) {
        log_setup(LOG_ERROR, LOG_TEXT, "");
        status = (int)examine(&config);
        admin_options_fini(&config);
    }
    return status;
}
