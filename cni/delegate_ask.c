/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate_ask.h"

#include "cni/cni_version.h"
#include "cni/delegate_run.h"
#include "cni/delegate_versions.h"

#include <stdlib.h>
#include <sys/wait.h>

enum { VERSION_BYTES = 32 /* of one that a delegate speaks */ };

enum answer { IS_OLD, IS_NEW, IS_NO_ANSWER };

static enum answer judge_versions(const struct delegate_answer *a)
{
    struct json_slice object;
    struct json_slice key;
    struct json_slice version;
    if (json_scan_check(a->text, a->len, &object, NULL) != 0) {
        return IS_NO_ANSWER;
    }
    struct json_slice versions = json_scan_member(object, "supportedVersions");
    enum answer answer = IS_NO_ANSWER;
    struct json_walk w = json_walk_start(versions);
    while (json_scan_kind(versions) == JSON_KIND_ARRAY && json_walk_next(&w, &key, &version)) {
        char shown[VERSION_BYTES];
        bool enough = false;
        if (!json_scan_text(version, shown, sizeof(shown)) ||
            cni_version_at_least(shown, "1.1.0", &enough, NULL) != 0) {
            continue;
        }
        if (enough) {
            return IS_NEW;
        }
        answer = IS_OLD;
    }
    return answer;
}

/* Of an answer that is whole: of one that is not, we ended its plugin. */
static int check_end(const char *file, const struct delegate_answer *a, struct cni_error *error)
{
    if (!WIFEXITED(a->wait_status)) {
        return cni_fail(error, CNI_IO_FAILURE, "", "the delegate '%s' was ended by signal %d", file,
                        WTERMSIG(a->wait_status));
    }
    return 0;
}

int delegate_ask_versions(const char *file, const char *readiness_file, bool *out,
                          struct cni_error *error)
{
    struct delegate_identity id;
    struct delegate_answer answer;
    char question[] = "{\"cniVersion\":\"" CNI_VERSION_CURRENT "\"}";
    const struct buf config = {.data = question, .len = sizeof(question) - 1};
    const struct delegate_question q = {.file = file,
                                        .verb = "VERSION",
                                        .config = &config,
                                        .deadline_ms = DELEGATE_VERSION_MS,
                                        .is_quiet = true};
    delegate_versions_identify(file, &id);
    if (delegate_versions_recall(readiness_file, &id, out)) {
        return 0;
    }
    int code = delegate_run(&q, &answer, error);
    if (code == 0 && answer.len < sizeof(answer.text)) {
        code = check_end(file, &answer, error);
    }
    if (code != 0) {
        return code;
    }
    enum answer judged = judge_versions(&answer);
    *out = judged == IS_NEW;
    if (judged != IS_NO_ANSWER) {
        delegate_versions_keep(readiness_file, &id, *out);
    }
    return 0;
}

static int ask(const struct delegate_question *q, bool keeps_success, int *out_exit_status,
               struct cni_error *error)
{
    struct delegate_answer answer;
    int code = delegate_run(q, &answer, error);
    if (code != 0) {
        return code;
    }
    if (answer.len == sizeof(answer.text)) {
        return cni_fail(error, CNI_IO_FAILURE, "",
                        "the delegate '%s' answered %s with %zu bytes or more: less are taken",
                        q->file, q->verb, answer.len);
    }
    if ((code = check_end(q->file, &answer, error)) != 0) {
        return code;
    }
    *out_exit_status = WEXITSTATUS(answer.wait_status);
    if ((keeps_success || *out_exit_status != 0) &&
        reply_bytes(answer.text, answer.len) != EXIT_SUCCESS) {
        return cni_fail(error, CNI_IO_FAILURE, "", "passing the delegate's answer on failed");
    }
    return 0;
}

int delegate_ask_status(const char *file, const struct buf *config, int *out_exit_status,
                        struct cni_error *error)
{
    const struct delegate_question q = {
        .file = file, .verb = "STATUS", .config = config, .deadline_ms = DELEGATE_STATUS_MS};
    return ask(&q, true, out_exit_status, error);
}

int delegate_ask_del(const char *file, const struct buf *config, int *out_exit_status,
                     struct cni_error *error)
{
    const struct delegate_question q = {
        .file = file, .verb = "DEL", .config = config, .deadline_ms = DELEGATE_DEL_MS};
    return ask(&q, false, out_exit_status, error);
}
