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
