/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin behind dpu-gate: which one it is, its configuration, and how dpu-gate runs it. It
 * replaces dpu-gate by exec, with its configuration on stdin as a memfd: dpu-gate relays nothing,
 * and leaves nothing behind when the runtime kills it. A call with a time limit runs in a child
 * instead.
 */
#include "cni/protocol.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"

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

enum {
    DELEGATE_TYPE_BYTES = NAME_MAX + 1,           /* it is the name of a file */
    DELEGATE_CONF_MAX_BYTES = 2 * CONF_MAX_BYTES, /* two objects have more than both in one */
    DELEGATE_BUSY_TRIES = 20, /* "text file busy" is an installer at work: wait for it */
    DELEGATE_BUSY_PAUSE_MS = 100,
    /* Of an answer: a list of versions, or an error whose text goes into the Node's condition. */
    DELEGATE_ANSWER_MAX_BYTES = 64 << 10,
    DELEGATE_WORDS_MAX_BYTES = 64 << 10, /* of its stderr; what goes beyond is dropped */
    DELEGATE_VERSION_MS = 5000,
    /* Together well below the 30 s after which the kubelet takes the runtime itself for dead:
     * runtimes ask STATUS every few seconds, and containerd without a deadline of its own. */
    DELEGATE_STATUS_MS = 10000,
    /* Of one plugin in a list; the kubelet gives the runtime as much for all of them. */
    DELEGATE_DEL_MS = 120000,
    QUOTES_BYTES = 2,
    NETWORK_BYTES = 256, /* of its name, as it is looked for */
};

/* ---- its configuration ----------------------------------------------------------------------- */

#define OWN_TYPE "dpu-gate"

struct member {
    struct json_slice key;
    struct json_slice value;
    int rank; /* of those of one name, the highest counts */
};

/* Keys that the runtime injects: its word is newer than what the delegate's configuration says. */
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
    return strncmp(key.at, prefix, strlen(prefix)) == 0;
}

/* Appends those that are wanted, or all; there is room for them. Returns how many there are. */
static size_t members_append(struct member *list, size_t count, struct json_slice object,
                             bool (*is_wanted)(struct json_slice key))
{
    for (struct json_walk w = json_walk_start(object); json_walk_next(&w);) {
        if (!is_wanted || is_wanted(w.key)) {
            list[count] = (struct member){.key = w.key, .value = w.value, .rank = (int)count};
            count++;
        }
    }
    return count;
}

static int members_compare(const void *a, const void *b)
{
    const struct member *ma = a;
    const struct member *mb = b;
    int order = json_scan_compare(ma->key, mb->key);
    return order != 0 ? order : ma->rank - mb->rank;
}

static int conf_merge(struct json_slice ours, struct json_slice delegate, struct buf *out,
                      struct err *e)
{
    size_t most = 2 * json_scan_count(ours) + json_scan_count(delegate);
    CLEANUP(free) struct member *list = mem_calloc(most, sizeof(*list));
    /* A device id from Multus, for one: the delegate's, unless it has one. */
    size_t count = members_append(list, 0, ours, conf_is_foreign_key);
    count = members_append(list, count, delegate, NULL);
    count = members_append(list, count, ours, is_from_runtime);
    qsort(list, count, sizeof(*list), members_compare);
    const char *comma = "";
    int rc = buf_appendf(out, e, "{");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct member *m = &list[i];
        if (i + 1 < count && json_scan_compare(m->key, m[1].key) == 0) {
            continue; /* a later one counts */
        }
        rc = buf_appendf(out, e, "%s%.*s:%.*s", comma, (int)m->key.len, m->key.at,
                         (int)m->value.len, m->value.at);
        comma = ",";
    }
    return rc == 0 ? buf_appendf(out, e, "}") : rc;
}

static int conf_check_type(struct cni_call *c, struct json_slice delegate,
                           char out_type[static DELEGATE_TYPE_BYTES])
{
    const int invalid = CNI_INVALID_CONFIG;
    char own[DELEGATE_TYPE_BYTES] = "";
    struct json_slice type;
    struct json_slice own_type;
    if (!json_scan_field(delegate, "type", &type) || type.len <= QUOTES_BYTES) {
        return cni_fail(c, invalid, "the delegate has no type");
    }
    if (type.len - QUOTES_BYTES >= DELEGATE_TYPE_BYTES) {
        return cni_fail(
            c, invalid,
            "the delegate's type has %zu bytes, but the name of a program has at most %d",
            type.len - QUOTES_BYTES, DELEGATE_TYPE_BYTES - 1);
    }
    if (!json_scan_text(type, out_type, DELEGATE_TYPE_BYTES) || strchr(out_type, '/') ||
        text_equal(out_type, ".") || text_equal(out_type, "..")) {
        return cni_fail(c, invalid, "invalid plugin name: %s", out_type);
    }
    if (json_scan_field(c->object, "type", &own_type)) {
        (void)json_scan_text(own_type, own, sizeof(own)); /* a longer one is not the delegate's */
    }
    /* A gate behind a gate, each reading the other's file, would go on for ever. */
    if (text_equal(out_type, OWN_TYPE) || text_equal(out_type, own) ||
        json_scan_member(delegate, "delegateConf").at) {
        return cni_fail(
            c, invalid,
            "the delegate '%s' is " OWN_TYPE " itself, or has a delegateConf of its own", out_type);
    }
    return 0;
}

static bool conf_is_usable(struct json_slice plugin)
{
    struct json_slice type;
    return json_scan_field(plugin, "type", &type) && type.len > QUOTES_BYTES &&
           !json_scan_equals(type, OWN_TYPE) && !json_scan_member(plugin, "delegateConf").at;
}

/*
 * Appends the configuration of the plugin `delegate` to `out`, whose bound has to be
 * DELEGATE_CONF_MAX_BYTES: the original one with its own type, and from ours what the runtime put
 * there and every key that neither we nor the delegate know. Each member's bytes are as they were;
 * of two of the same name the last counts, and they are sorted, as the CNI library does it for a
 * plugin of its own. A delegate that is ourselves is refused.
 */
static int delegate_conf_make(struct cni_call *c, struct json_slice delegate, struct buf *out,
                              char out_type[static DELEGATE_TYPE_BYTES])
{
    struct err e = ERR_INIT;
    if (conf_merge(c->object, delegate, out, &e) != 0) {
        return cni_fail(c, CNI_IO_FAILURE, "writing the delegate's configuration: %s", e.msg);
    }
    struct json_slice made = {.at = buf_text(out), .len = out->len};
    return conf_check_type(c, made, out_type);
}

/* ---- which it is ----------------------------------------------------------------------------- */

/* `index` < c->plugin_count. */
static struct json_slice delegate_plugin(const struct cni_call *c, size_t index)
{
    bool is_list = json_scan_kind(c->plugins) == JSON_KIND_ARRAY;
    return is_list ? json_scan_item(c->plugins, index) : c->plugins;
}

/* Takes the plugins of a .conf, or of a .conflist; `name` is that of the file, or of our key. */
static int take_plugins(struct cni_call *c, struct json_slice object, const char *name)
{
    struct json_slice plugins = json_scan_member(object, "plugins");
    bool is_list = json_scan_kind(plugins) == JSON_KIND_ARRAY;
    c->plugins = is_list ? plugins : object;
    c->plugin_count = is_list ? json_scan_count(plugins) : !plugins.at;
    if (c->plugin_count == 0 || (c->plugin_count > 1 && c->verb != CNI_DEL)) {
        return cni_fail(c, CNI_INVALID_CONFIG,
                        "%s lists %zu plugins, but dpu-gate wraps exactly one: put dpu-gate first "
                        "in the list instead",
                        name, c->plugin_count);
    }
    for (size_t i = 0; i < c->plugin_count; i++) {
        if (!conf_is_usable(delegate_plugin(c, i))) {
            return cni_fail(c, CNI_INVALID_CONFIG,
                            "plugin %zu of %s has no type, or is dpu-gate itself", i, name);
        }
    }
    return 0;
}

/* A configuration of that network, or one that somebody made a list of: its first plugin then still
 * has the name. None of ours. */
static bool is_of_network(const char *folder, const char *name, const char *network)
{
    struct json_slice object;
    CLEANUP(buf) struct buf text = {.max_bytes = CONF_MAX_BYTES};
    CLEANUP(free) char *path = mem_format("%s/%s", folder, name);
    if (!names_is_cni_configuration(name) || file_read(path, &text, NULL) != 0 ||
        json_scan_check(buf_text(&text), text.len, &object, NULL) != 0) {
        return false;
    }
    struct json_slice plugins = json_scan_member(object, "plugins");
    struct json_slice first = plugins.at ? json_scan_item(plugins, 0) : object;
    return !json_scan_equals(json_scan_member(first, "type"), OWN_TYPE) &&
           (json_scan_equals(json_scan_member(object, "name"), network) ||
            json_scan_equals(json_scan_member(first, "name"), network));
}

/* Somebody may have renamed the file that is gone, or made a list of it: another configuration
 * beside it with our network's name. dpu-host-agent follows that; without --cni-sync it is named.
 */
static void name_what_is_beside(struct cni_call *c)
{
    char network[NETWORK_BYTES] = "";
    char words[CNI_DETAILS_BYTES];
    char first[NAME_MAX + 1] = "";
    CLEANUP(free) char *folder = mem_strdup(c->delegate_path);
    *strrchr(folder, '/') = '\0'; /* it is absolute */
    (void)json_scan_text(json_scan_member(c->object, "name"), network, sizeof(network));
    CLEANUP(dir) DIR *dir = opendir(folder[0] ? folder : "/");
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (is_of_network(folder, entry->d_name, network) &&
            (first[0] == '\0' || strcmp(entry->d_name, first) < 0)) {
            text_format(first, sizeof(first), "%s", entry->d_name);
        }
    }
    if (first[0] != '\0') {
        text_format(words, sizeof(words),
                    "'%s' beside it configures the same network: run 'dpu-host-agent install-cni', "
                    "or set --cni-sync",
                    first);
        (void)cni_explain(c, words);
    }
}

static int take_file(struct cni_call *c)
{
    char name[PATH_MAX + 32];
    struct err e = ERR_INIT;
    struct json_slice object = {.at = NULL};
    text_format(name, sizeof(name), "delegateConf '%s'", c->delegate_path);
    c->delegate_file = (struct buf){.max_bytes = CONF_MAX_BYTES};
    int rc = file_read(c->delegate_path, &c->delegate_file, &e); /* it may be a link */
    if (rc != 0) {
        /* Its owner writes it when it is ready: worth another try. */
        cni_fail(c, rc == ERR_LIMIT ? CNI_INVALID_CONFIG : CNI_TRY_AGAIN_LATER,
                 "delegateConf cannot be read: %s", e.msg);
        if (rc == ERR_NOTFOUND && cni_is_gated(c->verb)) {
            name_what_is_beside(c);
        }
        return c->code;
    }
    rc = json_scan_check(buf_text(&c->delegate_file), c->delegate_file.len, &object, &e);
    if (rc == 0 && json_scan_kind(object) != JSON_KIND_OBJECT) {
        rc = err_set(&e, ERR_PARSE, "it is not a JSON object");
    }
    if (rc != 0) {
        return cni_fail(c, CNI_DECODING_FAILURE, "%s: %s", name, e.msg);
    }
    return take_plugins(c, object, name);
}

/*
 * The plugins behind the gate: the one in `delegate`, or what the file `delegateConf` holds
 * now. That file may be gone, renamed or broken when a pod is removed, and then DEL would fail for
 * good: the verbs that are not gated take the copy in `lastDelegate` instead. It may also have
 * become a list since the pod was added: DEL goes through all of it.
 */
static int delegate_find_plugins(struct cni_call *c)
{
    struct json_slice last = json_scan_member(c->object, "lastDelegate");
    c->plugins = json_scan_member(c->object, "delegate");
    c->plugin_count = 1;
    if (c->plugins.at || take_file(c) == 0) {
        return 0;
    }
    struct cni_call with_copy = *c;
    if (cni_is_gated(c->verb) || json_scan_kind(last) != JSON_KIND_OBJECT ||
        take_plugins(&with_copy, last, "lastDelegate") != 0) {
        return c->code;
    }
    *c = with_copy;
    c->code = 0;
    return 0;
}

/* ---- taking our place ------------------------------------------------------------------------ */

/* Finds the plugin `type` along CNI_PATH: the first regular file of that name; empty and relative
 * elements are skipped, and finding ourselves is an error. */
static int delegate_find(struct cni_call *c, const char *type, char out_file[static PATH_MAX])
{
    struct stat own;
    struct stat found;
    char shown[CNI_MSG_BYTES] = ""; /* as the CNI library prints it: with blanks in between */
    bool know_own = stat("/proc/self/exe", &own) == 0;
    for (const char *at = c->path; *at;) {
        int len = (int)strcspn(at, ":");
        if (at[0] == '/') {
            text_append(shown, sizeof(shown), "%s%.*s", shown[0] ? " " : "", len, at);
        }
        CLEANUP(free) char *file = mem_format("%.*s/%s", len, at, type);
        if (at[0] == '/' && stat(file, &found) == 0 && S_ISREG(found.st_mode)) {
            text_format(out_file, PATH_MAX, "%s", file); /* stat() finds none that is longer */
            if (know_own && found.st_dev == own.st_dev && found.st_ino == own.st_ino) {
                return cni_fail(c, CNI_INVALID_CONFIG, "the delegate '%s' is dpu-gate itself",
                                out_file);
            }
            return 0;
        }
        at += len + (at[len] == ':');
    }
    return shown[0] == '\0' ? cni_fail(c, CNI_IO_FAILURE, "no paths provided")
                            : cni_fail(c, CNI_IO_FAILURE,
                                       "failed to find plugin \"%s\" in path [%s]", type, shown);
}

/* The configuration as a file in memory, at its start. Returns an fd, or -1 with errno. Never
 * executable where the kernel knows that: some hosts refuse any other (sysctl vm.memfd_noexec). */
static int config_fd(const struct buf *config)
{
    enum { NOEXEC = 0x8 }; /* MFD_NOEXEC_SEAL of linux/memfd.h, since 6.3 */
    static const unsigned flags[] = {MFD_CLOEXEC | NOEXEC, MFD_CLOEXEC};
    CLEANUP(fd) int fd = -1;
    for (size_t i = 0; fd < 0 && i < ARRAY_LEN(flags); i++) {
        fd = memfd_create("cni-config", flags[i]);
    }
    if (fd < 0 || write(fd, buf_text(config), config->len) != (ssize_t)config->len ||
        lseek(fd, 0, SEEK_SET) != 0) {
        return -1;
    }
    return take_fd(&fd);
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
    return errno;
}

static int fail_to_run(struct cni_call *c, const char *file, int sys_errno)
{
    int code = sys_errno == ETXTBSY ? CNI_TRY_AGAIN_LATER : CNI_IO_FAILURE;
    return cni_fail(c, code, "running the delegate '%s': %s", file, strerrordesc_np(sys_errno));
}

/* False, with errno, if it could not. */
static bool put_fd(int fd, int at)
{
    return dup2(fd, at) == at;
}

/* Becomes the plugin. Returns only on failure. */
static int delegate_exec(struct cni_call *c, const char *file, const struct buf *config)
{
    CLEANUP(fd) int fd = config_fd(config);
    if (fd < 0 || !put_fd(fd, STDIN_FILENO)) {
        return cni_fail(c, CNI_IO_FAILURE, "preparing the configuration of '%s': %s", file,
                        strerrordesc_np(errno));
    }
    return fail_to_run(c, file, exec_patiently(file));
}

/* ---- as a child ------------------------------------------------------------------------------ */

enum {
    FIRST_LOOK_NS = 50000, /* between two looks whether a child has ended; it doubles */
    LAST_LOOK_NS = 10000000,
    KILLED_LOOKS = 50, /* for a killed child to go; one that hangs in the kernel stays behind */
};

struct delegate_question {
    const char *file;
    const char *verb; /* CNI_COMMAND */
    const struct buf *config;
    int deadline_ms;
    size_t words_left; /* of its stderr: so much more is passed on */

    /* The answer. */
    char text[DELEGATE_ANSWER_MAX_BYTES];
    size_t len;      /* if all of it, it may have said more, and was ended */
    int wait_status; /* as waitpid has it */
};

struct child {
    pid_t pid;
    int config;    /* its stdin */
    int answer[2]; /* its stdout */
    int words[2];  /* its stderr */
    int *failure;  /* memory shared with it, which goes with us: errno, if it could not run */
};

/* In the child. Never returns. */
static void child_become(const struct delegate_question *q, const struct child *child, pid_t parent)
{
    bool is_prepared =
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && setpgid(0, 0) == 0 &&
        setenv("CNI_COMMAND", q->verb, true) == 0 && put_fd(child->config, STDIN_FILENO) &&
        put_fd(child->answer[1], STDOUT_FILENO) && put_fd(child->words[1], STDERR_FILENO);
    *child->failure = is_prepared ? exec_patiently(q->file) : errno;
    _exit(EXIT_FAILURE);
}

/* False if our stderr has no room before the deadline. */
static bool await_room(struct mono deadline)
{
    struct pollfd waiting = {.fd = STDERR_FILENO, .events = POLLOUT};
    int64_t left_ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS;
    return poll(&waiting, 1, (int)mono_ns_max(left_ms, 0)) > 0;
}

static void close_end(int *fd)
{
    (void)close(take_fd(fd)); /* a pipe, or memory: nothing to lose; or none */
}

/* Reads the bytes that are in the pipe now, without waiting. */
static size_t read_some(int *fd, void *out, size_t out_bytes)
{
    ssize_t got = read(*fd, out, out_bytes);
    if (got == 0) {
        close_end(fd); /* nobody has its other end */
    }
    return got > 0 ? (size_t)got : 0;
}

/* Takes a piece of what the child says. Returns false if there was none, or none that counts. */
static bool child_hear(struct delegate_question *q, struct child *child, struct mono deadline)
{
    char words[PIPE_BUF];
    size_t got = read_some(&child->answer[0], q->text + q->len, sizeof(q->text) - q->len);
    size_t said = read_some(&child->words[0], words, sizeof(words));
    size_t passed = said < q->words_left ? said : q->words_left;
    q->len += got;
    q->words_left -= passed;
    if (passed > 0 && await_room(deadline)) {
        /* A pipe that has room takes so little whole. Nobody can be told that it failed. */
        (void)!write(STDERR_FILENO, words, passed);
    }
    return got > 0 || passed > 0;
}

/* Until the child has ended, and not until its pipes are closed: what it started in a session of
 * its own may hold them for as long as it likes. False if the deadline passes before that. */
static bool child_hear_out(struct delegate_question *q, struct child *child, struct mono deadline)
{
    struct timespec pause = {.tv_nsec = FIRST_LOOK_NS};
    for (;;) {
        bool has_ended = waitpid(child->pid, &q->wait_status, WNOHANG) == child->pid;
        bool is_news = child_hear(q, child, deadline);
        while (has_ended && q->len < sizeof(q->text) && child_hear(q, child, deadline)) {
        }
        if (has_ended) {
            child->pid = -1;
        }
        if (has_ended || q->len == sizeof(q->text)) {
            return true; /* what it says beyond that is nobody's */
        }
        if (!mono_before(clock_mono_now(), deadline)) {
            return false;
        }
        struct pollfd waiting[] = {{.fd = child->answer[0], .events = POLLIN},
                                   {.fd = child->words[0], .events = POLLIN}};
        (void)ppoll(waiting, ARRAY_LEN(waiting), &pause, NULL); /* it is looked at anyway */
        pause.tv_nsec = is_news ? FIRST_LOOK_NS : 2 * pause.tv_nsec;
        pause.tv_nsec = pause.tv_nsec < LAST_LOOK_NS ? pause.tv_nsec : LAST_LOOK_NS;
    }
}

/* Waits for what the child has to say, and for its end. */
static int child_collect(struct cni_call *c, struct delegate_question *q, struct child *child)
{
    struct mono deadline = mono_add(clock_mono_now(), q->deadline_ms * NS_PER_MS);
    if (!child_hear_out(q, child, deadline)) {
        return cni_fail(c, CNI_TRY_AGAIN_LATER, "the delegate '%s' did not answer %s within %d ms",
                        q->file, q->verb, q->deadline_ms);
    }
    return *child->failure == 0 ? 0 : fail_to_run(c, q->file, *child->failure);
}

static void cleanup_child(struct child *child)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, SIGKILL); /* with all that it has started */
        (void)kill(child->pid, SIGKILL);  /* if it had no time to make a group */
        const struct timespec pause = {.tv_nsec = LAST_LOOK_NS};
        for (int i = 0; i < KILLED_LOOKS && waitpid(child->pid, NULL, WNOHANG) != child->pid; i++) {
            (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
        }
    }
    int *const ends[] = {&child->config, &child->answer[0], &child->answer[1], &child->words[0],
                         &child->words[1]};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        close_end(ends[i]);
    }
}

/* Its first end does not block. */
static bool open_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

/* Runs it as a child, which dies with us: its answer is collected, what it says on stderr passed
 * on, and after the deadline it is ended with its process group, which is an error. Both go through
 * pipes of ours: nothing that it leaves behind keeps our caller waiting for the end of his. */
static int delegate_ask(struct cni_call *c, struct delegate_question *q)
{
    pid_t parent = getpid();
    CLEANUP(child)
    struct child child = {.pid = -1,
                          .config = -1,
                          .answer = {-1, -1},
                          .words = {-1, -1},
                          .failure = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, as it may be inherited, no child could be awaited */
    child.config = config_fd(q->config);
    if (child.config >= 0 && child.failure != MAP_FAILED && open_pipe(child.answer) &&
        open_pipe(child.words)) {
        child.pid = fork();
    }
    if (child.pid == 0) {
        child_become(q, &child, parent);
    }
    if (child.pid < 0) {
        return cni_fail(c, CNI_IO_FAILURE, "asking the delegate '%s' for %s: %s", q->file, q->verb,
                        strerrordesc_np(errno));
    }
    close_end(&child.answer[1]); /* or their end would never be seen */
    close_end(&child.words[1]);
    return child_collect(c, q, &child);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* One of them is 1.1.0 or later. */
static bool has_new_version(const struct delegate_question *q)
{
    struct json_slice object;
    char shown[32];
    bool is_new = false;
    if (json_scan_check(q->text, q->len, &object, NULL) != 0) {
        return false;
    }
    struct json_walk w = json_walk_start(json_scan_member(object, "supportedVersions"));
    while (!is_new && !w.is_object && json_walk_next(&w)) {
        is_new = json_scan_text(w.value, shown, sizeof(shown)) &&
                 cni_version_at_least(shown, "1.1.0", &is_new, NULL) == 0 && is_new;
    }
    return is_new;
}

/* Not of one that we end ourselves. */
static int check_end(struct cni_call *c, const struct delegate_question *q)
{
    if (!WIFEXITED(q->wait_status)) {
        return cni_fail(c, CNI_IO_FAILURE, "the delegate '%s' was ended by signal %d", q->file,
                        WTERMSIG(q->wait_status));
    }
    return 0;
}

/* *out: does its answer to VERSION name 1.1.0 or later, so that it knows STATUS and GC? One that
 * answers anything else is taken for an old one. */
static int delegate_ask_versions(struct cni_call *c, const char *file, bool *out)
{
    char text[] = "{\"cniVersion\":\"" CNI_VERSION_CURRENT "\"}";
    const struct buf config = {.data = text, .len = strlen(text)};
    struct delegate_question q = {
        .file = file, .verb = "VERSION", .config = &config, .deadline_ms = DELEGATE_VERSION_MS};
    if (delegate_ask(c, &q) != 0 || check_end(c, &q) != 0) {
        return c->code;
    }
    *out = has_new_version(&q);
    return 0;
}

/* Its exit status becomes the call's. */
static int ask_whole(struct cni_call *c, struct delegate_question *q)
{
    q->words_left = DELEGATE_WORDS_MAX_BYTES;
    if (delegate_ask(c, q) != 0) {
        return c->code;
    }
    if (q->len == sizeof(q->text)) {
        return cni_fail(c, CNI_IO_FAILURE,
                        "the delegate '%s' answered %s with %zu bytes or more, which is too long",
                        q->file, q->verb, q->len);
    }
    if (check_end(c, q) != 0) {
        return c->code;
    }
    c->exit_status = WEXITSTATUS(q->wait_status);
    return 0;
}

static int pass_on(struct cni_call *c, const struct delegate_question *q)
{
    if (reply_bytes(q->text, q->len) != EXIT_SUCCESS) {
        return cni_fail(c, CNI_IO_FAILURE, "passing the delegate's answer on failed");
    }
    return 0;
}

/* Passes its answer on to our stdout, and its exit status to the call's. An error of one that does
 * not know STATUS is none. */
static int delegate_ask_status(struct cni_call *c, const char *file, const struct buf *config)
{
    struct delegate_question q = {
        .file = file, .verb = "STATUS", .config = config, .deadline_ms = DELEGATE_STATUS_MS};
    bool is_known = true;
    int code = ask_whole(c, &q);
    if (code == 0 && c->exit_status != EXIT_SUCCESS) {
        code = delegate_ask_versions(c, file, &is_known);
    }
    if (code == 0 && !is_known) {
        c->exit_status = EXIT_SUCCESS; /* an older plugin only complains */
        return 0;
    }
    return code == 0 ? pass_on(c, &q) : code;
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

static int delegate_prepare(struct cni_call *c, size_t index, struct delegate *out)
{
    char type[DELEGATE_TYPE_BYTES];
    out->config = (struct buf){.max_bytes = DELEGATE_CONF_MAX_BYTES};
    int code = delegate_conf_make(c, delegate_plugin(c, index), &out->config, type);
    return code != 0 ? code : delegate_find(c, type, out->file);
}

/* DEL, of a list: its plugins but the first, from the last on, as the runtime would do it. Ends
 * with the first that fails. */
static int delete_later_ones(struct cni_call *c)
{
    for (size_t i = c->plugin_count; c->code == 0 && c->exit_status == EXIT_SUCCESS && i-- > 1;) {
        CLEANUP(delegate) struct delegate d;
        if (delegate_prepare(c, i, &d) == 0) {
            struct delegate_question q = {
                .file = d.file, .verb = "DEL", .config = &d.config, .deadline_ms = DELEGATE_DEL_MS};
            if (ask_whole(c, &q) == 0 && c->exit_status != EXIT_SUCCESS) {
                return pass_on(c, &q);
            }
        }
    }
    return c->code;
}

/* For STATUS, the delegate's answer becomes ours; for other verbs the delegate takes our place. */
static int delegate_become(struct cni_call *c)
{
    bool is_known = true;
    CLEANUP(delegate) struct delegate d;
    if (delegate_prepare(c, 0, &d) != 0) {
        return c->code;
    }
    if (c->verb == CNI_STATUS) {
        return delegate_ask_status(c, d.file, &d.config);
    }
    if (c->verb == CNI_GC && delegate_ask_versions(c, d.file, &is_known) != 0) {
        return c->code;
    }
    return is_known ? delegate_exec(c, d.file, &d.config) : 0; /* an older one only complains */
}

int delegate_call(struct cni_call *c)
{
    if (delegate_find_plugins(c) != 0 || delete_later_ones(c) != 0 ||
        c->exit_status != EXIT_SUCCESS) {
        return c->code;
    }
    return delegate_become(c);
}
