/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_service.h"

#include "host-agent/dra/slice.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct program_config {
    int before; /* so that no offset is 0 by luck */
    struct dra_options dra;
};

static const struct option_row rows[] = {DRA_OPTION_ROWS(struct program_config, dra)};
static const struct option_program program = {
    .name = "test", .summary = "A test.", .rows = rows, .row_count = ARRAY_LEN(rows)};

static int parse(struct program_config *config, const char *const *flags, struct err *e)
{
    char *argv[16] = {(char *)(uintptr_t) "test"};
    char *env[] = {NULL};
    int argc = 1;
    enum option_outcome outcome;
    for (; flags && flags[argc - 1]; argc++) {
        argv[argc] = (char *)(uintptr_t)flags[argc - 1];
    }
    *config = (struct program_config){.before = 1};
    int rc = option_parse(&program, argc, argv, env, config, &outcome, e);
    return rc == 0 ? dra_options_check(&config->dra, e) : rc;
}

TEST(defaults_are_those_of_the_documentation)
{
    struct program_config c;
    const struct dra_options *o = &c.dra;
    assert_int_equal(parse(&c, NULL, NULL), 0);
    assert_string_equal(o->driver, "dpu.k8s.ovn.org");
    assert_string_equal(o->device, "dpu0");
    assert_string_equal(o->dirs.kubelet_root, "/var/lib/kubelet");
    assert_int_equal(o->health_timeout_ns, 30 * NS_PER_SEC);
    assert_int_equal(o->taint_effect, SLICE_EFFECT_NO_SCHEDULE);
    assert_int_equal(o->attributes.count, 0);
    option_fini(&program, &c);
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
    struct program_config c;
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
    option_fini(&program, &c);
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
        struct program_config c;
        assert_int_equal(parse(&c, (const char *const[]){effects[i].flag, NULL}, NULL), 0);
        assert_int_equal(c.dra.taint_effect, effects[i].effect);
        option_fini(&program, &c);
    }
}

TEST(what_can_never_work_is_refused_at_start)
{
    static const char *const flags[] = {
        "--dra-driver-name=Upper", "--dra-driver-name=",           "--dra-device-name=a.b",
        "--dra-device-name=",      "--dra-pool-name=no pool",      "--kubelet-root-dir=var",
        "--dra-health-timeout=2s", "--dra-health-timeout=3500ms",  "--dra-attribute=x",
        "--dra-attribute=n:int=1", "--dra-rolling-update-uid=a/b", "--dra-taint-effect=maybe",
        "--dra-registrar-dir=r",   "--dra-plugin-dir=p",           "--dra-lock-dir=l",
    };
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct program_config c;
        struct err e = ERR_INIT;
        if (parse(&c, (const char *const[]){flags[i], NULL}, &e) == 0) {
            fail_msg("'%s' was accepted", flags[i]);
        }
        assert_true(strlen(e.msg) > 0);
        option_fini(&program, &c);
        /* A plugin that is off is not checked: its options may be those of another fleet. */
        bool is_row_check = strstr(flags[i], "timeout=2s") || strstr(flags[i], "maybe");
        assert_int_equal(parse(&c, (const char *const[]){flags[i], "--dra=off", NULL}, NULL) == 0,
                         !is_row_check);
        option_fini(&program, &c);
    }
}

TEST(auto_follows_the_plugin_registry)
{
    char root[] = "/tmp/dpu-auto-XXXXXX";
    char registry[64];
    assert_non_null(mkdtemp(root));
    (void)snprintf(registry, sizeof(registry), "%s/plugins_registry", root);
    char driver[] = "a.b";
    char device[] = "d";
    struct dra_options o = {
        .dirs.kubelet_root = root, .driver = driver, .device = device, .mode = DRA_AUTO};
    assert_int_equal(dra_options_check(&o, NULL), 0);
    assert_false(dra_options_enabled(&o));
    o.mode = DRA_ON;
    assert_true(dra_options_enabled(&o));
    assert_int_equal(mkdir(registry, 0755), 0);
    o.mode = DRA_AUTO;
    assert_true(dra_options_enabled(&o));
    o.mode = DRA_OFF;
    assert_false(dra_options_enabled(&o));
    assert_int_equal(rmdir(registry), 0);
    assert_int_equal(rmdir(root), 0);
}
