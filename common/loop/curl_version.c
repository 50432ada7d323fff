/* SPDX-License-Identifier: Apache-2.0 */
#define CURL_DISABLE_DEPRECATION /* CURLOPT_PROTOCOLS is all that libcurl before 7.85 has */
#include "loop/curl_version.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

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
