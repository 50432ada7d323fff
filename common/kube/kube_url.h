/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of an API server or a proxy, read as Go's net/url and net/http read it. What they and
 * libcurl would read differently, or try in vain for ever, is refused here: an IPv4 address in
 * brackets, one with octal or missing parts, a port beyond 65535, bytes that have to be encoded.
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

/* "HOST:PORT" of these, with brackets around an IPv6 address. Owned (free). */
char *kube_authority(const struct kube_url *url, const char *host, bool is_v6);

#endif
