/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_proxy.h"

#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\n\v\f"

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
