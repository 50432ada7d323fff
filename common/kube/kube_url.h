/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of an API server or a proxy, read as Go's net/url and net/http read it, and which
 * proxy leads to a server. What they and libcurl would read differently, or try in vain for ever,
 * is refused here: an IPv4 address in brackets, one with octal or missing parts, a port beyond
 * 65535, bytes that have to be encoded.
 */
#ifndef KUBE_KUBE_URL_H
#define KUBE_KUBE_URL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KUBE_HOST_BYTES = 256 };

enum kube_scheme { KUBE_HTTP, KUBE_HTTPS, KUBE_SOCKS5 };

struct kube_url {
    enum kube_scheme scheme;
    char host[KUBE_HOST_BYTES]; /* without brackets; the zone of an address as it is written */
    bool is_v6;
    bool has_port;
    uint16_t port;    /* or the scheme's own: 80, 443, 1080 */
    const char *user; /* "NAME:PASSWORD", encoded as it stands; borrowed from the text, as `path` */
    size_t user_len;  /* 0: there is none */
    const char *path; /* what stands behind the host: "", or begins with '/', '?' or '#' */
};

/* Errors: ERR_PARSE. The message continues a sentence about the text, and shows nothing of it. */
NODISCARD int kube_url_parse(const char *text, struct kube_url *out, struct err *e);

/* Whether this can be a host's name or address, without a port; an IPv6 address may have brackets.
 * Errors as above. */
NODISCARD int kube_host_parse(const char *text, struct kube_url *out, struct err *e);

/* "https". Static. */
const char *kube_scheme_text(enum kube_scheme scheme);

/* How curl is told where a server is. A server that has to prove another name than its own is asked
 * for by that name in the URL, and dialled by its own. All owned: kube_dial_fini. */
struct kube_dial {
    char *url;        /* "https://NAME:PORT/PATH", to which a request's path is added */
    char *connect_to; /* for CURLOPT_CONNECT_TO; NULL: the URL's host is dialled */
    char *host;       /* its own name, which has to be resolved; NULL: it is an IPv6 address */
    uint16_t port;
};

/* Of `server`, a URL that kube_url_parse() takes; `tls_server_name` may be NULL. Replaces what is
 * in `out`, which stays as it is where one of them cannot be read. */
void kube_dial_set(struct kube_dial *out, const char *server, const char *tls_server_name);
/* Accepts one that is all zero. */
void kube_dial_fini(struct kube_dial *d);

/* "HOST:PORT" of these, with brackets around an IPv6 address. Owned (free). */
char *kube_authority(const struct kube_url *url, const char *host, bool is_v6);

/* ---- which proxy -----------------------------------------------------------------------------
 *
 * A kubeconfig's proxy-url counts always; else HTTPS_PROXY (for http:// HTTP_PROXY), unless
 * NO_PROXY names the server. The upper-case name of a variable comes before the lower-case one.
 * libcurl decides nothing of it: its rules are others, and differ by version.
 *
 * The rules are those of Go's net/http (golang.org/x/net/http/httpproxy), which kubectl and the
 * kubelet use: localhost and loopback addresses are reached directly; NO_PROXY is a list with
 * commas of "*" (all), addresses, CIDR networks and names, the latter and addresses also with a
 * port. "example.com" names its subdomains, too, ".example.com" and "*.example.com" them alone. No
 * name is resolved to compare it with an address. */

/* Whether NO_PROXY, or its own address, has this server reached directly. */
bool kube_no_proxy_covers(const char *list, const struct kube_url *server);

struct kube_proxy {
    char *
        url; /* with port, name and password, as libcurl takes it; owned. NULL: none, go directly */
    char *name; /* "proxy http://HOST:PORT (HTTPS_PROXY)", for messages; owned */
};

/* `given`: proxy-url, or NULL. Errors: ERR_PARSE, naming the field or the variable. */
NODISCARD int kube_proxy_choose(const struct kube_url *server, const char *given,
                                struct kube_proxy *out, struct err *e);

#endif
