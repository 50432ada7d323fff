/* SPDX-License-Identifier: Apache-2.0 */
/* Has a sandbox still its network? Against made-up /proc, /sys and CNI caches, and against real
 * namespaces. */
#include "probe/pod_net.h"

#include "base/err.h"
#include "base/text.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/case.h"
#include "tests/support/scratch.h"
#include "tests/unit/netns_process.h"

#define HEAD "Inter-|   Receive                   |  Transmit\n face |bytes packets|bytes packets\n"
#define LO   "    lo:       0       0    0\n"
#define ETH0 "  eth0:    1234      5    0\n"
#define VF   "0000:03:00.2"

enum { PID = 4711 };

struct world {
    char root[SCRATCH_BYTES];
    struct pod_net net;
    struct pod_net_finding found;
};

static void put(const struct world *w, const char *name, const char *text)
{
    scratch_put(w->root, name, text);
}

static void put_dev(const struct world *w, const char *interfaces)
{
    char text[512];
    text_format(text, sizeof(text), HEAD LO "%s", interfaces);
    put(w, "proc/4711/net/dev", text);
}

static void put_start(const struct world *w, const char *started)
{
    char text[256];
    text_format(text, sizeof(text),
                "4711 (pause) (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %s 99 0\n",
                started);
    put(w, "proc/4711/stat", text);
}

static void remove_path(const struct world *w, const char *name)
{
    assert_true(scratch_run("rm -rf --one-file-system '%s/%s'", w->root, name));
}

static void up(struct world *w)
{
    scratch_make(w->root);
    put_start(w, "100");
    put_dev(w, ETH0);
}

static void down(struct world *w)
{
    scratch_remove(w->root);
}

WORLD(up, down)

static void open_it(struct world *w)
{
    assert_true(pod_net_open(w->root, "cid", PID, "", &w->net));
}

static enum pod_net_evidence look(struct world *w)
{
    pod_net_look(&w->net, w->root, &w->found);
    return w->found.evidence;
}

/* At this machine's own namespaces. */
static enum pod_net_evidence look_here(struct world *w)
{
    pod_net_look(&w->net, "", &w->found);
    return w->found.evidence;
}

/* {"name":"ovn","type":"x","deviceID":"0000:03:00.2"} */
#define CONFIG "eyJuYW1lIjoib3ZuIiwidHlwZSI6IngiLCJkZXZpY2VJRCI6IjAwMDA6MDM6MDAuMiJ9"

#define CACHE(id, more)                                                                            \
    "{\"kind\":\"cniCacheV1\",\"containerId\":\"" id "\",\"ifName\":\"eth0\"," more "}"
#define RESULT                                                                                     \
    "\"result\":{\"interfaces\":[{\"name\":\"h\"},{\"name\":\"eth0\",\"sandbox\":\"/run/n\"}]}"
#define OF_DEVICE CACHE("cid", "\"config\":\"" CONFIG "\"," RESULT)

static void put_cache(const struct world *w, const char *text)
{
    put(w, "var/lib/cni/results/ovn-cid-eth0", text);
}

/* ---- without a device ------------------------------------------------------------------------ */

TEST_IN(interface_that_was_seen_and_is_gone_is_lost)
{
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    assert_string_equal(w->found.words, "");
    put_dev(w, "");
    assert_int_equal(look(w), POD_NET_LOST);
    assert_non_null(strstr(w->found.words, "eth0 is gone"));
    put_dev(w, ETH0); /* moved back */
    assert_int_equal(look(w), POD_NET_WHOLE);
}

/* By what CNI's cache says of a sandbox that has only "lo". */
TEST_IN(interface_is_lost_only_if_it_was_there)
{
    static const struct {
        const char *file; /* NULL: none */
        const char *text;
        enum pod_net_evidence evidence;
    } rows[] = {
        {NULL, NULL, POD_NET_UNKNOWN}, /* nobody ever saw it */
        {"ovn-cid-eth0", CACHE("cid", RESULT), POD_NET_LOST},
        {"ovn-cid-eth0", CACHE("cid2", RESULT), POD_NET_UNKNOWN}, /* of another sandbox */
        {"ovn-cid-eth0.tmp", "{\"containerId\":", POD_NET_UNKNOWN},
        {"ovn-cid-eth0", /* the host's end */
         CACHE("cid", "\"result\":{\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"\"}]}"),
         POD_NET_UNKNOWN},
    };
    put_dev(w, "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[128];
        text_format(name, sizeof(name), "var/lib/cni/results/%s", rows[i].file);
        if (rows[i].file) {
            put(w, name, rows[i].text);
        }
        open_it(w);
        assert_int_equal(look(w), rows[i].evidence);
        remove_path(w, "var");
    }
}

/* A pod that may change its network can move it, or end it. */
TEST_IN(interface_whose_other_end_is_there_is_not_lost)
{
    put_cache(w,
              CACHE("cid", "\"result\":{\"interfaces\":[{\"name\":\"cni0\"},{\"name\":\"veth1\"},"
                           "{\"name\":\"eth0\",\"sandbox\":\"/run/n\"}]}"));
    put(w, "sys/class/net/cni0/ifindex", "3\n");
    put(w, "sys/class/net/cni0/iflink", "3\n");
    put(w, "sys/class/net/veth1/ifindex", "7\n");
    put(w, "sys/class/net/veth1/iflink", "2\n");
    put_dev(w, "");
    open_it(w);
    assert_int_equal(look(w), POD_NET_AWAY);
    assert_non_null(strstr(w->found.words, "its other end veth1 is there"));
    remove_path(w, "sys/class/net/veth1");
    assert_int_equal(look(w), POD_NET_LOST);
    assert_false(w->found.is_by_device); /* it may have been the pod */
}

TEST_IN(interface_by_another_name_is_not_lost)
{
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, "  lan0: 0 0\n");
    assert_int_equal(look(w), POD_NET_UNKNOWN);
}

TEST_IN(others_that_cni_gave_and_the_kernels_own_are_not_it)
{
    put(w, "var/lib/cni/multus/results/net-cid-net1",
        "{\"containerId\":\"cid\",\"ifName\":\"net1\"}");
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, "  net1: 0 0\n tunl0: 0 0\n  sit0:0\n");
    assert_int_equal(look(w), POD_NET_LOST);
    for (int i = 0; i <= POD_NET_LINKS_MAX; i++) {
        char name[64];
        char text[64];
        text_format(name, sizeof(name), "var/lib/cni/results/net-cid-more%d", i);
        text_format(text, sizeof(text), "{\"containerId\":\"cid\",\"ifName\":\"more%d\"}", i);
        put(w, name, text);
    }
    open_it(w);
    assert_int_equal(w->net.count, POD_NET_LINKS_MAX);
}

/* ---- with a device --------------------------------------------------------------------------- */

TEST_IN(device_is_found_wherever_cni_was_told_it)
{
    static const char *const rows[] = {
        CACHE("cid", "\"config\":\"" CONFIG "\""),
        /* {"plugins":[{"runtimeConfig":{"deviceID":"0000:03:00.2"}}]} */
        CACHE("cid", "\"config\":\"eyJwbHVnaW5zIjpbeyJydW50aW1lQ29uZmlnIjp7ImRldmljZUlEIjoiMDAwMDow"
                     "MzowMC4yIn19XX0=\""),
        CACHE("cid", "\"capabilityArgs\":{\"deviceID\":\"" VF "\"}"),
        CACHE("cid", "\"result\":{\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"/n\","
                     "\"pciID\":\"" VF "\"}]}"),
        CACHE("cid", "\"capabilityArgs\":{\"deviceID\":\"../../../../etc\"}"),
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put(w,
            i == 1 ? "var/lib/cni/multus/results/ovn-cid-eth0" : "var/lib/cni/results/ovn-cid-eth0",
            rows[i]);
        open_it(w);
        assert_string_equal(w->net.links[0].device, i < 4 ? VF : "");
        remove_path(w, "var");
    }
}

#define BACK "sys/bus/pci/devices/" VF "/net/enp3s0f0v0/ifindex"

/* As a VF whose netdev stays on the host beside a vDPA device. */
TEST_IN(device_that_never_gave_its_netdev_to_the_pod_lost_nothing)
{
    put_cache(w, CACHE("cid", "\"config\":\"" CONFIG "\",\"result\":{\"interfaces\":[]}"));
    put(w, BACK, "8\n");
    put_dev(w, "");
    open_it(w);
    assert_int_equal(look(w), POD_NET_UNKNOWN);
}

/* A plugin may say "eth0" of any device. */
TEST_IN(vdpa_device_has_no_netdev_to_lose)
{
    char path[SCRATCH_PATH_BYTES];
    put_cache(w, OF_DEVICE);
    put(w, BACK, "8\n");
    put(w, "sys/bus/vdpa/devices/none", "");
    put_dev(w, "");
    text_format(path, sizeof(path), "%s/sys/bus/vdpa/devices/vdpa1", w->root);
    assert_int_equal(symlink("../../../devices/pci0000:00/0000:03:00.3/vdpa1", path), 0);
    open_it(w);
    assert_int_equal(look(w), POD_NET_LOST);
    text_format(path, sizeof(path), "%s/sys/bus/vdpa/devices/vdpa0", w->root);
    assert_int_equal(symlink("../../../devices/pci0000:00/" VF "/mlx5_core.vnet.2/vdpa0", path), 0);
    open_it(w);
    assert_int_equal(look(w), POD_NET_UNKNOWN);
}

TEST_IN(renamed_interface_of_a_device_is_not_lost)
{
    put_cache(w, OF_DEVICE);
    open_it(w);
    put_dev(w, "  lan0: 0 0\n");
    put(w, BACK, "8\n"); /* of its other port */
    assert_int_equal(look(w), POD_NET_UNKNOWN);
}

TEST_IN(netdev_that_was_there_beside_it_is_not_it)
{
    put_cache(w, OF_DEVICE);
    put(w, BACK, "8\n");
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, ""); /* moved into a child namespace */
    assert_int_equal(look(w), POD_NET_AWAY);
    put(w, "sys/bus/pci/devices/" VF "/net/enp3s0f0v9/ifindex", "9\n");
    assert_int_equal(look(w), POD_NET_LOST);
    assert_true(w->found.is_by_device);
}

/* By a pod: the end of a namespace sends its devices home, as they were. */
TEST_IN(netdev_that_was_handed_back_as_it_was_is_not_by_its_device)
{
    put_cache(w, OF_DEVICE);
    put(w, "proc/4711/net/dev_mcast",
        "1    lo              1     0     01\n"
        "57   eth01           1     0     01005e000001\n"
        "8    eth0            1     0     01005e000001\n");
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, "");
    put(w, BACK, "8\n");
    put(w, "sys/class/net/enp3s0f0v0/ifindex", "8\n");
    assert_int_equal(look(w), POD_NET_LOST);
    assert_false(w->found.is_by_device);
    put(w, "sys/class/net/enp3s0f0v0/ifindex", "57\n"); /* made anew */
    assert_int_equal(look(w), POD_NET_LOST);
    assert_true(w->found.is_by_device);
}

/* The three ways of a reset (mlx5): reload, error recovery, removal. */
TEST_IN(three_ways_of_a_reset_are_told_apart)
{
    put_cache(w, OF_DEVICE);
    put(w, "sys/bus/pci/devices/" VF "/vendor", "0x15b3\n");
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE); /* B: suspended, it keeps its netdev */
    put_dev(w, "");
    assert_int_equal(look(w), POD_NET_AWAY); /* A, in the middle of it */
    put(w, BACK, "8\n");
    assert_int_equal(look(w), POD_NET_LOST); /* A: made anew, on the host */
    assert_string_equal(w->found.words,
                        "eth0 is gone, and its device " VF " is back on the host as enp3s0f0v0");
    remove_path(w, "sys/bus/pci/devices/" VF);
    assert_int_equal(look(w), POD_NET_LOST); /* C */
    assert_true(w->found.is_by_device);
    assert_string_equal(w->found.words, "eth0 is gone, and so is its device " VF);
    remove_path(w, "sys");
    assert_int_equal(look(w), POD_NET_AWAY); /* a sysfs that is not there says nothing */
    assert_false(w->found.is_by_device);
}

TEST_IN(device_whose_netdev_is_in_use_elsewhere_is_not_lost)
{
    put_cache(w, OF_DEVICE);
    put(w, "sys/bus/pci/devices/" VF "/driver_override", "vfio-pci\n"); /* never had a netdev */
    put_dev(w, "");
    open_it(w);
    assert_int_equal(look(w), POD_NET_AWAY);
}

/* ---- interfaces beside eth0 ------------------------------------------------------------------ */

#define NET1 "var/lib/cni/multus/results/sriov-cid-net1"
#define OF_NET1(more)                                                                              \
    "{\"containerId\":\"cid\",\"ifName\":\"net1\"," more                                           \
    "\"result\":{\"interfaces\":[{\"name\":\"net1\",\"sandbox\":\"/run/n\"}]}}"
#define OF_VF "\"config\":\"" CONFIG "\","
#define BOTH  ETH0 "  net1: 0 0\n"

/* As Multus has them: a file for each, whose result names the one. */
TEST_IN(interface_of_a_secondary_network_is_lost_as_eth0_is)
{
    put(w, NET1, OF_NET1(OF_VF));
    put_dev(w, BOTH);
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, ETH0);
    put(w, "sys/bus/pci/devices/" VF "/vendor", "0x15b3\n");
    assert_int_equal(look(w), POD_NET_WHOLE); /* a reset, or the pod's own doing: eth0 is there */
    assert_string_equal(w->found.words, "");
    put(w, BACK, "8\n");
    assert_int_equal(look(w), POD_NET_LOST);
    assert_true(w->found.is_by_device);
    assert_string_equal(w->found.words,
                        "net1 is gone, and its device " VF " is back on the host as enp3s0f0v0");
    put_dev(w, "");
    assert_int_equal(look(w), POD_NET_LOST);
    assert_string_equal(w->found.words, "eth0 is gone from the pod's network namespace; net1 is "
                                        "lost, too");
    assert_true(w->found.is_by_device); /* the one of the two */
    put_dev(w, BOTH);
    assert_int_equal(look(w), POD_NET_WHOLE);
}

/* As ovn-kubernetes has a user-defined network: one result, each with its end in front of it. */
TEST_IN(interfaces_of_one_result_have_their_own_ends)
{
    put_cache(w, CACHE("cid", "\"result\":{\"interfaces\":[{\"name\":\"veth1\"},"
                              "{\"name\":\"eth0\",\"sandbox\":\"/run/n\"},{\"name\":\"veth2\"},"
                              "{\"name\":\"ovn-udn1\",\"sandbox\":\"/run/n\"}]}"));
    put(w, "sys/class/net/veth1/ifindex", "7\n");
    put(w, "sys/class/net/veth1/iflink", "2\n");
    put_dev(w, ETH0); /* as an agent finds it that was not there before */
    open_it(w);
    assert_int_equal(look(w), POD_NET_LOST);
    assert_string_equal(w->found.words, "ovn-udn1 is gone from the pod's network namespace");
    put(w, "sys/class/net/veth2/ifindex", "8\n");
    put(w, "sys/class/net/veth2/iflink", "3\n");
    assert_int_equal(look(w), POD_NET_WHOLE); /* the pod has moved it */
}

TEST_IN(end_behind_the_last_interface_is_its_own)
{
    put_cache(w, CACHE("cid", "\"result\":{\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"/n\"},"
                              "{\"name\":\"veth1\"}]}"));
    put(w, "sys/class/net/veth1/ifindex", "7\n");
    put(w, "sys/class/net/veth1/iflink", "2\n");
    put_dev(w, "");
    open_it(w);
    assert_int_equal(look(w), POD_NET_AWAY);
}

TEST_IN(what_names_no_namespace_is_no_interface_of_the_pod)
{
    put_cache(w, CACHE("cid", "\"result\":{\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"vm\"},"
                              "{\"name\":\"dummy0\",\"sandbox\":\"0\"}]}"));
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    assert_int_equal(w->net.count, 1);
    put_dev(w, "");
    assert_int_equal(look(w), POD_NET_LOST); /* eth0, whatever stands there */
}

/* By DEL, which takes the cache's file, too: a controller may do that while the pod runs. */
TEST_IN(network_that_was_taken_away_is_not_lost)
{
    put(w, NET1, OF_NET1(OF_VF));
    put(w, BACK, "8\n");
    put_dev(w, ETH0);
    open_it(w);
    assert_int_equal(look(w), POD_NET_LOST);
    remove_path(w, NET1);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put(w, NET1, OF_NET1(OF_VF)); /* and given again: it has to be seen first */
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, BOTH);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, ETH0);
    put(w, "sys/bus/pci/devices/" VF "/net/enp3s0f0v9/ifindex", "9\n");
    assert_int_equal(look(w), POD_NET_LOST);
}

TEST_IN(network_whose_result_cannot_be_read_now_is_not_forgotten)
{
    struct rlimit limit;
    put(w, NET1, OF_NET1(OF_VF));
    put(w, BACK, "8\n");
    put_dev(w, ETH0);
    open_it(w);
    assert_int_equal(look(w), POD_NET_LOST);
    int lowest = dup(0);
    assert_int_equal(close(lowest), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit one = {.rlim_cur = (rlim_t)lowest + 1, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
    enum pod_net_evidence found = look(w); /* it sees the cache's directory, and no file of it */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(found, POD_NET_WHOLE);
    assert_int_equal(look(w), POD_NET_LOST);
}

TEST_IN(interface_that_results_alone_name_counts_only_if_it_was_seen)
{
    put(w, NET1, OF_NET1(""));
    put_dev(w, ETH0);
    open_it(w);
    assert_int_equal(look(w), POD_NET_LOST);
    open_it(w);
    pod_net_distrust_results(&w->net);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, BOTH);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, ETH0 "  lan0: 0 0\n"); /* by another name */
    assert_int_equal(look(w), POD_NET_WHOLE);
    put_dev(w, ETH0);
    assert_int_equal(look(w), POD_NET_LOST);
}

/* ---- the process ----------------------------------------------------------------------------- */

TEST_IN(number_of_another_process_says_nothing)
{
    open_it(w);
    assert_int_equal(look(w), POD_NET_WHOLE);
    put(w, "proc/4711/net/dev", "");
    assert_int_equal(look(w), POD_NET_UNSEEN); /* it is about to end */
    put_start(w, "200");
    put_dev(w, "");
    assert_int_equal(look(w), POD_NET_UNSEEN);
    remove_path(w, "proc/4711");
    assert_int_equal(look(w), POD_NET_UNSEEN);
    assert_false(pod_net_open(w->root, "cid", PID, "", &w->net));
    put(w, "proc/4711/stat", "4711 (pause");
    assert_false(pod_net_open(w->root, "cid", PID, "", &w->net));
    assert_int_equal(look(w), POD_NET_UNSEEN);
}

TEST_IN(place_that_nobody_names_is_told)
{
    static const struct {
        const char *netns;
        const char *words;
    } rows[] = {
        {"", "names neither"},
        {"run/netns/x", "names neither"},
        {"/run/netns/none", "No such file"},
        {"/run/netns/plain", "entering '/run/netns/plain': "}, /* nothing is mounted on it */
        {"/var/run/netns/plain", "entering '/var/run/netns/plain': "}, /* CRI-O's; a link */
    };
    put(w, "run/netns/plain", "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(pod_net_open(w->root, "cid", 0, rows[i].netns, &w->net), i >= 3);
        assert_int_equal(look(w), POD_NET_UNSEEN);
        assert_non_null(strstr(w->found.words, rows[i].words));
    }
}

/* ---- real namespaces ------------------------------------------------------------------------- */

TEST_IN(kernel_shows_what_became_of_an_interface)
{
    unsigned tag = (unsigned)getpid() % 100000;
    pid_t pid = netns_process_start();
    if (pid == 0) {
        skip(); /* qemu-user makes none; where nobody can, test_probe.c fails */
    }
    assert_true(scratch_run("ip link add pn%u type veth peer name eth0 netns %d", tag, (int)pid));
    pid_t child = netns_process_start();
    assert_true(pod_net_open("", "no-such-sandbox", pid, "", &w->net));
    w->net.links[0].ends.count = 1; /* as CNI's result has it */
    text_format(w->net.links[0].ends.each[0], POD_NET_NAME_BYTES, "pn%u", tag);
    assert_int_equal(look_here(w), POD_NET_WHOLE);
    assert_true(scratch_run("nsenter -t %d -n ip link set eth0 up", (int)pid));
    assert_true(scratch_run("ip link set pn%u down", tag)); /* carrier is no evidence */
    assert_int_equal(look_here(w), POD_NET_WHOLE);
    assert_true(scratch_run("nsenter -t %d -n ip link set eth0 down", (int)pid));
    assert_true(scratch_run("nsenter -t %d -n ip link set eth0 name lan0", (int)pid));
    assert_int_equal(look_here(w), POD_NET_UNKNOWN);
    assert_true(scratch_run("nsenter -t %d -n ip link set lan0 name eth0", (int)pid));
    assert_true(scratch_run("nsenter -t %d -n ip link set eth0 netns %d", (int)pid, (int)child));
    assert_int_equal(look_here(w), POD_NET_AWAY); /* by the pod: its other end is there */
    assert_true(scratch_run("nsenter -t %d -n ip link set eth0 netns %d", (int)child, (int)pid));
    assert_int_equal(look_here(w), POD_NET_WHOLE);
    assert_true(scratch_run("ip link del pn%u", tag));
    assert_int_equal(look_here(w), POD_NET_LOST);
    assert_false(w->found.is_by_device);
    netns_process_kill(child);
    netns_process_kill(pid);
    assert_int_equal(look_here(w), POD_NET_UNSEEN);
}

/* CRI-O's: no process is in it, and a file holds it. */
TEST_IN(namespace_without_a_process_is_looked_at_by_its_path)
{
    char path[POD_NET_PATH_BYTES];
    struct stat before;
    struct stat after;
    pid_t pid = netns_process_start();
    if (pid == 0) {
        skip(); /* the same */
    }
    assert_true(
        scratch_run("nsenter -t %d -n ip link add eth0 type veth peer name other", (int)pid));
    text_format(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    assert_int_equal(stat("/proc/self/ns/net", &before), 0);
    assert_true(pod_net_open("", "no-such-sandbox", 0, path, &w->net));
    assert_int_equal(look_here(w), POD_NET_WHOLE);
    assert_string_equal(w->found.words, "");
    assert_true(scratch_run("nsenter -t %d -n ip link del eth0", (int)pid));
    assert_int_equal(look_here(w), POD_NET_LOST);
    assert_int_equal(stat("/proc/self/ns/net", &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* back at home */
    w->net.place.netns_inode++;
    assert_int_equal(look_here(w), POD_NET_UNSEEN); /* another one at its path */
    netns_process_kill(pid);
    assert_int_equal(look_here(w), POD_NET_UNSEEN);
}
