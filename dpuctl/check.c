/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/check.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void check_add(struct check_list *list, enum check_outcome outcome, const char *link,
               const char *mend, const char *found_format, ...)
{
    char found[2 * CHECK_TEXT_BYTES];
    va_list args;
    struct check_result *last = &list->results[CHECK_MAX - 1];
    if (list->count == CHECK_MAX && (outcome != CHECK_FAIL || last->outcome == CHECK_FAIL)) {
        return; /* more than anybody reads, but it has to be told that something is broken */
    }
    list->count -= list->count == CHECK_MAX;
    struct check_result *result = &list->results[list->count++];
    *result = (struct check_result){.outcome = outcome, .link = link};
    va_start(args, found_format);
    (void)vsnprintf(found, sizeof(found), found_format, args); /* for people: may be cut */
    va_end(args);
    text_sanitize(result->found, sizeof(result->found), found, strlen(found));
    text_sanitize(result->mend, sizeof(result->mend), mend, strlen(mend));
}
