/* SPDX-License-Identifier: Apache-2.0 */
#define CURL_DISABLE_DEPRECATION /* CURLOPT_PROTOCOLS is all that libcurl before 7.85 has */
#include "loop/curl_version.h"

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

bool curl_version_waits_for_names(void)
{
    return running() < 0x075700;
}

bool curl_version_wants_authorities(void)
{
    return running() >= 0x081500;
}
