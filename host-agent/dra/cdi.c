/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/cdi.h"

#include "base/cleanup.h"
#include "json/json_text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void cdi_make_id(const struct cdi_spec *spec, char out[static CDI_ID_BYTES])
{
    (void)snprintf(out, CDI_ID_BYTES, "%s/dpu=%s", spec->driver, spec->device); /* 63 + 5 + 63 */
}

/* Returns owned, or NULL when out of memory. */
static json_t *build(const struct cdi_spec *spec)
{
    char kind[CDI_ID_BYTES];
    char device[CDI_ID_BYTES];
    char node[300];
    (void)snprintf(kind, sizeof(kind), "%s/dpu", spec->driver);            /* 63 + 4 */
    (void)snprintf(device, sizeof(device), "DPU_DEVICE=%s", spec->device); /* 11 + 63 */
    (void)snprintf(node, sizeof(node), "DPU_NODE=%s", spec->node_name);    /* 9 + 253 */
    json_t *edits = json_pack("{s:[s,s],s:[{s:s,s:s,s:[s,s]}]}", "env", device, node, "mounts",
                              "hostPath", spec->readiness_dir, "containerPath", spec->readiness_dir,
                              "options", "ro", "rbind");
    return json_pack("{s:s,s:s,s:[{s:s,s:o}]}", "cdiVersion", "0.6.0", "kind", kind, "devices",
                     "name", spec->device, "containerEdits", edits);
}

static int write_all(int fd, const char *text, const char *path, struct err *e)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        ssize_t n = write(fd, text + at, len - at);
        if (n < 0 && errno != EINTR) {
            return err_set_errno(e, ERR_IO, errno, "writing '%s'", path);
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int cdi_write(const struct cdi_spec *spec, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    /* Runtimes read *.json and *.yaml: the temporary name is neither. */
    if (snprintf(path, sizeof(path), "%s/%s-%s.json", dir, spec->driver, spec->device) >=
            (int)sizeof(path) ||
        snprintf(temporary, sizeof(temporary), "%s/.%s-%s.XXXXXX", dir, spec->driver,
                 spec->device) >= (int)sizeof(temporary)) {
        return err_set(e, ERR_LIMIT, "CDI directory '%s' has too long a path", dir);
    }
    CLEANUP(json) json_t *json = build(spec);
    CLEANUP(free) char *text = json ? json_text_dump(json) : NULL;
    if (!text) {
        return err_set(e, ERR_NOMEM, "out of memory for a CDI specification");
    }
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) { /* as runtimes make it: to be read by all */
        return err_set_errno(e, ERR_IO, errno, "making directory '%s'", dir);
    }
    CLEANUP(fd) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0644) != 0) { /* no secret in it; runtimes may not be root */
        return err_set_errno(e, ERR_IO, errno, "making '%s'", temporary);
    }
    int rc = write_all(fd, text, temporary, e);
    if (rc == 0 && rename(temporary, path) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "renaming '%s' to '%s'", temporary, path);
    }
    if (rc != 0) {
        (void)unlink(temporary); /* the first error is the one to tell */
    }
    return rc;
}
