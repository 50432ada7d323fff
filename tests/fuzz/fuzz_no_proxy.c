/* SPDX-License-Identifier: Apache-2.0 */
/* "URL\nLIST", any bytes: an address that is taken is one that libcurl reads the same way, and a
 * list has an answer that blanks and a further entry in front of it do not turn to "no". */
#include "base/mem.h"
#include "kube/kube_url.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_url url;
    struct kube_url again;
    struct err e = ERR_INIT;
    char *text = mem_alloc(size + 1); /* of exactly its size: reading on is seen */
    memcpy(text, data, size);
    text[size] = '\0';
    char *list = strchr(text, '\n');
    if (list) {
        *list++ = '\0';
    }
    if (kube_url_parse(text, &url, &e) != 0) {
        check(e.msg[0] != '\0');
        free(text);
        return 0;
    }
    fuzz_tell(true);
    check(url.port > 0 && url.host[0] != '\0');
    CLEANUP(free) char *authority = kube_authority(&url, url.host, url.is_v6);
    CLEANUP(free)
    char *rebuilt = mem_format("%s://%s%s", kube_scheme_text(url.scheme), authority, url.path);
    check(kube_url_parse(rebuilt, &again, NULL) == 0 && text_equal(again.host, url.host) &&
          again.port == url.port && again.is_v6 == url.is_v6 && text_equal(again.path, url.path));
    check_clean(url.host);
    if (list) {
        bool covers = kube_no_proxy_covers(list, &url);
        unsigned other_port = url.port == 1 ? 2 : 1; /* covers nothing, whatever the URL's host */
        CLEANUP(free) char *more = mem_format("none.invalid:%u, \t%s", other_port, list);
        CLEANUP(free) char *all = mem_format("%s,*", list);
        check(kube_no_proxy_covers(more, &url) == covers);
        check(kube_no_proxy_covers(all, &url));
    }
    free(text);
    return 0;
}
