/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_url.h"

#include "base/mem.h"
#include "base/text.h"
#include "tests/support/case.h"

TEST(an_address_is_taken_apart)
{
    static const struct {
        const char *text;
        enum kube_scheme scheme;
        const char *authority;
        bool is_v6;
        const char *path;
    } rows[] = {
        {"https://192.0.2.1:6443", KUBE_HTTPS, "192.0.2.1:6443", false, ""},
        {"HTTPS://Host.example", KUBE_HTTPS, "Host.example:443", false, ""},
        {"http://host", KUBE_HTTP, "host:80", false, ""},
        {"http://host:/x", KUBE_HTTP, "host:80", false, "/x"},
        {"https://host:65535/a/b?c", KUBE_HTTPS, "host:65535", false, "/a/b?c"},
        {"https://[2001:db8::1]", KUBE_HTTPS, "[2001:db8::1]:443", true, ""},
        {"https://[::ffff:192.0.2.1]:6443/", KUBE_HTTPS, "[::ffff:192.0.2.1]:6443", true, "/"},
        {"https://[fe80::1%25eth0]:6443", KUBE_HTTPS, "[fe80::1%25eth0]:6443", true, ""},
        {"https://my_host-1.:6443", KUBE_HTTPS, "my_host-1.:6443", false, ""},
        {"https://1.2.3.4.example", KUBE_HTTPS, "1.2.3.4.example:443", false, ""},
        {"socks5://user:p%40ss@proxy", KUBE_SOCKS5, "proxy:1080", false, ""},
        {"socks5h://proxy:1", KUBE_SOCKS5, "proxy:1", false, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_url url;
        struct err e = ERR_INIT;
        if (kube_url_parse(rows[i].text, &url, &e) != 0) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
        CLEANUP(free) char *authority = kube_authority(&url, url.host, url.is_v6);
        assert_string_equal(authority, rows[i].authority);
        assert_int_equal(url.scheme, rows[i].scheme);
        assert_int_equal(url.is_v6, rows[i].is_v6);
        assert_string_equal(url.path, rows[i].path);
        bool has_user = strchr(rows[i].text, '@') != NULL;
        assert_int_equal(url.user_len, has_user ? strlen("user:p%40ss") : 0);
        assert_true(!has_user || strncmp(url.user, "user:p%40ss", url.user_len) == 0);
    }
}

TEST(what_leads_nowhere_is_refused)
{
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        {"", "no scheme"},
        {"host:6443", "no scheme"},
        {"ftp://host", "no scheme"},
        {"https:/host", "no scheme"},
        {"https://", "names no host"},
        {"https:///x", "names no host"},
        {"https://:6443", "names no host"},
        {"https://[10.0.0.1]:443", "no IPv6 address"},
        {"https://[]", "no IPv6 address"},
        {"https://[::1%25]", "no IPv6 address"},
        {"https://[::1%25a/b]", "no IPv6 address"},
        {"https://[::1%eth0]", "no IPv6 address"},
        {"https://[::1", "no IPv6 address"},
        {"https://[::1]6443", "no number from 1"},
        {"https://[[::1]]:443", "no IPv6 address"},
        {"https://::1:443", "needs brackets"},
        {"https://2001:db8::1", "needs brackets"},
        {"https://host:0", "no number from 1"},
        {"https://host:65536", "no number from 1"},
        {"https://host:https", "no number from 1"},
        {"https://host:-1", "no number from 1"},
        {"https://host:6443:6443", "needs brackets"},
        {"https://10.0.0.256", "no IPv4 address"},
        {"https://10.0.1", "no IPv4 address"},
        {"https://010.0.0.1", "no IPv4 address"},
        {"https://0x7f.0x1", "no IPv4 address"},
        {"https://2130706433", "no IPv4 address"},
        {"https://10.0.0.1.:443", "no IPv4 address"},
        {"https://a b", "has to be encoded"},
        {"https://host\n", "has to be encoded"},
        {"https://b\303\274cher", "has to be encoded"},
        {"https://ho%41st", "no name has"},
        {"https://host\\@x", "has to be encoded"},
        {"https://ho$t", "no name has"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_url url = {.port = 7};
        struct err e = ERR_INIT;
        int rc = kube_url_parse(rows[i].text, &url, &e);
        if (rc != ERR_PARSE || !strstr(e.msg, rows[i].said) || url.port != 7) {
            fail_msg("%s: %d '%s'", rows[i].text, rc, e.msg);
        }
    }
    char huge[400];
    struct kube_url url;
    text_format(huge, sizeof(huge), "https://%0300d.x", 1);
    assert_int_equal(kube_url_parse(huge, &url, NULL), ERR_PARSE);
    text_format(huge, sizeof(huge), "https://[%0300d]", 1);
    assert_int_equal(kube_url_parse(huge, &url, NULL), ERR_PARSE);
}

TEST(a_host_alone_is_a_name_or_an_address)
{
    struct kube_url url;
    static const struct {
        const char *text;
        const char *host; /* NULL: it is refused */
        bool is_v6;
    } rows[] = {
        {"api.example", "api.example", false},
        {"::1", "::1", true},
        {"[::1]", "::1", true},
        {"10.0.0.1", "10.0.0.1", false},
        {"a:443", NULL, false},
        {"a/b", NULL, false},
        {"", NULL, false},
        {"[a]", NULL, false},
        {"*.example", NULL, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = kube_host_parse(rows[i].text, &url, NULL);
        assert_int_equal(rc, rows[i].host ? 0 : ERR_PARSE);
        assert_true(!rows[i].host ||
                    (text_equal(url.host, rows[i].host) && url.is_v6 == rows[i].is_v6));
    }
}

/* ---- which proxy: what Go itself answers, to many more lists, is held against ours in
 * tests/e2e/conf ------------------------------------------------------------------------------ */

static const char *const variables[] = {"HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
                                        "https_proxy", "NO_PROXY",   "no_proxy"};

static struct kube_url url_of(const char *text)
{
    struct kube_url url;
    struct err e = ERR_INIT;
    if (kube_url_parse(text, &url, &e) != 0) {
        fail_msg("%s: %s", text, e.msg);
    }
    return url;
}

TEST(the_list_names_who_is_reached_directly)
{
    static const struct {
        const char *list;
        const char *server;
        bool is_direct;
    } rows[] = {
        {"", "https://api.example", false},
        {"", "https://localhost:6443", true},
        {"", "https://127.1.2.3", true},
        {"", "https://[::1]:6443", true},
        {"", "https://[::ffff:127.0.0.1]", true},
        {"*", "https://api.example", true},
        {"a,*", "https://api.example", true},
        {"*x", "https://api.x", false},
        {"example", "https://api.example", true},
        {"EXAMPLE", "https://api.example", true},
        {"api.example", "https://api.example", true},
        {"pi.example", "https://api.example", false},
        {".example", "https://api.example", true},
        {".api.example", "https://api.example", false},
        {"*.api.example", "https://api.example", false},
        {"*.svc", "https://kubernetes.default.svc", true},
        {" x , .svc ", "https://kubernetes.default.svc", true},
        {"example:443", "https://api.example", true},
        {"example:443", "https://api.example:6443", false},
        {"example:", "https://api.example:6443", true},
        {":6443", "https://api.example:6443", false},
        {"10.0.0.1", "https://10.0.0.1:6443", true},
        {"10.0.0.1:6443", "https://10.0.0.1:6443", true},
        {"10.0.0.1:443", "https://10.0.0.1:6443", false},
        {"0.0.1", "https://10.0.0.1:6443", false},
        {"10.0.0.0/8", "https://10.9.9.9", true},
        {"10.0.0.0/33", "https://10.9.9.9", false},
        {"10.9.9.9/7", "https://11.0.0.0", true},
        {"10.0.0.0/8", "https://10.example", false},
        {"0.0.0.0/0", "https://10.0.0.1", true},
        {"0.0.0.0/0", "https://[2001:db8::1]", false},
        {"::/0", "https://10.0.0.1", false},
        {"::/0", "https://[2001:db8::1]", true},
        {"2001:db8::/32", "https://[2001:db8:1::1]:6443", true},
        {"2001:db8::/33", "https://[2001:db8:8000::1]:6443", false},
        {"2001:db8::1", "https://[2001:DB8::1]:6443", true},
        {"[2001:db8::1]:6443", "https://[2001:db8::1]:6443", true},
        {"[2001:db8::1]", "https://[2001:db8::1]:6443", false},
        {"::ffff:10.0.0.0/104", "https://10.1.2.3", true},
        {"::ffff:10.0.0.1", "https://10.0.0.1", true},
        {"010.0.0.1", "https://10.0.0.1", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_url server = url_of(rows[i].server);
        if (kube_no_proxy_covers(rows[i].list, &server) != rows[i].is_direct) {
            fail_msg("'%s' and %s", rows[i].list, rows[i].server);
        }
    }
}

TEST(proxy_url_counts_before_the_variables_and_they_by_their_rank)
{
    static const struct {
        const char *server;
        const char *given;
        const char *set[6]; /* name, value, ... */
        const char *url;
        const char *name;
    } rows[] = {
        {"https://a", NULL, {NULL}, NULL, NULL},
        {"https://a",
         NULL,
         {"HTTPS_PROXY", "http://p:3128"},
         "http://p:3128",
         "proxy http://p:3128 (HTTPS_PROXY)"},
        {"https://a", NULL, {"https_proxy", "p"}, "http://p:80", "proxy http://p:80 (https_proxy)"},
        {"https://a",
         NULL,
         {"HTTPS_PROXY", "p", "https_proxy", "q"},
         "http://p:80",
         "proxy http://p:80 (HTTPS_PROXY)"},
        {"https://a", NULL, {"HTTP_PROXY", "p"}, NULL, NULL},
        {"http://a", NULL, {"HTTP_PROXY", "p"}, "http://p:80", "proxy http://p:80 (HTTP_PROXY)"},
        {"https://a", NULL, {"HTTPS_PROXY", "p", "NO_PROXY", "a"}, NULL, NULL},
        {"https://a", NULL, {"HTTPS_PROXY", "p", "no_proxy", "a"}, NULL, NULL},
        {"https://a",
         NULL,
         {"HTTPS_PROXY", "p", "NO_PROXY", "b", "no_proxy", "a"},
         "http://p:80",
         "proxy http://p:80 (HTTPS_PROXY)"},
        {"https://a",
         "https://u:w@p",
         {"HTTPS_PROXY", "q", "NO_PROXY", "a"},
         "https://u:w@p:443",
         "proxy https://p:443 (proxy-url)"},
        {"https://127.0.0.1",
         "socks5://p",
         {NULL},
         "socks5h://p:1080",
         "proxy socks5://p:1080 (proxy-url)"},
        {"https://a",
         "http://[2001:db8::1]:1",
         {NULL},
         "http://[2001:db8::1]:1",
         "proxy http://[2001:db8::1]:1 (proxy-url)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_proxy proxy;
        struct kube_url server = url_of(rows[i].server);
        for (size_t j = 0; j < ARRAY_LEN(variables); j++) {
            (void)unsetenv(variables[j]);
        }
        for (size_t j = 0; j < 6 && rows[i].set[j]; j += 2) {
            (void)setenv(rows[i].set[j], rows[i].set[j + 1], 1);
        }
        assert_int_equal(kube_proxy_choose(&server, rows[i].given, &proxy, NULL), 0);
        if (!text_equal(proxy.url, rows[i].url) || !text_equal(proxy.name, rows[i].name)) {
            fail_msg("row %zu: %s, %s", i, proxy.url, proxy.name);
        }
        free(proxy.url);
        free(proxy.name);
    }
}

TEST(what_is_no_proxy_is_refused_by_its_name_and_without_its_password)
{
    static const char *const bad[] = {"p:secret@", "http://u:secret@p:x", "ftp://u:secret@p",
                                      "http://u:secret@[10.0.0.1]"};
    struct kube_url server = url_of("https://a");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kube_proxy proxy;
        struct err e = ERR_INIT;
        (void)unsetenv("NO_PROXY");
        assert_int_equal(setenv("HTTPS_PROXY", bad[i], 1), 0);
        assert_int_equal(kube_proxy_choose(&server, NULL, &proxy, &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, "'HTTPS_PROXY' is not a URL"));
        assert_null(strstr(e.msg, "secret"));
        assert_null(proxy.url);
        e = (struct err)ERR_INIT;
        assert_int_equal(kube_proxy_choose(&server, bad[i], &proxy, &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, "'proxy-url' is not a URL"));
        assert_null(strstr(e.msg, "secret"));
        assert_int_equal(setenv("NO_PROXY", "a", 1), 0); /* then nobody asks */
        assert_int_equal(kube_proxy_choose(&server, NULL, &proxy, NULL), 0);
    }
}
