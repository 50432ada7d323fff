/* SPDX-License-Identifier: Apache-2.0 */
/* What lies on the disk while somebody replaces a credential, and what is in force meanwhile. */
#include "kube/kube_secret.h"

#include "base/log.h"
#include "base/text.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/mman.h>

#define T(s) ((struct mono){(s)*NS_PER_SEC})

enum { PAIRS = 2, PEM_BYTES = 4096 };

/* Certificates that sign themselves, and their keys, made once. */
static char certs[PAIRS][PEM_BYTES];
static char keys[PAIRS][PEM_BYTES];
static char encrypted[PEM_BYTES];

static char directory[SCRATCH_BYTES];
static int log_fd; /* a file in memory */
static kube_secrets secrets;

static void take_pem(BIO *bio, char out[static PEM_BYTES])
{
    char *text;
    long len = BIO_get_mem_data(bio, &text);
    assert_between(len, 1, PEM_BYTES - 1);
    text_format(out, PEM_BYTES, "%.*s", (int)len, text);
    BIO_free(bio);
}

static void make_pair(size_t i)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    BIO *text = BIO_new(BIO_s_mem());
    char subject[16];
    text_format(subject, sizeof(subject), "agent-%zu", i);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)subject, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(cert, name), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), 3600));
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    assert_int_not_equal(X509_sign(cert, key, EVP_sha256()), 0);
    assert_int_equal(PEM_write_bio_X509(text, cert), 1);
    take_pem(text, certs[i]);
    text = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PrivateKey(text, key, NULL, NULL, 0, NULL, NULL), 1);
    take_pem(text, keys[i]);
    text = BIO_new(BIO_s_mem());
    assert_int_equal(
        PEM_write_bio_PKCS8PrivateKey(text, key, EVP_aes_128_cbc(), "word", 4, NULL, NULL), 1);
    take_pem(text, encrypted); /* of the last pair */
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void put(const char *name, const char *text)
{
    scratch_put(directory, name, text);
}

static char *in_directory(const char *name)
{
    return mem_format("%s/%s", directory, name);
}

static void hear_log(void)
{
    assert_int_equal(ftruncate(log_fd, 0), 0);
}

static bool said(const char *words)
{
    char text[4096] = "";
    assert_between(pread(log_fd, text, sizeof(text) - 1, 0), 0, sizeof(text) - 2);
    return strstr(text, words) != NULL;
}

/* All from files: the first pair, which is its own authority. */
static void begin(void)
{
    struct err e = ERR_INIT;
    kube_secrets_fini(secrets);
    memset(secrets, 0, sizeof(secrets));
    put("token", "first\n");
    put("ca", certs[0]);
    put("cert", certs[0]);
    put("key", keys[0]);
    secrets[KUBE_SECRET_TOKEN].file = in_directory("token");
    secrets[KUBE_SECRET_CA].file = in_directory("ca");
    secrets[KUBE_SECRET_CERT].file = in_directory("cert");
    secrets[KUBE_SECRET_KEY].file = in_directory("key");
    if (kube_secrets_open(secrets, T(1), &e) != 0) {
        fail_msg("%s", e.msg);
    }
    hear_log();
}

static bool refresh(int64_t at_s, bool all)
{
    bool tls_changed = false;
    bool changed = kube_secrets_refresh(secrets, T(at_s), all, &tls_changed);
    assert_true(changed || !tls_changed);
    return changed;
}

/* Whether this, but for the newline at its end. */
static bool is_used(enum kube_secret which, const char *pem)
{
    const struct buf *content = &secrets[which].content;
    return content->len + 1 == strlen(pem) && strncmp(content->data, pem, content->len) == 0;
}

static void expect_first(void)
{
    assert_string_equal(buf_text(&secrets[KUBE_SECRET_TOKEN].content), "first");
    assert_true(is_used(KUBE_SECRET_CA, certs[0]));
    assert_true(is_used(KUBE_SECRET_CERT, certs[0]));
    assert_true(is_used(KUBE_SECRET_KEY, keys[0]));
}

TEST(what_is_not_usable_leaves_the_last_good_one_and_is_told_of)
{
    static char half_cert[PEM_BYTES], half_key[PEM_BYTES], half_chain[2 * PEM_BYTES],
        cut_line[2 * PEM_BYTES], after_garbage[2 * PEM_BYTES];
    text_format(half_cert, sizeof(half_cert), "%.*s", (int)strlen(certs[1]) / 2, certs[1]);
    text_format(half_key, sizeof(half_key), "%.*s", (int)strlen(keys[1]) / 2, keys[1]);
    text_format(half_chain, sizeof(half_chain), "%s%s", certs[0], half_cert);
    text_format(cut_line, sizeof(cut_line), "%s-----BEGIN CERTIFI", certs[0]);
    text_format(after_garbage, sizeof(after_garbage), "%s%s",
                "-----BEGIN CERTIFICATE-----\n@@@@\n-----END CERTIFICATE-----\n", certs[0]);
    const struct {
        const char *name;
        const char *text;
        const char *said;
    } rows[] = {
        {"cert", certs[1], "client-certificate '"}, /* its key comes later */
        {"cert", "garbage", "it holds no certificate"},
        {"cert", keys[0], "it holds no certificate"},
        {"cert", half_cert, "a damaged one"},
        {"cert", half_chain, "a damaged one"},
        {"cert", cut_line, "a damaged one"},
        {"cert", "", "is empty"},
        {"key", keys[1], "does not belong to the private key"},
        {"key", half_key, "client-key '"},
        {"key", certs[0], "it holds no private key"},
        {"key", encrypted, "the private key is encrypted"},
        {"key", "\n", "is empty"},
        {"ca", "garbage", "certificate-authority '"},
        {"ca", keys[0], "it holds no certificate"},
        {"ca", half_cert, "a damaged one"},
        {"ca", half_chain, "a damaged one"},
        {"ca", cut_line, "a damaged one"},
        {"ca", after_garbage, "a damaged one"},
        {"ca", "", "is empty"},
        {"token", "", "is empty"},
        {"token", "sec\nond", "a token has no line break"},
        {"token", "sec\001ond", "a token has no line break"},
        {"token", "s\303\251cond", "no byte beyond ASCII"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin();
        put(rows[i].name, rows[i].text);
        assert_false(refresh(2, false));
        expect_first();
        assert_non_null(kube_secrets_problem(secrets));
        assert_false(said("\n")); /* it may be half written */
        assert_false(refresh(4, false));
        if (!said(rows[i].said) || !said("continuing with the last good credential")) {
            fail_msg("row %zu: '%s'", i, kube_secrets_problem(secrets));
        }
        assert_false(said("sec") || said("cond"));
        assert_int_equal(ERR_peek_error(), 0); /* nothing that TLS might stumble over */
        assert_false(refresh(120, true));
        expect_first();
        begin();
        assert_null(kube_secrets_problem(secrets));
    }
}

TEST(which_one_is_used_is_told_with_its_end)
{
    begin();
    put("cert", certs[1]);
    (void)refresh(2, true);
    assert_true(said("the last good credential: /CN=agent-0, valid until 2"));
    assert_false(said("PRIVATE"));
}

TEST(certificate_and_key_come_into_force_together)
{
    bool tls_changed = false;
    begin();
    put("cert", certs[1]);
    assert_false(refresh(2, false));
    put("key", keys[1]);
    assert_true(kube_secrets_refresh(secrets, T(9), false, &tls_changed));
    assert_true(tls_changed);
    assert_true(is_used(KUBE_SECRET_CERT, certs[1]));
    assert_true(is_used(KUBE_SECRET_KEY, keys[1]));
    assert_null(kube_secrets_problem(secrets));
    assert_false(said("\n")); /* nobody had been told */
}

TEST(the_end_of_what_was_told_is_told)
{
    begin();
    put("key", keys[1]);
    assert_false(refresh(2, true));
    put("key", keys[0]);
    assert_false(refresh(3, false)); /* it is what it was */
    assert_true(said("is usable again"));
    assert_null(kube_secrets_problem(secrets));
}

TEST(a_damaged_ca_keeps_no_certificate_from_being_renewed)
{
    begin();
    put("ca", "garbage");
    put("cert", certs[1]);
    put("key", keys[1]);
    assert_true(refresh(2, false));
    assert_true(is_used(KUBE_SECRET_CA, certs[0]));
    assert_true(is_used(KUBE_SECRET_CERT, certs[1]));
    assert_true(is_used(KUBE_SECRET_KEY, keys[1]));
}

/* As the kubelet replaces a Secret: each file is a link through a link to a directory. */
TEST(a_directory_that_is_replaced_by_a_link_counts_once_it_is_whole)
{
    begin();
    put("one/cert", certs[0]);
    put("one/key", keys[0]);
    put("two/cert", certs[1]);
    assert_true(scratch_run("cd %s && ln -s one data && ln -sf data/cert data/key .", directory));
    assert_false(refresh(2, false));
    assert_true(scratch_run("cd %s && ln -s two next && mv -T next data", directory));
    assert_false(refresh(3, true));
    expect_first();
    put("two/key", keys[1]);
    assert_true(refresh(4, false));
    assert_true(is_used(KUBE_SECRET_CERT, certs[1]));
    assert_true(is_used(KUBE_SECRET_KEY, keys[1]));
}

TEST(a_whole_chain_and_a_bundle_are_taken)
{
    static char both[2 * PEM_BYTES], combined[2 * PEM_BYTES];
    begin();
    text_format(both, sizeof(both), "words before\n%s\n%s", certs[0], certs[1]);
    text_format(combined, sizeof(combined), "%s%s", keys[0], certs[0]);
    put("ca", both);
    put("cert", combined);
    put("key", combined); /* one file for both, as deploy/dpu-kubeconfig writes it */
    assert_true(refresh(2, true));
    assert_null(kube_secrets_problem(secrets));
    put("cert", both);
    assert_true(refresh(3, true));
    assert_null(kube_secrets_problem(secrets));
}

TEST(a_token_is_sent_without_the_blanks_around_it)
{
    static const char *const texts[] = {"second", "second\n", "\nsecond\n", "\r\n second \t\r\n",
                                        "\v\fsecond\n\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        begin();
        put("token", texts[i]);
        assert_true(refresh(2, true));
        assert_string_equal(buf_text(&secrets[KUBE_SECRET_TOKEN].content), "second");
    }
}

TEST(what_is_not_usable_is_refused_at_the_start_by_its_field)
{
    static const struct {
        const char *name;
        const char *text;
        int code;
        const char *said;
    } rows[] = {
        {"cert", "garbage", ERR_PARSE, "client-certificate '"},
        {"key", "garbage", ERR_PARSE, "client-key '"},
        {"key", "", ERR_IO, "client-key: "},
        {"ca", "garbage", ERR_PARSE, "certificate-authority '"},
        {"token", "a\nb", ERR_PARSE, "tokenFile '"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        begin();
        put(rows[i].name, rows[i].text);
        assert_int_equal(kube_secrets_open(secrets, T(1), &e), 0); /* of a second look */
        for (size_t j = 0; j < KUBE_SECRETS; j++) {
            kube_wipe_buf(&secrets[j].content);
        }
        assert_int_equal(kube_secrets_open(secrets, T(1), &e), rows[i].code);
        if (!strstr(e.msg, rows[i].said)) {
            fail_msg("%s", e.msg);
        }
    }
    begin();
    free(TAKE(secrets[KUBE_SECRET_CA].file));
    kube_wipe_buf(&secrets[KUBE_SECRET_CA].content);
    secrets[KUBE_SECRET_CA].content.max_bytes = 100;
    assert_int_equal(buf_appendf(&secrets[KUBE_SECRET_CA].content, NULL, "garbage"), 0);
    struct err e = ERR_INIT;
    assert_int_equal(kube_secrets_open(secrets, T(1), &e), ERR_PARSE); /* data has nothing before */
    assert_non_null(strstr(e.msg, "certificate-authority-data is not usable"));
}

TEST(a_token_file_that_is_missing_leaves_the_token_beside_it_until_it_is_there)
{
    begin();
    free(secrets[KUBE_SECRET_TOKEN].file);
    kube_wipe_buf(&secrets[KUBE_SECRET_TOKEN].content);
    secrets[KUBE_SECRET_TOKEN] =
        (struct kube_secret_source){.file = in_directory("later"), .content = {.max_bytes = 100}};
    assert_int_equal(buf_appendf(&secrets[KUBE_SECRET_TOKEN].content, NULL, "inline"), 0);
    assert_int_equal(kube_secrets_open(secrets, T(1), NULL), 0);
    assert_string_equal(buf_text(&secrets[KUBE_SECRET_TOKEN].content), "inline");
    assert_true(said("continuing with"));
    assert_false(refresh(2, true));
    put("later", "from the file\n");
    assert_true(refresh(3, false));
    assert_string_equal(buf_text(&secrets[KUBE_SECRET_TOKEN].content), "from the file");
}

TEST(half_of_a_pair_that_became_a_pipe_is_not_waited_for)
{
    begin();
    put("cert", certs[1]);
    assert_true(scratch_run("cd %s && rm key && mkfifo key", directory));
    (void)alarm(10); /* ends one that waits for a writer */
    assert_false(refresh(2, false));
    assert_false(refresh(3, true));
    (void)alarm(0);
    expect_first();
    assert_true(scratch_run("rm %s/key", directory));
}

static int make_directory(void **state)
{
    scratch_make(directory);
    log_fd = memfd_create("log", MFD_CLOEXEC);
    log_set_fd(log_fd);
    for (size_t i = 0; i < PAIRS; i++) {
        make_pair(i);
    }
    return fcntl(log_fd, F_SETFL, O_APPEND);
}

static int remove_directory(void **state)
{
    kube_secrets_fini(secrets);
    log_set_fd(STDERR_FILENO);
    (void)close(log_fd);
    scratch_remove(directory);
    return 0;
}

TEST_GROUP(make_directory, remove_directory)
