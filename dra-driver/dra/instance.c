/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/instance.h"

#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PREFIX NAMES_DRA_INSTANCE
#define SUFFIX ".lock"

enum { ENTRIES_MAX = 4096 /* looked at; a node has one or two instances of a driver */ };

/* ---- notes ----------------------------------------------------------------------------------- */

int instance_note(int lock_fd, const char *text, struct err *e)
{
    size_t len = strlen(text);
    if (ftruncate(lock_fd, 0) != 0 || pwrite(lock_fd, text, len, 0) != (ssize_t)len) {
        return err_set_errno(e, ERR_IO, errno, "writing '%.64s' into a lock file", text);
    }
    return 0;
}

bool instance_is_noted(const char *lock_path, const char *text)
{
    CLEANUP(buf) struct buf found = {.max_bytes = PATH_MAX};
    return file_read(lock_path, &found, NULL) == 0 && text_equal(buf_text(&found), text);
}

/* ---- ourselves ------------------------------------------------------------------------------- */

int instance_init(struct instance *i, const char *plugin_dir, const char *uid, struct err *e)
{
    char name[sizeof("/" PREFIX SUFFIX) + INSTANCE_UID_MAX];
    if (strlen(uid) > INSTANCE_UID_MAX) {
        return err_set(e, ERR_LIMIT, "the UID '%.40s...' has more than %d bytes", uid,
                       INSTANCE_UID_MAX);
    }
    text_format(name, sizeof(name), "/" PREFIX "%s" SUFFIX, uid);
    int rc = file_lock_init(&i->lock, plugin_dir, name, e);
    i->name = strrchr(i->lock.path, '/') + 1;
    return rc;
}

int instance_begin(struct instance *i, struct err *e)
{
    int rc = file_lock_take(&i->lock, e);
    return rc == 0 ? instance_note(i->lock.fd, "", e) : rc;
}

int instance_say_registered(const struct instance *i, struct err *e)
{
    return instance_note(i->lock.fd, NAMES_DRA_REGISTERED, e);
}

void instance_end(struct instance *i)
{
    if (file_lock_is_ours(&i->lock)) {
        (void)unlink(i->lock.path); /* else whoever finds it proves that it is free */
    }
    file_lock_release(&i->lock);
}

/* ---- others ---------------------------------------------------------------------------------- */

/* The directory that they share, as the path of our lock has it. */
static void name_directory(const struct instance *i, char out[static PATH_MAX])
{
    text_format(out, PATH_MAX, "%.*s", (int)(i->name - i->lock.path), i->lock.path);
}

/* The next other instance in the directory, and a lock on its file that is not taken yet. */
static bool next_other(const struct instance *i, DIR *dir, struct file_lock *out_lock,
                       char out_uid[static INSTANCE_UID_MAX + 1])
{
    const size_t around = strlen(PREFIX) + strlen(SUFFIX);
    const struct dirent *entry;
    for (int seen = 0; seen < ENTRIES_MAX && (entry = readdir(dir)); seen++) {
        const char *name = entry->d_name;
        size_t len = strlen(name);
        if (len <= around || len > around + INSTANCE_UID_MAX || text_equal(name, i->name) ||
            strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
            !text_equal(name + len - strlen(SUFFIX), SUFFIX)) {
            continue;
        }
        char path[PATH_MAX];
        name_directory(i, path);
        text_format(out_uid, INSTANCE_UID_MAX + 1, "%.*s", (int)(len - around),
                    name + strlen(PREFIX));
        if (file_lock_init(out_lock, path, name, NULL) == 0) {
            return true;
        }
    }
    return false;
}

static DIR *open_directory(const struct instance *i)
{
    char path[PATH_MAX];
    name_directory(i, path);
    return opendir(path);
}

enum instance_others instance_look(const struct instance *i)
{
    char uid[INSTANCE_UID_MAX + 1];
    struct file_lock lock;
    enum instance_others found = INSTANCE_ALONE;
    CLEANUP(dir) DIR *dir = open_directory(i);
    while (dir && found != INSTANCE_SUCCEEDED && next_other(i, dir, &lock, uid)) {
        if (file_lock_take(&lock, NULL) == ERR_CONFLICT) {
            found = instance_is_noted(lock.path, NAMES_DRA_REGISTERED) ? INSTANCE_SUCCEEDED
                                                                       : INSTANCE_BESIDE;
        }
        file_lock_release(&lock);
    }
    return found;
}

void instance_find_dead(const struct instance *i, instance_dead_fn *remove, void *user)
{
    char uid[INSTANCE_UID_MAX + 1];
    struct file_lock lock;
    CLEANUP(dir) DIR *dir = open_directory(i);
    while (dir && next_other(i, dir, &lock, uid)) {
        if (file_lock_take(&lock, NULL) == 0 && remove(user, uid)) {
            (void)unlink(lock.path); /* else the next look does it */
        }
        file_lock_release(&lock);
    }
}

bool instance_remove_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || !text_copy(address.sun_path, sizeof(address.sun_path), path)) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
        (errno != ECONNREFUSED && errno != ENOENT)) {
        return false;
    }
    return unlink(path) == 0 || errno == ENOENT;
}
