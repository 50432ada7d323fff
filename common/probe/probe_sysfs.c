/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_sysfs.h"

#include "base/mem.h"
#include "base/text.h"
#include "probe/probe_spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sysfs_probe {
    const char *what;
    char name[IFNAMSIZ + 8]; /* has room for either kind */
    char list[PATH_MAX];     /* the directory that all of the kind are in */
    char path[PATH_MAX];     /* there if it exists */
    char carrier[PATH_MAX];  /* to be read; "": it does not matter */
    probe_done_fn *done;
    void *user;
};

/* ---- a look ---------------------------------------------------------------------------------- */

static enum probe_outcome explain(const struct sysfs_probe *p, int error, char *words)
{
    bool is_gone =
        (error == ENOENT || error == ENOTDIR || error == ENODEV) && access(p->list, X_OK) == 0;
    if (is_gone) {
        text_format(words, PROBE_WORDS_BYTES, "there is no %s '%s'", p->what, p->name);
        return PROBE_MISSING;
    }
    text_format(words, PROBE_WORDS_BYTES, "'%s' cannot be looked at: %s", p->list,
                strerrordesc_np(error));
    return probe_outcome_is_our_lack(error) ? PROBE_UNABLE : PROBE_DENIED;
}

static enum probe_outcome look_at_carrier(const struct sysfs_probe *p, char *words)
{
    char digit;
    CLEANUP(fd) int fd = open(p->carrier, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, &digit, 1);
    if (got == 1 && digit == '1') {
        return PROBE_PASSED;
    }
    if (got < 0 && errno != EINVAL) {
        return explain(p, errno, words);
    }
    text_format(words, PROBE_WORDS_BYTES, "%s '%s' %s", p->what, p->name,
                got < 0 ? "is down" : "has no carrier");
    return PROBE_WRONG;
}

static void start(void *self)
{
    struct sysfs_probe *p = self;
    char words[PROBE_WORDS_BYTES] = "";
    enum probe_outcome outcome = PROBE_PASSED;
    if (access(p->path, F_OK) != 0) {
        outcome = explain(p, errno, words);
    } else if (p->carrier[0]) {
        outcome = look_at_carrier(p, words);
    }
    p->done(p->user, outcome, words);
}

static const char *cancel(void *self)
{
    (void)self; /* no run outlives its start */
    return NULL;
}

/* ---- what is looked at ----------------------------------------------------------------------- */

static bool is_netdev_name(const char *s)
{
    size_t len = strlen(s);
    return len > 0 && len < IFNAMSIZ && strcspn(s, "/: \t\n") == len && !text_equal(s, ".") &&
           !text_equal(s, "..");
}

/* `least` to `most` characters of a set, and the one that ends them. */
static bool skip_part(const char **s, const char *set, size_t least, size_t most, char end)
{
    size_t len = strspn(*s, set);
    if (len < least || len > most || (*s)[len] != end) {
        return false;
    }
    *s += len + 1;
    return true;
}

static bool is_pci_address(const char *s)
{
    static const char hex[] = "0123456789abcdef";
    return skip_part(&s, hex, 4, 8, ':') && skip_part(&s, hex, 2, 2, ':') &&
           skip_part(&s, hex, 2, 2, '.') && skip_part(&s, "01234567", 1, 1, '\0');
}

static bool put_path(char out[static PATH_MAX], const char *dir, const char *name, const char *file)
{
    return snprintf(out, PATH_MAX, "%s/%s%s", dir, name, file) < PATH_MAX;
}

static int check_target(const struct probe_spec *spec, struct err *e)
{
    if (spec->kind == PROBE_NETDEV) {
        return is_netdev_name(spec->target)
                   ? 0
                   : err_set(e, ERR_PARSE, "it is no name of a network interface");
    }
    return is_pci_address(spec->target)
               ? 0
               : err_set(e, ERR_PARSE, "it is no address as in /sys/bus/pci/devices, 0000:03:00.0");
}

static int create(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e)
{
    bool is_netdev = spec->kind == PROBE_NETDEV;
    const char *root = text_is_empty(spec->root) ? "" : spec->root;
    (void)loop;
    int rc = check_target(spec, e);
    if (rc != 0) {
        return rc;
    }
    CLEANUP(free) struct sysfs_probe *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    p->what = is_netdev ? "network interface" : "PCI function";
    p->done = done;
    p->user = user;
    text_format(p->name, sizeof(p->name), "%s", spec->target);
    if (!put_path(p->list, root, is_netdev ? "sys/class/net" : "sys/bus/pci/devices", "") ||
        !put_path(p->path, p->list, p->name, is_netdev ? "/ifindex" : "") ||
        (spec->wants_carrier && !put_path(p->carrier, p->list, p->name, "/carrier"))) {
        return err_set(e, ERR_LIMIT, "the path '%.100s...' is too long", root);
    }
    *out = TAKE(p);
    return 0;
}

const struct probe_method *probe_netdev_method(void)
{
    static const struct probe_method method = {.create = create,
                                               .start = start,
                                               .cancel = cancel,
                                               .destroy = free,
                                               .told_by = CHANGE_LINK};
    return &method;
}

const struct probe_method *probe_pci_method(void)
{
    static const struct probe_method method = {.create = create,
                                               .start = start,
                                               .cancel = cancel,
                                               .destroy = free,
                                               .told_by = CHANGE_DEVICE};
    return &method;
}
