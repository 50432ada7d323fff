/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bgp:/PATH: asks FRR's bgpd on its own socket, as vtysh does, for a summary of its peers. A
 * command and its NUL go there; text comes back, then three NULs and a status, 0 for success. No
 * shell and no program of FRR's is needed, which an image may lack.
 */
#include "probe/probe_set.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COMMAND "show bgp summary json"

/* Some hundred bytes a peer and address family. */
enum { ANSWER_BYTES = 512 << 10, END_BYTES = 4, SHOWN_BYTES = 60 };

/* ---- what it says ---------------------------------------------------------------------------- */

/* Each peer once, whatever the address families: whether it is established in one of them. Owned.
 */
static json_t *collect_peers(json_t *families)
{
    json_t *peers = json_object();
    const char *family_name;
    const char *name;
    json_t *family;
    json_t *peer;
    json_object_foreach(families, family_name, family)
    {
        json_object_foreach(json_object_get(family, "peers"), name, peer)
        {
            const char *state = json_string_value(json_object_get(peer, "state"));
            bool is_well =
                text_equal(state, "Established") || json_is_true(json_object_get(peers, name));
            (void)json_object_set_new(peers, name, json_boolean(is_well));
        }
    }
    return peers;
}

/* Whether all peers are established, or at least so many (0: all). `text`: bgpd's answer, with a
 * terminator behind it. */
static struct probe_answer bgp_judge(const char *text, size_t len, int64_t least)
{
    CLEANUP(json) json_t *families = json_loadb(text, len, 0, NULL);
    char shown[SHOWN_BYTES];
    char first[SHOWN_BYTES] = "";
    int64_t well = 0;
    const char *name;
    json_t *is_well;
    text_sanitize(shown, sizeof(shown), text, len);
    if (!json_is_object(families)) {
        return probe_answer_make(PROBE_WRONG, "what answers does not list BGP peers: '%s'", shown);
    }
    CLEANUP(json) json_t *peers = collect_peers(families);
    json_object_foreach(peers, name, is_well)
    {
        well += json_is_true(is_well);
        if (!json_is_true(is_well) && !first[0]) {
            text_sanitize(first, sizeof(first), name, strlen(name));
        }
    }
    int64_t count = (int64_t)json_object_size(peers);
    if (count > 0 && well >= (least > 0 ? least : count)) {
        return (struct probe_answer){.outcome = PROBE_PASSED};
    }
    return probe_answer_make(PROBE_WRONG, "%lld of %lld BGP peers %s established%s%s%s",
                             (long long)well, (long long)count, well == 1 ? "is" : "are",
                             first[0] ? ", but not '" : "", first, first[0] ? "'" : "");
}

/* ---- how it is asked ------------------------------------------------------------------------- */

struct bgp_probe {
    struct probe probe;
    ev_io ready; /* fd -1: no run */
    size_t len;
    char answer[ANSWER_BYTES];
};

static const char *bgp_stop(struct probe *probe)
{
    struct bgp_probe *p = (struct bgp_probe *)probe;
    if (p->ready.fd >= 0) {
        ev_io_stop(probe->loop, &p->ready);
        (void)close(p->ready.fd); /* nothing more is wanted of it */
        ev_io_set(&p->ready, -1, EV_READ);
    }
    return COMMAND;
}

/* All is there. */
static bool has_end(const struct bgp_probe *p)
{
    return p->len >= END_BYTES && memcmp(p->answer + p->len - END_BYTES, "\0\0", 3) == 0;
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
    struct bgp_probe *p = w->data;
    ssize_t got = recv(w->fd, p->answer + p->len, sizeof(p->answer) - p->len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    p->len += got > 0 ? (size_t)got : 0;
    if (has_end(p)) {
        probe_end(&p->probe, bgp_judge(p->answer, p->len - END_BYTES, p->probe.spec.at_least));
    } else if (got <= 0) {
        probe_end(&p->probe, probe_answer_make(PROBE_REFUSED, "the connection was closed without "
                                                              "an answer to '" COMMAND "'"));
    } else if (p->len == sizeof(p->answer)) {
        probe_end(&p->probe, probe_answer_make(PROBE_WRONG,
                                               "the answer to '" COMMAND "' has more than %d bytes",
                                               ANSWER_BYTES));
    }
}

static void bgp_start(struct probe *probe)
{
    struct bgp_probe *p = (struct bgp_probe *)probe;
    int fd;
    const struct probe_answer answer = unix_connect(probe->spec.target, &fd);
    if (answer.outcome != PROBE_PASSED) {
        probe_end(probe, answer);
        return;
    }
    p->len = 0;
    ev_io_set(&p->ready, fd, EV_READ);
    ev_io_start(probe->loop, &p->ready);
    /* A fresh socket takes so little at once; a closed one shows when it is read. */
    (void)send(fd, COMMAND, sizeof(COMMAND), MSG_NOSIGNAL);
}

static int bgp_init(struct probe *probe, struct err *e)
{
    struct bgp_probe *p = (struct bgp_probe *)probe;
    ev_io_init(&p->ready, on_ready, -1, EV_READ);
    p->ready.data = p;
    return probe_method_unix.init(probe, e); /* the path */
}

const struct probe_method probe_method_bgp = {
    .bytes = sizeof(struct bgp_probe), .init = bgp_init, .start = bgp_start, .stop = bgp_stop};
