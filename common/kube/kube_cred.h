/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of a kube_conf, read from their files and kept up to date; so is the kubeconfig
 * itself, because platforms put a token into it and write it anew.
 *
 * Files are opened by path each time, so a symlink swap counts; they are re-read when their
 * identity (device, inode, size, times) changes and at least once a minute. A file that is empty,
 * malformed or unreadable meanwhile leaves the old content in force: rotation is not atomic
 * everywhere. A kubeconfig that is no regular file (a pipe) is read once.
 */
#ifndef KUBE_KUBE_CRED_H
#define KUBE_KUBE_CRED_H

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/kube_conf.h"
#include "kube/kube_expiry.h"

#include <sys/stat.h>

enum kube_secret {
    KUBE_SECRET_TOKEN,
    KUBE_SECRET_CA,
    KUBE_SECRET_CERT,
    KUBE_SECRET_KEY,
    KUBE_SECRETS
};

struct kube_cred {
    struct kube_conf *conf; /* borrowed; its content is replaced by what a new kubeconfig says */
    struct stat conf_identity;
    bool conf_is_broken; /* said so */
    struct buf content[KUBE_SECRETS];
    struct stat identity[KUBE_SECRETS];
    struct mono read_at;
    struct log_repeat complaints[KUBE_SECRETS];
    struct log_repeat expiry_warnings;
    bool tls_changed; /* CA, certificate, key or kubeconfig differ since this was last cleared */
};

/* Reads everything once. Errors: ERR_IO naming the file, ERR_LIMIT, ERR_NOMEM. */
NODISCARD int kube_cred_init(struct kube_cred *cred, struct kube_conf *conf, struct mono now,
                             struct err *e);
void kube_cred_fini(struct kube_cred *cred); /* wipes */

/* Re-reads what changed; `force` re-reads all. True if anything differs from before. Problems are
 * logged at most once a minute each (a kubeconfig's once) and leave the old content in force; a
 * credential that is about to run out, every six hours. */
bool kube_cred_refresh(struct kube_cred *cred, struct mono now, bool force);

/* Of token and client certificate the one that runs out first. False if neither says when. */
bool kube_cred_expiry(const struct kube_cred *cred, struct kube_expiry *out);

/* NULL if there is none. Borrowed until the next refresh. */
const struct buf *kube_cred_get(const struct kube_cred *cred, enum kube_secret which);

#endif
