/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the DRA driver. */
#include "dra-driver/driver.h"
#include "tests/support/case.h"
#include "tests/unit/option_args.h"

struct world {
    struct driver_config driver;
    struct err e;
};

static void world_begin(struct world *w)
{
    w->e = (struct err)ERR_INIT;
}

static void world_end(struct world *w)
{
    option_fini(driver_options_program(), &w->driver);
}

WORLD(world_begin, world_end)

/* Each anew. */
static int parse_driver(struct world *w, const char *const *args, const char *const *env)
{
    enum option_outcome outcome;
    option_fini(driver_options_program(), &w->driver);
    w->driver = (struct driver_config){.events = false};
    return parse_args(driver_options_program(), args, env, &w->driver, &outcome, &w->e);
}

TEST_IN(without_options_it_reads_the_agents_record_and_offers_the_first_dpu)
{
    assert_int_equal(parse_driver(w, ARGS("--node-name=a"), NULL), 0);
    assert_string_equal(w->driver.readiness_file, "/run/dpu-heartbeat/readiness.json");
    assert_string_equal(w->driver.agent.http_bind_address, "127.0.0.1:9414");
    assert_string_equal(w->driver.dra.driver, "dpu.k8s.ovn.org");
    assert_string_equal(w->driver.dra.names.dra,
                        "/var/lib/kubelet/plugins/dpu.k8s.ovn.org/dra.sock");
    assert_int_equal(w->driver.dra.health_timeout_ns, 30 * NS_PER_SEC);
    assert_int_equal(w->driver.dra.taint_effect, SLICE_EFFECT_NO_SCHEDULE);
    assert_true(w->driver.events);
    assert_false(w->driver.dra.claim_conditions);
}

TEST_IN(every_dra_option_arrives)
{
    const char *const *args = ARGS(
        "--node-name=a", "--dra-driver-name=d.example.com", "--dra-device-name=card",
        "--dra-pool-name=pool.x", "--kubelet-root-dir=/data/kubelet", "--dra-health-timeout=9s",
        "--dra-taint-effect=off", "--dra-attribute=model=bf3", "--dra-attribute=rack=4",
        "--dra-rolling-update-uid=a-b-c", "--dra-plugin-dir=/data/kubelet/p");
    const struct dra_options *o = &w->driver.dra;
    assert_int_equal(parse_driver(w, args, NULL), 0);
    assert_string_equal(o->driver, "d.example.com");
    assert_string_equal(o->device, "card");
    assert_string_equal(o->pool, "pool.x");
    assert_string_equal(o->kubelet_root, "/data/kubelet");
    assert_string_equal(o->plugin_dir, "/data/kubelet/p");
    assert_string_equal(o->names.registry_dir, "/data/kubelet/plugins_registry");
    assert_string_equal(o->rolling_uid, "a-b-c");
    assert_int_equal(o->health_timeout_ns, 9 * NS_PER_SEC);
    assert_int_equal(o->taint_effect, SLICE_EFFECT_OFF);
    assert_int_equal(o->attributes.count, 2);
    assert_string_equal(o->attributes.items[0], "model=bf3");
    assert_string_equal(o->attributes.items[1], "rack=4");
}

TEST_IN(effects_are_in_the_order_of_their_names)
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
        assert_int_equal(parse_driver(w, ARGS("--node-name=a", effects[i].flag), NULL), 0);
        assert_int_equal(w->driver.dra.taint_effect, effects[i].effect);
    }
}

TEST_IN(what_can_never_work_is_refused_at_start)
{
    static const char *const flags[] = {
        "--dra-driver-name=Upper",
        "--dra-driver-name=",
        "--dra-device-name=a.b",
        "--dra-driver-name=../evil",
        "--dra-driver-name=a b",
        "--dra-driver-name=a23456789012345678901234567890.b2345678901234567890123456789012x",
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
        "--dra-plugin-dir=p",
        "--dra-plugin-dir=/p",
        "--node-name=Upper",
    };
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        w->e = (struct err)ERR_INIT;
        if (parse_driver(w, ARGS("--node-name=a", flags[i]), NULL) == 0) {
            fail_msg("'%s' was accepted", flags[i]);
        }
        assert_true(strlen(w->e.msg) > 0);
    }
}
