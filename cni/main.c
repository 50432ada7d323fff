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
#include "cni/delegate.h"
#include "cni/protocol.h"
#include "contract/record.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_USAGE = 2 };

static void print_about(FILE *out)
{
    (void)fprintf(out,
                  "dpu-gate %s: lets CNI go on only while the DPU behind this node is ready\n"
                  "CNI protocol versions supported: ",
                  DPU_VERSION);
    for (size_t i = 0; cni_versions[i]; i++) {
        (void)fprintf(out, "%s%s", i ? ", " : "", cni_versions[i]);
    }
    (void)fputc('\n', out); /* nobody is left to tell if these fail */
}

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
                      "dpu-gate: unknown argument '%s': a container runtime runs it, with "
                      "CNI_COMMAND in the environment\n",
                      argument);
    }
    print_about(stderr);
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

static int gate(enum cni_verb verb, const struct cni_conf *conf, struct cni_error *error)
{
    struct gate_decision decision;
    record_file_judge(conf->readiness_file, &decision);
    if (!decision.admit) {
        int status = gate_status_code(&decision);
        int most = status > conf->status_code ? status : conf->status_code;
        return cni_fail(error, verb == CNI_STATUS ? most : CNI_TRY_AGAIN_LATER, decision.details,
                        NAMES_NOT_READY_PREFIX "%s", decision.message);
    }
    if (decision.note[0] != '\0') {
        (void)fprintf(stderr, "dpu-gate: %s\n", decision.note); /* a note, no more */
    }
    return 0;
}

/* ---- chained --------------------------------------------------------------------------------- */

/* The skeleton's last check: the container's namespace must not be our own. */
static int check_netns(const struct cni_env *env, struct cni_error *error)
{
    struct stat own;
    struct stat given;
    bool same = env->netns[0] != '\0' && !env->netns_override &&
                stat("/proc/self/ns/net", &own) == 0 && stat(env->netns, &given) == 0 &&
                own.st_dev == given.st_dev && own.st_ino == given.st_ino;
    if (same) {
        return cni_fail(error, CNI_INVALID_NETNS, "",
                        "plugin's netns and netns from CNI_NETNS should not be the same");
    }
    return 0;
}

/* The previous plugin's result as it is, or an empty one in the configuration's version. */
static int pass_result_on(const struct cni_conf *conf, struct cni_error *error)
{
    struct json_slice previous = json_scan_member(conf->object, "prevResult");
    bool can_be_empty = true;
    if (json_scan_kind(previous) != JSON_KIND_OBJECT) {
        previous = (struct json_slice){.at = NULL};
        if (cni_version_at_least(conf->version, "0.3.0", &can_be_empty, NULL) == 0 &&
            !can_be_empty) {
            return cni_fail(error, CNI_INVALID_CONFIG, "",
                            "cniVersion %s has no empty result: use dpu-gate with a delegate",
                            conf->version);
        }
    }
    if (reply_result(previous, conf->version) != EXIT_SUCCESS) {
        return cni_fail(error, CNI_IO_FAILURE, "", "writing the result failed");
    }
    return 0;
}

static int finish_chained(const struct cni_env *env, const struct cni_conf *conf,
                          struct cni_error *error)
{
    if (env->verb != CNI_ADD && env->verb != CNI_DEL) {
        return 0;
    }
    int code = check_netns(env, error);
    return code == 0 && env->verb == CNI_ADD ? pass_result_on(conf, error) : code;
}

/* ---- wrapping -------------------------------------------------------------------------------- */

static int finish_wrapping(const struct cni_env *env, const struct cni_conf *conf, int *exit_status,
                           struct cni_error *error)
{
    int code = delegate_call(env, conf, exit_status, error);
    if (env->verb == CNI_STATUS && (code == CNI_IO_FAILURE || code == CNI_TRY_AGAIN_LATER)) {
        error->code = conf->status_code; /* a delegate that cannot run is a plugin not available */
    }
    return error->code;
}

/* The last word of a gate without memory: the CNI library's "internal error". */
_Noreturn void mem_exhausted(size_t bytes)
{
    static const char answer[] =
        "{\n    \"cniVersion\": \"" CNI_VERSION_CURRENT "\",\n    \"code\": 999,\n"
        "    \"msg\": \"dpu-gate is out of memory: raise the memory limit of the container "
        "runtime\"\n}\n";
    (void)bytes;
    ssize_t written = write(STDOUT_FILENO, answer, sizeof(answer) - 1);
    (void)written; /* nobody is left to tell */
    _exit(EXIT_FAILURE);
}

/* ---- one call -------------------------------------------------------------------------------- */

static int run(const struct cni_env *env, struct cni_conf *conf, int *exit_status,
               struct cni_error *error)
{
    int code = conf_read(STDIN_FILENO, conf, error);
    if (code != 0) {
        return code;
    }
    if (env->verb == CNI_VERB_UNKNOWN) {
        return cni_fail(error, CNI_INVALID_ENVIRONMENT, "", "unknown CNI_COMMAND: %s",
                        env->command);
    }
    code = conf_check_version(conf, env->verb, error);
    if (code != 0 || (code = conf_read_options(conf, env->verb, error)) != 0) {
        return code;
    }
    if (env->verb == CNI_ADD || env->verb == CNI_STATUS) {
        code = gate(env->verb, conf, error);
    }
    if (code != 0) {
        return code;
    }
    return conf->is_wrapping ? finish_wrapping(env, conf, exit_status, error)
                             : finish_chained(env, conf, error);
}

int main(int argc, char **argv)
{
    struct cni_env env;
    struct cni_error error = {.code = 0};
    struct cni_conf conf = {.version = CNI_VERSION_CURRENT};
    open_standard_fds();
    (void)signal(SIGPIPE, SIG_IGN); /* a closed stdout shows as a failed write */
    int code = cni_env_read(&env, &error);
    if (code != 0 && env.command[0] == '\0') {
        return run_by_hand(argc > 1 ? argv[1] : "--help");
    }
    if (code == 0 && env.verb == CNI_VERSION) {
        return reply_versions();
    }
    int status = EXIT_SUCCESS;
    if (code == 0) {
        code = run(&env, &conf, &status, &error);
    }
    if (code != 0) {
        status = reply_error(&error, conf.version);
    }
    conf_fini(&conf);
    return status;
}
