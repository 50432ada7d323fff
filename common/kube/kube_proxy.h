/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which proxy leads to an API server. A kubeconfig's proxy-url counts always; else HTTPS_PROXY (for
 * http:// HTTP_PROXY), unless NO_PROXY names the server. The upper-case name of a variable comes
 * before the lower-case one. libcurl decides nothing of it: its rules are others, and differ by
 * version.
 *
 * The rules are those of Go's net/http (golang.org/x/net/http/httpproxy), which kubectl and the
 * kubelet use: localhost and loopback addresses are reached directly; NO_PROXY is a list with
 * commas of "*" (all), addresses, CIDR networks and names, the latter and addresses also with a
 * port. "example.com" names its subdomains, too, ".example.com" and "*.example.com" them alone. No
 * name is resolved to compare it with an address.
 */
#ifndef KUBE_KUBE_PROXY_H
#define KUBE_KUBE_PROXY_H

#include "kube/kube_url.h"

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
