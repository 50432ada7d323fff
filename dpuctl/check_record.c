/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/text.h"
#include "dpuctl/screen.h"

#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#define START_AGENT                                                                                \
    "start the agent: 'systemctl enable --now dpu-host-agent', or look at its pod: "               \
    "'kubectl get pods -A -l app.kubernetes.io/name=dpu-host-agent -o wide'"

static void check_place(struct doctor *d)
{
    const struct node_look *look = &d->look;
    struct statfs fs;
    if (statfs(look->path, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC) {
        check_add(d, CHECK_WARN, "record", "put --readiness-file on a tmpfs, such as /run",
                  "'%s' is on a disk: a full one stops the writer", look->path);
    }
}

static const char *cure_of(const struct node_look *look)
{
    if (look->gate.reason == REASON_API_SERVER_NOT_WRITING) {
        return "look at the API server's writes to this lease: room in etcd, webhooks and policies "
               "on leases, the host's right to patch it (rbac/host-agent.yaml)";
    }
    if (look->gate.reason == REASON_API_SERVER_UNREACHABLE) {
        return "mend the way to the API server";
    }
    if (look->gate.reason == REASON_POD_NETWORK_LOST) {
        return "the DPU serves, pods do not: 'dpuctl pods' names them; delete them, or give "
               "dpu-host-agent --on-lost-network=restart";
    }
    if (look->gate.reason == REASON_HOST_PROBE_FAILED) {
        return "look at the DPU as this host sees it: 'lspci', 'ip link', the link to it; 'dpuctl "
               "status' lists the host's probes";
    }
    return look->answer == NODE_NOT_READY
               ? "look at the DPU: power, network, 'systemctl status dpu-agent' there; "
                 "docs/reasons.md has the causes of each reason"
               : START_AGENT;
}

static void check_verdict(struct doctor *d)
{
    const struct node_look *look = &d->look;
    char mend[CHECK_TEXT_BYTES];
    const struct gate_decision *g = &look->gate;
    const char *reason = readiness_reason_name(g->reason);
    const char *said = look->record.verdict.message;
    if (!g->admit) {
        check_add(d, CHECK_FAIL, "record", cure_of(look), "pods are refused (%s): %s", reason,
                  g->message);
    } else if (g->note[0] != '\0') {
        check_add(d, CHECK_WARN, "record", START_AGENT, "%s", g->note);
    } else if (look->answer == NODE_READY) {
        check_add(d, CHECK_PASS, "record", "", "it says Ready (%s): %s", reason, said);
    } else {
        text_format(mend, sizeof(mend), "%s; pods go on meanwhile", cure_of(look));
        check_add(d, CHECK_WARN, "record", mend, "it says Unknown (%s): %s", reason, said);
    }
}

/* One that fails is in the verdict. */
static void check_witnesses(struct doctor *d)
{
    const struct readiness_witnesses *w = &d->look.record.verdict.witnesses;
    for (size_t i = 0; i < w->count; i++) {
        if (w->each[i].says == TESTIMONY_NONE) {
            check_add(d, CHECK_WARN, "record",
                      "is it written right? dpu-host-agent's log has what it saw",
                      "the host's probe '%s' has not been well since this host was started: it "
                      "proves nothing",
                      w->each[i].probe);
        }
    }
}

static void check_agent(struct doctor *d)
{
    const struct node_look *look = &d->look;
    char span[SCREEN_SPAN_BYTES];
    int64_t left_ns = mono_since(look->record.writer_until, look->now);
    int pid = look->record.pid;
    if (look->gate.reason == REASON_RECORD_INVALID) { /* its times are of another clock */
        check_add(d, CHECK_FAIL, "agent", START_AGENT,
                  "dpu-host-agent has not written the record since this host started");
    } else if (left_ns <= 0) {
        check_add(d, CHECK_FAIL, "agent", START_AGENT, "dpu-host-agent (pid %d) is overdue for %s",
                  pid, screen_span(left_ns, span));
    } else {
        check_add(d, CHECK_PASS, "agent", "", "dpu-host-agent (pid %d%s) keeps the record", pid,
                  look->writer_exists ? "" : ", not seen here: in a pod, or just gone");
    }
}

void check_record(struct doctor *d)
{
    const struct node_look *look = &d->look;
    const char *node = d->config.agent.node_name;
    if (!look->has_record) {
        bool is_missing = look->gate.reason == REASON_RECORD_MISSING;
        check_add(d, CHECK_FAIL, "record",
                  is_missing ? START_AGENT : "remove the file, the agent makes it anew", "'%s': %s",
                  look->path, look->problem);
        check_add(d, CHECK_SKIP, "agent", "", "without a record nothing tells whether it runs");
        return;
    }
    check_verdict(d);
    check_witnesses(d);
    check_place(d);
    if (!text_equal(look->record.node, node)) {
        check_add(d, CHECK_WARN, "record", "give --node-name to the one that is wrong",
                  "it is of node '%s', but this looks at '%s'", look->record.node, node);
    }
    check_agent(d);
}
