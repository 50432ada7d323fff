/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/dra_checkpoint.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "json/json_text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CHECKPOINT_VERSION = 1 };

static json_t *entry_to_json(const struct dra_entry *entry)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I}", "driver", entry->driver, "pool", entry->pool,
                     "device", entry->device, "health", dra_health_name(entry->health), "message",
                     entry->message, "updatedBoottimeNs", (json_int_t)entry->updated.ns,
                     "timeoutNs", (json_int_t)entry->timeout_ns);
}

/* Returns owned, or NULL when out of memory. */
static json_t *to_json(const struct dra_cache *c, const char *boot_id)
{
    json_t *devices = json_array();
    for (size_t i = 0; devices && i < DRA_CACHE_DEVICES_MAX; i++) {
        if (c->entries[i].driver[0] != '\0' &&
            json_array_append_new(devices, entry_to_json(&c->entries[i])) != 0) {
            json_decref(devices);
            return NULL;
        }
    }
    return json_pack("{s:i,s:s,s:o}", "version", CHECKPOINT_VERSION, "bootId", boot_id, "devices",
                     devices);
}

static int write_text(const char *path, const char *text, struct err *e)
{
    size_t len = strlen(text);
    /* 0600: health messages are for the admin who asked. */
    CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || fsync(fd) != 0) {
        return err_set_errno(e, ERR_IO, errno, "writing '%s'", path);
    }
    return 0;
}

int dra_checkpoint_write(const struct dra_cache *c, const char *boot_id, const char *path,
                         struct err *e)
{
    char temporary[PATH_MAX];
    CLEANUP(json) json_t *json = to_json(c, boot_id);
    CLEANUP(free) char *text = json ? json_text_dump(json) : NULL;
    if (!text) {
        return err_set(e, ERR_NOMEM, "out of memory for a checkpoint");
    }
    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary)) {
        return err_set(e, ERR_LIMIT, "the path of the checkpoint is too long");
    }
    int rc = write_text(temporary, text, e);
    if (rc == 0 && rename(temporary, path) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "renaming '%s'", temporary);
    }
    if (rc != 0) {
        (void)unlink(temporary); /* the first error is the one to tell */
    }
    return rc;
}

/* Returns false if a member is missing, of another type or too long. */
static bool read_entry(const json_t *json, bool same_boot, struct dra_entry *out)
{
    const json_t *updated = json_object_get(json, "updatedBoottimeNs");
    const json_t *timeout = json_object_get(json, "timeoutNs");
    const char *driver = json_text_get(json, "driver");
    const char *pool = json_text_get(json, "pool");
    const char *device = json_text_get(json, "device");
    const char *message = json_text_get(json, "message");
    struct dra_entry entry = {.health = dra_health_from_name(json_text_get(json, "health"))};
    if (text_is_empty(driver) || !pool || !device || !message || !json_is_integer(updated) ||
        !json_is_integer(timeout) || json_integer_value(timeout) <= 0 ||
        !text_copy(entry.driver, sizeof(entry.driver), driver) ||
        !text_copy(entry.pool, sizeof(entry.pool), pool) ||
        !text_copy(entry.device, sizeof(entry.device), device) ||
        !text_copy(entry.message, sizeof(entry.message), message)) {
        return false;
    }
    entry.timeout_ns = json_integer_value(timeout);
    /* Another boot's clock says nothing about ours: older than anything. */
    entry.updated.ns = same_boot ? json_integer_value(updated) : INT64_MIN;
    *out = entry;
    return true;
}

int dra_checkpoint_parse(struct dra_cache *c, const char *boot_id, const char *text, size_t len,
                         struct err *e)
{
    CLEANUP(json) json_t *json = json_text_parse(text, len, DRA_CHECKPOINT_MAX_BYTES, e);
    size_t index;
    const json_t *item;
    *c = (struct dra_cache){.entries = {{.health = DRA_UNKNOWN}}};
    if (!json) {
        return err_wrap(e, "the checkpoint");
    }
    if (json_integer_value(json_object_get(json, "version")) != CHECKPOINT_VERSION) {
        return err_set(e, ERR_PARSE, "the checkpoint is not of version %d", CHECKPOINT_VERSION);
    }
    bool same_boot = text_equal(json_text_get(json, "bootId"), boot_id);
    json_array_foreach(json_object_get(json, "devices"), index, item)
    {
        struct dra_entry *slot = dra_cache_add(c);
        if (!slot || !read_entry(item, same_boot, slot)) {
            *c = (struct dra_cache){.entries = {{.health = DRA_UNKNOWN}}};
            return err_set(e, slot ? ERR_PARSE : ERR_LIMIT, "device %zu of the checkpoint", index);
        }
    }
    return 0;
}

int dra_checkpoint_read(struct dra_cache *c, const char *boot_id, const char *path, struct err *e)
{
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(free) char *text = malloc(DRA_CHECKPOINT_MAX_BYTES);
    *c = (struct dra_cache){.entries = {{.health = DRA_UNKNOWN}}};
    if (fd < 0) {
        return err_set_errno(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, errno, "reading '%s'",
                             path);
    }
    ssize_t len = text ? read(fd, text, DRA_CHECKPOINT_MAX_BYTES) : -1;
    if (len < 0) {
        return err_set(e, ERR_IO, "reading '%s'", path);
    }
    return dra_checkpoint_parse(c, boot_id, text, (size_t)len, e);
}
