/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---- its configuration ----------------------------------------------------------------------- */

#define OWN_TYPE "dpu-gate"

enum { QUOTES_BYTES = 2 };

struct member {
    struct json_slice key;
    struct json_slice value;
    size_t rank; /* of those of one name, the highest counts */
};

struct members {
    struct member *list;
    size_t count;
};

/* What the runtime injects: its word is newer than what the delegate's configuration says. */
static bool is_from_runtime(struct json_slice key)
{
    static const char *const names[] = {"name", "cniVersion", "prevResult", "runtimeConfig",
                                        "args"};
    static const char prefix[] = "\"cni.dev/";
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (json_scan_equals(key, names[i])) {
            return true;
        }
    }
    return key.len >= sizeof(prefix) && memcmp(key.at, prefix, sizeof(prefix) - 1) == 0;
}

/* A device id from Multus, for one: the delegate's, unless it has one. */
static bool is_unknown(struct json_slice key)
{
    return !conf_owns_key(key);
}

/* Those that are wanted, or all; there is room for them. */
static void members_collect(struct members *all, struct json_slice object,
                            bool (*is_wanted)(struct json_slice key))
{
    struct json_walk w = json_walk_start(object);
    struct member m = {.rank = all->count};
    for (; json_walk_next(&w, &m.key, &m.value); m.rank = all->count) {
        if (!is_wanted || is_wanted(m.key)) {
            all->list[all->count++] = m;
        }
    }
}

static int members_compare(const void *a, const void *b)
{
    const struct member *ma = a;
    const struct member *mb = b;
    int order = json_scan_compare(ma->key, mb->key);
    return order != 0 ? order : (ma->rank > mb->rank) - (ma->rank < mb->rank);
}

static int members_put(const struct members *all, struct buf *out, struct err *e)
{
    int rc = buf_append_text(out, "{", e);
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        const struct member *m = &all->list[i];
        if (i + 1 < all->count && json_scan_compare(m->key, m[1].key) == 0) {
            continue; /* a later one counts */
        }
        rc = buf_appendf(out, e, "%s%.*s:", out->len > 1 ? "," : "", (int)m->key.len, m->key.at);
        if (rc == 0) {
            rc = buf_append(out, m->value.at, m->value.len, e);
        }
    }
    if (rc != 0) {
        return rc;
    }
    return buf_append_text(out, "}", e);
}

static int conf_merge(struct json_slice ours, struct json_slice delegate, struct buf *out,
                      struct err *e)
{
    size_t most = 2 * json_scan_count(ours) + json_scan_count(delegate);
    CLEANUP(free) struct member *list = mem_calloc(most, sizeof(*list));
    struct members all = {.list = list};
    members_collect(&all, ours, is_unknown);
    members_collect(&all, delegate, NULL);
    members_collect(&all, ours, is_from_runtime);
    qsort(all.list, all.count, sizeof(*all.list), members_compare);
    return members_put(&all, out, e);
}

static int conf_check_type(const struct cni_conf *conf, struct json_slice delegate,
                           char out_type[static DELEGATE_TYPE_BYTES], struct cni_error *error)
{
    const int invalid = CNI_INVALID_CONFIG;
    char own[DELEGATE_TYPE_BYTES] = "";
    struct json_slice type;
    struct json_slice own_type;
    if (!json_scan_field(delegate, "type", &type) || type.len <= QUOTES_BYTES) {
        return cni_fail(error, invalid, "", "the delegate has no type");
    }
    if (type.len - QUOTES_BYTES >= DELEGATE_TYPE_BYTES) {
        return cni_fail(error, invalid, "",
                        "the delegate's type is of %zu bytes, the name of a program has at most %d",
                        type.len - QUOTES_BYTES, DELEGATE_TYPE_BYTES - 1);
    }
    if (!json_scan_text(type, out_type, DELEGATE_TYPE_BYTES) || strchr(out_type, '/') ||
        text_equal(out_type, ".") || text_equal(out_type, "..")) {
        return cni_fail(error, invalid, "", "invalid plugin name: %s", out_type);
    }
    if (json_scan_field(conf->object, "type", &own_type)) {
        (void)json_scan_text(own_type, own, sizeof(own)); /* a longer one is not the delegate's */
    }
    /* A gate behind a gate, each reading the other's file, would go on for ever. */
    if (text_equal(out_type, OWN_TYPE) || text_equal(out_type, own) ||
        json_scan_member(delegate, "delegateConf").len > 0) {
        return cni_fail(
            error, invalid, "",
            "the delegate '%s' is " OWN_TYPE " itself, or has a delegateConf of its own", out_type);
    }
    return 0;
}

static bool conf_is_usable(struct json_slice plugin)
{
    struct json_slice type;
    return json_scan_field(plugin, "type", &type) && type.len > QUOTES_BYTES &&
           !json_scan_equals(type, OWN_TYPE) && json_scan_member(plugin, "delegateConf").len == 0;
}

int delegate_conf_make(const struct cni_conf *conf, struct json_slice delegate, struct buf *out,
                       char out_type[static DELEGATE_TYPE_BYTES], struct cni_error *error)
{
    struct err e = ERR_INIT;
    if (conf_merge(conf->object, delegate, out, &e) != 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "making the delegate's configuration: %s",
                        e.msg);
    }
    struct json_slice made = {.at = buf_text(out), .len = out->len};
    return conf_check_type(conf, made, out_type, error);
}

/* ---- which it is ----------------------------------------------------------------------------- */

struct json_slice delegate_source_plugin(const struct delegate_source *source, size_t index)
{
    struct json_walk w = json_walk_start(source->plugins);
    struct json_slice key;
    struct json_slice plugin = source->plugins;
    if (json_scan_kind(source->plugins) == JSON_KIND_ARRAY) {
        for (size_t i = 0; i <= index && json_walk_next(&w, &key, &plugin); i++) {
        }
    }
    return plugin;
}

/* Of a .conf, or of a .conflist; `name` is that of the file, or of our key. */
static int source_take(struct json_slice object, enum cni_verb verb, const char *name,
                       struct delegate_source *out, struct cni_error *error)
{
    struct json_slice plugins = json_scan_member(object, "plugins");
    bool is_list = json_scan_kind(plugins) == JSON_KIND_ARRAY;
    size_t count = is_list ? json_scan_count(plugins) : plugins.len == 0;
    if (count == 0 || (count > 1 && verb != CNI_DEL)) {
        return cni_fail(error, CNI_INVALID_CONFIG, "",
                        "%s lists %zu plugins: exactly one can be wrapped, put dpu-gate first in "
                        "the list instead",
                        name, count);
    }
    *out = (struct delegate_source){
        .file = out->file, .plugins = is_list ? plugins : object, .count = count};
    for (size_t i = 0; i < count; i++) {
        if (!conf_is_usable(delegate_source_plugin(out, i))) {
            return cni_fail(error, CNI_INVALID_CONFIG, "",
                            "plugin %zu of %s has no type, or is dpu-gate itself", i, name);
        }
    }
    return 0;
}

static int source_take_file(const struct cni_conf *conf, enum cni_verb verb,
                            struct delegate_source *out, struct cni_error *error)
{
    char path[PATH_MAX];
    char name[PATH_MAX + 32];
    struct err e = ERR_INIT;
    struct json_slice object = {.at = NULL};
    (void)json_scan_text(json_scan_member(conf->object, "delegateConf"), path,
                         sizeof(path)); /* conf_read_options has seen that it fits */
    text_format(name, sizeof(name), "delegateConf '%s'", path);
    int rc = file_read(path, &out->file, &e); /* it may be a link */
    if (rc != 0) {
        /* Its owner writes it when it is ready: worth another try. */
        return cni_fail(error, rc == ERR_LIMIT ? CNI_INVALID_CONFIG : CNI_TRY_AGAIN_LATER, "",
                        "delegateConf cannot be read: %s", e.msg);
    }
    rc = json_scan_check(buf_text(&out->file), out->file.len, &object, &e);
    if (rc != 0 || json_scan_kind(object) != JSON_KIND_OBJECT) {
        return cni_fail(error, CNI_DECODING_FAILURE, "", "%s: %s", name,
                        rc == 0 ? "it is not an object" : e.msg);
    }
    return source_take(object, verb, name, out, error);
}

int delegate_source_open(const struct cni_conf *conf, enum cni_verb verb,
                         struct delegate_source *out, struct cni_error *error)
{
    struct cni_error ignored;
    struct json_slice last = json_scan_member(conf->object, "lastDelegate");
    *out =
        (struct delegate_source){.plugins = json_scan_member(conf->object, "delegate"), .count = 1};
    buf_init(&out->file, CONF_MAX_BYTES);
    if (out->plugins.len > 0) {
        return 0;
    }
    int code = source_take_file(conf, verb, out, error);
    bool is_gated = verb == CNI_ADD || verb == CNI_STATUS;
    if (code == 0 || is_gated || json_scan_kind(last) != JSON_KIND_OBJECT ||
        source_take(last, verb, "lastDelegate", out, &ignored) != 0) {
        return code;
    }
    *error = (struct cni_error){.code = 0};
    return 0;
}

void delegate_source_close(struct delegate_source *source)
{
    buf_fini(&source->file);
}

/* ---- taking our place ------------------------------------------------------------------------ */

int delegate_find(const char *type, const char *path, char out_file[static PATH_MAX],
                  struct cni_error *error)
{
    struct stat own;
    struct stat found;
    char shown[CNI_MSG_BYTES] = ""; /* as the CNI library prints it: with blanks in between */
    bool know_own = stat("/proc/self/exe", &own) == 0;
    for (const char *at = path; *at;) {
        int len = (int)strcspn(at, ":");
        size_t used = strlen(shown);
        if (at[0] == '/') {
            text_format(shown + used, sizeof(shown) - used, "%s%.*s", used ? " " : "", len, at);
        }
        bool usable = at[0] == '/' && (size_t)len + 1 + strlen(type) < PATH_MAX;
        if (usable) {
            text_format(out_file, PATH_MAX, "%.*s/%s", len, at, type);
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
    return shown[0] == '\0' ? cni_fail(error, CNI_IO_FAILURE, "", "no paths provided")
                            : cni_fail(error, CNI_IO_FAILURE, "",
                                       "failed to find plugin \"%s\" in path [%s]", type, shown);
}

/* The configuration as a file in memory, at its start. Returns an fd, or -1 with errno. Never
 * executable: some hosts refuse any other (sysctl vm.memfd_noexec). */
static int config_fd(const struct buf *config)
{
    enum { NOEXEC = 0x8 }; /* MFD_NOEXEC_SEAL of linux/memfd.h, since 6.3 */
    CLEANUP(fd) int fd = memfd_create("cni-config", MFD_CLOEXEC | NOEXEC);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create("cni-config", MFD_CLOEXEC);
    }
    if (fd < 0 || write(fd, buf_text(config), config->len) != (ssize_t)config->len ||
        lseek(fd, 0, SEEK_SET) != 0) {
        return -1;
    }
    int made = fd;
    fd = -1; /* moved */
    return made;
}

/* Returns only on failure: errno of the last try. */
static int exec_patiently(const char *file)
{
    const struct timespec pause = {.tv_nsec = DELEGATE_BUSY_PAUSE_MS * NS_PER_MS};
    char *const argv[] = {(char *)(uintptr_t)file, NULL};
    (void)signal(SIGPIPE, SIG_DFL); /* as the runtime started us */
    (void)execv(file, argv);        /* returns only on failure */
    for (int i = 1; i < DELEGATE_BUSY_TRIES && errno == ETXTBSY; i++) {
        (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
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
    CLEANUP(fd) int fd = config_fd(config);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "preparing the configuration of '%s': %s", file,
                        strerrordesc_np(errno));
    }
    return fail_to_run(file, exec_patiently(file), error);
}

/* ---- as a child ------------------------------------------------------------------------------ */

enum {
    FIRST_LOOK_NS = 50000, /* between two looks whether a child has ended; it doubles */
    LAST_LOOK_NS = 10000000,
    KILLED_LOOKS = 50, /* for a killed child to go; one that hangs in the kernel stays behind */
};

struct child {
    pid_t pid;
    int config;        /* its stdin */
    int answer[2];     /* its stdout */
    int words[2];      /* its stderr */
    size_t words_left; /* how much more of that is passed on */
    int failure[2];    /* closed by a successful exec; else errno comes through */
};

/* In the child. Never returns. */
static void child_become(const struct delegate_question *q, const struct child *c, pid_t parent)
{
    int sys_errno = 0;
    int words = q->is_quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : c->words[1];
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    if (setpgid(0, 0) != 0 || words < 0 || setenv("CNI_COMMAND", q->verb, 1) != 0 ||
        dup2(c->config, STDIN_FILENO) < 0 || dup2(c->answer[1], STDOUT_FILENO) < 0 ||
        dup2(words, STDERR_FILENO) < 0) {
        sys_errno = errno;
    } else {
        sys_errno = exec_patiently(q->file);
    }
    ssize_t told = write(c->failure[1], &sys_errno, sizeof(sys_errno));
    _exit(told == (ssize_t)sizeof(sys_errno) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* False if that does not come before the deadline. */
static bool await_event(int fd, short event, struct mono deadline)
{
    struct pollfd waiting = {.fd = fd, .events = event};
    int ready = -1;
    while (ready < 0) {
        int64_t left_ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS;
        ready = left_ms > 0 ? poll(&waiting, 1, (int)left_ms) : 0;
        if (ready < 0 && errno != EINTR) {
            return false;
        }
    }
    return ready > 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* a pipe, or memory: nothing to lose */
    }
    *fd = -1;
}

/* What is in the pipe now, without waiting. */
static size_t read_some(int *fd, void *out, size_t out_bytes)
{
    ssize_t got = *fd >= 0 ? read(*fd, out, out_bytes) : -1;
    if (got == 0) {
        close_end(fd); /* nobody has its other end */
    }
    return got > 0 ? (size_t)got : 0;
}

/* Takes a piece of what the child says. Returns false if there was none, or none that counts. */
static bool child_hear(struct child *c, struct delegate_answer *out, struct mono deadline)
{
    char words[PIPE_BUF];
    size_t got = read_some(&c->answer[0], out->text + out->len, sizeof(out->text) - out->len);
    size_t said = read_some(&c->words[0], words, sizeof(words));
    size_t passed = said < c->words_left ? said : c->words_left;
    out->len += got;
    c->words_left -= passed;
    if (passed > 0 && await_event(STDERR_FILENO, POLLOUT, deadline)) {
        /* A pipe that has room takes so little whole. Nobody can be told that it failed. */
        (void)!write(STDERR_FILENO, words, passed);
    }
    return got > 0 || passed > 0;
}

/* Until the child has ended, and not until its pipes are closed: what it started in a session of
 * its own may hold them for as long as it likes. False if the deadline passes before that. */
static bool child_hear_out(struct child *c, struct delegate_answer *out, struct mono deadline)
{
    struct timespec pause = {.tv_nsec = FIRST_LOOK_NS};
    for (;;) {
        bool has_ended = waitpid(c->pid, &out->wait_status, WNOHANG) == c->pid;
        bool is_news = child_hear(c, out, deadline);
        while (has_ended && out->len < sizeof(out->text) && child_hear(c, out, deadline)) {
        }
        if (has_ended) {
            c->pid = -1;
        }
        if (has_ended || out->len == sizeof(out->text)) {
            return true; /* what it says beyond that is nobody's */
        }
        if (!mono_before(clock_mono_now(), deadline)) {
            return false;
        }
        struct pollfd waiting[] = {{.fd = c->answer[0], .events = POLLIN},
                                   {.fd = c->words[0], .events = POLLIN}};
        (void)ppoll(waiting, ARRAY_LEN(waiting), &pause, NULL); /* it is looked at anyway */
        pause.tv_nsec = is_news ? FIRST_LOOK_NS : 2 * pause.tv_nsec;
        pause.tv_nsec = pause.tv_nsec < LAST_LOOK_NS ? pause.tv_nsec : LAST_LOOK_NS;
    }
}

/* Waits for what the child has to say, and for its end. */
static int child_collect(const struct delegate_question *q, struct child *c,
                         struct delegate_answer *out, struct cni_error *error)
{
    int sys_errno = 0;
    struct mono deadline = mono_add(clock_mono_now(), q->deadline_ms * NS_PER_MS);
    bool is_run = await_event(c->failure[0], POLLIN, deadline);
    if (is_run && read(c->failure[0], &sys_errno, sizeof(sys_errno)) > 0) {
        return fail_to_run(q->file, sys_errno, error);
    }
    out->len = 0;
    if (!is_run || !child_hear_out(c, out, deadline)) {
        return cni_fail(error, CNI_TRY_AGAIN_LATER, "",
                        "the delegate '%s' did not answer %s within %d ms", q->file, q->verb,
                        q->deadline_ms);
    }
    return 0;
}

static void cleanup_child(struct child *c)
{
    if (c->pid > 0) {
        (void)kill(-c->pid, SIGKILL); /* with all that it has started */
        (void)kill(c->pid, SIGKILL);  /* if it had no time to make a group */
        const struct timespec pause = {.tv_nsec = LAST_LOOK_NS};
        for (int i = 0; i < KILLED_LOOKS && waitpid(c->pid, NULL, WNOHANG) != c->pid; i++) {
            (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
        }
    }
    int *const ends[] = {&c->config,   &c->answer[0],  &c->answer[1], &c->words[0],
                         &c->words[1], &c->failure[0], &c->failure[1]};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        close_end(ends[i]);
    }
}

/* Its first end does not block. */
static bool open_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

int delegate_run(const struct delegate_question *q, struct delegate_answer *out,
                 struct cni_error *error)
{
    pid_t parent = getpid();
    CLEANUP(child)
    struct child c = {.pid = -1,
                      .config = -1,
                      .answer = {-1, -1},
                      .words = {-1, -1},
                      .words_left = DELEGATE_WORDS_MAX_BYTES,
                      .failure = {-1, -1}};
    out->len = 0;
    out->wait_status = 0;
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, as it may be inherited, no child could be awaited */
    c.config = config_fd(q->config);
    if (c.config >= 0 && open_pipe(c.answer) && open_pipe(c.words) && open_pipe(c.failure)) {
        c.pid = fork();
    }
    if (c.pid == 0) {
        child_become(q, &c, parent);
    }
    if (c.pid < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "asking the delegate '%s' for %s: %s", q->file,
                        q->verb, strerrordesc_np(errno));
    }
    close_end(&c.answer[1]); /* or their end would never be seen */
    close_end(&c.words[1]);
    close_end(&c.failure[1]);
    return child_collect(q, &c, out, error);
}

/* ---- what it has answered before ------------------------------------------------------------- */

/*
 * A line of the file: "1 DEVICE INODE SIZE MTIME CTIME PATH", with 0 for one that does not know
 * STATUS. What follows the first character is an identity; they are compared as they are.
 */
void delegate_versions_identify(const char *file, struct delegate_identity *out)
{
    struct stat s;
    out->text[0] = '\0';
    if (stat(file, &s) == 0 && !strchr(file, '\n')) {
        text_format(out->text, sizeof(out->text), " %ju %ju %jd %jd.%09ld %jd.%09ld %s\n",
                    (uintmax_t)s.st_dev, (uintmax_t)s.st_ino, (intmax_t)s.st_size,
                    (intmax_t)s.st_mtim.tv_sec, s.st_mtim.tv_nsec, (intmax_t)s.st_ctim.tv_sec,
                    s.st_ctim.tv_nsec, file);
    }
}

static bool versions_path(const char *readiness_file, char out[static PATH_MAX])
{
    const char *slash = strrchr(readiness_file, '/');
    int size = slash ? snprintf(out, PATH_MAX, "%.*s/" DELEGATE_VERSIONS_NAME,
                                (int)(slash - readiness_file), readiness_file)
                     : PATH_MAX;
    return size < PATH_MAX;
}

/* The text of a memory that only we can have written; "" if there is none. */
static void versions_load(const char *path, struct buf *out)
{
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return;
    }
    if (file_read_fd(fd, path, out, NULL) != 0) {
        buf_clear(out); /* larger than any of ours */
    }
}

bool delegate_versions_recall(const char *readiness_file, const struct delegate_identity *id,
                              bool *out)
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text = {.max_bytes = DELEGATE_VERSIONS_MAX_BYTES};
    if (id->text[0] == '\0' || !versions_path(readiness_file, path)) {
        return false;
    }
    versions_load(path, &text);
    const char *line = buf_text(&text);
    for (const char *end = strchr(line, '\n'); end; line = end + 1, end = strchr(line, '\n')) {
        if ((line[0] == '0' || line[0] == '1') &&
            strncmp(line + 1, id->text, strlen(id->text)) == 0) {
            *out = line[0] == '1';
            return true;
        }
    }
    return false;
}

/* The answer, then those about other programs, as many as there is room for. */
void delegate_versions_keep(const char *readiness_file, const struct delegate_identity *id,
                            bool knows_status)
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf old = {.max_bytes = DELEGATE_VERSIONS_MAX_BYTES};
    CLEANUP(buf) struct buf text = {.max_bytes = DELEGATE_VERSIONS_MAX_BYTES};
    if (id->text[0] == '\0' || !versions_path(readiness_file, path)) {
        return;
    }
    versions_load(path, &old);
    bool is_room = buf_appendf(&text, NULL, "%d%s", knows_status, id->text) == 0;
    size_t kept = 1;
    const char *line = buf_text(&old);
    for (const char *end; is_room && kept < DELEGATE_VERSIONS_ENTRIES; line = end + 1) {
        end = strchr(line, '\n');
        if (!end) {
            break;
        }
        if (strncmp(line + 1, id->text, strlen(id->text)) != 0) {
            is_room = buf_append(&text, line, (size_t)(end + 1 - line), NULL) == 0;
            kept++;
        }
    }
    if (file_replace(path, text.data, text.len, S_IRUSR | S_IWUSR, NULL) != 0) {
        return; /* it is asked again next time */
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

/* *out: one of them is 1.1.0 or later. False if it names none. */
static bool read_versions(const struct delegate_answer *a, bool *out)
{
    struct json_slice object;
    struct json_slice key;
    struct json_slice version;
    char shown[32];
    bool is_answer = false;
    *out = false;
    if (json_scan_check(a->text, a->len, &object, NULL) != 0) {
        return false;
    }
    struct json_slice versions = json_scan_member(object, "supportedVersions");
    struct json_walk w = json_walk_start(versions);
    while (!*out && json_scan_kind(versions) == JSON_KIND_ARRAY &&
           json_walk_next(&w, &key, &version)) {
        is_answer = (json_scan_text(version, shown, sizeof(shown)) &&
                     cni_version_at_least(shown, "1.1.0", out, NULL) == 0) ||
                    is_answer;
    }
    return is_answer;
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
    if (read_versions(&answer, out)) {
        delegate_versions_keep(readiness_file, &id, *out);
    }
    return 0;
}

static int delegate_ask(const struct delegate_question *q, bool keeps_success, int *out_exit_status,
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
    return delegate_ask(&q, true, out_exit_status, error);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Everything that its run needs. */
struct delegate {
    char file[PATH_MAX];
    struct buf config; /* owned */
};

static void cleanup_delegate(struct delegate *d)
{
    buf_fini(&d->config);
}

static int delegate_prepare(const struct cni_env *env, const struct cni_conf *conf,
                            struct json_slice plugin, struct delegate *out, struct cni_error *error)
{
    char type[DELEGATE_TYPE_BYTES];
    buf_init(&out->config, DELEGATE_CONF_MAX_BYTES);
    int code = delegate_conf_make(conf, plugin, &out->config, type, error);
    return code != 0 ? code : delegate_find(type, env->path, out->file, error);
}

/* DEL, of a list: its plugins but the first, from the last on, as the runtime would do it. Ends
 * with the first that fails. */
static int delete_later_ones(const struct cni_env *env, const struct cni_conf *conf,
                             const struct delegate_source *source, int *exit_status,
                             struct cni_error *error)
{
    int code = 0;
    for (size_t i = source->count; code == 0 && *exit_status == 0 && i-- > 1;) {
        CLEANUP(delegate) struct delegate d;
        code = delegate_prepare(env, conf, delegate_source_plugin(source, i), &d, error);
        if (code == 0) {
            code = delegate_ask(&(struct delegate_question){.file = d.file,
                                                            .verb = "DEL",
                                                            .config = &d.config,
                                                            .deadline_ms = DELEGATE_DEL_MS},
                                false, exit_status, error);
        }
    }
    return code;
}

/* What the delegate answers to STATUS becomes our answer; for other verbs it takes our place. */
static int delegate_become(const struct cni_env *env, const struct cni_conf *conf,
                           struct json_slice plugin, int *exit_status, struct cni_error *error)
{
    bool is_asked = true;
    CLEANUP(delegate) struct delegate d;
    int code = delegate_prepare(env, conf, plugin, &d, error);
    if (code != 0) {
        return code;
    }
    if (env->verb == CNI_STATUS || env->verb == CNI_GC) {
        code = delegate_ask_versions(d.file, conf->readiness_file, &is_asked, error);
    }
    if (code != 0 || !is_asked) {
        return code; /* an older plugin would only complain */
    }
    return env->verb == CNI_STATUS ? delegate_ask_status(d.file, &d.config, exit_status, error)
                                   : delegate_exec(d.file, &d.config, error);
}

int delegate_call(const struct cni_env *env, const struct cni_conf *conf, int *exit_status,
                  struct cni_error *error)
{
    struct delegate_source source;
    int code = delegate_source_open(conf, env->verb, &source, error);
    if (code == 0) {
        code = delete_later_ones(env, conf, &source, exit_status, error);
    }
    if (code == 0 && *exit_status == 0) {
        code = delegate_become(env, conf, delegate_source_plugin(&source, 0), exit_status, error);
    }
    delegate_source_close(&source);
    return code;
}
