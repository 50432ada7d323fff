/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "cni/cni_version.h"
#include "json/json_text.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

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
    return cni_fail(error, CNI_IO_FAILURE, "", "failed to find plugin \"%s\" in path [%s]", type,
                    path);
}

/* A file in memory, positioned at its start; -1 with errno on failure. */
static int memory_file(const char *text)
{
    CLEANUP(fd) int fd = memfd_create("cni-config", MFD_CLOEXEC);
    size_t len = strlen(text);
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

int delegate_exec(const char *file, const json_t *config, struct cni_error *error)
{
    char *const argv[] = {(char *)(uintptr_t)file, NULL};
    CLEANUP(free) char *text = json_text_dump(config);
    CLEANUP(fd) int fd = text ? memory_file(text) : -1;
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "preparing the configuration of '%s': %s", file,
                        strerror(errno));
    }
    (void)signal(SIGPIPE, SIG_DFL); /* as the runtime started us */
    for (int i = 0; i < DELEGATE_BUSY_TRIES; i++) {
        (void)execv(file, argv); /* returns only on failure */
        if (errno != ETXTBSY) {
            break;
        }
        const struct timespec pause = {.tv_nsec = DELEGATE_BUSY_PAUSE_MS * NS_PER_MS};
        (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
    }
    return cni_fail(error, CNI_IO_FAILURE, "", "running the delegate '%s': %s", file,
                    strerror(errno));
}

/* ---- VERSION
 * ------------------------------------------------------------------------------------------ */

static void run_probe(const char *file, int stdin_fd, int stdout_fd)
{
    char *const argv[] = {(char *)(uintptr_t)file, NULL};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* dies with us; what fails here fails the probe */
    if (setenv("CNI_COMMAND", "VERSION", 1) == 0 && dup2(stdin_fd, STDIN_FILENO) >= 0 &&
        dup2(stdout_fd, STDOUT_FILENO) >= 0) {
        (void)signal(SIGPIPE, SIG_DFL);
        (void)execv(file, argv);
    }
    _exit(127);
}

/* Reads what the child prints until it closes, the bound or the deadline. */
static size_t read_answer(int fd, char *out, size_t out_bytes)
{
    size_t used = 0;
    struct mono deadline = mono_add(clock_mono_now(), DELEGATE_PROBE_MS * NS_PER_MS);
    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int64_t left_ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS;
        if (left_ms <= 0 || used == out_bytes || poll(&waiting, 1, (int)left_ms) <= 0) {
            return 0; /* too slow or too much: no answer */
        }
        ssize_t got = read(fd, out + used, out_bytes - used);
        if (got <= 0) {
            return got == 0 ? used : 0;
        }
        used += (size_t)got;
    }
}

static bool answer_names_status(const char *text, size_t len)
{
    CLEANUP(json) json_t *json = json_text_parse(text, len, DELEGATE_PROBE_MAX_BYTES, NULL);
    size_t i;
    json_t *version;
    json_array_foreach(json_object_get(json, "supportedVersions"), i, version)
    {
        bool enough = false;
        if (json_is_string(version) &&
            cni_version_at_least(json_string_value(version), "1.1.0", &enough, NULL) == 0 &&
            enough) {
            return true;
        }
    }
    return false;
}

bool delegate_knows_status(const char *file)
{
    static char answer[DELEGATE_PROBE_MAX_BYTES];
    int ends[2];
    CLEANUP(fd) int question = memory_file("{\"cniVersion\":\"" CNI_VERSION_CURRENT "\"}");
    if (question < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    CLEANUP(fd) int from_child = ends[0];
    pid_t child = fork();
    if (child == 0) {
        run_probe(file, question, ends[1]);
    }
    (void)close(ends[1]); /* the child's end */
    if (child < 0) {
        return false;
    }
    size_t len = read_answer(from_child, answer, sizeof(answer));
    (void)kill(child, SIGKILL);    /* it has answered, or never will */
    (void)waitpid(child, NULL, 0); /* its status tells nothing more */
    return answer_names_status(answer, len);
}
