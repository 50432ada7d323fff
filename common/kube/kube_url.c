/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_url.h"

#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALNUM     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define HOST_SET  ALNUM "-._"
#define USER_SET  ALNUM "-._~!$&'()*+,;=%:"
#define BLANKS    " \t\r\n\v\f"
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

/* ---- which proxy ----------------------------------------------------------------------------- */

enum { V4_BITS = 32, V6_BITS = 128, V4_BYTES = 4, V6_BYTES = 16 };

/* A piece of the list; not terminated. */
struct span {
    const char *at;
    size_t len;
};

/* An address, an IPv4 one in its IPv6 form (::ffff:a.b.c.d), which is the same to Go. */
struct address {
    unsigned char bytes[V6_BYTES];
};

static const unsigned char v4_prefix[V6_BYTES - V4_BYTES] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const struct address *a)
{
    return memcmp(a->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

/* *out_bits: how many an address that is written so has. A zone makes it none. */
static bool read_address(struct span text, struct address *out, unsigned *out_bits)
{
    char copy[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof(copy)) {
        return false;
    }
    text_format(copy, sizeof(copy), "%.*s", (int)text.len, text.at);
    *out = (struct address){.bytes = {0}};
    memcpy(out->bytes, v4_prefix, sizeof(v4_prefix));
    if (inet_pton(AF_INET, copy, out->bytes + sizeof(v4_prefix)) == 1) {
        *out_bits = V4_BITS;
        return true;
    }
    *out_bits = V6_BITS;
    return inet_pton(AF_INET6, copy, out->bytes) == 1;
}

static bool is_loopback(const struct address *a)
{
    static const struct address v6 = {{[V6_BYTES - 1] = 1}};
    return is_v4(a) ? a->bytes[sizeof(v4_prefix)] == 127 : memcmp(a, &v6, sizeof(v6)) == 0;
}

/* Whether the first `bits` are the same. */
static bool begins_alike(const struct address *a, const struct address *b, unsigned bits)
{
    unsigned whole = bits / 8;
    unsigned rest = bits % 8;
    unsigned differs = whole < V6_BYTES ? (unsigned)(a->bytes[whole] ^ b->bytes[whole]) : 0;
    return memcmp(a->bytes, b->bytes, whole) == 0 && (differs >> (8 - rest)) == 0;
}

/* "ADDRESS/BITS". Returns false if it is no network; else *out_covers says the rest. `ip` is NULL
 * for a name. */
static bool match_network(struct span entry, const struct address *ip, bool *out_covers)
{
    struct address net;
    unsigned width;
    uint64_t bits;
    const char *slash = memchr(entry.at, '/', entry.len);
    if (!slash) {
        return false;
    }
    size_t head = (size_t)(slash - entry.at);
    if (!read_address((struct span){entry.at, head}, &net, &width) ||
        text_to_u64(slash + 1, entry.len - head - 1, &bits, NULL) != 0 || bits > width) {
        return false;
    }
    unsigned first = (unsigned)bits + V6_BITS - width; /* of the form of 128 bits */
    /* A network that is wider than all of IPv4 holds none of it, as Go has it. */
    bool is_of_v4 = is_v4(&net) && first >= V6_BITS - V4_BITS;
    *out_covers = ip && is_v4(ip) == is_of_v4 && begins_alike(&net, ip, first);
    return true;
}

/* "HOST:PORT", "[ADDRESS]:PORT": cuts off the port. What has none, or is something else, stays. */
static struct span split_port(struct span *entry)
{
    const struct span none = {NULL, 0};
    const char *end = entry->at + entry->len;
    const char *colon = memrchr(entry->at, ':', entry->len);
    if (!colon) {
        return none;
    }
    struct span host = {entry->at, (size_t)(colon - entry->at)};
    struct span port = {colon + 1, (size_t)(end - colon) - 1};
    if (host.len > 0 && host.at[0] == '[') {
        if (host.at[host.len - 1] != ']' || memchr(host.at, ']', host.len - 1)) {
            return none;
        }
        host = (struct span){host.at + 1, host.len - 2};
    } else if (memchr(host.at, ':', host.len) || memchr(host.at, ']', host.len)) {
        return none;
    }
    if (memchr(host.at, '[', host.len) || memchr(port.at, '[', port.len) ||
        memchr(port.at, ']', port.len)) {
        return none;
    }
    *entry = host;
    return port;
}

/* Whether the name is this one, or below it. */
static bool match_name(struct span entry, const char *host)
{
    bool is_itself = true;
    size_t len = strlen(host);
    if (entry.len >= 2 && entry.at[0] == '*' && entry.at[1] == '.') {
        entry = (struct span){entry.at + 1, entry.len - 1};
    }
    if (entry.at[0] == '.') {
        entry = (struct span){entry.at + 1, entry.len - 1};
        is_itself = false;
    }
    if (len < entry.len || strncasecmp(host + len - entry.len, entry.at, entry.len) != 0) {
        return false;
    }
    return len == entry.len ? is_itself && len > 0 : host[len - entry.len - 1] == '.';
}

static bool match_entry(struct span entry, const struct kube_url *server, const struct address *ip)
{
    char port[8];
    unsigned bits;
    bool covers;
    struct address other;
    if (entry.len == 1 && entry.at[0] == '*') {
        return true;
    }
    if (match_network(entry, ip, &covers)) {
        return covers;
    }
    struct span given = split_port(&entry);
    text_format(port, sizeof(port), "%u", server->port);
    if (entry.len == 0 ||
        (given.len > 0 && (given.len != strlen(port) || memcmp(given.at, port, given.len) != 0))) {
        return false;
    }
    if (read_address(entry, &other, &bits)) {
        return ip && memcmp(ip, &other, sizeof(other)) == 0;
    }
    return !ip && match_name(entry, server->host);
}

bool kube_no_proxy_covers(const char *list, const struct kube_url *server)
{
    struct address address;
    unsigned bits;
    const char *zone = strchr(server->host, '%');
    struct span host = {server->host, zone ? (size_t)(zone - server->host) : strlen(server->host)};
    const struct address *ip = read_address(host, &address, &bits) ? &address : NULL;
    if (text_equal(server->host, "localhost") || (ip && is_loopback(ip))) {
        return true;
    }
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        struct span entry = {list, len};
        while (entry.len > 0 && strchr(BLANKS, entry.at[0])) {
            entry = (struct span){entry.at + 1, entry.len - 1};
        }
        while (entry.len > 0 && strchr(BLANKS, entry.at[entry.len - 1])) {
            entry.len--;
        }
        if (entry.len > 0 && match_entry(entry, server, ip)) {
            return true;
        }
    }
    return false;
}

/* The first of these variables that is not empty, and which it is; "": none. */
static const char *from_environment(const char *upper, const char *lower, const char **out_name)
{
    const char *value = getenv(upper);
    *out_name = upper;
    if (text_is_empty(value)) {
        value = getenv(lower);
        *out_name = lower;
    }
    return value ? value : "";
}

int kube_proxy_choose(const struct kube_url *server, const char *given, struct kube_proxy *out,
                      struct err *e)
{
    struct kube_url proxy;
    struct err why = ERR_INIT;
    const char *unused;
    const char *name = "proxy-url";
    const char *text = given;
    CLEANUP(free) char *completed = NULL;
    *out = (struct kube_proxy){NULL, NULL};
    if (!given) {
        text = server->scheme == KUBE_HTTPS ? from_environment("HTTPS_PROXY", "https_proxy", &name)
                                            : from_environment("HTTP_PROXY", "http_proxy", &name);
        const char *list = from_environment("NO_PROXY", "no_proxy", &unused);
        if (text[0] == '\0' || kube_no_proxy_covers(list, server)) {
            return 0;
        }
        if (!strstr(text, "://")) {
            text = completed = mem_format("http://%s", text);
        }
    }
    if (kube_url_parse(text, &proxy, &why) != 0) { /* not shown: it may hold a password */
        return err_set(e, ERR_PARSE, "'%s' is not a URL like http://HOST:3128: %s", name, why.msg);
    }
    CLEANUP(free) char *authority = kube_authority(&proxy, proxy.host, proxy.is_v6);
    /* To libcurl, "socks5" resolves the server's name here. */
    out->url = mem_format("%s://%.*s%s%s",
                          proxy.scheme == KUBE_SOCKS5 ? "socks5h" : kube_scheme_text(proxy.scheme),
                          (int)proxy.user_len, proxy.user_len > 0 ? proxy.user : "",
                          proxy.user_len > 0 ? "@" : "", authority);
    out->name = mem_format("proxy %s://%s (%s)", kube_scheme_text(proxy.scheme), authority, name);
    return 0;
}
