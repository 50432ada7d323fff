/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-gate: the CNI plugin that asks the readiness record before anything else is done.
 *
 * ADD and STATUS are gated; DEL, CHECK and GC never look at the record, because cleaning up must
 * not depend on a DPU. Then the delegate takes our place (for STATUS it is asked, with a deadline),
 * or, chained, the previous result is passed on. Checks, codes and texts are those of the CNI
 * library's plugin skeleton.
 */
#include "base/mem.h"
#include "base/text.h"
#include "base/version.h"
#include "cni/protocol.h"
#include "contract/record.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

enum { EXIT_USAGE = 2 };

/* Without a verb in the environment. As the skeleton has it, the words go to stderr. */
static int run_by_hand(const char *argument)
{
    if (text_equal(argument, "--version")) {
        (void)printf("dpu-gate %s\n", VERSION_TEXT); /* nobody is left to tell if it fails */
        return EXIT_SUCCESS;
    }
    bool is_known = text_equal(argument, "--help");
    if (!is_known) {
        (void)fprintf(stderr,
                      "dpu-gate: unknown argument '%s': container runtimes run dpu-gate, with "
                      "CNI_COMMAND in the environment\n",
                      argument);
    }
    (void)fprintf(stderr,
                  "dpu-gate %s: runs the CNI plugin only while the DPU of this node is ready\nCNI "
                  "protocol versions supported: " CNI_VERSIONS(", ") "\n",
                  DPU_VERSION); /* nobody is left to tell if this fails */
    return is_known ? EXIT_SUCCESS : EXIT_USAGE;
}

/* Descriptors 0 to 2 may have been closed: a file opened later must not become one of them.
 * Reading from a stdin that was not there stays an error, as it is in the skeleton. */
static void open_standard_fds(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_WRONLY); /* stays open where it fills a gap */
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)close(fd); /* /dev/null */
    }
}

/* ---- the gate -------------------------------------------------------------------------------- */

static int gate(struct cni_call *c)
{
    struct record record;
    struct gate_decision decision;
    struct err e = ERR_INIT;
    (void)record_file_judge(c->readiness_file, &record, &decision, &e); /* it is in the decision */
    if (!decision.admit) {
        int status = gate_status_code(&decision);
        int most = status > c->status_code ? status : c->status_code;
        cni_fail(c, c->verb == CNI_STATUS ? most : CNI_TRY_AGAIN_LATER, NAMES_NOT_READY_PREFIX "%s",
                 decision.message);
        return cni_explain(c, decision.details);
    }
    if (decision.note[0] != '\0') {
        (void)fprintf(stderr, "dpu-gate: %s\n", decision.note); /* a note, no more */
    }
    return 0;
}

/* ---- chained --------------------------------------------------------------------------------- */

/* The skeleton's last check: the container's namespace must not be our own. */
static int check_netns(struct cni_call *c)
{
    struct stat own;
    struct stat given;
    bool same = c->netns[0] != '\0' && !c->netns_override && stat("/proc/self/ns/net", &own) == 0 &&
                stat(c->netns, &given) == 0 && own.st_dev == given.st_dev &&
                own.st_ino == given.st_ino;
    if (same) {
        return cni_fail(c, CNI_INVALID_NETNS,
                        "plugin's netns and netns from CNI_NETNS should not be the same");
    }
    return 0;
}

/* The previous plugin's result as it is, or an empty one in the configuration's version. */
static int pass_result_on(struct cni_call *c)
{
    struct json_slice previous = json_scan_member(c->object, "prevResult");
    bool can_be_empty = true;
    if (json_scan_kind(previous) != JSON_KIND_OBJECT) {
        previous = (struct json_slice){.at = NULL};
        if (cni_version_at_least(c->version, "0.3.0", &can_be_empty, NULL) == 0 && !can_be_empty) {
            return cni_fail(c, CNI_INVALID_CONFIG,
                            "cniVersion %s has no empty result: use dpu-gate with a delegate",
                            c->version);
        }
    }
    if (reply_result(c, previous) != EXIT_SUCCESS) {
        return cni_fail(c, CNI_IO_FAILURE, "writing the result failed");
    }
    return 0;
}

/* An error would come again with each try, since what was dropped stays dropped: the kubelet would
 * never get rid of the Pod. So it is said, and no more (docs/architecture.md, Decisions). */
static void tell_of_stripped_del(void)
{
    (void)fprintf(stderr, "dpu-gate: DEL came without dpu-gate's configuration, so the plugin "
                          "behind it was not called and may keep the Pod's addresses: Multus drops "
                          "it from a list that it names by path; run 'dpuctl doctor'\n");
}

static int finish_chained(struct cni_call *c)
{
    if (c->verb == CNI_DEL && conf_is_stripped(c)) {
        tell_of_stripped_del();
    }
    if (c->verb != CNI_ADD && c->verb != CNI_DEL) {
        return 0;
    }
    int code = check_netns(c);
    return code == 0 && c->verb == CNI_ADD ? pass_result_on(c) : code;
}

/* ---- wrapping -------------------------------------------------------------------------------- */

static int finish_wrapping(struct cni_call *c)
{
    int code = delegate_call(c);
    if (c->verb == CNI_STATUS && (code == CNI_IO_FAILURE || code == CNI_TRY_AGAIN_LATER)) {
        c->code = c->status_code; /* a delegate that cannot run is a plugin not available */
    }
    return c->code;
}

/* The last word of a gate without memory: the CNI library's "internal error". */
const struct mem_last_word mem_last_word = {
    .fd = STDOUT_FILENO,
    .status = EXIT_FAILURE,
    .text = "{\n    \"cniVersion\": \"" CNI_VERSION_CURRENT "\",\n    \"code\": 999,\n"
            "    \"msg\": \"dpu-gate is out of memory: raise the memory limit of the container "
            "runtime\"\n}\n"};

/* ---- one call -------------------------------------------------------------------------------- */

static int run(struct cni_call *c)
{
    if (conf_read(c, STDIN_FILENO) != 0) {
        return c->code;
    }
    if (c->verb == CNI_VERB_UNKNOWN) {
        return cni_fail(c, CNI_INVALID_ENVIRONMENT, "unknown CNI_COMMAND: %s", c->command);
    }
    if (conf_check_version(c) != 0 || conf_read_options(c) != 0 ||
        (cni_is_gated(c->verb) && gate(c) != 0)) {
        return c->code;
    }
    return c->is_wrapping ? finish_wrapping(c) : finish_chained(c);
}

int main(int argc, char **argv)
{
    struct cni_call call = {.version = CNI_VERSION_CURRENT};
    open_standard_fds();
    (void)signal(SIGPIPE, SIG_IGN); /* a closed stdout shows as a failed write */
    int code = cni_read_env(&call);
    if (code != 0 && call.command[0] == '\0') {
        return run_by_hand(argc > 1 ? argv[1] : "--help");
    }
    if (code == 0 && call.verb == CNI_VERSION) {
        return reply_versions();
    }
    if (code == 0) {
        code = run(&call);
    }
    int status = code == 0 ? call.exit_status : reply_error(&call);
    cni_call_fini(&call);
    return status;
}
