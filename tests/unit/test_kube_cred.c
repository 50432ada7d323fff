/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/attr.h"
#include "base/mem.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define T(s) ((struct mono){(s)*NS_PER_SEC})

static char directory[] = "/tmp/dpu-kube-cred-XXXXXX";

static char *in_directory(const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    return path;
}

static void write_file(const char *name, const char *text)
{
    CLEANUP(free) char *path = in_directory(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* As the kubelet swaps a projected token: another directory behind the same link. */
static void point_link(const char *link, const char *target)
{
    CLEANUP(free) char *path = in_directory(link);
    CLEANUP(free) char *fresh = in_directory("fresh-link");
    assert_int_equal(symlink(target, fresh), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static struct kube_conf conf;

static void open_conf(struct kube_conf with)
{
    conf = with;
    assert_int_equal(kube_conf_open(&conf, T(1), NULL), 0);
    assert_false(conf.tls_changed);
}

static void open_token_file(const char *text)
{
    write_file("one", text);
    open_conf((struct kube_conf){.secrets[KUBE_SECRET_TOKEN].file = in_directory("one")});
}

static const char *token(void)
{
    return buf_text(kube_conf_secret(&conf, KUBE_SECRET_TOKEN));
}

TEST(token_follows_a_swapped_link_at_once)
{
    write_file("one", "first\n");
    write_file("two", "second\n");
    point_link("token", "one");
    open_conf((struct kube_conf){.secrets[KUBE_SECRET_TOKEN].file = in_directory("token")});
    assert_string_equal(token(), "first");
    assert_false(kube_conf_refresh(&conf, T(2), false));
    point_link("token", "two");
    assert_true(kube_conf_refresh(&conf, T(3), false));
    assert_string_equal(token(), "second");
    assert_false(conf.tls_changed); /* a token needs no new connection */
    kube_conf_fini(&conf);
}

TEST(empty_or_missing_file_leaves_the_old_content)
{
    open_token_file("first");
    write_file("one", "");
    assert_false(kube_conf_refresh(&conf, T(2), true));
    assert_int_equal(unlink(conf.secrets[KUBE_SECRET_TOKEN].file), 0);
    assert_false(kube_conf_refresh(&conf, T(100), false));
    assert_string_equal(token(), "first");
    write_file("one", "third");
    assert_true(kube_conf_refresh(&conf, T(101), false));
    assert_string_equal(token(), "third");
    kube_conf_fini(&conf);
}

TEST(what_became_a_pipe_is_not_waited_for)
{
    open_token_file("first");
    assert_int_equal(unlink(conf.secrets[KUBE_SECRET_TOKEN].file), 0);
    assert_int_equal(mkfifo(conf.secrets[KUBE_SECRET_TOKEN].file, 0600), 0);
    (void)alarm(10); /* ends one that waits for a writer */
    assert_false(kube_conf_refresh(&conf, T(2), false));
    assert_false(kube_conf_refresh(&conf, T(3), true));
    (void)alarm(0);
    assert_string_equal(token(), "first");
    assert_int_equal(unlink(conf.secrets[KUBE_SECRET_TOKEN].file), 0);
    kube_conf_fini(&conf);
}

TEST(new_certificate_asks_for_new_connections)
{
    write_file("one", "CERT");
    write_file("two", "KEY");
    open_conf((struct kube_conf){.secrets[KUBE_SECRET_CERT].file = in_directory("one"),
                                 .secrets[KUBE_SECRET_KEY].file = in_directory("two")});
    write_file("one", "CERT2");
    assert_true(kube_conf_refresh(&conf, T(2), true));
    assert_true(conf.tls_changed);
    kube_conf_fini(&conf);
}

TEST(missing_or_huge_file_is_an_error_at_the_start)
{
    struct err e = ERR_INIT;
    conf = (struct kube_conf){.secrets[KUBE_SECRET_TOKEN].file = in_directory("absent")};
    assert_int_equal(kube_conf_open(&conf, T(1), &e), ERR_IO);
    assert_non_null(strstr(e.msg, conf.secrets[KUBE_SECRET_TOKEN].file));
    free(conf.secrets[KUBE_SECRET_TOKEN].file);

    conf.secrets[KUBE_SECRET_TOKEN].file = mem_strdup("/dev/zero");
    assert_int_equal(kube_conf_open(&conf, T(1), &e), ERR_LIMIT);
    kube_conf_fini(&conf);
}

static void write_kubeconfig(const char *server, const char *token_text)
{
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
                   "clusters: [{name: c, cluster: {server: '%s'}}]\n"
                   "users: [{name: u, user: {%s}}]\n",
                   server, token_text);
    write_file("one", text);
}

static void open_kubeconfig(const char *context)
{
    CLEANUP(free) char *path = in_directory("one");
    struct kube_conf read = {0};
    assert_int_equal(kube_conf_load(path, context, &read, NULL), 0);
    open_conf(read);
}

TEST(an_ending_credential_is_warned_of_once)
{
    static char dated[] = /* {"iat":1000,"exp":2000} */
        "e30.eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0.c2ln";
    struct kube_expiry expiry;
    char user[128];
    char line[256] = "";
    int ends[2];
    (void)snprintf(user, sizeof(user), "token: %s, tokenFile: /nonexistent", dated);
    write_kubeconfig("https://h:1", user);
    open_kubeconfig(NULL);
    assert_true(kube_conf_expiry(&conf, &expiry));
    assert_true(expiry.until.ns == 2000 * NS_PER_SEC);
    assert_int_equal(pipe(ends), 0);
    log_set_fd(ends[1]);
    (void)kube_conf_refresh(&conf, T(2), true);
    (void)kube_conf_refresh(&conf, T(3), true); /* held back */
    log_set_fd(STDERR_FILENO);
    assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
    assert_non_null(strstr(line, "the credential ran out at 1970-01-01T00:33:20Z"));
    assert_null(strstr(line, dated));
    assert_ptr_equal(strchr(line, '\n') + 1, line + strlen(line));
    (void)close(ends[0]);
    (void)close(ends[1]);
    kube_conf_fini(&conf);
}

TEST(a_kubeconfig_that_is_written_anew_is_read_again)
{
    write_kubeconfig("https://h:1", "token: first");
    open_kubeconfig(NULL);
    assert_false(kube_conf_refresh(&conf, T(2), true));
    assert_false(conf.tls_changed);
    write_kubeconfig("https://h:22", "token: second");
    assert_true(kube_conf_refresh(&conf, T(3), false));
    assert_string_equal(token(), "second");
    assert_string_equal(conf.server, "https://h:22");
    assert_true(conf.tls_changed);
    assert_false(kube_conf_refresh(&conf, T(4), false));
    kube_conf_fini(&conf);
}

TEST(the_context_that_was_asked_for_is_read_again)
{
    static const char form[] = "current-context: a\ncontexts: [{name: a, context: {cluster: c}}, "
                               "{name: b, context: {cluster: c, user: u}}]\n"
                               "clusters: [{name: c, cluster: {server: 'https://h:1'}}]\n"
                               "users: [{name: u, user: {token: %s}}]\n";
    char text[512];
    (void)snprintf(text, sizeof(text), form, "first");
    write_file("one", text);
    open_kubeconfig("b");
    (void)snprintf(text, sizeof(text), form, "second");
    write_file("one", text);
    assert_true(kube_conf_refresh(&conf, T(2), false));
    assert_string_equal(token(), "second");
    kube_conf_fini(&conf);
}

/* Half a file, nothing, no file, one that names what is not there. */
TEST(a_damaged_kubeconfig_keeps_the_last_and_is_told_of_once)
{
    static const char *const users[] = {"token: second, tokenFile: [", "token: [x]",
                                        "tokenFile: /nonexistent"};
    char lines[1024] = "";
    int ends[2];
    write_kubeconfig("https://h:1", "token: first");
    open_kubeconfig(NULL);
    assert_int_equal(pipe(ends), 0);
    log_set_fd(ends[1]);
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        write_kubeconfig("https://h:1", users[i]);
        assert_false(kube_conf_refresh(&conf, T(2), false)); /* it may be half written */
        assert_false(kube_conf_refresh(&conf, T(2), true));
        assert_string_equal(token(), "first");
    }
    assert_int_equal(unlink(conf.path), 0);
    assert_false(kube_conf_refresh(&conf, T(70), false));
    assert_false(kube_conf_refresh(&conf, T(140), false));
    write_kubeconfig("https://h:1", "token: third");
    assert_true(kube_conf_refresh(&conf, T(141), false));
    log_set_fd(STDERR_FILENO);
    assert_string_equal(token(), "third");
    assert_true(read(ends[0], lines, sizeof(lines) - 1) > 0);
    char *second = strchr(lines, '\n') + 1;
    assert_non_null(strstr(lines, "continuing with what was read before"));
    assert_non_null(strstr(second, "was read again"));
    assert_ptr_equal(strchr(second, '\n') + 1, second + strlen(second));
    assert_null(strstr(lines, "third"));
    (void)close(ends[0]);
    (void)close(ends[1]);
    kube_conf_fini(&conf);
}

static int make_directory(void **state)
{
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"one", "two", "token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CLEANUP(free) char *path = in_directory(names[i]);
        (void)unlink(path);
    }
    return rmdir(directory);
}

/* ---- until when one says that it holds ---- */

#define HEADER    "eyJhbGciOiJub25lIn0." /* {"alg":"none"} */
#define SIGNATURE ".c2ln"

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

TEST(a_token_says_when)
{
    static const struct {
        const char *claims;
        const char *why_not; /* NULL: 1000 to 2000 */
    } rows[] = {
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0", NULL},
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMCwiYSI6Ij8ifQ", NULL},
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMCwiYWEiOiI-PiJ9", NULL}, /* of base64url only */
        {"eyJpYXQiOjEwMDB9", "no exp"},
        {"eyJpYXQiOjIwMDAsImV4cCI6MTAwMH0", "over before it began"},
        {"eyJpYXQiOiIxIiwiZXhwIjo1fQ", "iat is text"},
        {"eyJpYXQiOi0xLCJleHAiOjV9", "before 1970"},
        {"eyJpYXQiOjI1MzQwMjMwMDc5OCwiZXhwIjoyNTM0MDIzMDA3OTl9", "only in the year 9999"},
        {"W10", "a list"},
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMH", "cut"},
        {"eyJpY#QiOjEwMDAsImV4cCI6MjAwMH0", "no base64"},
        {"e", "a lone character"},
        {"", "nothing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char token[256];
        struct kube_expiry seen = {.from = {0}};
        (void)snprintf(token, sizeof(token), HEADER "%s" SIGNATURE, rows[i].claims);
        bool known = kube_expiry_of_token(token, strlen(token), &seen);
        assert_true(known == (rows[i].why_not == NULL));
        assert_true(seen.from.ns == (known ? 1000 * NS_PER_SEC : 0));
        assert_true(seen.until.ns == (known ? 2000 * NS_PER_SEC : 0));
    }
}

TEST(other_tokens_do_not_tell)
{
    static const char *const rows[] = {"",
                                       ".",
                                       "..",
                                       "...",
                                       "opaque",
                                       "a.b",
                                       HEADER "eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0" SIGNATURE ".more"};
    static char huge[1 << 16];
    struct kube_expiry seen;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_false(kube_expiry_of_token(rows[i], strlen(rows[i]), &seen));
    }
    memset(huge, 'A', sizeof(huge));
    huge[10] = '.';
    huge[sizeof(huge) - 10] = '.';
    assert_false(kube_expiry_of_token(huge, sizeof(huge), &seen));
}

TEST(the_far_future_is_2262)
{
    static const char token[] = HEADER "eyJpYXQiOjEsImV4cCI6MTAwMDAwMDAwMDAwMDAwMDAwMH0" SIGNATURE;
    struct kube_expiry seen;
    assert_true(kube_expiry_of_token(token, strlen(token), &seen));
    assert_true(seen.from.ns == NS_PER_SEC && seen.until.ns / NS_PER_SEC == 9223372036);
}

TEST(a_certificate_says_when)
{
    struct kube_expiry seen;
    size_t len = strlen(certificate);
    assert_true(kube_expiry_of_certificate(certificate, len, &seen));
    assert_true(seen.from.ns == 1795250181 * NS_PER_SEC);
    assert_true(seen.until.ns == 1826786181 * NS_PER_SEC);
    for (size_t cut = 0; cut + 8 < len; cut++) { /* without the end of its last line */
        assert_false(kube_expiry_of_certificate(certificate, cut, &seen));
    }
}

TEST(near_is_the_last_tenth)
{
    const struct kube_expiry expiry = {{0}, {100 * NS_PER_SEC}};
    assert_false(kube_expiry_is_near(&expiry, (struct wall){0}));
    assert_false(kube_expiry_is_near(&expiry, (struct wall){90 * NS_PER_SEC - 1}));
    assert_true(kube_expiry_is_near(&expiry, (struct wall){90 * NS_PER_SEC}));
    assert_true(kube_expiry_is_near(&expiry, (struct wall){1000 * NS_PER_SEC}));
}

TEST_GROUP(make_directory, remove_directory)
