/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_http.h"

#include "base/mem.h"
#include "base/text.h"
#include "loop/curl_loop.h"
#include "probe/probe_spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct http_probe {
    struct curl_loop *curl;
    CURL *easy;
    probe_done_fn *done;
    void *user;
    int64_t status; /* that is well; 0: any 2xx */
    size_t header_bytes;
    long answer; /* the final status; 0 until it is known */
    int lack;    /* errno of a socket that we could not have; 0: none */
    bool has_ended;
    CURLcode code;
    char error[CURL_ERROR_SIZE];
};

/* ---- the URL --------------------------------------------------------------------------------- */

static void cleanup_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

static void cleanup_part(char **part)
{
    curl_free(*part);
}

static bool is_here(const char *host)
{
    struct in6_addr address; /* has room for either kind */
    char bare[INET6_ADDRSTRLEN];
    size_t len = strlen(host);
    if (text_equal(host, "localhost") || inet_pton(AF_INET, host, &address) == 1) {
        return true;
    }
    if (host[0] != '[' || len < 3 || len - 2 >= sizeof(bare)) {
        return false;
    }
    memcpy(bare, host + 1, len - 2);
    bare[len - 2] = '\0';
    return inet_pton(AF_INET6, bare, &address) == 1;
}

static int check_url(const char *text, struct err *e)
{
    CLEANUP(url) CURLU *url = curl_url();
    CLEANUP(part) char *host = NULL;
    CLEANUP(part) char *user = NULL;
    if (!url) {
        return err_no_memory(e);
    }
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

/* ---- a run ----------------------------------------------------------------------------------- */

static enum probe_outcome judge_status(const struct http_probe *p, char *words)
{
    if (p->status ? p->answer == p->status : p->answer < 300) {
        return PROBE_PASSED;
    }
    text_format(words, PROBE_WORDS_BYTES, "HTTP status %ld", p->answer);
    return PROBE_WRONG;
}

static enum probe_outcome judge_failure(const struct http_probe *p, char *words)
{
    long sys_errno = 0;
    text_format(words, PROBE_WORDS_BYTES, "%s",
                p->error[0] ? p->error : curl_easy_strerror(p->code));
    if (p->lack != 0) {
        text_format(words, PROBE_WORDS_BYTES, "cannot make a socket: %s", strerrordesc_np(p->lack));
        return PROBE_UNABLE;
    }
    if (p->code == CURLE_SSL_CACERT_BADFILE || p->code == CURLE_OUT_OF_MEMORY) {
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
    (void)purpose; /* there is one */
    if (fd < 0 && probe_outcome_is_our_lack(errno)) {
        p->lack = errno;
    }
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    struct http_probe *p = user;
    (void)easy; /* there is one */
    p->has_ended = true;
    p->code = code;
}

static void after_curl(void *user)
{
    struct http_probe *p = user;
    char words[PROBE_WORDS_BYTES] = "";
    if (!p->has_ended) {
        return;
    }
    p->has_ended = false;
    enum probe_outcome outcome =
        p->answer >= 200 ? judge_status(p, words) : judge_failure(p, words);
    curl_loop_remove(p->curl, p->easy);
    p->done(p->user, outcome, words); /* may start the next run */
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
    return is_final || p->header_bytes > PROBE_HTTP_HEADER_MAX_BYTES ? CURL_WRITEFUNC_ERROR : len;
}

static void start(void *self)
{
    struct http_probe *p = self;
    struct err e = ERR_INIT;
    p->header_bytes = 0;
    p->answer = 0;
    p->lack = 0;
    p->error[0] = '\0';
    if (curl_loop_add(p->curl, p->easy, &e) != 0) {
        p->done(p->user, PROBE_UNABLE, e.msg);
    }
}

static const char *cancel(void *self)
{
    struct http_probe *p = self;
    p->has_ended = false;
    curl_loop_remove(p->curl, p->easy);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void destroy(void *self)
{
    struct http_probe *p = self;
    if (!p) {
        return;
    }
    if (p->easy) {
        if (p->curl) {
            curl_loop_remove(p->curl, p->easy);
        }
        curl_easy_cleanup(p->easy);
    }
    curl_loop_free(p->curl);
    free(p);
}

static int set_up(struct http_probe *p, const struct probe_spec *spec, struct err *e)
{
    p->easy = curl_easy_init();
    if (!p->easy || curl_easy_setopt(p->easy, CURLOPT_URL, spec->name) != CURLE_OK ||
        curl_easy_setopt(p->easy, CURLOPT_PROXY, "") != CURLE_OK ||
        curl_easy_setopt(p->easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
        curl_easy_setopt(p->easy, CURLOPT_USERAGENT, "dpu-heartbeat") != CURLE_OK ||
        (spec->ca_file[0] && /* it alone, and not beside what the system trusts */
         (curl_easy_setopt(p->easy, CURLOPT_CAINFO, spec->ca_file) != CURLE_OK ||
          curl_easy_setopt(p->easy, CURLOPT_CAPATH, NULL) != CURLE_OK))) {
        return err_no_memory(e);
    }
    (void)curl_easy_setopt(p->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(p->easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(p->easy, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(p->easy, CURLOPT_FORBID_REUSE, 1L);
    (void)curl_easy_setopt(p->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    (void)curl_easy_setopt(p->easy, CURLOPT_OPENSOCKETFUNCTION, on_socket_wanted);
    (void)curl_easy_setopt(p->easy, CURLOPT_OPENSOCKETDATA, p);
    (void)curl_easy_setopt(p->easy, CURLOPT_ERRORBUFFER, p->error);
    (void)curl_easy_setopt(p->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(p->easy, CURLOPT_HEADERDATA, p);
    return 0;
}

static int create(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e)
{
    int rc = check_url(spec->name, e);
    if (rc != 0) {
        return rc;
    }
    struct http_probe *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    const struct curl_loop_config config = {.ended = on_ended, .after = after_curl, .user = p};
    p->done = done;
    p->user = user;
    p->status = spec->http_status;
    rc = curl_loop_new(loop, &config, &p->curl, e);
    if (rc == 0) {
        rc = set_up(p, spec, e);
    }
    if (rc != 0) {
        destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

const struct probe_method *probe_http_method(void)
{
    static const struct probe_method method = {
        .create = create, .start = start, .cancel = cancel, .destroy = destroy};
    return &method;
}
