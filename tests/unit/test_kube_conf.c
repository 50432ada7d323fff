/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define T(s) ((struct mono){(s)*NS_PER_SEC})

#define SERVER "server: https://192.0.2.1:6443"

static char directory[SCRATCH_BYTES];

/* The last one that was loaded or made. */
static struct kube_conf conf;

static char *in_directory(const char *name)
{
    return mem_format("%s/%s", directory, name);
}

static void write_file(const char *name, const char *text)
{
    scratch_put(directory, name, text);
}

/* Returns the path of a kubeconfig that says this. */
static const char *write_conf(const char *text)
{
    static char path[64];
    write_file("one", text);
    text_format(path, sizeof(path), "%s/one", directory);
    return path;
}

/* One with these cluster and user members. */
static const char *write_parts(const char *cluster, const char *user)
{
    static char text[4096];
    text_format(text, sizeof(text),
                "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                "contexts:\n- name: b\n  context: {cluster: none, user: none}\n"
                "- name: a\n  context: {cluster: c, user: u}\n"
                "clusters:\n- name: c\n  cluster: {%s}\n"
                "users:\n- name: u\n  user: {%s}\n",
                cluster, user);
    return write_conf(text);
}

static void forget(void)
{
    kube_conf_fini(&conf);
    conf = (struct kube_conf){.server = NULL};
}

static void load(const char *path, const char *context)
{
    struct err e = ERR_INIT;
    forget();
    if (kube_conf_load(path, context, &conf, &e) != 0) {
        fail_msg("%s", e.msg);
    }
}

static void open_conf(void)
{
    assert_int_equal(kube_conf_open(&conf, T(1), NULL), 0);
    assert_false(conf.tls_changed);
}

static void expect_refusal(const char *path, int code, const char *said)
{
    struct kube_conf c = {.server = (char *)(uintptr_t) "untouched"};
    struct err e = ERR_INIT;
    assert_int_equal(kube_conf_load(path, NULL, &c, &e), code);
    if (!strstr(e.msg, said) || !strstr(e.msg, path) || strstr(e.msg, "secret")) {
        fail_msg("'%s' says '%s'", said, e.msg);
    }
    assert_string_equal(c.server, "untouched");
}

static const char *secret(enum kube_secret which)
{
    return buf_text(&conf.secrets[which].content);
}

TEST(everything_that_is_understood_is_read)
{
    char expected[128];
    const char *path = write_parts("server: https://192.0.2.1:6443/prefix/, tls-server-name: api, "
                                   "certificate-authority: pki/ca.crt, proxy-url: http://p:1",
                                   "client-certificate: /abs/c.pem, client-key-data: aw==, "
                                   "token: abc, tokenFile: ../token, as: u");
    load(path, "a");
    assert_string_equal(conf.server, "https://192.0.2.1:6443/prefix");
    assert_string_equal(conf.tls_server_name, "api");
    text_format(expected, sizeof(expected), "%s/pki/ca.crt", directory);
    assert_string_equal(conf.secrets[KUBE_SECRET_CA].file, expected);
    assert_string_equal(conf.proxy_url, "http://p:1");
    assert_string_equal(conf.secrets[KUBE_SECRET_CERT].file, "/abs/c.pem");
    assert_string_equal(secret(KUBE_SECRET_KEY), "k");
    assert_string_equal(secret(KUBE_SECRET_TOKEN), "abc"); /* until the file is read */
    text_format(expected, sizeof(expected), "%s/../token", directory);
    assert_string_equal(conf.secrets[KUBE_SECRET_TOKEN].file, expected);
    assert_string_equal(conf.proxy_name, "proxy http://p:1 (proxy-url)");
    assert_null(kube_conf_secret(&conf, KUBE_SECRET_CA));
    assert_false(conf.insecure_skip_tls_verify);
    assert_non_null(strstr(conf.origin, "context 'a'"));
    kube_conf_fini(&conf);
    const char *const left[] = {conf.server,    conf.tls_server_name,
                                conf.proxy_url, conf.impersonate,
                                conf.path,      conf.context,
                                conf.origin,    conf.secrets[KUBE_SECRET_CA].file,
                                conf.text.data, conf.secrets[KUBE_SECRET_TOKEN].content.data};
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        assert_null(left[i]);
    }
}

TEST(a_context_that_is_asked_for_takes_the_place_of_the_current_one)
{
    static const char form[] =
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: d, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://c'}}, {name: d, cluster: {server: "
        "'http://d'}}]\n"
        "users: [{name: u, user: {token: %s}}]\n";
    char text[400];
    struct kube_conf none;
    struct err e = ERR_INIT;
    text_format(text, sizeof(text), form, "t");
    const char *path = write_conf(text);
    load(path, "b");
    open_conf();
    assert_string_equal(conf.server, "http://d");
    assert_non_null(strstr(conf.origin, "context 'b'"));
    text_format(text, sizeof(text), form, "tt");
    write_file("one", text);
    assert_true(kube_conf_refresh(&conf, T(2), false));
    assert_string_equal(conf.context, "b");
    assert_string_equal(secret(KUBE_SECRET_TOKEN), "tt");
    load(path, "");
    assert_string_equal(conf.server, "http://c");
    assert_null(conf.context);
    assert_null(kube_conf_secret(&conf, KUBE_SECRET_TOKEN)); /* without a user: anonymous */
    assert_int_equal(kube_conf_load(path, "none", &none, &e), ERR_PARSE);
    assert_non_null(strstr(e.msg, "'none'"));
    load(write_conf(strchr(text, '\n')), "a"); /* without a current one a name is enough */
}

TEST(whom_the_user_acts_as_becomes_headers)
{
    static const char expected[] = "Impersonate-User: system:node:w1\n"
                                   "Impersonate-Uid: 7\n"
                                   "Impersonate-Group: system:nodes\n"
                                   "Impersonate-Group: system:authenticated\n"
                                   "Impersonate-Extra-example.org%2Fwhy: a\n"
                                   "Impersonate-Extra-example.org%2Fwhy: b c\n";
    load(write_parts(SERVER, "as: 'system:node:w1', as-uid: 7, as-groups: "
                             "['system:nodes', system:authenticated], "
                             "as-user-extra: {example.org/why: [a, 'b c']}"),
         NULL);
    assert_string_equal(conf.impersonate, expected);
    load(write_parts(SERVER, "as: '', as-uid: null, as-groups: null, as-user-extra: ~"), NULL);
    assert_null(conf.impersonate);
}

TEST(too_many_names_to_act_as_are_refused)
{
    char user[2048];
    text_format(user, sizeof(user), "as: %0*d", KUBE_IMPERSONATION_MAX_BYTES - 16, 1);
    load(write_parts(SERVER, user), NULL);
    text_format(user, sizeof(user), "as: %0*d", KUBE_IMPERSONATION_MAX_BYTES - 15, 1);
    expect_refusal(write_parts(SERVER, user), ERR_LIMIT, "names to impersonate");
    text_format(user, sizeof(user), "as: u, as-groups: [%0*d]", 1, 0);
    for (int i = 0; i < KUBE_IMPERSONATION_MAX - 1; i++) {
        text_format(user + strlen(user) - 1, sizeof(user) - strlen(user), ",g]");
    }
    expect_refusal(write_parts(SERVER, user), ERR_LIMIT, "names to impersonate");
    text_format(user, sizeof(user), "as: u, as-user-extra: {%01010d: [v]}", 1);
    expect_refusal(write_parts(SERVER, user), ERR_PARSE, "too long");
}

TEST(what_cannot_be_done_is_refused_by_name)
{
    static const struct {
        const char *cluster;
        const char *user;
        const char *said;
    } rows[] = {
        {SERVER, "exec: {command: aws}", "'exec' is not supported"},
        {SERVER, "auth-provider: {name: gcp}", "'auth-provider' is not supported"},
        {SERVER, "username: me, password: secret", "'username' is not supported"},
        {SERVER, "as: [root]", "'as' has a value that is not text"},
        {SERVER, "as: \"\\nb\"", "'as' holds a control character"},
        {SERVER, "as: \"a\\0b\"", "'as' holds a control character"},
        {SERVER, "as-groups: [g]", "'as-groups' needs 'as'"},
        {SERVER, "as: u, as-groups: g", "'as-groups' is not a list"},
        {SERVER, "as: u, as-groups: [[g]]", "'as-groups' has a value that is not text"},
        {SERVER, "as: u, as-user-extra: [x]", "'as-user-extra' is not a mapping"},
        {SERVER, "as: u, as-user-extra: {k: v}", "'as-user-extra' is not a list"},
        {SERVER, "as: u, as-user-extra: {'': [v]}", "'as-user-extra' has a key that is empty"},
        {SERVER, "client-certificate: c.pem", "client-key is missing"},
        {SERVER, "client-key: k.pem", "client-certificate is missing"},
        {SERVER, "token: [a]", "'token' is not text"},
        {SERVER ", certificate-authority-data: '%%%'", "", "not base64"},
        {SERVER ", certificate-authority-data: 'YQ=a'", "", "not base64"},
        {SERVER ", certificate-authority-data: '='", "", "not base64"},
        {SERVER ", insecure-skip-tls-verify: maybe", "", "neither true nor false"},
        {SERVER ", insecure-skip-tls-verify: true, certificate-authority: x", "", "exclude"},
        {"certificate-authority: x", "", "no 'server'"},
        {"server: 192.0.2.1:6443", "", "is not a URL"},
        {"server: 'https://'", "", "is not a URL"},
        {"server: 'https:///x'", "", "is not a URL"},
        {"server: 'https://h?x'", "", "is not a URL"},
        {"server: 'https://user:password@host'", "", "'server' contains a user name"},
        {"server: 'ftp://host'", "", "is not a URL"},
        {"server: 'socks5://host'", "", "only https and http"},
        {"server: 'https://[10.0.0.1]:443'", "", "is not a URL"},
        {"server: 'https://h:x'", "", "is not a URL"},
        {"server: 'https://h//x'", "", "a clean path"},
        {"server: 'https://h/../x'", "", "a clean path"},
        {"server: \"https://h\\n\"", "", "is not a URL"},
        {SERVER ", tls-server-name: a/b", "", "'tls-server-name' is neither"},
        {SERVER ", tls-server-name: 'a:1'", "", "'tls-server-name' is neither"},
        {SERVER ", proxy-url: 'ftp://u:secret@p'", "", "'proxy-url' is not a URL"},
        {SERVER, "exec: {}", "'exec' is not supported"},
        {SERVER, "password: secret", "'password' is not supported"},
        {SERVER, "token: \"sec\\nret\"", "'token' is empty, or holds a line break"},
        {SERVER, "token: ' '", "'token' is empty"},
        {SERVER, "token: !!binary c2VjcmV0", "tags are not supported, at 'token'"},
        {SERVER, "token: *a", "aliases are not supported, at 'token'"},
        {SERVER, "<<: {token: secret}", "merge keys"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        expect_refusal(write_parts(rows[i].cluster, rows[i].user), ERR_PARSE, rows[i].said);
    }
}

TEST(what_is_empty_or_null_is_absent)
{
    static const char *const users[] = {
        "exec: null, auth-provider: ~, username: '', password: \"\"",
        "exec: NULL, username: Null, as: null, as-groups: [], as-user-extra: {}",
        "token: '', tokenFile: null, client-certificate: '', client-key-data: ~",
    };
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        load(write_parts(SERVER ", tls-server-name: '', proxy-url: null, "
                                "insecure-skip-tls-verify: ~, certificate-authority-data: ''",
                         users[i]),
             NULL);
        open_conf();
        assert_null(kube_conf_secret(&conf, KUBE_SECRET_TOKEN));
        assert_null(conf.impersonate);
        assert_null(conf.tls_server_name);
        assert_null(conf.proxy_url);
        assert_false(conf.insecure_skip_tls_verify);
    }
}

TEST(a_boolean_is_one_of_yaml_1_1)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "on", "ON", "y"};
    static const char *const no[] = {"false", "no", "No", "NO", "off", "n"};
    char cluster[120];
    for (size_t i = 0; i < ARRAY_LEN(yes) + ARRAY_LEN(no); i++) {
        bool is_yes = i < ARRAY_LEN(yes);
        text_format(cluster, sizeof(cluster), SERVER ", insecure-skip-tls-verify: %s",
                    is_yes ? yes[i] : no[i - ARRAY_LEN(yes)]);
        load(write_parts(cluster, ""), NULL);
        assert_int_equal(conf.insecure_skip_tls_verify, is_yes);
    }
}

TEST(a_token_loses_the_blanks_around_it)
{
    static const char *const users[] = {"token: \"abc\\n\"", "token: ' abc  '",
                                        "token: \"\\r\\nabc\""};
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        load(write_parts(SERVER, users[i]), NULL);
        assert_string_equal(secret(KUBE_SECRET_TOKEN), "abc");
    }
    load(write_conf("current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
                    "clusters: [{name: c, cluster: {server: 'https://h'}}]\n"
                    "users:\n- name: u\n  user:\n    token: |\n      abc\n"),
         NULL);
    assert_string_equal(secret(KUBE_SECRET_TOKEN), "abc");
}

TEST(only_the_first_document_counts)
{
    static const char first[] =
        "---\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://h'}}]\n";
    static const char *const trailers[] = {"...\n", "---\ncurrent-context: b\n", "---\n[1, 2\n",
                                           "...\n---\n---\n"};
    for (size_t i = 0; i < ARRAY_LEN(trailers); i++) {
        CLEANUP(free) char *text = mem_format("%s%s", first, trailers[i]);
        load(write_conf(text), NULL);
        assert_string_equal(conf.server, "https://h");
    }
}

TEST(of_several_files_the_first_to_name_something_decides)
{
    CLEANUP(free)
    char *list = mem_format("%s/none:%s/a::%s/empty:%s/sub/b:%s/a", directory, directory, directory,
                            directory, directory);
    struct err e = ERR_INIT;
    write_file("a", "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
                    "clusters: [{name: d, cluster: {server: 'https://d'}}]\n");
    write_file("empty", "");
    write_file("sub/b", "current-context: x\n"
                        "contexts: [{name: x, context: {cluster: d}}]\n"
                        "clusters: [{name: c, cluster: {server: 'https://c'}}, "
                        "{name: d, cluster: {server: 'https://other'}}]\n"
                        "users: [{name: u, user: {tokenFile: t}}]\n");
    forget();
    if (kube_conf_load_list(list, NULL, &conf, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(conf.server, "https://c");
    CLEANUP(free) char *token_file = in_directory("sub/t"); /* beside the file that names it */
    assert_string_equal(conf.secrets[KUBE_SECRET_TOKEN].file, token_file);
    assert_null(conf.path);
    forget();
    assert_int_equal(kube_conf_load_list(list, "y", &conf, &e), ERR_PARSE);
    assert_int_equal(kube_conf_load_list("/none/a:/none/b:", NULL, &conf, &e), ERR_IO);
    write_file("broken", "a: [");
    CLEANUP(free) char *broken = mem_format("%s:%s/broken", list, directory);
    e = (struct err)ERR_INIT;
    assert_int_equal(kube_conf_load_list(broken, NULL, &conf, &e), ERR_PARSE);
    assert_non_null(strstr(e.msg, "/broken'"));
    e = (struct err)ERR_INIT;
    assert_int_equal(kube_conf_load(list, NULL, &conf, &e), ERR_IO); /* an agent's */
    assert_non_null(strstr(e.msg, "is a list"));
    char many[400] = "";
    for (int i = 0; i <= KUBE_CONF_MAX_FILES; i++) {
        char name[16];
        text_format(name, sizeof(name), "m%d", i);
        write_file(name, "{}");
        text_format(many + strlen(many), sizeof(many) - strlen(many), "%s/%s:", directory, name);
    }
    assert_int_equal(kube_conf_load_list(many, NULL, &conf, &e), ERR_LIMIT);
}

TEST(broken_files_say_what_is_missing)
{
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        {"", "not a mapping"},
        {"[]", "not a mapping"},
        {"a: [", "not valid YAML"},
        {"a: b\n c: d\n", "line 2"},
        {"kind: Config\n", "no current-context"},
        {"current-context: x\n", "no entry 'x' in 'contexts'"},
        {"current-context: x\ncontexts: []\n", "no entry 'x' in 'contexts'"},
        {"current-context: x\ncontexts: [{name: x}]\n", "no mapping 'context'"},
        {"current-context: x\ncontexts: [{name: x, context: {user: u}}]\n", "names no cluster"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: 3\n",
         "no entry 'c' in 'clusters'"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: []\n",
         "no entry 'c' in 'clusters'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        expect_refusal(write_conf(rows[i].text), ERR_PARSE, rows[i].said);
    }
}

TEST(file_that_cannot_be_read_is_named)
{
    expect_refusal("/nonexistent/kubeconfig", ERR_IO, "No such file");
    expect_refusal("/", ERR_IO, "kubeconfig: reading '/': Is a directory");
}

TEST(pod_is_recognised_by_its_environment)
{
    struct err e = ERR_INIT;
    forget();
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_int_equal(kube_conf_load(NULL, NULL, &conf, &e), ERR_NOTFOUND);
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1), 0);
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_PORT"), 0);
    assert_int_equal(kube_conf_load(NULL, NULL, &conf, &e), ERR_NOTFOUND);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
    assert_int_equal(kube_conf_load("", "a", &conf, &e), ERR_NOTFOUND);
    assert_int_equal(kube_conf_load("", NULL, &conf, &e), 0);
    assert_string_equal(conf.server, "https://[fd00::1]:443");
    assert_string_equal(conf.secrets[KUBE_SECRET_TOKEN].file,
                        "/var/run/secrets/kubernetes.io/serviceaccount/token");
    static const char *const bad[][2] = {{"[fd00::1]", "443"}, {"10.0.0.256", "443"},
                                         {"h/x", "443"},       {"h", "https"},
                                         {"u@h", "443"},       {"h", "443/x"}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kube_conf none = {.server = NULL};
        assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", bad[i][0], 1), 0);
        assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", bad[i][1], 1), 0);
        e = (struct err)ERR_INIT;
        assert_int_equal(kube_conf_load("", NULL, &none, &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, "KUBERNETES_SERVICE_HOST '"));
    }
    assert_string_equal(conf.secrets[KUBE_SECRET_CA].file,
                        "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
}

/* ---- keeping the secrets up to date ---------------------------------------------------------- */

static int log_fd; /* a file in memory */

static void hear_log(void)
{
    assert_int_equal(ftruncate(log_fd, 0), 0);
}

/* How often, since then. */
static int said(const char *words)
{
    char text[2048];
    int count = 0;
    ssize_t len = pread(log_fd, text, sizeof(text) - 1, 0);
    assert_between(len, 0, sizeof(text) - 2);
    text[len] = '\0';
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

/* Of this name in the directory. */
static void open_token_file(const char *name)
{
    forget();
    conf.secrets[KUBE_SECRET_TOKEN].file = in_directory(name);
    open_conf();
}

static const char *token(void)
{
    return buf_text(kube_conf_secret(&conf, KUBE_SECRET_TOKEN));
}

/* With this time stamp. */
static void write_token(const char *text, int64_t ms)
{
    CLEANUP(free) char *path = in_directory("one");
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
                                     {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS}};
    write_file("one", text);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

TEST(a_token_is_read_again_when_its_file_looks_changed_and_each_minute)
{
    static const struct {
        const char *text;
        int64_t stamp_ms;
        int64_t at_s;
        bool is_news;
    } rows[] = {
        {"2\n", 10000, 60, false}, /* it looks as before */
        {"2\n", 10000, 61, true},  {"3\n", 10000, 120, false}, {"3\n", 10100, 120, true},
        {"4\n", 11100, 120, true}, {"five", 11100, 120, true},
    };
    write_token("1\n", 10000);
    open_token_file("one");
    assert_string_equal(token(), "1");
    hear_log();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        write_token(rows[i].text, rows[i].stamp_ms);
        assert_int_equal(kube_conf_refresh(&conf, T(rows[i].at_s), false), rows[i].is_news);
    }
    assert_string_equal(token(), "five");
    assert_false(conf.tls_changed); /* a token needs no new connection */
    assert_int_equal(said("\n"), 0);
}

/* As the kubelet swaps a projected token: another directory behind the same link. */
static void point_link(const char *link, const char *target)
{
    CLEANUP(free) char *path = in_directory(link);
    CLEANUP(free) char *fresh = in_directory("fresh-link");
    assert_int_equal(symlink(target, fresh), 0);
    assert_int_equal(rename(fresh, path), 0);
}

TEST(token_follows_a_swapped_link_at_once)
{
    write_file("one", "first\n");
    write_file("two", "second\n");
    point_link("token", "one");
    open_token_file("token");
    assert_string_equal(token(), "first");
    assert_false(kube_conf_refresh(&conf, T(2), false));
    point_link("token", "two");
    assert_true(kube_conf_refresh(&conf, T(3), false));
    assert_string_equal(token(), "second");
    assert_false(conf.tls_changed); /* a token needs no new connection */
}

TEST(empty_or_missing_file_leaves_the_old_content)
{
    write_file("one", "first");
    open_token_file("one");
    hear_log();
    write_file("one", "");
    assert_false(kube_conf_refresh(&conf, T(2), true));
    write_file("one", "\n");
    assert_false(kube_conf_refresh(&conf, T(2), true));
    assert_int_equal(said("continuing with the last good credential"), 1);
    assert_int_equal(unlink(conf.secrets[KUBE_SECRET_TOKEN].file), 0);
    assert_false(kube_conf_refresh(&conf, T(100), false));
    assert_string_equal(token(), "first");
    write_file("one", "third");
    assert_true(kube_conf_refresh(&conf, T(101), false));
    assert_string_equal(token(), "third");
}

TEST(what_became_a_pipe_is_not_waited_for)
{
    write_file("one", "first");
    open_token_file("one");
    assert_int_equal(unlink(conf.secrets[KUBE_SECRET_TOKEN].file), 0);
    assert_int_equal(mkfifo(conf.secrets[KUBE_SECRET_TOKEN].file, 0600), 0);
    (void)alarm(10); /* ends one that waits for a writer */
    assert_false(kube_conf_refresh(&conf, T(2), false));
    assert_false(kube_conf_refresh(&conf, T(3), true));
    (void)alarm(0);
    assert_string_equal(token(), "first");
    assert_int_equal(unlink(conf.secrets[KUBE_SECRET_TOKEN].file), 0);
}

TEST(missing_or_huge_file_is_an_error_at_the_start)
{
    static const struct {
        const char *file;
        int code;
    } rows[] = {{"/nonexistent/token", ERR_IO}, {"/dev/zero", ERR_LIMIT}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        forget();
        conf.secrets[KUBE_SECRET_TOKEN].file = mem_strdup(rows[i].file);
        assert_int_equal(kube_conf_open(&conf, T(1), &e), rows[i].code);
        assert_non_null(strstr(e.msg, rows[i].file));
    }
}

static void write_kubeconfig(const char *server, const char *user)
{
    CLEANUP(free) char *cluster = mem_format("server: '%s'", server);
    (void)write_parts(cluster, user);
}

static void open_kubeconfig(const char *user)
{
    CLEANUP(free) char *path = in_directory("one");
    write_kubeconfig("https://h:1", user);
    load(path, NULL);
    open_conf();
}

TEST(an_ending_credential_is_warned_of_once)
{
    static const char ended[] = "e30.eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0.c2ln"; /* 1000 to 2000 */
    static const char lasting[] = "e30.eyJpYXQiOjEwMDAsImV4cCI6NzI1ODExODQwMH0.c2ln"; /* to 2200 */
    static const char *const tokens[] = {ended, ended, lasting, ended};
    static const int lines[] = {1, 1, 1, 2};
    write_file("one", ended);
    open_token_file("one");
    hear_log();
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        write_file("one", tokens[i]);
        (void)kube_conf_refresh(&conf, T(2), true);
        assert_int_equal(said("the credential ran out at 1970-01-01T00:33:20Z"), lines[i]);
        assert_int_equal(said("\n"), lines[i]);
    }
    assert_int_equal(said(ended), 0);
}

TEST(a_kubeconfig_that_is_written_anew_is_read_again)
{
    open_kubeconfig("token: first");
    hear_log();
    assert_false(kube_conf_refresh(&conf, T(2), true));
    assert_false(conf.tls_changed);
    assert_int_equal(said("\n"), 0);
    write_kubeconfig("https://h:22", "token: second");
    assert_true(kube_conf_refresh(&conf, T(3), false));
    assert_string_equal(token(), "second");
    assert_string_equal(conf.server, "https://h:22");
    assert_true(conf.tls_changed);
    assert_false(kube_conf_refresh(&conf, T(4), false));
    assert_int_equal(said("was read again"), 1);
    assert_int_equal(said("\n"), 1);
}

/* Half a file, nothing, no file, one that names what is not there. */
TEST(a_damaged_kubeconfig_keeps_the_last_and_is_told_of_once)
{
    static const char *const users[] = {"token: second, tokenFile: [", "token: [x]",
                                        "tokenFile: /nonexistent"};
    open_kubeconfig("token: first");
    hear_log();
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        write_kubeconfig("https://h:1", users[i]);
        assert_false(kube_conf_refresh(&conf, T(2), false)); /* it may be half written */
        assert_int_equal(said("\n"), i > 0);
        assert_false(kube_conf_refresh(&conf, T(2), true));
        assert_string_equal(token(), "first");
    }
    assert_int_equal(unlink(conf.path), 0);
    assert_false(kube_conf_refresh(&conf, T(70), false));
    assert_false(kube_conf_refresh(&conf, T(140), false));
    assert_int_equal(said("continuing with the last good credential"), 1);
    write_kubeconfig("https://h:1", "token: first");
    assert_false(kube_conf_refresh(&conf, T(141), false));
    assert_false(kube_conf_refresh(&conf, T(210), false));
    assert_int_equal(said("was read again: its content is unchanged"), 1);
    assert_int_equal(said("\n"), 2);
    assert_int_equal(said("first"), 0);
}

/* ---- until when one says that it holds ---- */

#define JWT(claims) "eyJhbGciOiJub25lIn0." claims ".c2ln" /* {"alg":"none"} */

/* openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 */
static const char certificate[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBcjCCARegAwIBAgIUSP+DhFvaBNes2JaJZ4LQNREknCAwCgYIKoZIzj0EAwIw\n"
    "DjEMMAoGA1UEAwwDZHB1MB4XDTI2MTEyMTA4MzYyMVoXDTI3MTEyMTA4MzYyMVow\n"
    "DjEMMAoGA1UEAwwDZHB1MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEecqZXKYZ\n"
    "lCuN0MTZaGKkAH2Yoa/9ZYg5teSZZuxs/OExb/PnbYL+wvKuzwTzibby98Pl87JQ\n"
    "hW9pcP9smZ8HBqNTMFEwHQYDVR0OBBYEFFN5NxWoSLlCPQ4VkujbwpjmPFP9MB8G\n"
    "A1UdIwQYMBaAFFN5NxWoSLlCPQ4VkujbwpjmPFP9MA8GA1UdEwEB/wQFMAMBAf8w\n"
    "CgYIKoZIzj0EAwIDSQAwRgIhAPTpYhJN+KwYho/ukBpMyq3G31qvI6aBc/6rPyEl\n"
    "MN76AiEAwD2v8RlFbCpAgFoYbCY36dyBKus/Ne8g3qqTL6o3qIc=\n"
    "-----END CERTIFICATE-----\n";

static struct buf content_of(const char *text)
{
    return (struct buf){.data = (char *)(uintptr_t)text, .len = strlen(text)};
}

static bool expiry_of(enum kube_secret which, const char *text, size_t len, struct kube_expiry *out)
{
    struct kube_conf known = {.server = NULL};
    known.secrets[which].content = (struct buf){.data = (char *)text, .len = len};
    return kube_conf_expiry(&known, out);
}

TEST(a_token_says_when)
{
    static char huge[1 << 14];
    static const struct {
        const char *token;
        int64_t from_s;
        int64_t until_s; /* 0: it does not tell */
    } rows[] = {
        {JWT("eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0"), 1000, 2000},
        {JWT("eyJpYXQiOjEwMDAsImV4cCI6MjAwMCwiYSI6Ij8ifQ"), 1000, 2000},
        {JWT("eyJpYXQiOjEwMDAsImV4cCI6MjAwMCwiYWEiOiI-PiJ9"), 1000, 2000}, /* only base64url */
        {JWT("eyJpYXQiOjEsImV4cCI6MTAwMDAwMDAwMDAwMDAwMDAwMH0"), 1, 9223372036}, /* in 2262 */
        {JWT("eyJpYXQiOjAsImV4cCI6NX0"), 0, 5},
        {JWT("eyJpYXQiOjUsImV4cCI6NX0"), 0, 0},         /* no time */
        {JWT("eyJpYXQiOjEwMDB9"), 0, 0},                /* no exp */
        {JWT("eyJpYXQiOjIwMDAsImV4cCI6MTAwMH0"), 0, 0}, /* over before it began */
        {JWT("eyJpYXQiOiIxIiwiZXhwIjo1fQ"), 0, 0},      /* iat is text */
        {JWT("eyJpYXQiOi0xLCJleHAiOjV9"), 0, 0},        /* before 1970 */
        {JWT("eyJpYXQiOjI1MzQwMjMwMDc5OCwiZXhwIjoyNTM0MDIzMDA3OTl9"), 0, 0}, /* only in 9999 */
        {JWT("W10"), 0, 0},                                                  /* a list */
        {JWT("eyJpYXQiOjEwMDAsImV4cCI6MjAwMH"), 0, 0},                       /* cut */
        {JWT("eyJpY#QiOjEwMDAsImV4cCI6MjAwMH0"), 0, 0},                      /* no base64 */
        {JWT("e"), 0, 0},
        {JWT(""), 0, 0},
        {JWT("eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0") ".more", 0, 0},
        {"", 0, 0},
        {".", 0, 0},
        {"..", 0, 0},
        {"...", 0, 0},
        {"opaque", 0, 0},
        {"a.b", 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_expiry seen = {.from = {0}};
        bool known = expiry_of(KUBE_SECRET_TOKEN, rows[i].token, strlen(rows[i].token), &seen);
        if (known != (rows[i].until_s != 0) || seen.from.ns != rows[i].from_s * NS_PER_SEC ||
            seen.until.ns != rows[i].until_s * NS_PER_SEC) {
            fail_msg("%s", rows[i].token);
        }
    }
    struct kube_expiry none;
    for (int blanks = 2722; blanks <= 2723; blanks++) { /* three at a time; 10920 bytes are read */
        char *at = stpcpy(huge, "e30.");
        for (int i = 0; i < blanks; i++) {
            at = stpcpy(at, "ICAg");
        }
        (void)stpcpy(at, "eyJpYXQiOjEwMDAsImV4cCI6MjAwMDB9.c2ln");
        bool is_read = expiry_of(KUBE_SECRET_TOKEN, huge, strlen(huge), &none);
        assert_int_equal(is_read, blanks == 2722);
    }
}

TEST(a_certificate_says_when)
{
    struct kube_expiry seen;
    size_t len = strlen(certificate);
    assert_true(expiry_of(KUBE_SECRET_CERT, certificate, len, &seen));
    assert_true(seen.from.ns == 1795250181 * NS_PER_SEC);
    assert_true(seen.until.ns == 1826786181 * NS_PER_SEC);
    for (size_t cut = 0; cut + 8 < len; cut++) { /* without the end of its last line */
        assert_false(expiry_of(KUBE_SECRET_CERT, certificate, cut, &seen));
    }
    assert_int_equal(ERR_peek_error(), 0); /* nothing that TLS might stumble over */
    struct kube_conf both = {.server = NULL};
    both.secrets[KUBE_SECRET_TOKEN].content = content_of(JWT("eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0"));
    both.secrets[KUBE_SECRET_CERT].content = content_of(certificate);
    assert_true(kube_conf_expiry(&both, &seen));
    assert_true(seen.until.ns == 2000 * NS_PER_SEC); /* what ends first */
}

TEST(a_ca_is_parsed_unless_libcurl_has_to_see_it)
{
    struct kube_conf known = {.server = NULL};
    struct buf *ca = &known.secrets[KUBE_SECRET_CA].content;
    assert_null(kube_conf_parse_ca(&known));
    *ca = content_of(certificate);
    X509_STORE *store = kube_conf_parse_ca(&known);
    assert_int_equal(sk_X509_OBJECT_num(X509_STORE_get0_objects(store)), 1);
    assert_true(X509_VERIFY_PARAM_get_flags(X509_STORE_get0_param(store)) &
                X509_V_FLAG_PARTIAL_CHAIN);
    X509_STORE_free(store);
    known.proxy_url = "http://127.0.0.1:1";
    assert_null(kube_conf_parse_ca(&known));
    known.proxy_url = NULL;
    ca->len -= 40; /* damaged: libcurl says so */
    assert_null(kube_conf_parse_ca(&known));
    assert_int_equal(ERR_peek_error(), 0);
}

TEST(near_is_the_last_tenth)
{
    const struct kube_expiry expiry = {{0}, {100 * NS_PER_SEC}};
    assert_false(kube_expiry_is_near(&expiry, (struct wall){0}));
    assert_false(kube_expiry_is_near(&expiry, (struct wall){90 * NS_PER_SEC - 1}));
    assert_true(kube_expiry_is_near(&expiry, (struct wall){90 * NS_PER_SEC}));
    assert_true(kube_expiry_is_near(&expiry, (struct wall){1000 * NS_PER_SEC}));
}

static int make_directory(void **state)
{
    scratch_make(directory);
    log_fd = memfd_create("log", MFD_CLOEXEC);
    log_set_fd(log_fd);
    return fcntl(log_fd, F_SETFL, O_APPEND);
}

static int remove_directory(void **state)
{
    forget();
    log_set_fd(STDERR_FILENO);
    (void)close(log_fd);
    scratch_remove(directory);
    return 0;
}

TEST_GROUP(make_directory, remove_directory)
