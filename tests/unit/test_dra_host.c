/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin reads from the host: VPD, sysfs. */
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/host_device.h"
#include "host-agent/dra/vpd.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* An identifier, a read-only part with PN, SN and checksum, a read-write part, the end. */
#define VPD_NAME "\x82\x04\x00NIC!"
#define VPD_READ_ONLY                                                                              \
    "\x90\x17\x00"                                                                                 \
    "PN\x05"                                                                                       \
    "BF3-X"                                                                                        \
    "SN\x07"                                                                                       \
    "MT2 \0\0 "                                                                                    \
    "RV\x02\x12\x34"
#define VPD_WRITABLE "\x91\x04\x00SN\x01Z"
#define VPD_END      "\x78"

static bool find(const char *vpd, size_t len, const char *keyword, char out[static 65])
{
    return vpd_find((const uint8_t *)vpd, len, keyword, out, 65);
}

static void serial_and_part_number_are_found(void **state)
{
    (void)state;
    static const char vpd[] = VPD_NAME VPD_READ_ONLY VPD_WRITABLE VPD_END;
    char out[65];
    assert_true(find(vpd, sizeof(vpd) - 1, "SN", out));
    assert_string_equal(out, "MT2"); /* without the padding */
    assert_true(find(vpd, sizeof(vpd) - 1, "PN", out));
    assert_string_equal(out, "BF3-X");
    assert_false(find(vpd, sizeof(vpd) - 1, "XX", out));
}

static void damaged_vpd_is_no_serial_number(void **state)
{
    (void)state;
    static const struct {
        const char *vpd;
        size_t len;
    } rows[] = {
        {"", 0},
        {"\x90", 1},
        {"\x90\xff\xff", 3},
        {"\x90\x04\x00SN\x09Z", 7},  /* a value longer than its part */
        {VPD_END VPD_READ_ONLY, 27}, /* behind the end */
        {VPD_WRITABLE, 7},           /* what anybody may write */
        {"\x90\x03\x00SN\x00", 6},   /* empty */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[65];
        assert_false(find(rows[i].vpd, rows[i].len, "SN", out));
    }
    static const char vpd[] = VPD_NAME VPD_READ_ONLY;
    for (size_t len = 0; len < 20; len++) {
        char out[65];
        assert_false(find(vpd, len, "SN", out)); /* cut anywhere before the value */
    }
}

struct world {
    char root[64];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    (void)snprintf(w->root, sizeof(w->root), "/tmp/dpu-host-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    *state = w;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct world *w = *state;
    assert_int_equal(nftw(w->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(w);
    return 0;
}

static void make_dirs(const struct world *w, const char *path)
{
    char full[256];
    (void)snprintf(full, sizeof(full), "%s/%s", w->root, path);
    for (char *slash = full + strlen(w->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(full, 0755); /* there already: fine */
        *slash = '/';
    }
    (void)mkdir(full, 0755);
}

static void make_file(const struct world *w, const char *path, const char *bytes, size_t len)
{
    char full[256];
    (void)snprintf(full, sizeof(full), "%s/%s", w->root, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void make_link(const struct world *w, const char *target, const char *path)
{
    char full[256];
    (void)snprintf(full, sizeof(full), "%s/%s", w->root, path);
    assert_int_equal(symlink(target, full), 0);
}

#define PCI "devices/pci0000:00/0000:00:01.0/0000:03:00.0"

static const char *value_of(const struct attribute_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (text_equal(list->items[i].name, name)) {
            return list->items[i].text;
        }
    }
    return NULL;
}

static void network_device_is_described_from_sysfs(void **state)
{
    struct world *w = *state;
    static const char vpd[] = VPD_NAME VPD_READ_ONLY VPD_END;
    static const char *const wanted[][2] = {
        {"resource.kubernetes.io/pciBusID", "0000:03:00.0"},
        {"resource.kubernetes.io/pcieRoot", "pci0000:00"},
        {"vendorID", "15b3"},
        {"deviceID", "a2dc"},
        {"driver", "mlx5_core"},
        {"serial", "MT2"},
        {"partNumber", "BF3-X"},
    };
    struct attribute_list list = {.count = 0};
    make_dirs(w, PCI);
    make_dirs(w, "class/net/eth7");
    make_file(w, PCI "/vendor", "0x15b3\n", 7);
    make_file(w, PCI "/device", "0xa2dc\n", 7);
    make_file(w, PCI "/vpd", vpd, sizeof(vpd) - 1);
    make_link(w, "../../../../bus/pci/drivers/mlx5_core", PCI "/driver");
    make_link(w, "../../../" PCI, "class/net/eth7/device");
    assert_int_equal(host_device_describe(w->root, "eth7", &list, NULL), 0);
    assert_int_equal(list.count, ARRAY_LEN(wanted));
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_string_equal(value_of(&list, wanted[i][0]), wanted[i][1]);
    }
}

static void bare_device_has_its_address_only(void **state)
{
    struct world *w = *state;
    struct attribute_list list = {.count = 0};
    make_dirs(w, PCI);
    make_dirs(w, "class/net/eth7");
    make_link(w, "../../../" PCI, "class/net/eth7/device");
    assert_int_equal(host_device_describe(w->root, "eth7", &list, NULL), 0);
    assert_int_equal(list.count, 2);
}

static void device_that_is_not_there_is_told(void **state)
{
    struct world *w = *state;
    struct attribute_list list = {.count = 0};
    static const char *const impossible[] = {"", "..", ".", "a/b", "sixteen-letters!"};
    for (size_t i = 0; i < ARRAY_LEN(impossible); i++) {
        assert_int_equal(host_device_describe(w->root, impossible[i], &list, NULL), ERR_PARSE);
    }
    assert_int_equal(host_device_describe(w->root, "eth9", &list, NULL), ERR_NOTFOUND);
    make_dirs(w, "devices/virtual/usb1");
    make_dirs(w, "class/net/usb0");
    make_link(w, "../../../devices/virtual/usb1", "class/net/usb0/device");
    assert_int_equal(host_device_describe(w->root, "usb0", &list, NULL), ERR_NOTFOUND);
    assert_int_equal(list.count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serial_and_part_number_are_found),
        cmocka_unit_test(damaged_vpd_is_no_serial_number),
        TEST(network_device_is_described_from_sysfs),
        TEST(bare_device_has_its_address_only),
        TEST(device_that_is_not_there_is_told),
    };
    return cmocka_run_group_tests_name("dra_host", tests, NULL, NULL);
}
