/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/unixctl_path.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

enum { PID_FILE_BYTES = 32 };

/* PROBE_PASSED and the number without what ends its line. */
static enum probe_outcome read_pid(const char *path, struct buf *out,
                                   char words[static PROBE_WORDS_BYTES])
{
    struct err e = ERR_INIT;
    uint64_t pid;
    int rc = file_read(path, out, &e);
    if (rc == ERR_AUTH) {
        unix_connect_denied(path, words);
        return PROBE_DENIED;
    }
    if (rc != 0) {
        text_format(words, PROBE_WORDS_BYTES, "%s", e.msg);
        if (probe_outcome_is_our_lack(e.sys_errno)) {
            return PROBE_UNABLE;
        }
        return rc == ERR_NOTFOUND ? PROBE_MISSING : PROBE_WRONG;
    }
    size_t len = strcspn(buf_text(out), "\n");
    if (len == 0) { /* made, and not yet written */
        text_format(words, PROBE_WORDS_BYTES, "'%s' is empty", path);
        return PROBE_MISSING;
    }
    if (text_to_u64(buf_text(out), len, &pid, NULL) != 0) {
        text_format(words, PROBE_WORDS_BYTES, "'%s' holds no process id", path);
        return PROBE_WRONG;
    }
    out->data[len] = '\0';
    return PROBE_PASSED;
}

enum probe_outcome unixctl_path_find(const char *dir, const char *daemon,
                                     char out[static UNIX_CONNECT_PATH_BYTES],
                                     char words[static PROBE_WORDS_BYTES])
{
    char path[UNIX_CONNECT_PATH_BYTES];
    CLEANUP(buf) struct buf pid;
    buf_init(&pid, PID_FILE_BYTES);
    text_format(path, sizeof(path), "%s/%s.pid", dir, daemon);
    enum probe_outcome outcome = read_pid(path, &pid, words);
    if (outcome == PROBE_PASSED) {
        text_format(out, UNIX_CONNECT_PATH_BYTES, "%s/%s.%s.ctl", dir, daemon, buf_text(&pid));
    }
    return outcome;
}
