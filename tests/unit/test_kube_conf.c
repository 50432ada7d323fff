/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/mem.h"
#include "base/text.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

static char directory[] = "/tmp/dpu-kube-conf-XXXXXX";

/* A kubeconfig with these cluster and user members, in a file of its own. Returns its path. */
static const char *write_conf(const char *text)
{
    static char path[64];
    (void)snprintf(path, sizeof(path), "%s/config", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *write_parts(const char *cluster, const char *user)
{
    static char text[4096];
    (void)snprintf(text, sizeof(text),
                   "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                   "contexts:\n- name: b\n  context: {cluster: none, user: none}\n"
                   "- name: a\n  context: {cluster: c, user: u}\n"
                   "clusters:\n- name: c\n  cluster: {%s}\n"
                   "users:\n- name: u\n  user: {%s}\n",
                   cluster, user);
    return write_conf(text);
}

static const char *secret(const struct kube_conf *c, enum kube_secret which)
{
    return buf_text(&c->secrets[which].content);
}

#define SERVER "server: https://192.0.2.1:6443"

TEST(everything_that_is_understood_is_read)
{
    struct kube_conf c = {0};
    struct err e = ERR_INIT;
    char expected[128];
    const char *path = write_parts("server: https://192.0.2.1:6443/prefix/, tls-server-name: api, "
                                   "certificate-authority: pki/ca.crt, proxy-url: http://p:1",
                                   "client-certificate: /abs/c.pem, client-key-data: a2V5, "
                                   "token: abc, tokenFile: ../token");
    if (kube_conf_load(path, NULL, &c, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(c.server, "https://192.0.2.1:6443/prefix");
    assert_string_equal(c.tls_server_name, "api");
    (void)snprintf(expected, sizeof(expected), "%s/pki/ca.crt", directory);
    assert_string_equal(c.secrets[KUBE_SECRET_CA].file, expected);
    assert_string_equal(c.proxy_url, "http://p:1");
    assert_string_equal(c.secrets[KUBE_SECRET_CERT].file, "/abs/c.pem");
    assert_string_equal(secret(&c, KUBE_SECRET_KEY), "key");
    assert_string_equal(secret(&c, KUBE_SECRET_TOKEN), "abc");
    assert_null(c.secrets[KUBE_SECRET_TOKEN].file);
    assert_null(kube_conf_secret(&c, KUBE_SECRET_CA));
    assert_false(c.insecure_skip_tls_verify);
    assert_non_null(strstr(c.origin, "context 'a'"));
    kube_conf_fini(&c);
    kube_conf_fini(&c);
}

TEST(context_without_user_is_anonymous)
{
    struct kube_conf c = {0};
    assert_int_equal(
        kube_conf_load(write_conf("current-context: a\n"
                                  "contexts: [{name: a, context: {cluster: c}}]\n"
                                  "clusters: [{name: c, cluster: {server: 'http://h'}}]\n"),
                       NULL, &c, NULL),
        0);
    assert_null(kube_conf_secret(&c, KUBE_SECRET_TOKEN));
    kube_conf_fini(&c);
}

TEST(a_context_that_is_asked_for_takes_the_place_of_the_current_one)
{
    static const char text[] =
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: d, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://c'}}, {name: d, cluster: {server: "
        "'http://d'}}]\n"
        "users: [{name: u, user: {token: t}}]\n";
    struct kube_conf c = {0};
    struct kube_conf current = {0};
    struct err e = ERR_INIT;
    const char *path = write_conf(text);
    assert_int_equal(kube_conf_load(path, "b", &c, NULL), 0);
    assert_string_equal(c.server, "http://d");
    assert_string_equal(c.context, "b");
    assert_non_null(strstr(c.origin, "context 'b'"));
    assert_int_equal(kube_conf_load(path, "", &current, NULL), 0);
    assert_string_equal(current.server, "http://c");
    assert_null(current.context);
    kube_conf_fini(&current);
    assert_int_equal(kube_conf_load(path, "none", &current, &e), ERR_PARSE);
    assert_non_null(strstr(e.msg, "'none'"));
    /* Without a current one a name is enough. */
    assert_int_equal(kube_conf_load(write_conf(strchr(text, '\n')), "a", &current, NULL), 0);
    kube_conf_fini(&current);
    kube_conf_fini(&c);
}

TEST(base64_with_every_padding_is_decoded)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {{"YQ==", "a"},
                {"YWI=", "ab"},
                {"YWJj", "abc"},
                {"YWJjZA==", "abcd"},
                {"\"YWJj\\nZA==\\n\"", "abcd"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_conf c = {0};
        char cluster[128];
        (void)snprintf(cluster, sizeof(cluster), SERVER ", certificate-authority-data: %s",
                       rows[i].text);
        assert_int_equal(kube_conf_load(write_parts(cluster, ""), NULL, &c, NULL), 0);
        assert_string_equal(secret(&c, KUBE_SECRET_CA), rows[i].expected);
        kube_conf_fini(&c);
    }
}

TEST(whom_the_user_acts_as_becomes_headers)
{
    static const char expected[] = "Impersonate-User: system:node:w1\n"
                                   "Impersonate-Uid: 7\n"
                                   "Impersonate-Group: system:nodes\n"
                                   "Impersonate-Group: system:authenticated\n"
                                   "Impersonate-Extra-example.org%2Fwhy: a\n"
                                   "Impersonate-Extra-example.org%2Fwhy: b c\n";
    struct kube_conf c = {0};
    struct kube_conf other = {0};
    struct err e = ERR_INIT;
    const char *path = write_parts(SERVER, "as: 'system:node:w1', as-uid: 7, as-groups: "
                                           "['system:nodes', system:authenticated], "
                                           "as-user-extra: {example.org/why: [a, 'b c']}");
    if (kube_conf_load(path, NULL, &c, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(c.impersonate, expected);
    path = write_parts(SERVER, "as: '', as-uid: null, as-groups: null, as-user-extra: ~");
    assert_int_equal(kube_conf_load(path, NULL, &other, NULL), 0);
    assert_null(other.impersonate);
    kube_conf_fini(&c);
    kube_conf_fini(&other);
}

TEST(too_many_names_to_act_as_are_refused)
{
    char user[2048];
    struct kube_conf c = {0};
    struct err e = ERR_INIT;
    (void)snprintf(user, sizeof(user), "as: %01100d", 1);
    assert_int_equal(kube_conf_load(write_parts(SERVER, user), NULL, &c, &e), ERR_LIMIT);
    (void)snprintf(user, sizeof(user), "as: u, as-groups: [%0*d]", 1, 0);
    for (int i = 0; i < KUBE_IMPERSONATION_MAX; i++) {
        (void)snprintf(user + strlen(user) - 1, sizeof(user) - strlen(user), ",g]");
    }
    assert_int_equal(kube_conf_load(write_parts(SERVER, user), NULL, &c, &e), ERR_LIMIT);
    (void)snprintf(user, sizeof(user), "as: u, as-user-extra: {%0400d: [v]}", 1);
    assert_int_equal(kube_conf_load(write_parts(SERVER, user), NULL, &c, &e), ERR_PARSE);
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
        {SERVER, "as: \"a\\r\\nb\"", "'as' holds a control character"},
        {SERVER, "as: \"a\\0b\"", "'as' holds a control character"},
        {SERVER, "as-groups: [g]", "'as' is missing: whose 'as-groups' is this?"},
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
        {SERVER ", insecure-skip-tls-verify: maybe", "", "neither true nor false"},
        {SERVER ", insecure-skip-tls-verify: true, certificate-authority: x", "", "exclude"},
        {"certificate-authority: x", "", "no 'server'"},
        {"server: 192.0.2.1:6443", "", "is not a URL"},
        {"server: 'https://'", "", "is not a URL"},
        {"server: 'https://user:password@host'", "", "'server' names a user: credentials"},
        {"server: 'ftp://host'", "", "is not a URL"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_conf c = {.server = (char *)(uintptr_t) "untouched"};
        struct err e = ERR_INIT;
        const char *path = write_parts(rows[i].cluster, rows[i].user);
        assert_int_equal(kube_conf_load(path, NULL, &c, &e), ERR_PARSE);
        if (!strstr(e.msg, rows[i].said) || !strstr(e.msg, path) || strstr(e.msg, "secret")) {
            fail_msg("'%s' says '%s'", rows[i].said, e.msg);
        }
        assert_string_equal(c.server, "untouched");
    }
}

TEST(broken_files_say_what_is_missing)
{
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        {"", "holds no mapping"},
        {"[]", "holds no mapping"},
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
        struct kube_conf c = {0};
        struct err e = ERR_INIT;
        assert_int_equal(kube_conf_load(write_conf(rows[i].text), NULL, &c, &e), ERR_PARSE);
        if (!strstr(e.msg, rows[i].said)) {
            fail_msg("'%s' says '%s'", rows[i].said, e.msg);
        }
    }
}

/* libyaml's time grows with the square of the depth. */
TEST(endless_nesting_is_refused_at_once)
{
    enum { LEVELS = 60000 };
    char text[LEVELS + 8] = "a: ";
    struct kube_conf c = {0};
    struct err e = ERR_INIT;
    memset(text + 3, '[', LEVELS);
    text[LEVELS + 3] = '\0';
    assert_int_equal(kube_conf_load(write_conf(text), NULL, &c, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "32 levels"));
}

TEST(file_that_cannot_be_read_is_named)
{
    struct kube_conf c = {0};
    struct err e = ERR_INIT;
    assert_int_equal(kube_conf_load("/nonexistent/kubeconfig", NULL, &c, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/nonexistent/kubeconfig"));
    assert_int_equal(kube_conf_load("/", NULL, &c, &e), ERR_IO);
}

TEST(pod_is_recognised_by_its_environment)
{
    struct kube_conf c = {0};
    struct err e = ERR_INIT;
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_int_equal(kube_conf_load_in_cluster(NULL, &c, &e), ERR_NOTFOUND);
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1), 0);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
    assert_int_equal(kube_conf_load_in_cluster("/sa", &c, &e), 0);
    assert_string_equal(c.server, "https://[fd00::1]:443");
    assert_string_equal(c.secrets[KUBE_SECRET_TOKEN].file, "/sa/token");
    assert_string_equal(c.secrets[KUBE_SECRET_CA].file, "/sa/ca.crt");
    kube_conf_fini(&c);
}

static int make_directory(void **state)
{
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/config", directory);
    return unlink(path) == 0 && rmdir(directory) == 0 ? 0 : -1;
}

TEST_GROUP(make_directory, remove_directory)
