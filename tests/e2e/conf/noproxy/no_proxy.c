/* SPDX-License-Identifier: Apache-2.0 */
/* Says for each line "URL<TAB>LIST" of its input whether NO_PROXY=LIST has us go to the URL
 * directly: "direct", "proxy", or "refused". */
#include "kube/kube_url.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        struct kube_url server;
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, '\t');
        if (!list) {
            return 2;
        }
        *list++ = '\0';
        (void)puts(kube_url_parse(line, &server, NULL) != 0 ? "refused"
                   : kube_no_proxy_covers(list, &server)    ? "direct"
                                                            : "proxy");
    }
    return 0;
}
