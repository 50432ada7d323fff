/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of CRI, against bytes as kubelet and runtimes write them. */
#include "grpc/cri_message.h"

#include "base/err.h"
#include "tests/support/case.h"

struct list {
    size_t count;
    struct cri_sandbox last;
};

static void on_sandbox(void *user, const struct cri_sandbox *s)
{
    struct list *list = user;
    list->count++;
    list->last = *s;
}

/* By hand: field number and wire type, length, text. */
TEST(requests_have_the_kubelets_field_numbers)
{
    static const struct {
        enum cri_call call;
        const char *id;
        uint8_t bytes[6];
        size_t len;
    } rows[] = {
        {CRI_INSPECT, "id", {0x0a, 2, 'i', 'd', 0x10, 1}, 6},
        {CRI_STOP, "id", {0x0a, 2, 'i', 'd'}, 4},
        {CRI_LIST, NULL, {0x0a, 2, 0x12, 0}, 4}, /* filter{2: state{}}: 0 is ready */
        {CRI_VERSION, NULL, {0}, 0},
        {CRI_STATUS, NULL, {0}, 0},
    };
    struct cri_request r;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cri_ask(rows[i].call, rows[i].id, &r);
        assert_int_equal(r.len, rows[i].len);
        assert_memory_equal(r.bytes, rows[i].bytes, rows[i].len);
    }
    char id[CRI_ID_BYTES] = "";
    memset(id, 'f', sizeof(id) - 1);
    cri_ask(CRI_INSPECT, id, &r); /* the longest */
    assert_true(r.len > CRI_ID_BYTES);
}

TEST(list_gives_pods_and_their_times)
{
    /* items{id, metadata{name, uid, namespace, attempt}, state 0, created_at 1000} */
    static const uint8_t message[] = {0x0a, 28,  0x0a, 2,    'i', 'd',  0x12, 17,   0x0a, 3,
                                      'p',  'o', 'd',  0x12, 3,   'u',  'i',  'd',  0x1a, 3,
                                      'n',  's', '1',  0x20, 4,   0x20, 0xe8, 0x07, 0x18, 0};
    struct list list = {.count = 0};
    assert_int_equal(cri_read_list(message, sizeof(message), on_sandbox, &list, NULL), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.last.id, "id");
    assert_string_equal(list.last.ns, "ns1");
    assert_string_equal(list.last.name, "pod");
    assert_string_equal(list.last.uid, "uid");
    assert_int_equal(list.last.made.ns, 1000);
}

TEST(what_cannot_be_named_or_is_not_ready_is_left_out)
{
    static const uint8_t message[] = {
        0x0a, 16,  0x12, 14,  0x0a, 3, 'p',  'o', 'd', 0x12, 0,    0x1a, 5, '.',
        '.',  '/', 'n',  's', 0x0a, 6, 0x0a, 2,   'i', 'd',  0x18, 1, /* not ready, no pod */
    };
    struct list list = {.count = 0};
    assert_int_equal(cri_read_list(message, sizeof(message), on_sandbox, &list, NULL), 0);
    assert_int_equal(list.count, 0);
    for (uint8_t len = CRI_UID_BYTES - 1; len <= CRI_UID_BYTES; len++) { /* the longest uid */
        uint8_t bytes[15 + CRI_UID_BYTES] = "\x0a?\x0a\1i\x12?\x0a\1p\x1a\1n\x12?";
        bytes[1] = (uint8_t)(13 + len);
        bytes[6] = (uint8_t)(8 + len);
        bytes[14] = len;
        memset(bytes + 15, 'u', len);
        assert_int_equal(cri_read_list(bytes, 15U + len, on_sandbox, &list, NULL), 0);
        assert_int_equal(list.count, 1);
    }
}

TEST(more_sandboxes_than_a_node_has_are_refused)
{
    uint8_t message[2 * (CRI_SANDBOXES_MAX + 1)];
    struct list list = {.count = 0};
    for (size_t i = 0; i < sizeof(message); i += 2) {
        message[i] = 0x0a;
        message[i + 1] = 0;
    }
    assert_int_equal(cri_read_list(message, sizeof(message), on_sandbox, &list, NULL), ERR_LIMIT);
    assert_int_equal(cri_read_list(message, sizeof(message) - 2, on_sandbox, &list, NULL), 0);
    assert_int_equal(list.count, 0);
}

/* status{linux{namespaces{options{network}}}}, info{key "info", value}: below 128 bytes each. */
static struct cri_detail detail_of(const char *info, uint8_t mode)
{
    enum { MODE_AT = 9, ENTRY_LEN_AT = 11, INFO_LEN_AT = 19, HEAD_BYTES = 20 };
    uint8_t message[HEAD_BYTES + 128] = {0x0a, 8, 0x32, 6, 0x0a, 4,   0x12, 2,   0x08, 0,
                                         0x12, 0, 0x0a, 4, 'i',  'n', 'f',  'o', 0x12, 0};
    struct cri_detail detail = {.pid = -1};
    size_t len = strlen(info);
    assert_true(len < 120);
    message[MODE_AT] = mode;
    message[ENTRY_LEN_AT] = (uint8_t)(len + 8);
    message[INFO_LEN_AT] = (uint8_t)len;
    memcpy(message + HEAD_BYTES, info, len);
    assert_int_equal(cri_read_detail(message, HEAD_BYTES + len, &detail, NULL), 0);
    return detail;
}

TEST(process_and_namespace_are_taken_from_the_info_of_both_runtimes)
{
#define SPEC(namespaces) "{\"runtimeSpec\":{\"linux\":{\"namespaces\":" namespaces "}}}"
    static const struct {
        const char *info;
        int32_t pid;
        const char *netns;
    } rows[] = {
        {"{\"pid\":4711,\"processStatus\":\"running\",\"runtimeSpec\":{\"pid\":1}}", 4711, ""},
        {"{\"image\":\"pause\",\"pid\":12,\"runtimeSpec\":{}}", 12, ""},
        {"{\"runtimeSpec\":{\"pid\":1}}", 0, ""},
        {"{\"pid\":2147483647}", INT32_MAX, ""},
        {"{\"pid\":0}", 0, ""},
        {"{\"pid\":-5}", 0, ""},
        {"{\"pid\":4294967296}", 0, ""},
        {"{\"pid\":\"12\"}", 0, ""},
        {"{\"pid\":12", 0, ""},
        {SPEC("[{\"type\":\"ipc\",\"path\":\"/i\"},{\"type\":\"network\",\"path\":\"/n\"}]"), 0,
         "/n"},
        {SPEC("[{\"type\":\"network\"}]"), 0, ""},
        {SPEC("[{\"type\":\"network\",\"path\":\"n\"}]"), 0, ""},
        {SPEC("[{\"type\":\"network\",\"path\":7}]"), 0, ""},
        {SPEC("{}"), 0, ""},
        {"{\"linux\":{}}", 0, ""},
        {"", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct cri_detail detail = detail_of(rows[i].info, 0);
        assert_int_equal(detail.pid, rows[i].pid);
        assert_string_equal(detail.netns, rows[i].netns);
        assert_false(detail.has_host_network);
    }
    assert_true(detail_of("{}", 2).has_host_network);
}

TEST(network_is_told_with_the_runtimes_words)
{
    static const uint8_t message[] = "\x0a\x28\x0a\x10\x0a\x0cRuntimeReady\x10\1"
                                     "\x0a\x14\x0a\x0cNetworkReady\"\4gone";
    struct cri_network network = {.is_ready = true};
    assert_int_equal(cri_read_network(message, sizeof(message) - 1, &network, NULL), 0);
    assert_false(network.is_ready);
    assert_string_equal(network.message, "gone");
    assert_int_equal(cri_read_network(message, 0, &network, NULL), ERR_NOTFOUND);
}

TEST(version_is_told)
{
    static const uint8_t message[] = {0x12, 5, 'c', 'r', 'i', '-', 'o', 0x1a, 3, '1', '.', '2'};
    struct cri_version version;
    assert_int_equal(cri_read_version(message, sizeof(message), &version, NULL), 0);
    assert_string_equal(version.name, "cri-o");
    assert_string_equal(version.version, "1.2");
}

TEST(what_is_no_message_is_refused)
{
    static const uint8_t message[] = {0x0a, 200};
    struct cri_version version;
    struct cri_network network;
    struct cri_detail detail;
    struct list list = {.count = 0};
    assert_int_equal(cri_read_version(message, 2, &version, NULL), ERR_PARSE);
    assert_int_equal(cri_read_network(message, 2, &network, NULL), ERR_PARSE);
    assert_int_equal(cri_read_detail(message, 2, &detail, NULL), ERR_PARSE);
    assert_int_equal(cri_read_detail(message, 0, &detail, NULL), ERR_PARSE); /* no status */
    assert_int_equal(cri_read_list(message, 2, on_sandbox, &list, NULL), ERR_PARSE);
}
