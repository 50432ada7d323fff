/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_options.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "host-agent/dra/slice.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#define UID      "7d0c3a52-6d52-4f2e-9d3e-0d6f5b8f2c11"
#define DRIVER63 "a23456789012345678901234567890.b2345678901234567890123456789012"

static int parse(struct host_config *config, const char *const *flags, struct err *e)
{
    char *argv[16] = {(char *)(uintptr_t) "test"};
    char *env[] = {(char *)(uintptr_t) "NODE_NAME=node1", NULL};
    int argc = 1;
    enum option_outcome outcome;
    for (; flags && flags[argc - 1]; argc++) {
        argv[argc] = (char *)(uintptr_t)flags[argc - 1];
    }
    *config = (struct host_config){.cni_sync = false};
    return option_parse(host_options_program(), argc, argv, env, config, &outcome, e);
}

TEST(every_option_arrives)
{
    static const char *const flags[] = {"--dra-driver-name=d.example.com",
                                        "--dra-device-name=card",
                                        "--dra-pool-name=pool.x",
                                        "--kubelet-root-dir=/data/kubelet",
                                        "--dra-health-timeout=9s",
                                        "--dra-taint-effect=off",
                                        "--dra-attribute=model=bf3",
                                        "--dra-attribute=rack=4",
                                        "--dra-rolling-update-uid=a-b-c",
                                        "--dra-registrar-dir=/r",
                                        "--dra-plugin-dir=/p",
                                        "--dra-lock-dir=/l",
                                        NULL};
    struct host_config c;
    const struct dra_options *o = &c.dra;
    assert_int_equal(parse(&c, flags, NULL), 0);
    assert_string_equal(o->driver, "d.example.com");
    assert_string_equal(o->device, "card");
    assert_string_equal(o->pool, "pool.x");
    assert_string_equal(o->dirs.kubelet_root, "/data/kubelet");
    assert_string_equal(o->dirs.registry, "/r");
    assert_string_equal(o->dirs.plugin, "/p");
    assert_string_equal(o->lock_dir, "/l");
    assert_string_equal(o->rolling_uid, "a-b-c");
    assert_int_equal(o->health_timeout_ns, 9 * NS_PER_SEC);
    assert_int_equal(o->taint_effect, SLICE_EFFECT_OFF);
    assert_int_equal(o->attributes.count, 2);
    assert_string_equal(o->attributes.items[0], "model=bf3");
    assert_string_equal(o->attributes.items[1], "rack=4");
    option_fini(host_options_program(), &c);
}

TEST(effects_are_in_the_order_of_their_names)
{
    static const struct {
        const char *flag;
        enum slice_effect effect;
    } effects[] = {
        {"--dra-taint-effect=NoSchedule", SLICE_EFFECT_NO_SCHEDULE},
        {"--dra-taint-effect=NoExecute", SLICE_EFFECT_NO_EXECUTE},
        {"--dra-taint-effect=None", SLICE_EFFECT_NONE},
        {"--dra-taint-effect=off", SLICE_EFFECT_OFF},
    };
    for (size_t i = 0; i < ARRAY_LEN(effects); i++) {
        struct host_config c;
        assert_int_equal(parse(&c, (const char *const[]){effects[i].flag, NULL}, NULL), 0);
        assert_int_equal(c.dra.taint_effect, effects[i].effect);
        option_fini(host_options_program(), &c);
    }
}

TEST(what_can_never_work_is_refused_at_start)
{
    static const char *const flags[] = {
        "--dra-driver-name=Upper",
        "--dra-driver-name=",
        "--dra-device-name=a.b",
        "--dra-driver-name=../evil",
        "--dra-driver-name=a b",
        "--dra-driver-name=" DRIVER63 "x",
        "--dra-rolling-update-uid=../uid",
        "--kubelet-root-dir=",
        "--dra-device-name=",
        "--dra-pool-name=no pool",
        "--kubelet-root-dir=var",
        "--dra-health-timeout=2s",
        "--dra-health-timeout=3500ms",
        "--dra-attribute=x",
        "--dra-attribute=n:int=1",
        "--dra-rolling-update-uid=a/b",
        "--dra-taint-effect=maybe",
        "--dra-registrar-dir=r",
        "--dra-plugin-dir=p",
        "--dra-lock-dir=l",
    };
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct host_config c;
        struct err e = ERR_INIT;
        if (parse(&c, (const char *const[]){flags[i], NULL}, &e) == 0) {
            fail_msg("'%s' was accepted", flags[i]);
        }
        assert_true(strlen(e.msg) > 0);
        option_fini(host_options_program(), &c);
        /* A plugin that is off is not checked: its options may be those of another fleet. */
        bool is_row_check = strstr(flags[i], "timeout=2s") || strstr(flags[i], "maybe");
        assert_int_equal(parse(&c, (const char *const[]){flags[i], "--dra=off", NULL}, NULL) == 0,
                         !is_row_check);
        option_fini(host_options_program(), &c);
    }
}

TEST(auto_follows_the_plugin_registry)
{
    char root[SCRATCH_BYTES];
    scratch_make(root);
    char driver[] = "a.b";
    char device[] = "d";
    struct dra_options o = {
        .dirs.kubelet_root = root, .driver = driver, .device = device, .mode = DRA_AUTO};
    assert_int_equal(dra_options_check(&o, NULL), 0);
    assert_false(dra_options_enabled(&o));
    o.mode = DRA_ON;
    assert_true(dra_options_enabled(&o));
    scratch_put(root, "plugins_registry/any", "");
    o.mode = DRA_AUTO;
    assert_true(dra_options_enabled(&o));
    o.mode = DRA_OFF;
    assert_false(dra_options_enabled(&o));
    scratch_remove(root);
}

/* ---- names of sockets ------------------------------------------------------------------------ */

static int name_sockets(struct dra_options *o, const char *root, const char *driver,
                        const char *uid)
{
    static char device[] = "dpu0";
    o->mode = DRA_ON;
    o->device = device;
    o->dirs.kubelet_root = (char *)(uintptr_t)root;
    o->driver = (char *)(uintptr_t)driver;
    o->rolling_uid = (char *)(uintptr_t)uid;
    return dra_options_check(o, NULL);
}

TEST(names_are_those_a_kubelet_expects)
{
    static const struct {
        const char *root;
        const char *driver;
        const char *uid;
        const char *registration;
        const char *dra;
    } rows[] = {
        {"/var/lib/kubelet", "dpu.k8s.ovn.org", NULL,
         "/var/lib/kubelet/plugins_registry/dpu.k8s.ovn.org-reg.sock",
         "/var/lib/kubelet/plugins/dpu.k8s.ovn.org/dra.sock"},
        {"/data/kubelet//", "a.b", "", "/data/kubelet/plugins_registry/a.b-reg.sock",
         "/data/kubelet/plugins/a.b/dra.sock"},
        {"/var/lib/kubelet", "dpu.k8s.ovn.org", UID,
         "/var/lib/kubelet/plugins_registry/dpu.k8s.ovn.org-" UID "-reg.sock",
         "/var/lib/kubelet/plugins/dpu.k8s.ovn.org/dra-" UID ".sock"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct dra_options o = {.mode = DRA_ON};
        assert_int_equal(name_sockets(&o, rows[i].root, rows[i].driver, rows[i].uid), 0);
        assert_string_equal(o.names.registration, rows[i].registration);
        assert_string_equal(o.names.dra, rows[i].dra);
    }
}

TEST(directories_of_ones_own_take_the_place_of_the_kubelets)
{
    struct dra_options o = {.mode = DRA_ON};
    char words[][20] = {"/var/lib/kubelet", "/reg/", "/data/ours", "data"};
    o.dirs.registry = words[1];
    o.dirs.plugin = words[2];
    assert_int_equal(name_sockets(&o, words[0], "a.b", NULL), 0);
    assert_string_equal(o.names.registration, "/reg/a.b-reg.sock");
    assert_string_equal(o.names.dra, "/data/ours/dra.sock");
    assert_string_equal(o.names.plugin_dir, "/data/ours");
    o.dirs.plugin = words[3];
    assert_int_equal(name_sockets(&o, words[0], "a.b", NULL), ERR_PARSE);
}

TEST(long_names_are_hashed_until_they_fit)
{
    struct dra_options o = {.mode = DRA_ON};
    struct dra_options other = {.mode = DRA_ON};
    assert_int_equal(name_sockets(&o, "/var/lib/kubelet", DRIVER63, UID), 0);
    assert_true(strlen(o.names.registration) <= 107);
    assert_non_null(strstr(o.names.registration, "/dra-"));
    assert_non_null(strstr(o.names.registration, "-reg.sock"));
    assert_non_null(strstr(o.names.dra, "/plugins/" DRIVER63 "/dra-"));
    assert_true(strlen(o.names.dra) <= 107);
    assert_int_equal(name_sockets(&other, "/var/lib/kubelet", DRIVER63, UID), 0);
    assert_string_equal(o.names.registration, other.names.registration);
    assert_int_equal(name_sockets(&other, "/var/lib/kubelet", DRIVER63, "uid-2"), 0);
    assert_string_not_equal(o.names.registration, other.names.registration);
}

TEST(every_length_of_root_gives_a_fitting_name_or_an_error)
{
    char root[128];
    int fitting = 0;
    for (size_t len = 1; len < sizeof(root); len++) {
        struct dra_options o = {.mode = DRA_ON};
        memset(root, 'r', len);
        root[0] = '/';
        root[len] = '\0';
        int rc = name_sockets(&o, root, "dpu.k8s.ovn.org", UID);
        if (rc == 0) {
            fitting++;
            assert_true(strlen(o.names.registration) <= 107 && strlen(o.names.dra) <= 107);
            assert_memory_equal(o.names.registration, root, len);
        } else {
            assert_int_equal(rc, ERR_LIMIT);
        }
    }
    assert_true(fitting > 40);
}

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16

TEST(attributes_are_names_with_texts)
{
    static const struct {
        const char *text;
        const char *name;
        const char *value;
    } rows[] = {
        {"model=bf3", "model", "bf3"},
        {"model=", "model", ""},
        {"x=a=b", "x", "a=b"},
        {"_a1=-5", "_a1", "-5"},
        {"dpu.example.com/slot=3", "dpu.example.com/slot", "3"},
        {"s=" A64, "s", A64},
        {A16 A16 "=x", A16 A16, "x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *list = json_object();
        assert_int_equal(attribute_add(list, rows[i].text, NULL), 0);
        assert_int_equal(json_object_size(list), 1);
        assert_string_equal(json_text_get(json_object_get(list, rows[i].name), "string"),
                            rows[i].value);
    }
}

TEST(what_the_api_server_would_refuse_is_refused)
{
    static const char *const rows[] = {
        "",         "x",       "=x",          "1a=x",       "0a=x",       "a\nb=x",
        "9a=x",     "a-b=x",   A16 A16 "a=x", "a/b/c=x",    "/b=x",       "Dom.com/b=x",
        A64 "/b=x", "a:int=1", "a:=1",        "s=" A64 "a", A64 A64 "=x", "s=\xff",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *list = json_object();
        struct err e = ERR_INIT;
        assert_int_equal(attribute_add(list, rows[i], &e), ERR_PARSE);
        assert_int_equal(json_object_size(list), 0);
        assert_non_null(strstr(e.msg, "attribute '"));
        assert_null(strchr(e.msg, '\n'));
    }
}

TEST(list_is_bounded)
{
    CLEANUP(json) json_t *list = json_object();
    char text[16];
    for (int i = 0; i < ATTRIBUTES_MAX; i++) {
        (void)snprintf(text, sizeof(text), "a%d=x", i);
        assert_int_equal(attribute_add(list, text, NULL), 0);
    }
    assert_int_equal(attribute_add(list, "a31=y", NULL), 0);
    assert_int_equal(attribute_add(list, "b=x", NULL), ERR_LIMIT);
    assert_string_equal(json_text_get(json_object_get(list, "a31"), "string"), "y");
}
