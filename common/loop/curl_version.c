/* SPDX-License-Identifier: Apache-2.0 */
#define CURL_DISABLE_DEPRECATION /* CURLOPT_PROTOCOLS is all that libcurl before 7.85 has */
#include "loop/curl_version.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

static unsigned int running(void)
{
    return curl_version_info(CURLVERSION_NOW)->version_num;
}

void curl_version_allow_http(CURL *easy)
{
    if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK) {
        (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    }
}

/* Also false for what is no URL. */
static bool is_address(const char *url)
{
    unsigned char address[sizeof(struct in6_addr)];
    char host[INET6_ADDRSTRLEN + 1] = "";
    char *part = NULL;
    CURLU *parsed = curl_url();
    if (curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) ==
            CURLUE_OK &&
        curl_url_get(parsed, CURLUPART_HOST, &part, 0) == CURLUE_OK) {
        text_format(host, sizeof(host), "%s", part);
    }
    curl_free(part);
    curl_url_cleanup(parsed);
    /* "[::1]" is read up to the bracket; curl has checked it. */
    return host[0] == '[' || strcmp(host, "localhost") == 0 ||
           inet_pton(AF_INET, host, address) == 1;
}

bool curl_version_reaches(const char *url)
{
    return running() >= 0x075700 || is_address(url);
}

bool curl_version_wants_authorities(void)
{
    return running() >= 0x081500;
}

long curl_version_idle_s(int below_s)
{
    return running() >= 0x080f00 ? below_s : below_s - 1;
}

/* ---- an answer's header fields --------------------------------------------------------------- */

static const char status_line[] = "HTTP/";

bool curl_head_add(struct buf *head, const char *line, size_t len)
{
    head->max_bytes = CURL_HEAD_MAX_BYTES;
    if (len >= strlen(status_line) && memcmp(line, status_line, strlen(status_line)) == 0) {
        buf_consume(head, head->len);
    }
    return buf_append(head, line, len, NULL) == 0;
}

bool curl_head_find(const struct buf *head, const char *name, char *out, size_t out_bytes)
{
    size_t name_len = strlen(name);
    out[0] = '\0';
    for (const char *line = buf_text(head); *line != '\0'; line += strspn(line, "\r\n")) {
        size_t len = strcspn(line, "\r\n");
        if (len > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0) {
            const char *value = line + name_len + 1;
            const char *end = line + len;
            value += strspn(value, " \t");
            while (end > value && strchr(" \t", end[-1])) {
                end--;
            }
            text_format(out, out_bytes, "%.*s", end > value ? (int)(end - value) : 0, value);
            return true;
        }
        line += len;
    }
    return false;
}
