/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "cni/cni_version.h"
#include "json/json_scan.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { VERSION_BYTES = 32 /* of one that a delegate speaks */ };

/* CNI_PATH as the CNI library prints it: usable elements, with blanks between them. */
static void show_path(const char *path, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    while (*path && used < out_bytes) {
        size_t len = strcspn(path, ":");
        if (path[0] == '/') {
            used += (size_t)snprintf(out + used, out_bytes - used, "%s%.*s", used ? " " : "",
                                     (int)len, path); /* truncation is the bound */
        }
        path += len + (path[len] == ':');
    }
}

static int fail_to_find(const char *type, const char *path, struct cni_error *error)
{
    char shown[CNI_MSG_BYTES];
    show_path(path, shown, sizeof(shown));
    if (shown[0] == '\0') {
        return cni_fail(error, CNI_IO_FAILURE, "", "no paths provided");
    }
    return cni_fail(error, CNI_IO_FAILURE, "", "failed to find plugin \"%s\" in path [%s]", type,
                    shown);
}

int delegate_find(const char *type, const char *path, char out_file[static PATH_MAX],
                  struct cni_error *error)
{
    struct stat own;
    struct stat found;
    bool know_own = stat("/proc/self/exe", &own) == 0;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, ":");
        bool usable = at[0] == '/' && len + 1 + strlen(type) < PATH_MAX;
        if (usable) {
            (void)snprintf(out_file, PATH_MAX, "%.*s/%s", (int)len, at, type); /* measured above */
        }
        if (usable && stat(out_file, &found) == 0 && S_ISREG(found.st_mode)) {
            if (know_own && found.st_dev == own.st_dev && found.st_ino == own.st_ino) {
                return cni_fail(error, CNI_INVALID_CONFIG, "",
                                "the delegate '%s' is dpu-gate itself", out_file);
            }
            return 0;
        }
        at += len + (at[len] == ':');
    }
    return fail_to_find(type, path, error);
}

/* Never executable: some hosts refuse any other (sysctl vm.memfd_noexec). */
static int create_memory_file(void)
{
#ifdef MFD_NOEXEC_SEAL
    const unsigned noexec = MFD_NOEXEC_SEAL;
#else
    const unsigned noexec = 0x8u; /* linux/memfd.h, since 6.3 */
#endif
    int fd = memfd_create("cni-config", MFD_CLOEXEC | noexec);
    return fd >= 0 || errno != EINVAL ? fd : memfd_create("cni-config", MFD_CLOEXEC);
}

/* A file in memory, positioned at its start; -1 with errno on failure. */
static int memory_file(const char *text, size_t len)
{
    CLEANUP(fd) int fd = create_memory_file();
    size_t written = 0;
    while (fd >= 0 && written < len) {
        ssize_t n = write(fd, text + written, len - written);
        if (n <= 0) {
            return -1;
        }
        written += (size_t)n;
    }
    if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0) {
        return -1;
    }
    int made = fd;
    fd = -1; /* moved */
    return made;
}

/* An installer is still writing the file: wait for it. */
static void pause_for_installer(void)
{
    const struct timespec pause = {.tv_nsec = DELEGATE_BUSY_PAUSE_MS * NS_PER_MS};
    (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
}

/* Returns only on failure: errno of the last try. */
static int exec_patiently(const char *file)
{
    char *const argv[] = {(char *)(uintptr_t)file, NULL};
    (void)signal(SIGPIPE, SIG_DFL); /* as the runtime started us */
    (void)execv(file, argv);        /* returns only on failure */
    for (int i = 1; i < DELEGATE_BUSY_TRIES && errno == ETXTBSY; i++) {
        pause_for_installer();
        (void)execv(file, argv);
    }
    int sys_errno = errno;
    (void)signal(SIGPIPE, SIG_IGN); /* the error is yet to be printed */
    return sys_errno;
}

static int fail_to_run(const char *file, int sys_errno, struct cni_error *error)
{
    int code = sys_errno == ETXTBSY ? CNI_TRY_AGAIN_LATER : CNI_IO_FAILURE;
    return cni_fail(error, code, "", "running the delegate '%s': %s", file,
                    strerrordesc_np(sys_errno));
}

int delegate_exec(const char *file, const struct buf *config, struct cni_error *error)
{
    CLEANUP(fd) int fd = memory_file(buf_text(config), config->len);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "preparing the configuration of '%s': %s", file,
                        strerrordesc_np(errno));
    }
    return fail_to_run(file, exec_patiently(file), error);
}

/* ---- VERSION
 * ------------------------------------------------------------------------------------------ */

struct probe {
    int question; /* stdin of the plugin */
    int answer[2];
    int failure[2]; /* closed by a successful exec; else errno comes through */
};

/* In the child. Dies with its parent, in silence. */
static void run_probe(const char *file, const struct probe *p, pid_t parent)
{
    int sys_errno = 0;
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    if (quiet < 0 || setenv("CNI_COMMAND", "VERSION", 1) != 0 ||
        dup2(p->question, STDIN_FILENO) < 0 || dup2(p->answer[1], STDOUT_FILENO) < 0 ||
        dup2(quiet, STDERR_FILENO) < 0) {
        sys_errno = errno;
    } else {
        sys_errno = exec_patiently(file);
    }
    ssize_t told = write(p->failure[1], &sys_errno, sizeof(sys_errno));
    _exit(told == (ssize_t)sizeof(sys_errno) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Reads until the writer closes, `out` is full or the deadline has passed: then -1. */
static ssize_t read_until(int fd, void *out, size_t out_bytes, struct mono deadline)
{
    size_t used = 0;
    while (used < out_bytes) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int64_t left_ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS;
        if (left_ms <= 0 || poll(&waiting, 1, (int)left_ms) <= 0) {
            return -1;
        }
        ssize_t got = read(fd, (char *)out + used, out_bytes - used);
        if (got <= 0) {
            return got == 0 ? (ssize_t)used : -1;
        }
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static bool answer_names_status(const char *text, size_t len)
{
    struct json_slice answer;
    struct json_slice key;
    struct json_slice version;
    if (json_scan_check(text, len, &answer, NULL) != 0) {
        return false;
    }
    struct json_walk w = json_walk_start(json_scan_member(answer, "supportedVersions"));
    while (!w.is_object && json_walk_next(&w, &key, &version)) {
        char shown[VERSION_BYTES];
        bool enough = false;
        if (json_scan_text(version, shown, sizeof(shown)) &&
            cni_version_at_least(shown, "1.1.0", &enough, NULL) == 0 && enough) {
            return true;
        }
    }
    return false;
}

/* In the parent, after the child was started. */
static int read_answer(const char *file, const struct probe *p, bool *out, struct cni_error *error)
{
    char answer[DELEGATE_PROBE_MAX_BYTES];
    int sys_errno = 0;
    struct mono deadline = mono_add(clock_mono_now(), DELEGATE_PROBE_MS * NS_PER_MS);
    ssize_t failed = read_until(p->failure[0], &sys_errno, sizeof(sys_errno), deadline);
    if (failed == (ssize_t)sizeof(sys_errno)) {
        return fail_to_run(file, sys_errno, error);
    }
    ssize_t len = failed < 0 ? -1 : read_until(p->answer[0], answer, sizeof(answer), deadline);
    if (len < 0) {
        return cni_fail(error, CNI_TRY_AGAIN_LATER, "",
                        "the delegate '%s' did not answer VERSION within %d ms", file,
                        (int)DELEGATE_PROBE_MS);
    }
    *out = answer_names_status(answer, (size_t)len);
    return 0;
}

static void close_pair(const int pair[static 2])
{
    for (size_t i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            (void)close(pair[i]); /* a pipe: nothing to lose */
        }
    }
}

static int probe(const char *file, struct probe *p, bool *out, struct cni_error *error)
{
    static const char question[] = "{\"cniVersion\":\"" CNI_VERSION_CURRENT "\"}";
    pid_t parent = getpid();
    pid_t child = -1;
    p->question = memory_file(question, sizeof(question) - 1);
    if (p->question >= 0 && pipe2(p->answer, O_CLOEXEC) == 0 && pipe2(p->failure, O_CLOEXEC) == 0) {
        child = fork();
    }
    if (child == 0) {
        run_probe(file, p, parent);
    }
    if (child < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "asking the delegate '%s' for its versions: %s",
                        file, strerrordesc_np(errno));
    }
    int *const childs_ends[] = {&p->answer[1], &p->failure[1]};
    for (size_t i = 0; i < ARRAY_LEN(childs_ends); i++) {
        (void)close(*childs_ends[i]); /* or their end would never be seen */
        *childs_ends[i] = -1;
    }
    int code = read_answer(file, p, out, error);
    (void)kill(child, SIGKILL);    /* it has answered, or never will */
    (void)waitpid(child, NULL, 0); /* its status tells nothing more */
    return code;
}

int delegate_knows_status(const char *file, bool *out, struct cni_error *error)
{
    struct probe p = {.question = -1, .answer = {-1, -1}, .failure = {-1, -1}};
    int code = probe(file, &p, out, error);
    close_pair(p.answer);
    close_pair(p.failure);
    close_pair((const int[]){p.question, -1});
    return code;
}
