/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_cred.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"

#include <fcntl.h>
#include <string.h>

#define REREAD_NS      (60 * NS_PER_SEC)
#define WARN_EXPIRY_NS (NS_PER_SEC * 6 * 3600)

static const char *file_of(const struct kube_conf *conf, enum kube_secret which)
{
    switch (which) {
    case KUBE_SECRET_TOKEN:
        return conf->token ? NULL : conf->token_file;
    case KUBE_SECRET_CA:
        return conf->ca_pem ? NULL : conf->ca_file;
    case KUBE_SECRET_CERT:
        return conf->client_cert_pem ? NULL : conf->client_cert_file;
    case KUBE_SECRET_KEY:
        return conf->client_key_pem ? NULL : conf->client_key_file;
    case KUBE_SECRETS:
        break;
    }
    return NULL;
}

static const char *data_of(const struct kube_conf *conf, enum kube_secret which)
{
    switch (which) {
    case KUBE_SECRET_TOKEN:
        return conf->token;
    case KUBE_SECRET_CA:
        return conf->ca_pem;
    case KUBE_SECRET_CERT:
        return conf->client_cert_pem;
    case KUBE_SECRET_KEY:
        return conf->client_key_pem;
    case KUBE_SECRETS:
        break;
    }
    return NULL;
}

static int read_secret(const char *path, struct buf *out, struct stat *out_identity, struct err *e)
{
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, out_identity) != 0) {
        return err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
    }
    int rc = file_read_fd(fd, path, out, e);
    if (rc != 0) {
        return rc;
    }
    while (out->len > 0 && strchr(" \t\r\n", out->data[out->len - 1])) {
        out->data[--out->len] = '\0'; /* a token file may end in a newline */
    }
    return out->len > 0 ? 0 : err_set(e, ERR_IO, "'%s' is empty", path);
}

static void wipe(struct buf *b)
{
    if (b->data) {
        explicit_bzero(b->data, b->capacity);
    }
    buf_fini(b);
}

static bool same_identity(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Replaces one secret by its file's content; *out_changed tells if it differs. */
static int load(struct kube_cred *cred, enum kube_secret which, bool *out_changed, struct err *e)
{
    struct buf fresh;
    struct stat identity;
    buf_init(&fresh, KUBE_SECRET_MAX_BYTES);
    int rc = read_secret(file_of(cred->conf, which), &fresh, &identity, e);
    if (rc != 0) {
        wipe(&fresh);
        return rc;
    }
    cred->identity[which] = identity;
    if (text_equal(buf_text(&fresh), buf_text(&cred->content[which]))) {
        wipe(&fresh);
        return 0;
    }
    wipe(&cred->content[which]);
    cred->content[which] = fresh;
    cred->tls_changed |= which != KUBE_SECRET_TOKEN;
    *out_changed = true;
    return 0;
}

int kube_cred_init(struct kube_cred *cred, struct kube_conf *conf, struct mono now, struct err *e)
{
    bool changed;
    int rc = 0;
    *cred = (struct kube_cred){.conf = conf, .read_at = now};
    if (conf->path && stat(conf->path, &cred->conf_identity) != 0) {
        return err_set_errno(e, ERR_IO, errno, "reading kubeconfig '%s'", conf->path);
    }
    for (int i = 0; rc == 0 && i < KUBE_SECRETS; i++) {
        enum kube_secret which = (enum kube_secret)i;
        const char *data = data_of(conf, which);
        buf_init(&cred->content[i], KUBE_SECRET_MAX_BYTES);
        if (data) {
            rc = buf_append_text(&cred->content[i], data, e);
        } else if (file_of(conf, which)) {
            rc = load(cred, which, &changed, e);
        }
    }
    cred->tls_changed = false;
    if (rc != 0) {
        kube_cred_fini(cred);
    }
    return rc;
}

void kube_cred_fini(struct kube_cred *cred)
{
    for (int i = 0; i < KUBE_SECRETS; i++) {
        wipe(&cred->content[i]);
    }
}

bool kube_cred_expiry(const struct kube_cred *cred, struct kube_expiry *out)
{
    const struct buf *token = &cred->content[KUBE_SECRET_TOKEN];
    const struct buf *pem = &cred->content[KUBE_SECRET_CERT];
    struct kube_expiry certificate;
    bool has_token = token->len > 0 && kube_expiry_of_token(token->data, token->len, out);
    if (pem->len == 0 || !kube_expiry_of_certificate(pem->data, pem->len, &certificate)) {
        return has_token;
    }
    if (!has_token || wall_since(out->until, certificate.until) > 0) {
        *out = certificate;
    }
    return true;
}

static void warn_of_expiry(struct kube_cred *cred, struct mono now)
{
    struct kube_expiry expiry;
    struct wall wall = clock_wall_now();
    char until[RFC3339_BYTES];
    if (!kube_cred_expiry(cred, &expiry) || !kube_expiry_is_near(&expiry, wall)) {
        log_repeat_reset(&cred->expiry_warnings);
    } else if (log_repeat_due(&cred->expiry_warnings, now, WARN_EXPIRY_NS)) {
        rfc3339_format_seconds(expiry.until, until);
        log_warn("kube", "%s: the credential %s out at %s: renew it",
                 cred->conf->origin ? cred->conf->origin : "configuration",
                 wall_since(expiry.until, wall) > 0 ? "runs" : "ran", until);
    }
}

/* Takes over a kubeconfig that says something else, with all that it names, or nothing of it. */
static int reload(struct kube_cred *cred, struct mono now, bool *out_changed, struct err *e)
{
    struct kube_conf conf;
    struct kube_cred fresh;
    int rc = kube_conf_load_context(cred->conf->path, cred->conf->context, &conf, e);
    if (rc != 0) {
        return rc;
    }
    if (kube_conf_equal(&conf, cred->conf)) {
        kube_conf_fini(&conf);
        return 0;
    }
    rc = kube_cred_init(&fresh, &conf, now, e);
    if (rc != 0) {
        kube_conf_fini(&conf);
        return rc;
    }
    kube_conf_fini(cred->conf);
    *cred->conf = conf;
    for (int i = 0; i < KUBE_SECRETS; i++) {
        wipe(&cred->content[i]);
        cred->content[i] = fresh.content[i];
        cred->identity[i] = fresh.identity[i];
    }
    cred->tls_changed = true;
    *out_changed = true;
    return 0;
}

/* `all`: even if it looks unchanged. */
static bool refresh_conf(struct kube_cred *cred, struct mono now, bool all)
{
    bool changed = false;
    const char *path = cred->conf->path;
    struct stat identity;
    struct err e = ERR_INIT;
    if (!path || !S_ISREG(cred->conf_identity.st_mode)) {
        return false;
    }
    if (stat(path, &identity) == 0) {
        if ((!all && same_identity(&identity, &cred->conf_identity)) ||
            !S_ISREG(identity.st_mode)) {
            return false;
        }
        cred->conf_identity = identity;
    } else if (!all) {
        return false;
    }
    if (reload(cred, now, &changed, &e) == 0) {
        if (changed || cred->conf_is_broken) {
            log_info("kube", "%s was read again%s", cred->conf->origin,
                     changed ? "" : ": it says what it said before");
        }
        cred->conf_is_broken = false;
    } else if (all && !cred->conf_is_broken) {
        log_warn("kube", "%s, continuing with what was read before", e.msg);
        cred->conf_is_broken = true;
    }
    return changed;
}

/* A pipe says it once, and opening one may wait for ever. */
static bool is_to_be_read(const char *path, const struct stat *known, bool all)
{
    struct stat identity;
    if (!path) {
        return false;
    }
    return stat(path, &identity) != 0
               ? all
               : S_ISREG(identity.st_mode) && (all || !same_identity(&identity, known));
}

bool kube_cred_refresh(struct kube_cred *cred, struct mono now, bool force)
{
    bool all = force || mono_since(now, cred->read_at) >= REREAD_NS;
    bool changed = refresh_conf(cred, now, all);
    for (int i = 0; i < KUBE_SECRETS; i++) {
        enum kube_secret which = (enum kube_secret)i;
        struct err e = ERR_INIT;
        if (!is_to_be_read(file_of(cred->conf, which), &cred->identity[i], all) ||
            load(cred, which, &changed, &e) == 0) {
            continue;
        }
        struct log_repeat *complaint = &cred->complaints[i];
        if (all && log_repeat_due(complaint, now, REREAD_NS)) {
            log_warn("kube", "%s, continuing with what was read before%s", e.msg, complaint->more);
        }
    }
    if (all) {
        cred->read_at = now;
        warn_of_expiry(cred, now);
    }
    return changed;
}

const struct buf *kube_cred_get(const struct kube_cred *cred, enum kube_secret which)
{
    return cred->content[which].len > 0 ? &cred->content[which] : NULL;
}
