/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What depends on the libcurl that runs, which need not be the one whose headers we were built
 * with: 7.81 or newer. An option that the headers lack is named by its number here (it never
 * changes), and one that libcurl lacks is refused by it. tests/curl runs with each version that
 * differs up to 8.22, and tests/distros with sid's.
 */
#ifndef LOOP_CURL_VERSION_H
#define LOOP_CURL_VERSION_H

#include "base/mem.h"

#include <curl/curl.h>
#include <stdbool.h>

#if LIBCURL_VERSION_NUM < 0x075500
#define CURLOPT_PROTOCOLS_STR ((CURLoption)10318)
#endif
#if LIBCURL_VERSION_NUM < 0x075700
#define CURLOPT_CA_CACHE_TIMEOUT ((CURLoption)321)
#define CURLOPT_QUICK_EXIT       ((CURLoption)322)
#define CURL_WRITEFUNC_ERROR     ((size_t)0xFFFFFFFF)
#endif
#if LIBCURL_VERSION_NUM < 0x081400
#define CURLMOPT_QUICK_EXIT ((CURLMoption)21)
#endif

/* For CURLOPT_CAPATH: a directory in which no authority is found. NULL is the built-in one from
 * 8.21 on. */
#define CURL_VERSION_NO_DIRECTORY "/dev/null"

/* Lets a transfer speak HTTP and HTTPS, and nothing else. */
void curl_version_allow_http(CURL *easy);

/* Whether a transfer to this URL never waits for a name server: before 7.87 the end of one waits
 * for the thread that asks, ten seconds and more, and the whole loop with it. So the host has to be
 * an address there, or "localhost", which nobody is asked for. */
bool curl_version_reaches(const char *url);

/* Whether no file of authorities means the built-in one (from 8.21 on), which is read, and has to
 * be there, even where a callback puts others in its place. */
bool curl_version_wants_authorities(void);

/* CURLOPT_MAXAGE_CONN for connections that were idle for less than so many seconds: before 8.15 it
 * counts whole seconds, so that a second more passes. */
long curl_version_idle_s(int below_s);

/* ---- an answer's header fields -----------------------------------------------------------------
 *
 * By name, from the lines that CURLOPT_HEADERFUNCTION is given: libcurl's own way,
 * curl_easy_header(), came with 7.83. */

enum { CURL_HEAD_MAX_BYTES = 64 << 10 }; /* of all lines */

/* Keeps one line, with its end. A status line begins anew: what came before was an interim answer,
 * or one on a connection that died. Trailers of the body follow the head. `head` begins zeroed.
 * False: there are too many; none is lost so far. */
NODISCARD bool curl_head_add(struct buf *head, const char *line, size_t len);

/* The first field of that name (RFC 9110, section 5.1: in upper or lower case), without the blanks
 * around its value, cut to fit. False, and "", if there is none. */
bool curl_head_find(const struct buf *head, const char *name, char *out, size_t out_bytes);

#endif
