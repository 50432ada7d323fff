/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate_versions.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/*
 * A line of the file: "1 DEVICE INODE SIZE MTIME CTIME PATH", with 0 for one that does not know
 * STATUS. What follows the first character is an identity; they are compared as they are.
 */
enum { FIELDS_BEFORE_PATH = 6 };

void delegate_versions_identify(const char *file, struct delegate_identity *out)
{
    struct stat s;
    out->text[0] = '\0';
    if (stat(file, &s) == 0 && !strchr(file, '\n')) {
        text_format(out->text, sizeof(out->text), " %ju %ju %jd %jd.%09ld %jd.%09ld %s\n",
                    (uintmax_t)s.st_dev, (uintmax_t)s.st_ino, (intmax_t)s.st_size,
                    (intmax_t)s.st_mtim.tv_sec, s.st_mtim.tv_nsec, (intmax_t)s.st_ctim.tv_sec,
                    s.st_ctim.tv_nsec, file);
    }
}

static bool path_beside(const char *readiness_file, char out[static PATH_MAX])
{
    const char *slash = strrchr(readiness_file, '/');
    int size = slash ? snprintf(out, PATH_MAX, "%.*s/" DELEGATE_VERSIONS_NAME,
                                (int)(slash - readiness_file), readiness_file)
                     : PATH_MAX;
    return size < PATH_MAX;
}

/* The text of a memory that only we can have written; "" if there is none. */
static void load(const char *path, struct buf *out)
{
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return;
    }
    if (file_read_fd(fd, path, out, NULL) != 0) {
        buf_clear(out); /* larger than any of ours */
    }
}

bool delegate_versions_recall(const char *readiness_file, const struct delegate_identity *id,
                              bool *out)
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text;
    buf_init(&text, DELEGATE_VERSIONS_MAX_BYTES);
    if (id->text[0] == '\0' || !path_beside(readiness_file, path)) {
        return false;
    }
    load(path, &text);
    const char *line = buf_text(&text);
    for (const char *end = strchr(line, '\n'); end; line = end + 1, end = strchr(line, '\n')) {
        if ((line[0] == '0' || line[0] == '1') &&
            strncmp(line + 1, id->text, strlen(id->text)) == 0) {
            *out = line[0] == '1';
            return true;
        }
    }
    return false;
}

/* Of a line, or of an identity. */
static const char *path_in(const char *line)
{
    for (int i = 0; line && i < FIELDS_BEFORE_PATH; i++) {
        line = strpbrk(line, " \n");
        line = line && *line == ' ' ? line + 1 : NULL;
    }
    return line;
}

/* The lines of `old` that are about other programs, as many as there is room for. */
static int append_others(struct buf *out, const char *old, const char *path)
{
    size_t path_len = strcspn(path, "\n") + 1;
    size_t kept = 1;
    const char *line = old;
    for (const char *end = strchr(line, '\n'); end && kept < DELEGATE_VERSIONS_ENTRIES;
         line = end + 1, end = strchr(line, '\n')) {
        const char *its_path = path_in(line);
        if (its_path && its_path < end && strncmp(its_path, path, path_len) != 0) {
            if (buf_append(out, line, (size_t)(end + 1 - line), NULL) != 0) {
                return -1;
            }
            kept++;
        }
    }
    return 0;
}

void delegate_versions_keep(const char *readiness_file, const struct delegate_identity *id,
                            bool knows_status)
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf old;
    CLEANUP(buf) struct buf text;
    buf_init(&old, DELEGATE_VERSIONS_MAX_BYTES);
    buf_init(&text, DELEGATE_VERSIONS_MAX_BYTES);
    if (id->text[0] == '\0' || !path_beside(readiness_file, path)) {
        return;
    }
    load(path, &old);
    if (buf_append_text(&text, knows_status ? "1" : "0", NULL) != 0 ||
        buf_append_text(&text, id->text, NULL) != 0 ||
        append_others(&text, buf_text(&old), path_in(id->text)) != 0 ||
        file_replace(path, text.data, text.len, S_IRUSR | S_IWUSR, NULL) != 0) {
        return; /* it is asked again next time */
    }
}
