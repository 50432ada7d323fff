/* SPDX-License-Identifier: Apache-2.0 */
/* May a pod's sandbox be stopped? By what the API server says of the pod. */
#include "host-agent/podnet/podnet.h"

#include "base/err.h"
#include "tests/support/case.h"

static enum podnet_policy read_list(const char *text, const char *uid)
{
    const char *why = NULL;
    enum podnet_policy policy = podnet_read_policy(text, strlen(text), uid, &why);
    assert_non_null(why);
    assert_int_equal(why[0] != '\0', policy == PODNET_POLICY_NEVER);
    return policy;
}

#define ITEMS(pods) "{\"items\":[" pods "]}"
#define POD(meta, policy, phase)                                                                   \
    "{\"metadata\":{" meta "},\"spec\":{\"restartPolicy\":\"" policy                               \
    "\"},\"status\":{\"phase\":\"" phase "\"}}"
#define UID    "\"uid\":\"u\""
#define OTHER  "\"uid\":\"other\""
#define OWNED  ",\"ownerReferences\":[{\"kind\":\"Job\",\"controller\":true}]"
#define HASH   "\"kubernetes.io/config.hash\":\"u\""
#define MIRROR "\"kubernetes.io/config.mirror\":\"u\""

TEST(pod_that_starts_again_may_be_stopped)
{
    static const struct {
        const char *list;
        enum podnet_policy policy;
    } rows[] = {
        {ITEMS(POD(UID, "Always", "Running")), PODNET_POLICY_RESTARTS},
        {ITEMS(POD(UID, "Always", "Pending")), PODNET_POLICY_RESTARTS},
        {ITEMS(POD(UID OWNED, "Always", "Running")), PODNET_POLICY_RESTARTS},
        {ITEMS(POD(UID, "OnFailure", "Running")), PODNET_POLICY_RESTARTS},
        {ITEMS(POD(UID ",\"ownerReferences\":[]", "OnFailure", "Running")), PODNET_POLICY_RESTARTS},
        {ITEMS(POD(UID OWNED, "OnFailure", "Running")), PODNET_POLICY_NEVER}, /* a Job counts it */
        {ITEMS(POD(UID, "Never", "Running")), PODNET_POLICY_NEVER},
        {ITEMS(POD(UID, "Sometimes", "Running")), PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(UID, "Always", "Failed")), PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(UID, "Always", "Succeeded")), PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(UID ",\"deletionTimestamp\":\"2026-11-20T10:00:00Z\"", "Always", "Running")),
         PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(UID ",\"deletionTimestamp\":null", "Always", "Running")),
         PODNET_POLICY_RESTARTS},
        {ITEMS(""), PODNET_POLICY_UNKNOWN},
        {"{\"items\":null}", PODNET_POLICY_UNKNOWN},
        {ITEMS("7"), PODNET_POLICY_UNKNOWN},
        {"[" POD(UID, "Always", "Running") "]", PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(UID, "Always", "Running")) "}", PODNET_POLICY_UNKNOWN},
        {"", PODNET_POLICY_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(read_list(rows[i].list, "u"), rows[i].policy);
    }
}

TEST(pod_of_another_uid_decides_nothing)
{
    static const struct {
        const char *list;
        enum podnet_policy policy;
    } rows[] = {
        {ITEMS(POD(OTHER, "Always", "Running")), PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(OTHER ",\"annotations\":{" HASH "}", "Always", "Running")),
         PODNET_POLICY_UNKNOWN},
        {ITEMS(POD(OTHER ",\"annotations\":{" HASH "," MIRROR "}", "Always", "Running")),
         PODNET_POLICY_RESTARTS},
        {ITEMS(POD(OTHER ",\"annotations\":{" HASH "," MIRROR "}", "Always",
                   "Running") "," POD(UID, "Never", "Running")),
         PODNET_POLICY_NEVER}, /* its own word */
        {ITEMS(POD(UID, "Never", "Running") "," POD(OTHER ",\"annotations\":{" HASH "," MIRROR "}",
                                                    "Always", "Running")),
         PODNET_POLICY_NEVER},
        {ITEMS(POD(OTHER ",\"annotations\":{" MIRROR "}", "Always", "Running")),
         PODNET_POLICY_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(read_list(rows[i].list, "u"), rows[i].policy);
    }
}

TEST(sandbox_without_a_uid_is_nobodys)
{
    assert_int_equal(read_list(ITEMS(POD("\"uid\":\"\"", "Always", "Running")), ""),
                     PODNET_POLICY_UNKNOWN);
}
