/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a runtime, and a directory with one plugin in it: for the tests of the gate's modules.
 */
#ifndef TESTS_UNIT_CNI_BENCH_H
#define TESTS_UNIT_CNI_BENCH_H

#include "base/mem.h"
#include "cni/protocol.h"
#include "tests/support/case.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct world {
    char dir[64];
    char plugin[80];
};

static inline void world_make(struct world *w)
{
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/test-delegate.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->plugin, sizeof(w->plugin), "%s/plugin", w->dir);
}

static inline void world_remove(struct world *w)
{
    (void)unlink(w->plugin); /* some tests have none, */
    (void)rmdir(w->plugin);  /* or a directory */
    assert_int_equal(rmdir(w->dir), 0);
}

static inline void write_plugin(const struct world *w, const char *script)
{
    FILE *file = fopen(w->plugin, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\n%s\n", script) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(w->plugin, 0755), 0);
}

/* A file with `text`, to be read from its start. */
static inline int file_of(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static inline void cleanup_call(struct cni_call *c)
{
    cni_call_fini(c);
}

/* Makes all checks up to the options; returns the code of the first error. */
static inline int open_call(struct cni_call *c, enum cni_verb verb, const char *text)
{
    CLEANUP(fd) int fd = file_of(text);
    *c = (struct cni_call){.verb = verb};
    int code = conf_read(c, fd);
    code = code == 0 ? conf_check_version(c) : code;
    code = code == 0 ? conf_read_options(c) : code;
    assert_int_equal(code, c->code);
    return code;
}

#endif
