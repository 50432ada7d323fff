/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

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
            text_format(out_file, PATH_MAX, "%.*s/%s", (int)len, at, type);
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

int delegate_config_fd(const struct buf *config)
{
    const char *text = buf_text(config);
    size_t len = config->len;
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

int delegate_exec_patiently(const char *file)
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

int delegate_fail_to_run(const char *file, int sys_errno, struct cni_error *error)
{
    int code = sys_errno == ETXTBSY ? CNI_TRY_AGAIN_LATER : CNI_IO_FAILURE;
    return cni_fail(error, code, "", "running the delegate '%s': %s", file,
                    strerrordesc_np(sys_errno));
}

int delegate_exec(const char *file, const struct buf *config, struct cni_error *error)
{
    CLEANUP(fd) int fd = delegate_config_fd(config);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "preparing the configuration of '%s': %s", file,
                        strerrordesc_np(errno));
    }
    return delegate_fail_to_run(file, delegate_exec_patiently(file), error);
}
