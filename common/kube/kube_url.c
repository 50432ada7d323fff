/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_url.h"

#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define ALNUM     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define HOST_SET  ALNUM "-._"
#define USER_SET  ALNUM "-._~!$&'()*+,;=%:"
#define ZONE_MARK "%25" /* RFC 6874: an encoded '%' */

static const struct {
    const char *text;
    enum kube_scheme scheme;
    uint16_t port;
} schemes[] = {
    {"http", KUBE_HTTP, 80},
    {"https", KUBE_HTTPS, 443},
    {"socks5", KUBE_SOCKS5, 1080},
    {"socks5h", KUBE_SOCKS5, 1080}, /* the same: the proxy resolves the name, as in Go */
};

const char *kube_scheme_text(enum kube_scheme scheme)
{
    return schemes[scheme].text;
}

char *kube_authority(const struct kube_url *url, const char *host, bool is_v6)
{
    return mem_format("%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "", url->port);
}

static int refuse(struct err *e, const char *why)
{
    return err_set(e, ERR_PARSE, "%s", why);
}

/* An address, with or without a zone. */
static int take_v6(const char *text, size_t len, struct kube_url *out, struct err *e)
{
    struct in6_addr address;
    char bare[INET6_ADDRSTRLEN];
    text_format(out->host, sizeof(out->host), "%.*s", (int)len, text);
    const char *zone = strstr(out->host, ZONE_MARK);
    size_t bare_len = zone ? (size_t)(zone - out->host) : strlen(out->host);
    text_format(bare, sizeof(bare), "%.*s", (int)bare_len, out->host);
    bool has_bad_zone = zone && (zone[3] == '\0' || zone[3 + strspn(zone + 3, HOST_SET)] != '\0');
    if (len >= sizeof(out->host) || bare_len >= sizeof(bare) || has_bad_zone ||
        inet_pton(AF_INET6, bare, &address) != 1) {
        return refuse(e, "what stands in brackets is no IPv6 address");
    }
    out->is_v6 = true;
    return 0;
}

/* Where a name ends in a number it is an IPv4 address to libcurl, which also reads octal ones,
 * and ones of fewer parts. */
static bool is_number(const char *label, size_t len)
{
    bool is_hex = len > 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X');
    return len > 0 && (is_hex ? strspn(label + 2, "0123456789abcdefABCDEF") + 2
                              : strspn(label, "0123456789")) >= len;
}

static int take_name(const char *text, size_t len, struct kube_url *out, struct err *e)
{
    struct in_addr address;
    if (len == 0) {
        return refuse(e, "it names no host");
    }
    if (len >= sizeof(out->host) || strspn(text, HOST_SET) < len) {
        return refuse(e, "its host holds a character that no name has, or is too long");
    }
    text_format(out->host, sizeof(out->host), "%.*s", (int)len, text);
    size_t whole = out->host[len - 1] == '.' ? len - 1 : len; /* a name may end in a dot */
    const char *dot = memrchr(out->host, '.', whole);
    const char *last = dot ? dot + 1 : out->host;
    if (is_number(last, whole - (size_t)(last - out->host)) &&
        inet_pton(AF_INET, out->host, &address) != 1) {
        return refuse(e, "its host ends in a number, and is no IPv4 address");
    }
    return 0;
}

int kube_host_parse(const char *text, struct kube_url *out, struct err *e)
{
    size_t len = strlen(text);
    *out = (struct kube_url){.path = ""};
    if (text[0] == '[' && text[len - 1] == ']') {
        return take_v6(text + 1, len - 2, out, e);
    }
    return strchr(text, ':') ? take_v6(text, len, out, e) : take_name(text, len, out, e);
}

/* ":PORT" or nothing. An empty port is the scheme's own. */
static int take_port(const char *text, size_t len, struct kube_url *out, struct err *e)
{
    uint64_t port;
    if (len == 0 || (len == 1 && text[0] == ':')) {
        return 0;
    }
    if (text[0] != ':' || text_to_u64(text + 1, len - 1, &port, NULL) != 0 || port < 1 ||
        port > UINT16_MAX) {
        return refuse(e, "its port is no number from 1 to 65535");
    }
    out->has_port = true;
    out->port = (uint16_t)port;
    return 0;
}

/* "HOST", "HOST:PORT", "[ADDRESS]", "[ADDRESS]:PORT" */
static int take_host(const char *text, size_t len, struct kube_url *out, struct err *e)
{
    if (len > 0 && text[0] == '[') {
        const char *bracket = memchr(text, ']', len);
        size_t inner = bracket ? (size_t)(bracket - text) - 1 : 0;
        int rc = take_v6(text + 1, inner, out, e);
        return rc != 0 || !bracket ? rc : take_port(bracket + 1, len - inner - 2, out, e);
    }
    const char *colon = memchr(text, ':', len);
    size_t host_len = colon ? (size_t)(colon - text) : len;
    if (colon && memchr(colon + 1, ':', len - host_len - 1)) {
        return refuse(e, "an IPv6 address needs brackets");
    }
    int rc = take_name(text, host_len, out, e);
    return rc != 0 ? rc : take_port(text + host_len, len - host_len, out, e);
}

int kube_url_parse(const char *text, struct kube_url *out, struct err *e)
{
    struct kube_url url = {.port = 0};
    const char *mark = strstr(text, "://");
    size_t i = 0;
    for (const char *c = text; *c; c++) {
        if (*c <= ' ' || *c > '~') {
            return refuse(e, "it holds a blank or another character that has to be encoded");
        }
    }
    while (mark && i < ARRAY_LEN(schemes) &&
           (strlen(schemes[i].text) != (size_t)(mark - text) ||
            strncasecmp(schemes[i].text, text, (size_t)(mark - text)) != 0)) {
        i++;
    }
    if (!mark || i == ARRAY_LEN(schemes)) {
        return refuse(e, "it begins with no scheme that is known");
    }
    const char *host = mark + 3;
    size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    url.scheme = schemes[i].scheme;
    url.port = schemes[i].port;
    url.path = host + len;
    if (at) {
        url.user = host;
        url.user_len = (size_t)(at - host);
        if (strspn(host, USER_SET) < url.user_len) {
            return refuse(e, "its user name holds a character that has to be encoded");
        }
        len -= url.user_len + 1;
        host = at + 1;
    }
    int rc = take_host(host, len, &url, e);
    if (rc == 0) {
        *out = url;
    }
    return rc;
}

void kube_dial_set(struct kube_dial *out, const char *server, const char *tls_server_name)
{
    struct kube_url real;
    struct kube_url shown; /* who it has to prove to be */
    if (kube_url_parse(server, &real, NULL) != 0) {
        return;
    }
    const char *name = real.scheme == KUBE_HTTPS ? tls_server_name : NULL;
    bool is_named = name && kube_host_parse(name, &shown, NULL) == 0;
    const struct kube_url *asked = is_named ? &shown : &real;
    CLEANUP(free) char *own = kube_authority(&real, real.host, real.is_v6);
    CLEANUP(free) char *authority = kube_authority(&real, asked->host, asked->is_v6);
    kube_dial_fini(out);
    *out = (struct kube_dial){
        .url = mem_format("%s://%s%s", kube_scheme_text(real.scheme), authority, real.path),
        .connect_to = is_named ? mem_format("::%s", own) : NULL,
        .host = real.is_v6 ? NULL : mem_strdup(real.host),
        .port = real.port,
    };
}

void kube_dial_fini(struct kube_dial *d)
{
    free(d->url);
    free(d->connect_to);
    free(d->host);
}
