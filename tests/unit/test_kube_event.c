/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_event.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* However the longest name of a pod is cut for it. */
static void every_name_is_one_that_the_server_takes(void **state)
{
    char pod[KUBE_EVENT_NAME_BYTES];
    (void)state;
    for (size_t odd = 1; odd < sizeof(pod) - 2; odd++) {
        memset(pod, 'p', sizeof(pod) - 1);
        pod[sizeof(pod) - 1] = '\0';
        pod[odd] = odd % 2 == 0 ? '-' : '.';
        const struct kube_pod_event event = {.node = "w1",
                                             .ns = "shop",
                                             .pod = pod,
                                             .uid = "u",
                                             .suffix = "0123456789abcdef",
                                             .action = "Tried",
                                             .reason = "Test",
                                             .note = "it is one"};
        json_t *body = kube_pod_event(&event);
        const char *name =
            json_string_value(json_object_get(json_object_get(body, "metadata"), "name"));
        assert_true(text_is_dns1123_subdomain(name));
        json_decref(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_one_that_the_server_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
