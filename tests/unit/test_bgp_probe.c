/* SPDX-License-Identifier: Apache-2.0 */
/* FRR's bgpd, asked on its own socket: what it says, and servers that answer well, badly and never.
 */
#include "probe/bgp_probe.c" /* nobody else calls it */

#include "tests/support/case.h"
#include "tests/unit/probe_world.h"

#include <sys/un.h>

#define PEER(name, state) "\"" name "\":{\"state\":\"" state "\",\"pfxRcd\":1}"
#define V4(peers)         "\"ipv4Unicast\":{\"as\":65001,\"peers\":{" peers "}}"
#define V6(peers)         "\"ipv6Unicast\":{\"peers\":{" peers "}}"

TEST(peers_are_counted_whatever_their_address_families)
{
    static const struct {
        const char *text;
        int64_t least;
        const char *words; /* NULL: passes */
    } rows[] = {
        {"{" V4(PEER("p0", "Established")) "}\n", 0, NULL},
        {"{" V4(PEER("p0", "Established") "," PEER("p1", "Established")) "}", 0, NULL},
        {"{" V4(PEER("p0", "Active") "," PEER("p1", "Established")) "}", 0,
         "1 of 2 BGP peers is established, but not 'p0'"},
        {"{" V4(PEER("p0", "Active") "," PEER("p1", "Established")) "}", 1, NULL},
        {"{" V4(PEER("p0", "Idle (Admin)")) "}", 1,
         "0 of 1 BGP peers are established, but not 'p0'"},
        {"{" V4(PEER("p0", "Established")) "}", 2, "1 of 1 BGP peers is established"},
        {"{" V4(PEER("p0", "NoNeg")) "," V6(PEER("p0", "Established")) "}", 0, NULL},
        {"{" V4(PEER("p0", "Established")) "," V6(PEER("p0", "NoNeg")) "}", 0, NULL},
        {"{" V4(PEER("p0", "Established")) "," V6(PEER("p1", "Connect")) "}", 0, "not 'p1'"},
        {"{}", 0, "0 of 0 BGP peers are established"},
        {"{}", 1, "0 of 0 BGP peers are established"},
        {"{\"warning\":\"Default BGP instance not found\"}", 0, "0 of 0"},
        {"{" V4("\"p0\":7") "}", 0, "not 'p0'"},
        {"{\"ipv4Unicast\":[]}", 0, "0 of 0"},
        {"% Unknown command: show bgp", 0,
         "does not list BGP peers: '% Unknown command: show bgp'"},
        {"[]", 0, "does not list"},
        {"", 0, "does not list"},
        {"{" V4(PEER("a\\u0001b", "Idle")) "}", 0, "not 'a b'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct probe_answer got =
            bgp_judge(rows[i].text, strlen(rows[i].text), rows[i].least);
        if (got.outcome != (rows[i].words ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].words && !strstr(got.words, rows[i].words))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(got.outcome), got.words);
        }
    }
}

/* The stand-in's answer, with the end of it, or without. */
static void serve(struct world *w, const char *text, bool has_its_end, bool hangs_up)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[SCRATCH_PATH_BYTES];
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/bgpd.vty", w->dir);
    (void)snprintf(name, sizeof(name), "least=1;bgp:%s", address.sun_path);
    (void)unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    struct peer peer = {.left = 1};
    peer_open(w, &peer, listener);
    probe_world_start(w, name, 3600 * NS_PER_SEC, 300 * NS_PER_MS);
    while (peer.heard_len == 0 && w->runs == 0) {
        ev_run(w->loop, EVRUN_ONCE);
    }
    assert_memory_equal(peer.heard, COMMAND, sizeof(COMMAND));
    size_t len = strlen(text);
    assert_int_equal(send(peer.ready.fd, text, len / 2, 0), len / 2);
    ev_run(w->loop, EVRUN_NOWAIT);
    assert_int_equal(send(peer.ready.fd, text + len / 2, len - len / 2, 0), len - len / 2);
    if (has_its_end) {
        assert_int_equal(send(peer.ready.fd, "\0\0\0", 4, 0), 4);
    }
    if (hangs_up) {
        peer_hang_up(w->loop, &peer);
    }
    probe_world_await(w, 1, PROBE_UNKNOWN);
    peer_close(w, &peer);
}

TEST_IN(an_answer_ends_with_its_status)
{
    static const char well[] = "{" V4(PEER("p0", "Established")) "}";
    serve(w, well, true, false);
    assert_int_equal(w->outcome, PROBE_PASSED);
    serve(w, "% nonsense", true, true);
    assert_int_equal(w->outcome, PROBE_WRONG);
    serve(w, well, false, true);
    assert_int_equal(w->outcome, PROBE_REFUSED);
    assert_non_null(strstr(w->words, "closed without an answer"));
    serve(w, well, false, false);
    assert_int_equal(w->outcome, PROBE_SILENT);
    assert_non_null(strstr(w->words, "no answer to '" COMMAND "'"));
}

TEST_IN(a_bgpd_that_is_not_there_is_missing)
{
    char name[SCRATCH_PATH_BYTES];
    (void)snprintf(name, sizeof(name), "bgp:%s/bgpd.vty", w->dir);
    probe_world_start(w, name, 3600 * NS_PER_SEC, NS_PER_SEC);
    assert_int_equal(w->outcome, PROBE_MISSING);
    struct err e = ERR_INIT;
    assert_int_equal(probe_world_parse(w, "bgp:bgpd.vty", NS_PER_SEC, NS_PER_SEC, &e), ERR_PARSE);
    assert_non_null(strstr(e.msg, "must begin with '/'"));
}
