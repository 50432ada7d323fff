/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins are behind the gate, what they are given, and how they are run and asked. */
#include "cni/delegate.c" /* its steps are its own */

#include "base/clock.h"
#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

#include <signal.h>
#include <sys/wait.h>

WORLD(world_make, world_remove)

/* ---- which they are -------------------------------------------------------------------------- */

#define GONE "\"delegateConf\":\"/nonexistent/10-ovn.conf\""

/* "TYPE TYPE ..." of the plugins behind the gate, by a configuration on stdin; returns the code. */
static int find_types(struct cni_call *c, enum cni_verb verb, const char *text,
                      char out_types[static 100])
{
    size_t used = 0;
    out_types[0] = '\0';
    assert_int_equal(open_call(c, verb, text), 0);
    int code = delegate_find_plugins(c);
    assert_int_equal(code, c->code);
    for (size_t i = 0; code == 0 && i < c->plugin_count; i++) {
        char type[20];
        struct json_slice plugin = delegate_plugin(c, i);
        assert_true(json_scan_text(json_scan_member(plugin, "type"), type, sizeof(type)));
        used += (size_t)snprintf(out_types + used, 100 - used, "%s%s", i > 0 ? " " : "", type);
    }
    cni_call_fini(c);
    return code;
}

TEST(delegate_conf_is_one_plugin_but_for_del)
{
    static const struct {
        const char *content;
        const char *types; /* with DEL, and of one also with ADD */
        int code;          /* with ADD */
    } rows[] = {
        {"{\"type\":\"d\",\"name\":\"o\",\"mtu\":1}", "d", 0},
        {"{\"name\":\"o\",\"plugins\":[{\"type\":\"d\",\"mtu\":1}]}", "d", 0},
        {"{\"plugins\":[],\"plugins\":[{\"type\":\"d\"}]}", "d", 0}, /* the last one */
        {"{\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"},{\"type\":\"c\"}]}", "a b c",
         CNI_INVALID_CONFIG},
        {"{\"plugins\":[]}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":{\"type\":\"a\"}}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":[1]}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":[{\"type\":\"a\"},{\"type\":\"dpu-gate\"}]}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":[{\"type\":\"a\"},{}]}", "", CNI_INVALID_CONFIG},
        {"{\"type\":\"\"}", "", CNI_INVALID_CONFIG},
        {"[]", "", CNI_DECODING_FAILURE},
        {"", "", CNI_DECODING_FAILURE},
        {"{", "", CNI_DECODING_FAILURE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        char types[100];
        struct cni_call c;
        bool is_any = rows[i].types[0] != '\0';
        CLEANUP(fd) int fd = file_of(rows[i].content);
        (void)snprintf(text, sizeof(text),
                       "{\"name\":\"n\",\"cniVersion\":\"1.1.0\","
                       "\"delegateConf\":\"/proc/self/fd/%d\"%s}",
                       fd, is_any ? ",\"lastDelegate\":{\"type\":\"old\"}" : "");
        print_message("%s\n", rows[i].content);
        assert_int_equal(find_types(&c, CNI_ADD, text, types), rows[i].code);
        assert_int_equal(find_types(&c, CNI_DEL, text, types), is_any ? 0 : rows[i].code);
        assert_string_equal(types, rows[i].types);
    }
    char types[100];
    struct cni_call c;
    const char *inline_one =
        "{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"delegate\":{\"type\":\"d\"}}";
    assert_int_equal(find_types(&c, CNI_ADD, inline_one, types), 0);
    assert_string_equal(types, "d");
}

TEST(a_file_that_is_gone_leaves_its_copy_to_the_verbs_that_clean_up)
{
    static const struct {
        const char *keys;
        const char *types; /* "": none */
    } rows[] = {
        {GONE, ""},
        {GONE ",\"lastDelegate\":{\"type\":\"d\"}", "d"},
        {GONE ",\"lastDelegate\":{\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"}]}", "a b"},
        {GONE ",\"lastDelegate\":{\"type\":\"dpu-gate\"}", ""},
        {GONE ",\"lastDelegate\":[{\"type\":\"d\"}]", ""},
        {GONE ",\"lastDelegate\":null", ""},
        /* A directory, and what is no JSON. */
        {"\"delegateConf\":\"/\",\"lastDelegate\":{\"type\":\"d\"}", "d"},
        {"\"delegateConf\":\"/dev/null\",\"lastDelegate\":{\"type\":\"d\"}", "d"},
    };
    static const enum cni_verb verbs[] = {CNI_ADD, CNI_STATUS, CNI_DEL, CNI_CHECK, CNI_GC};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t v = 0; v < ARRAY_LEN(verbs); v++) {
            char text[300];
            char types[100];
            struct cni_call c;
            bool is_gated = verbs[v] == CNI_ADD || verbs[v] == CNI_STATUS;
            bool is_list = strchr(rows[i].types, ' ') != NULL && verbs[v] != CNI_DEL;
            bool is_found = rows[i].types[0] != '\0' && !is_gated && !is_list;
            (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"cniVersion\":\"1.1.0\",%s}",
                           rows[i].keys);
            print_message("%zu %s\n", v, text);
            assert_int_equal(find_types(&c, verbs[v], text, types),
                             is_found ? 0 : CNI_TRY_AGAIN_LATER);
            assert_string_equal(types, is_found ? rows[i].types : "");
            assert_true(is_found || strstr(c.msg, "delegateConf"));
        }
    }
}

/* ---- what they are given --------------------------------------------------------------------- */

struct made {
    struct buf text;
    char type[DELEGATE_TYPE_BYTES];
};

static void cleanup_made(struct made *m)
{
    buf_fini(&m->text);
}

/* Makes the delegate's configuration from `text`, as for DEL; returns the code. */
static int make(const char *text, struct made *out, struct cni_call *c)
{
    out->text = (struct buf){.max_bytes = DELEGATE_CONF_MAX_BYTES};
    assert_int_equal(open_call(c, CNI_DEL, text), 0);
    struct json_slice delegate = json_scan_member(c->object, "delegate");
    int code = delegate_conf_make(c, delegate, &out->text, out->type);
    cni_call_fini(c);
    return code;
}

TEST(delegate_has_its_own_keys_and_the_runtimes)
{
    static const struct {
        const char *conf;
        const char *made;
    } rows[] = {
        {"{\"name\":\"n\",\"type\":\"dpu-gate\",\"readinessFile\":\"/r\",\"statusCode\":51,"
         "\"delegate\":{\"type\":\"d\"}}",
         "{\"name\":\"n\",\"type\":\"d\"}"},
        /* The runtime's word is newer than the delegate's. */
        {"{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"args\":1,\"runtimeConfig\":2,"
         "\"prevResult\":3,\"cni.dev/valid-attachments\":[4],\"cni.dev/x\":5,"
         "\"delegate\":{\"type\":\"d\",\"name\":\"o\",\"cniVersion\":\"0.3.0\",\"args\":9,"
         "\"runtimeConfig\":9,\"prevResult\":9,\"cni.dev/x\":9}}",
         "{\"args\":1,\"cni.dev/valid-attachments\":[4],\"cni.dev/x\":5,\"cniVersion\":\"1.1.0\","
         "\"name\":\"n\",\"prevResult\":3,\"runtimeConfig\":2,\"type\":\"d\"}"},
        /* Of other keys the delegate's own counts; where it has none, ours is handed on. */
        {"{\"name\":\"n\",\"mtu\":1,\"deviceID\":\"x\",\"delegate\":{\"type\":\"d\","
         "\"mtu\":2,\"delegate\":{\"a\":1},\"statusCode\":7,\"args\":9}}",
         "{\"args\":9,\"delegate\":{\"a\":1},\"deviceID\":\"x\",\"mtu\":2,\"name\":\"n\","
         "\"statusCode\":7,\"type\":\"d\"}"},
        /* Byte for byte, whatever it is. */
        {"{\"name\":\"n\",\"runtimeConfig\":{ \"a\" : 123456789012345678901234567890 },"
         "\"delegate\":{\"type\":\"d\",\"x\":\"\\u0000\\ud800\xff\",\"y\":[1.50, -0e1]}}",
         "{\"name\":\"n\",\"runtimeConfig\":{ \"a\" : 123456789012345678901234567890 },"
         "\"type\":\"d\",\"x\":\"\\u0000\\ud800\xff\",\"y\":[1.50, -0e1]}"},
        /* Of two of one name the last counts, however it is written; letters of either case make
         * two names, and the CNI library's order decides for the reader. */
        {"{\"name\":\"n\",\"a\":1,\"a\":2,\"delegate\":{\"type\":\"c\",\"b\":1,\"\\u0062\":2,"
         "\"type\":\"d\",\"TYPE\":\"e\"}}",
         "{\"TYPE\":\"e\",\"a\":2,\"\\u0062\":2,\"name\":\"n\",\"type\":\"d\"}"},
        {"{\"name\":\"n\",\"Type\":\"x\",\"STATUSCODE\":1,\"delegate\":{\"Type\":\"d\"}}",
         "{\"Type\":\"d\",\"name\":\"n\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_call c;
        CLEANUP(made) struct made made;
        print_message("%s\n", rows[i].conf);
        assert_int_equal(make(rows[i].conf, &made, &c), 0);
        assert_string_equal(buf_text(&made.text), rows[i].made);
        assert_string_equal(made.type, "d");
    }
}

/* Pairs would be compared for minutes if each were looked up in the other part. */
TEST(many_members_cost_no_more_than_their_sorting)
{
    enum { MEMBERS = 200000, MEMBER_BYTES = 16 };
    struct cni_call c;
    CLEANUP(made) struct made made;
    CLEANUP(free) char *text = malloc(2 * MEMBERS * MEMBER_BYTES + 100);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, 100, "{\"name\":\"n\"");
    for (int i = 0; i < MEMBERS; i++) {
        used += (size_t)snprintf(text + used, MEMBER_BYTES, ",\"k%d\":1", i);
    }
    used += (size_t)snprintf(text + used, 100, ",\"delegate\":{\"type\":\"d\"");
    for (int i = 0; i < MEMBERS; i++) {
        used += (size_t)snprintf(text + used, MEMBER_BYTES, ",\"k%d\":2", i);
    }
    (void)snprintf(text + used, 100, "}}");
    assert_int_equal(make(text, &made, &c), 0);
    assert_null(strstr(buf_text(&made.text), ":1"));
    assert_int_equal(json_scan_count((struct json_slice){buf_text(&made.text), made.text.len}),
                     MEMBERS + 2);
}

TEST(delegate_that_cannot_be_is_refused)
{
    static char long_type[300] = "{\"type\":\"";
    static const struct {
        const char *delegate;
        const char *words;
    } rows[] = {
        {"{}", "no type"},
        {"{\"type\":null}", "no type"},
        {"{\"type\":7}", "no type"},
        {"{\"type\":\"\"}", "no type"},
        {"{\"type\":\"a/b\"}", "invalid plugin name: a/b"},
        {"{\"type\":\"a\\u002fb\"}", "invalid plugin name: a/b"},
        {"{\"type\":\"a\\u0000\"}", "invalid plugin name: a"},
        {"{\"type\":\".\"}", "invalid plugin name: ."},
        {"{\"type\":\"..\"}", "invalid plugin name: .."},
        {"{\"type\":\"dpu-gate\"}", "dpu-gate itself"},
        {"{\"Type\":\"dpu-gate\"}", "dpu-gate itself"},
        {"{\"type\":\"renamed\"}", "dpu-gate itself"}, /* as our own type */
        {"{\"type\":\"d\",\"delegateConf\":1}", "delegateConf of its own"},
        {long_type, "has 256 bytes, but the name of a program has at most 255"},
    };
    memset(long_type + 9, 't', 255);
    memcpy(long_type + 9 + 255, "\"}", 3);
    for (size_t i = 0; i <= ARRAY_LEN(rows); i++) {
        char text[400];
        struct cni_call c;
        CLEANUP(made) struct made made;
        bool is_longest = i == 0; /* that can be */
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"type\":\"renamed\",\"delegate\":%s}",
                       is_longest ? long_type : rows[i - 1].delegate);
        print_message("%s\n", text);
        assert_int_equal(make(text, &made, &c), is_longest ? 0 : CNI_INVALID_CONFIG);
        assert_true(is_longest || strstr(c.msg, rows[i - 1].words));
        memcpy(long_type + 9 + 255, "t\"}", 4);
    }
}

/* ---- taking our place ------------------------------------------------------------------------ */

TEST_IN(plugin_is_found_along_absolute_directories)
{
    static const struct {
        const char *path; /* %1$s: the directory */
        int code;
        const char *msg;
    } rows[] = {
        {"%1$s", 0, ""},
        {"/nonexistent:%1$s", 0, ""},
        {"::%1$s:", 0, ""},
        {"tmp:%1$s", 0, ""},
        {"/nonexistent", CNI_IO_FAILURE, "failed to find plugin \"plugin\" in path [/nonexistent]"},
        {"/a:b:/c", CNI_IO_FAILURE, "failed to find plugin \"plugin\" in path [/a /c]"},
        {"/", CNI_IO_FAILURE, "failed to find plugin \"plugin\" in path [/]"},
        {"", CNI_IO_FAILURE, "no paths provided"},
        {":", CNI_IO_FAILURE, "no paths provided"},
        {"relative:.", CNI_IO_FAILURE, "no paths provided"},
    };
    write_plugin(w, "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[200];
        char file[PATH_MAX];
        struct cni_call c = {.path = path};
        const char *mark = strstr(rows[i].path, "%1$s");
        int before = mark ? (int)(mark - rows[i].path) : (int)strlen(rows[i].path);
        (void)snprintf(path, sizeof(path), "%.*s%s%s", before, rows[i].path, mark ? w->dir : "",
                       mark ? mark + 4 : "");
        print_message("%s\n", path);
        assert_int_equal(delegate_find(&c, "plugin", file), rows[i].code);
        if (rows[i].code == 0) {
            assert_string_equal(file, w->plugin);
        } else {
            assert_string_equal(c.msg, rows[i].msg);
        }
    }
}

TEST(the_configuration_is_a_file_that_cannot_be_executed)
{
    struct stat made;
    char text[] = "{}";
    const struct buf config = {.data = text, .len = strlen(text)};
    CLEANUP(fd) int fd = config_fd(&config);
    assert_int_equal(fstat(fd, &made), 0);
    CLEANUP(fd) int probe = memfd_create("probe", MFD_CLOEXEC | 0x8); /* known since Linux 6.3 */
    assert_int_equal(made.st_mode & 0111, probe >= 0 ? 0 : 0111);
}

TEST_IN(only_a_regular_file_is_a_plugin)
{
    char file[PATH_MAX];
    struct cni_call c = {.path = w->dir};
    assert_int_equal(mkdir(w->plugin, 0755), 0);
    assert_int_equal(delegate_find(&c, "plugin", file), CNI_IO_FAILURE);
}

TEST_IN(we_are_not_our_own_delegate)
{
    char file[PATH_MAX];
    char own[PATH_MAX] = "";
    struct cni_call c = {.path = w->dir};
    assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
    assert_int_equal(symlink(own, w->plugin), 0);
    assert_int_equal(delegate_find(&c, "plugin", file), CNI_INVALID_CONFIG);
    assert_non_null(strstr(c.msg, "dpu-gate itself"));
}

/* ---- as a child ------------------------------------------------------------------------------ */

/* Puts a file in memory in place of stderr, or back what was there; returns what that was. */
static int swap_stderr(int fd)
{
    int saved = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    assert_int_equal(close(fd), 0);
    return saved;
}

TEST_IN(version_tells_whether_status_is_known)
{
    static const struct {
        const char *script;
        bool knows;
    } rows[] = {
        {"echo '{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"1.0.0\",\"1.1.0\"]}'", true},
        {"echo '{\"supportedVersions\":[\"1.1.0\"]}'; exit 3", true},
        {"echo '{\"supportedVersions\":[\"2.0.0\"]}'", true},
        {"echo '{\"supportedVersions\":[\"1.0.0\",\"0.9\"]}'", false},
        {"echo '{\"supportedVersions\":[]}'", false},
        {"echo '{\"supportedVersions\":[7,null,\"x\"]}'", false},
        {"echo '{\"supportedVersions\":{\"1.1.0\":1}}'", false},
        {"echo '[\"1.1.0\"]'", false},
        {"echo 1.1.0", false},
        {"true", false},
        {"echo no >&2; exit 1", false}, /* nobody hears that */
        {"exec yes", false},            /* without end: bounded */
        /* It gets the verb and something to read. */
        {"read q; [ \"$CNI_COMMAND $q\" = 'VERSION {\"cniVersion\":\"1.1.0\"}' ] &&"
         "echo '{\"supportedVersions\":[\"1.1.0\"]}'",
         true},
        {"read q || echo '{\"supportedVersions\":[\"1.1.0\"]}' >&2", false},
    };
    int saved = swap_stderr(memfd_create("stderr", MFD_CLOEXEC));
    int before = dup(STDERR_FILENO);
    assert_int_equal(close(before), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_call c = {.code = 0};
        bool knows = !rows[i].knows;
        write_plugin(w, rows[i].script);
        print_message("%s\n", rows[i].script);
        assert_int_equal(delegate_ask_versions(&c, w->plugin, &knows), 0);
        assert_int_equal(knows, rows[i].knows);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, */
    }
    int after = dup(STDERR_FILENO);
    assert_int_equal(close(after), 0);
    assert_int_equal(before, after); /* and no descriptor */
    int heard = swap_stderr(saved);
    assert_int_equal(lseek(heard, 0, SEEK_END), 0);
    assert_int_equal(close(heard), 0);
}

TEST_IN(plugin_that_crashes_or_cannot_run_is_no_old_one)
{
    static const struct {
        const char *script;
        mode_t mode;
        int code;
        const char *words;
    } rows[] = {{"kill -9 $$", 0755, CNI_IO_FAILURE, "plugin' was ended by signal 9"},
                {"", 0644, CNI_IO_FAILURE, "Permission denied"},
                {"", 0755, CNI_TRY_AGAIN_LATER, "Text file busy"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_call c = {.code = 0};
        bool knows = false;
        bool is_busy = rows[i].code == CNI_TRY_AGAIN_LATER;
        write_plugin(w, rows[i].script);
        assert_int_equal(chmod(w->plugin, rows[i].mode), 0);
        CLEANUP(fd) int writer = is_busy ? open(w->plugin, O_WRONLY | O_CLOEXEC) : -1;
        struct mono began = clock_mono_now();
        assert_int_equal(delegate_ask_versions(&c, w->plugin, &knows), rows[i].code);
        assert_true(!is_busy || mono_since(clock_mono_now(), began) > NS_PER_SEC); /* patience */
        assert_non_null(strstr(c.msg, rows[i].words));
    }
}

/* Begins the script of a plugin that knows STATUS. */
#define NEW "[ $CNI_COMMAND != VERSION ] || exec echo '{\"supportedVersions\":[\"1.1.0\"]}'; "

/* What is passed on of an answer to STATUS. */
static int ask_status(const struct world *w, char out[static 200], struct cni_call *c)
{
    CLEANUP(buf) struct buf config;
    int ends[2];
    config = (struct buf){.max_bytes = 100};
    assert_int_equal(buf_appendf(&config, NULL, "%s", "{\"type\":\"plugin\"}"), 0);
    assert_int_equal(fflush(stdout), 0);
    int saved = dup(STDOUT_FILENO);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(dup2(ends[1], STDOUT_FILENO) >= 0);
    assert_int_equal(close(ends[1]), 0);
    *c = (struct cni_call){.code = 0};
    int code = delegate_ask_status(c, w->plugin, &config);
    assert_int_equal(fflush(stdout), 0);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    ssize_t got = read(ends[0], out, 199);
    assert_true(got >= 0);
    out[got] = '\0';
    assert_int_equal(close(ends[0]), 0);
    return code;
}

TEST_IN(status_is_passed_on_with_its_exit_status)
{
    static const struct {
        const char *script;
        const char *out;
        int exit_status;
        int code;
        const char *msg;
    } rows[] = {
        {"cat >&2; exit 0", "", 0, 0, ""},
        {"echo $CNI_COMMAND; cat; exit 0", "STATUS\n{\"type\":\"plugin\"}", 0, 0, ""},
        {NEW "echo '{\"code\":51}'; exit 1", "{\"code\":51}\n", 1, 0, ""},
        {NEW "exit 7", "", 7, 0, ""},
        {NEW "exec >&-; sleep 0.2; exit 3", "", 3, 0, ""},
        {"echo '{\"code\":4}'; exit 1", "", 0, 0, ""}, /* an older one only complains */
        {"[ $CNI_COMMAND != VERSION ] || kill -9 $$; exit 1", "", 1, CNI_IO_FAILURE, "signal 9"},
        {"kill -PIPE $$", "", 0, CNI_IO_FAILURE, "was ended by signal 13"}, /* we ignore it */
        {"exec yes", "", 0, CNI_IO_FAILURE, "with 65536 bytes or more"},
    };
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[200];
        struct cni_call c;
        write_plugin(w, rows[i].script);
        print_message("%s\n", rows[i].script);
        assert_int_equal(ask_status(w, out, &c), rows[i].code);
        assert_string_equal(out, rows[i].out);
        assert_int_equal(c.exit_status, rows[i].exit_status);
        assert_non_null(strstr(c.msg, rows[i].msg));
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    }
}

TEST_IN(a_plugin_takes_our_place_once_the_later_ones_have_gone)
{
#define ONE   "{\"type\":\"plugin\"}"
#define TWO   "{\"plugins\":[" ONE ",{\"type\":\"plugin\",\"x\":1}]}"
#define GIVEN "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"plugin\"}"
    static const struct {
        const char *verb;
        const char *plugins;
        const char *script;
        int status; /* ours, or the plugin's in our place */
        const char *out;
    } rows[] = {
        {"GC", ONE, NEW "echo $CNI_COMMAND; cat; exit 42", 42, "GC\n" GIVEN},
        {"GC", ONE, "exit 42", 0, ""}, /* an older one only complains */
        {"GC", ONE, "kill -9 $$", CNI_IO_FAILURE, ""},
        {"DEL", TWO, "echo x >>$0.ran; cat $0.ran -", 0, "x\nx\n" GIVEN},
        {"DEL", TWO, "echo no; exit 42", 42, "no\n"}, /* the first is not called */
        {"DEL", TWO, "kill -9 $$", CNI_IO_FAILURE, ""},
    };
    char ran[100];
    (void)snprintf(ran, sizeof(ran), "%s.ran", w->plugin);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_call c;
        char text[100];
        char out[100] = "";
        int status = 0;
        CLEANUP(fd) int conf = file_of(rows[i].plugins);
        CLEANUP(fd) int file = memfd_create("stdout", MFD_CLOEXEC);
        (void)snprintf(
            text, sizeof(text),
            "{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"delegateConf\":\"/proc/self/fd/%d\"}",
            conf);
        write_plugin(w, rows[i].script);
        enum cni_verb verb = text_equal(rows[i].verb, "GC") ? CNI_GC : CNI_DEL;
        assert_int_equal(open_call(&c, verb, text), 0);
        c.path = w->dir;
        assert_int_equal(fflush(stdout), 0);
        pid_t child = fork();
        if (child == 0) {
            (void)setenv("CNI_COMMAND", rows[i].verb, 1);
            (void)dup2(file, STDOUT_FILENO);
            int code = delegate_call(&c);
            _exit(code != 0 ? code : c.exit_status);
        }
        cni_call_fini(&c);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), rows[i].status);
        assert_true(pread(file, out, sizeof(out) - 1, 0) >= 0);
        assert_string_equal(out, rows[i].out);
        (void)unlink(ran);
    }
}

TEST_IN(ignored_children_are_awaited_all_the_same)
{
    char out[200];
    struct cni_call c;
    write_plugin(w, NEW "exit 5");
    assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    assert_int_equal(ask_status(w, out, &c), 0);
    assert_int_equal(c.exit_status, 5);
}

static pid_t pid_of_child(const struct world *w)
{
    char pid_file[100];
    char text[20] = "";
    (void)snprintf(pid_file, sizeof(pid_file), "%s.pid", w->plugin);
    CLEANUP(fd) int fd = open(pid_file, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_int_equal(unlink(pid_file), 0);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

/* As a daemon that a plugin starts does it: of its own session, and with the plugin's pipes. */
TEST_IN(what_a_plugin_leaves_behind_keeps_nobody_waiting)
{
    static const struct {
        const char *script; /* behind the start of the daemon */
        int exit_status;
        int code;
        const char *stderr_text;
    } rows[] = {
        {"printf y >&2; exit 3", 3, 0, "y"},
        {"sleep 60", 0, CNI_TRY_AGAIN_LATER, ""},
    };
    CLEANUP(buf) struct buf config = {.max_bytes = 100};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char script[200];
        char heard[20] = "";
        int ends[2];
        struct cni_call c = {.code = 0};
        struct delegate_question q = {.file = w->plugin,
                                      .verb = "STATUS",
                                      .config = &config,
                                      .deadline_ms = 1000,
                                      .words_left = DELEGATE_WORDS_MAX_BYTES};
        (void)snprintf(script, sizeof(script), "setsid sleep 30 & echo $! >$0.pid; %s",
                       rows[i].script);
        write_plugin(w, script);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        int saved = swap_stderr(ends[1]);
        int code = delegate_ask(&c, &q);
        assert_int_equal(close(swap_stderr(saved)), 0);
        pid_t daemon = pid_of_child(w);
        struct mono began = clock_mono_now();
        ssize_t len = read(ends[0], heard, sizeof(heard) - 1);
        assert_int_equal(read(ends[0], heard + len, 1), 0); /* as a caller reads: to the end */
        assert_int_equal(kill(daemon, SIGKILL), 0);
        assert_true(mono_since(clock_mono_now(), began) < 5 * NS_PER_SEC);
        assert_int_equal(close(ends[0]), 0);
        assert_int_equal(code, rows[i].code);
        assert_string_equal(heard, rows[i].stderr_text);
        assert_int_equal(code == 0 ? WEXITSTATUS(q.wait_status) : 0, rows[i].exit_status);
    }
}

TEST_IN(stderr_is_passed_on_up_to_its_bound)
{
    struct cni_call c = {.code = 0};
    CLEANUP(buf) struct buf config;
    struct delegate_question q = {.file = w->plugin,
                                  .verb = "STATUS",
                                  .config = &config,
                                  .deadline_ms = 5000,
                                  .words_left = DELEGATE_WORDS_MAX_BYTES};
    config = (struct buf){.max_bytes = 100};
    write_plugin(w, "head -c 200000 /dev/zero >&2; echo done");
    int saved = swap_stderr(memfd_create("stderr", MFD_CLOEXEC));
    int code = delegate_ask(&c, &q);
    CLEANUP(fd) int file = swap_stderr(saved);
    assert_int_equal(code, 0);
    assert_int_equal(q.len, strlen("done\n"));
    assert_int_equal(lseek(file, 0, SEEK_END), DELEGATE_WORDS_MAX_BYTES);
}

TEST_IN(stderr_that_nobody_reads_keeps_nobody_waiting_beyond_the_deadline)
{
    int ends[2];
    char page[4096] = "";
    struct cni_call c = {.code = 0};
    CLEANUP(buf) struct buf config = {.max_bytes = 100};
    struct delegate_question q = {
        .file = w->plugin, .verb = "STATUS", .config = &config, .deadline_ms = 600};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    while (fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0 && write(ends[1], page, sizeof(page)) > 0) {
    }
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    write_plugin(w, "echo why >&2; sleep 60");
    int saved = swap_stderr(ends[1]);
    (void)alarm(5);
    int code = delegate_ask(&c, &q);
    (void)alarm(0);
    assert_int_equal(close(swap_stderr(saved)) + close(ends[0]), 0);
    assert_int_equal(code, CNI_TRY_AGAIN_LATER);
}

/* With what it has started, which may hold its stdout, and whose end we are told. */
TEST_IN(plugin_that_hangs_is_ended_at_its_deadline)
{
    static const char *const scripts[] = {
        "sleep 60 & echo $! >$0.pid; exec sleep 60",
        "exec >&-; sleep 60 & echo $! >$0.pid; exec sleep 60",
        "trap '' TERM INT; sleep 60 & echo $! >$0.pid; exec sleep 60"};
    CLEANUP(buf) struct buf config = {.max_bytes = 100};
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* what they leave becomes ours */
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        struct cni_call c = {.code = 0};
        struct delegate_question q = {
            .file = w->plugin, .verb = "STATUS", .config = &config, .deadline_ms = 1000};
        write_plugin(w, scripts[i]);
        struct mono began = clock_mono_now();
        clock_t used = clock();
        assert_int_equal(delegate_ask(&c, &q), CNI_TRY_AGAIN_LATER);
        assert_true(clock() - used < CLOCKS_PER_SEC / 4); /* it waited, and did nothing else */
        int64_t took_ms = mono_since(clock_mono_now(), began) / NS_PER_MS;
        assert_non_null(strstr(c.msg, "did not answer STATUS within 1000 ms"));
        assert_true(took_ms >= 999 && took_ms < 5000);
        pid_t grandchild = pid_of_child(w);
        int status = 0;
        assert_int_equal(waitpid(grandchild, &status, 0), grandchild);
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}
