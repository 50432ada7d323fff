/* SPDX-License-Identifier: Apache-2.0 */
/* Every way to try a target but the services of OVS and OVN. */
#include "probe/probe_set.h"

#include "base/mem.h"
#include "base/text.h"
#include "loop/curl_loop.h"
#include "loop/curl_version.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- unix:/PATH ------------------------------------------------------------------------------ */

_Static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) == UNIX_PATH_BYTES,
               "the bound of a path is the kernel's");

struct probe_answer unix_connect_denied(const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0) {
        return probe_answer_make(PROBE_DENIED,
                                 "user %u may not search the directory of '%s': give it "
                                 "CAP_DAC_OVERRIDE, or make it the directory's owner",
                                 (unsigned)geteuid(), path);
    }
    return probe_answer_make(PROBE_DENIED,
                             "user %u may not open '%s' (of user %u, group %u, mode %04o): give it "
                             "CAP_DAC_OVERRIDE, or make it the owner",
                             (unsigned)geteuid(), path, (unsigned)found.st_uid,
                             (unsigned)found.st_gid, (unsigned)found.st_mode & 07777u);
}

static enum probe_outcome outcome_of_connect(int sys_errno)
{
    switch (sys_errno) {
    case ECONNREFUSED:
        return PROBE_REFUSED;
    case ENOENT:
    case ENOTDIR:
        return PROBE_MISSING;
    case EACCES:
    case EPERM:
        return PROBE_DENIED;
    default:
        return probe_outcome_is_our_lack(sys_errno) ? PROBE_UNABLE : PROBE_SILENT;
    }
}

struct probe_answer unix_connect(const char *path, int *out_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    text_format(address.sun_path, sizeof(address.sun_path), "%s", path);
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&address, (socklen_t)sizeof(address)) == 0) {
        *out_fd = take_fd(&fd);
        return (struct probe_answer){.outcome = PROBE_PASSED};
    }
    int seen = errno;
    enum probe_outcome outcome = outcome_of_connect(seen);
    if (outcome == PROBE_DENIED) {
        return unix_connect_denied(path);
    }
    return probe_answer_make(outcome, "cannot connect to '%s': %s", path,
                             seen == EAGAIN ? "its backlog is full" : strerrordesc_np(seen));
}

static int unix_init(struct probe *probe, struct err *e)
{
    if (probe->spec.target[0] != '/') {
        return err_set(e, ERR_PARSE, "the path of a socket must begin with '/'");
    }
    if (strlen(probe->spec.target) >= UNIX_PATH_BYTES) {
        return err_set(e, ERR_PARSE, "the path of a socket has at most %d bytes",
                       UNIX_PATH_BYTES - 1);
    }
    return 0;
}

/* A connect to a unix socket succeeds or fails at once; there is nothing to wait for. */
static void unix_start(struct probe *probe)
{
    CLEANUP(fd) int fd = -1;
    probe_end(probe, unix_connect(probe->spec.target, &fd));
}

const struct probe_method probe_method_unix = {
    .bytes = sizeof(struct probe), .init = unix_init, .start = unix_start};

/* ---- netdev:NAME,NAME and pci:ADDRESS
 * ------------------------------------------------------------- */

/* Whether the kernel has it: state from sysfs. Whoever cannot look has not seen that something is
 * missing. */
static const struct sysfs_kind {
    const char *what;
    const char *list; /* the directory that all of the kind are in */
    const char *file; /* there if one of them exists */
} sysfs_kinds[] = {
    [PROBE_NETDEV] = {"network interface", "sys/class/net", "/ifindex"},
    [PROBE_PCI] = {"PCI function", "sys/bus/pci/devices", ""},
};

static void sysfs_path(const struct probe_spec *spec, const char *name, const char *file,
                       char out[static PATH_MAX])
{
    text_format(out, PATH_MAX, "%s/%s/%s%s", spec->root, sysfs_kinds[spec->kind].list, name, file);
}

static struct probe_answer explain_absence(const struct probe_spec *spec, const char *name,
                                           int error)
{
    char list[PATH_MAX];
    text_format(list, sizeof(list), "%s/%s", spec->root, sysfs_kinds[spec->kind].list);
    if ((error == ENOENT || error == ENOTDIR || error == ENODEV) && access(list, X_OK) == 0) {
        return probe_answer_make(PROBE_MISSING, "there is no %s '%s'", sysfs_kinds[spec->kind].what,
                                 name);
    }
    return probe_answer_make(probe_outcome_is_our_lack(error) ? PROBE_UNABLE : PROBE_DENIED,
                             "cannot check '%s': %s", list, strerrordesc_np(error));
}

static struct probe_answer look_at(const struct probe_spec *spec, const char *name)
{
    static const struct probe_answer passed = {.outcome = PROBE_PASSED};
    const struct sysfs_kind *kind = &sysfs_kinds[spec->kind];
    char path[PATH_MAX];
    char digit;
    sysfs_path(spec, name, kind->file, path);
    if (access(path, F_OK) != 0) {
        return explain_absence(spec, name, errno);
    }
    if (!spec->wants_carrier) {
        return passed;
    }
    sysfs_path(spec, name, "/carrier", path);
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, &digit, 1);
    if (got == 1 && digit == '1') {
        return passed;
    }
    if (got < 0 && errno != EINVAL) {
        return explain_absence(spec, name, errno);
    }
    return probe_answer_make(PROBE_WRONG, "%s '%s' %s", kind->what, name,
                             got < 0 ? "is down" : "has no carrier");
}

/* The first of the names that stand between commas, cut if it is too long; returns what follows. */
static const char *next_name(const char *names, char out[static PROBE_FILE_BYTES])
{
    size_t len = strcspn(names, ",");
    text_format(out, PROBE_FILE_BYTES, "%.*s", (int)len, names);
    return names + len + (names[len] == ',');
}

static size_t count_names(const char *names)
{
    size_t count = 1;
    for (; *names; names++) {
        count += *names == ',';
    }
    return count;
}

/* All of them, or at least so many. */
static struct probe_answer sysfs_look(const struct probe_spec *spec)
{
    struct probe_answer failed = {.outcome = PROBE_PASSED};
    size_t count = count_names(spec->target);
    size_t wanted = spec->at_least > 0 ? (size_t)spec->at_least : count;
    size_t well = 0;
    const char *at = spec->target;
    for (size_t i = 0; i < count; i++) {
        char name[PROBE_FILE_BYTES];
        at = next_name(at, name);
        const struct probe_answer answer = look_at(spec, name);
        well += answer.outcome == PROBE_PASSED;
        if (answer.outcome != PROBE_PASSED && failed.outcome == PROBE_PASSED) {
            failed = answer;
        }
    }
    if (well >= wanted) {
        return (struct probe_answer){.outcome = PROBE_PASSED};
    }
    return count == 1 ? failed
                      : probe_answer_make(failed.outcome, "%zu of %zu %ss %s well: %.160s", well,
                                          count, sysfs_kinds[spec->kind].what,
                                          well == 1 ? "is" : "are", failed.words);
}

static void sysfs_start(struct probe *probe)
{
    probe_end(probe, sysfs_look(&probe->spec));
}

/* As the kernel takes one; the comma, which it takes too, stands between two. */
static bool is_interface_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len < IFNAMSIZ && strcspn(name, "/: \t\n") == len && !text_equal(name, ".") &&
           !text_equal(name, "..");
}

static int sysfs_init(struct probe *probe, struct err *e)
{
    const struct probe_spec *spec = &probe->spec;
    const char *at = spec->target;
    size_t count = count_names(at);
    if (spec->kind == PROBE_PCI) {
        return text_is_pci_address(at)
                   ? 0
                   : err_set(e, ERR_PARSE,
                             "it is not an address as in /sys/bus/pci/devices (0000:03:00.0)");
    }
    for (size_t i = 0; i < count; i++) {
        char name[PROBE_FILE_BYTES];
        at = next_name(at, name);
        if (!is_interface_name(name)) {
            return err_set(e, ERR_PARSE, "it is not a valid name of a network interface");
        }
    }
    if (spec->at_least > (int64_t)count) {
        return err_set(e, ERR_PARSE, "it names %zu interfaces, and 'least' wants %lld", count,
                       (long long)spec->at_least);
    }
    return 0;
}

const struct probe_method probe_method_sysfs = {
    .bytes = sizeof(struct probe), .init = sysfs_init, .start = sysfs_start};

/* ---- http://HOST[:PORT][/PATH], https://... -------------------------------------------------- */

enum { HTTP_HEADER_MAX_BYTES = 64 << 10 };

/* Well by its status alone, the body is not read. No proxy, no redirects. */
struct http_probe {
    struct probe probe;
    struct curl_loop *curl;
    CURL *easy;
    size_t header_bytes;
    long answer; /* the final status; 0 until it is known */
    int lack;    /* errno of a socket that we could not have; 0: none */
    bool has_ended;
    CURLcode code;
    char error[CURL_ERROR_SIZE];
};

static void cleanup_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

static void cleanup_part(char **part)
{
    curl_free(*part);
}

/* A probe of this machine must not depend on a resolver that may depend on the very dataplane under
 * test. */
static bool is_here(const char *host)
{
    struct in6_addr address; /* has room for either kind */
    char bare[INET6_ADDRSTRLEN];
    bool is_bracketed = host[0] == '[';
    text_format(bare, sizeof(bare), "%.*s", (int)strcspn(host + is_bracketed, "]"),
                host + is_bracketed);
    return text_equal(host, "localhost") ||
           inet_pton(is_bracketed ? AF_INET6 : AF_INET, bare, &address) == 1;
}

static int check_url(const char *text, struct err *e)
{
    CLEANUP(url) CURLU *url = curl_url();
    CLEANUP(part) char *host = NULL;
    if (strchr(text, '@')) { /* none of it is shown: it may be a password */
        return err_set(e, ERR_PARSE,
                       "it is not HOST[:PORT][/PATH]; a user and a password are not supported");
    }
    CURLUcode rc = curl_url_set(url, CURLUPART_URL, text, 0);
    if (rc == CURLUE_OK) {
        rc = curl_url_get(url, CURLUPART_HOST, &host, 0);
    }
    if (rc != CURLUE_OK) {
        return err_set(e, ERR_PARSE, "it is not HOST[:PORT][/PATH]: %s", curl_url_strerror(rc));
    }
    if (!is_here(host)) {
        return err_set(e, ERR_PARSE, "host '%s' is neither an IP address nor 'localhost'", host);
    }
    return 0;
}

static enum probe_outcome outcome_of_transfer(const struct http_probe *p)
{
    long sys_errno = 0;
    if (p->code == CURLE_SSL_CACERT_BADFILE) {
        return PROBE_UNABLE; /* `ca` was there at the start */
    }
    if (p->code == CURLE_COULDNT_CONNECT) {
        (void)curl_easy_getinfo(p->easy, CURLINFO_OS_ERRNO, &sys_errno);
        return sys_errno == ECONNREFUSED ? PROBE_REFUSED : PROBE_SILENT;
    }
    if (p->code == CURLE_GOT_NOTHING || p->code == CURLE_RECV_ERROR ||
        p->code == CURLE_SEND_ERROR) {
        return PROBE_REFUSED;
    }
    return p->code == CURLE_OPERATION_TIMEDOUT ? PROBE_SILENT : PROBE_WRONG;
}

static curl_socket_t on_socket_wanted(void *user, curlsocktype purpose,
                                      struct curl_sockaddr *address)
{
    struct http_probe *p = user;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0 && probe_outcome_is_our_lack(errno)) {
        p->lack = errno;
    }
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    struct http_probe *p = user;
    p->has_ended = true;
    p->code = code;
}

static void after_curl(void *user)
{
    struct http_probe *p = user;
    if (!p->has_ended) {
        return;
    }
    if (p->answer >= 200) {
        int64_t wanted = p->probe.spec.http_status;
        bool is_well = wanted ? p->answer == wanted : p->answer < 300;
        probe_end(&p->probe, probe_answer_make(is_well ? PROBE_PASSED : PROBE_WRONG,
                                               "HTTP status %ld", p->answer));
    } else if (p->lack != 0) {
        probe_end(&p->probe, probe_answer_make(PROBE_UNABLE, "cannot create a socket: %s",
                                               strerrordesc_np(p->lack)));
    } else {
        probe_end(&p->probe,
                  probe_answer_make(outcome_of_transfer(p), "%s",
                                    p->error[0] ? p->error : curl_easy_strerror(p->code)));
    }
}

/* Line by line. The end of the header ends the run: nobody wants the body. */
static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    struct http_probe *p = user;
    size_t len = size * count;
    p->header_bytes += len;
    if (bytes[0] == '\r' || bytes[0] == '\n') {
        (void)curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &p->answer);
    }
    bool is_final = p->answer >= 200; /* what is below is followed by another */
    return is_final || p->header_bytes > HTTP_HEADER_MAX_BYTES ? CURL_WRITEFUNC_ERROR : len;
}

static void http_start(struct probe *probe)
{
    struct http_probe *p = (struct http_probe *)probe;
    p->header_bytes = 0;
    p->answer = 0;
    p->lack = 0;
    p->error[0] = '\0';
    curl_loop_add(p->curl, p->easy);
}

static const char *http_stop(struct probe *probe)
{
    struct http_probe *p = (struct http_probe *)probe;
    p->has_ended = false;
    curl_loop_remove(p->curl, p->easy);
    return NULL;
}

static void http_fini(struct probe *probe)
{
    struct http_probe *p = (struct http_probe *)probe;
    curl_easy_cleanup(p->easy);
    curl_loop_free(p->curl);
}

/* They fail for lack of memory, or for an option that libcurl was built without: then the request
 * says so. */
#define SET(option, value) (void)curl_easy_setopt(p->easy, option, value)

static int http_init(struct probe *probe, struct err *e)
{
    struct http_probe *p = (struct http_probe *)probe;
    const struct probe_spec *spec = &probe->spec;
    const struct curl_loop_config config = {.ended = on_ended, .after = after_curl, .user = p};
    int rc = check_url(spec->name, e);
    if (rc != 0) {
        return rc;
    }
    p->easy = curl_easy_init();
    SET(CURLOPT_URL, spec->name);
    SET(CURLOPT_PROXY, "");
    curl_version_allow_http(p->easy);
    SET(CURLOPT_USERAGENT, "dpu-heartbeat");
    if (spec->ca_file[0]) { /* it alone, and not beside what the system trusts */
        SET(CURLOPT_CAINFO, spec->ca_file);
        SET(CURLOPT_CAPATH, CURL_VERSION_NO_DIRECTORY);
    }
    SET(CURLOPT_CA_CACHE_TIMEOUT, 0L); /* else 8.23 reads a file once a day */
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FRESH_CONNECT, 1L);
    SET(CURLOPT_FORBID_REUSE, 1L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_socket_wanted);
    SET(CURLOPT_OPENSOCKETDATA, p);
    SET(CURLOPT_ERRORBUFFER, p->error);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, p);
    p->curl = curl_loop_new(probe->loop, &config);
    return 0;
}

const struct probe_method probe_method_http = {.bytes = sizeof(struct http_probe),
                                               .init = http_init,
                                               .start = http_start,
                                               .stop = http_stop,
                                               .fini = http_fini};

/* ---- exec:COMMAND ---------------------------------------------------------------------------- */

enum { EXEC_OUTPUT_BYTES = 2048 };

/*
 * `/bin/sh -c COMMAND` in a process group of its own: well if it exits with status 0. The last line
 * it writes is the reason of a failure. The whole group is killed when the command has ended and
 * when it is stopped, so nothing that it started in the background outlives the run. A command
 * that cannot be killed fails the following runs until it is gone, so that never more than one of
 * it exists.
 */
struct exec_probe {
    struct probe probe;
    pid_t pid;      /* also the process group; 0: none */
    bool stopped;   /* killed; nobody waits for its result */
    ev_io exited;   /* on the pidfd */
    ev_io readable; /* on the read end of its output; fd -1 once closed */
    char output[EXEC_OUTPUT_BYTES];
    size_t output_len;
};

static void close_output(struct exec_probe *p)
{
    if (p->readable.fd >= 0) {
        ev_io_stop(p->probe.loop, &p->readable);
        (void)close(p->readable.fd); /* reading only */
        ev_io_set(&p->readable, -1, EV_READ);
    }
}

/* Reads what is there; a bounded number of times, for a command that never stops writing. Only its
 * last line matters: a full buffer drops its older half. */
static void read_output(struct exec_probe *p)
{
    size_t half = sizeof(p->output) / 2;
    for (int i = 0; i < 64 && p->readable.fd >= 0; i++) {
        if (p->output_len == sizeof(p->output)) {
            memmove(p->output, p->output + half, sizeof(p->output) - half);
            p->output_len -= half;
        }
        ssize_t got =
            read(p->readable.fd, p->output + p->output_len, sizeof(p->output) - p->output_len);
        if (got > 0) {
            p->output_len += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_output(p);
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
    read_output(w->data);
}

static void report_exit(struct exec_probe *p, const siginfo_t *info)
{
    char line[200];
    bool has_exited = info->si_code == CLD_EXITED;
    size_t end = p->output_len;
    while (end > 0 && strchr("\n\r ", p->output[end - 1]) && p->output[end - 1]) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && p->output[begin - 1] != '\n') {
        begin--;
    }
    text_sanitize(line, sizeof(line), p->output + begin, end - begin);
    probe_end(&p->probe,
              probe_answer_make(has_exited && info->si_status == 0 ? PROBE_PASSED : PROBE_WRONG,
                                "%s %d%s%s", has_exited ? "exit status" : "killed by signal",
                                info->si_status, line[0] ? ": " : "", line));
}

/* While the leader is not reaped its id is not reused. */
static void kill_group(struct exec_probe *p)
{
    (void)kill(-p->pid, SIGKILL); /* ESRCH: it is gone already */
}

/* The command is dead and reaped. */
static void forget_command(struct exec_probe *p)
{
    ev_io_stop(p->probe.loop, &p->exited);
    (void)close(p->exited.fd); /* a pidfd holds nothing back */
    close_output(p);
    p->pid = 0;
}

static void on_exited(struct ev_loop *loop, ev_io *w, int revents)
{
    struct exec_probe *p = w->data;
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
        return; /* not yet */
    }
    kill_group(p);                        /* what it left in the background */
    (void)waitpid(p->pid, NULL, WNOHANG); /* it has ended */
    read_output(p);
    forget_command(p);
    if (!p->stopped) {
        report_exit(p, &info);
    }
}

/* Starts /bin/sh with its output on `out_fd`: own group, no signal ignored (the daemon blocks
 * none), no other descriptor of ours. Returns 0 or an errno. */
static int spawn(const char *command, int out_fd, pid_t *out_pid)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t all;
    sigfillset(&all);
    (void)posix_spawn_file_actions_init(&files); /* cannot fail in glibc */
    (void)posix_spawnattr_init(&attr);           /* cannot fail in glibc */
    const int steps[] = {
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
        posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO),
        posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO),
        posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1),
        posix_spawnattr_setpgroup(&attr, 0),
        posix_spawnattr_setsigdefault(&attr, &all),
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF),
    };
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(steps) && rc == 0; i++) {
        rc = steps[i];
    }
    if (rc == 0) {
        rc = posix_spawn(out_pid, "/bin/sh", &files, &attr, argv, environ);
    }
    (void)posix_spawnattr_destroy(&attr);           /* cannot fail in glibc */
    (void)posix_spawn_file_actions_destroy(&files); /* cannot fail in glibc */
    return rc;
}

static void end_unstarted(struct probe *probe, const char *what, int sys_errno)
{
    bool is_our_lack =
        sys_errno == EAGAIN /* of processes */ || probe_outcome_is_our_lack(sys_errno);
    probe_end(probe, probe_answer_make(is_our_lack ? PROBE_UNABLE : PROBE_SILENT, "%s: %s", what,
                                       strerrordesc_np(sys_errno)));
}

static void exec_start(struct probe *probe)
{
    struct exec_probe *p = (struct exec_probe *)probe;
    int ends[2];
    if (p->pid != 0) {
        probe_end(probe, probe_answer_make(PROBE_SILENT, "cannot kill its previous run"));
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        end_unstarted(probe, "cannot create a pipe", errno);
        return;
    }
    CLEANUP(fd) int out = ends[0];
    int rc = spawn(probe->spec.target, ends[1], &p->pid);
    (void)close(ends[1]); /* the child has its own */
    if (rc != 0) {
        p->pid = 0;
        end_unstarted(probe, "cannot start /bin/sh", rc);
        return;
    }
    int pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (pidfd < 0) {
        rc = errno;
        kill_group(p);
        (void)waitpid(p->pid, NULL, 0); /* just killed, and young */
        p->pid = 0;
        end_unstarted(probe, "cannot watch the command", rc);
        return;
    }
    (void)fcntl(out, F_SETFL, O_NONBLOCK); /* a pipe takes this always */
    p->stopped = false;
    p->output_len = 0;
    ev_io_set(&p->exited, pidfd, EV_READ);
    ev_io_set(&p->readable, out, EV_READ);
    out = -1; /* moved */
    ev_io_start(probe->loop, &p->exited);
    ev_io_start(probe->loop, &p->readable);
}

static const char *exec_stop(struct probe *probe)
{
    struct exec_probe *p = (struct exec_probe *)probe;
    if (p->pid != 0) {
        kill_group(p);
        p->stopped = true; /* on_exited reaps it */
    }
    return NULL;
}

static int exec_init(struct probe *probe, struct err *e)
{
    struct exec_probe *p = (struct exec_probe *)probe;
    ev_io_init(&p->exited, on_exited, -1, EV_READ);
    ev_io_init(&p->readable, on_readable, -1, EV_READ);
    p->exited.data = p;
    p->readable.data = p;
    return 0;
}

static void exec_fini(struct probe *probe)
{
    struct exec_probe *p = (struct exec_probe *)probe;
    if (p->pid != 0) {
        (void)waitpid(p->pid, NULL, WNOHANG); /* our own end must not wait for a stuck child */
        forget_command(p);
    }
}

const struct probe_method probe_method_exec = {.bytes = sizeof(struct exec_probe),
                                               .init = exec_init,
                                               .start = exec_start,
                                               .stop = exec_stop,
                                               .fini = exec_fini};
