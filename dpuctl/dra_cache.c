/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/dra_cache.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

static const char *const names[] = {
    [DRA_UNKNOWN] = "Unknown",
    [DRA_HEALTHY] = "Healthy",
    [DRA_UNHEALTHY] = "Unhealthy",
};

static enum dra_health from_wire(int health)
{
    return health == DRA_HEALTHY || health == DRA_UNHEALTHY ? (enum dra_health)health : DRA_UNKNOWN;
}

static int64_t timeout_of(int64_t timeout_s)
{
    return timeout_s > 0 ? mono_ns_mul(timeout_s, NS_PER_SEC) : DRA_CACHE_TIMEOUT_NS;
}

/* Cuts at 1024 bytes as a kubelet does, but not within a character. */
static void copy_message(char out[static DRA_CACHE_MESSAGE_BYTES], const char *message)
{
    static const char dots[] = "...";
    if (!text_copy(out, DRA_CACHE_MESSAGE_BYTES, message)) {
        text_format(out, DRA_CACHE_MESSAGE_BYTES - (sizeof(dots) - 1), "%s", message);
        memcpy(out + strlen(out), dots, sizeof(dots));
    }
}

static bool is_expired(const struct dra_entry *entry, struct mono now)
{
    return mono_since(now, entry->updated) > entry->timeout_ns;
}

static struct dra_entry *find(struct dra_cache *c, const char *pool, const char *device)
{
    for (size_t i = 0; i < c->count; i++) {
        if (text_equal(c->entries[i].pool, pool) && text_equal(c->entries[i].device, device)) {
            return &c->entries[i];
        }
    }
    return NULL;
}

/* Returns NULL if it cannot be kept. */
static struct dra_entry *add(struct dra_cache *c, const struct dra_report *said)
{
    struct dra_entry fresh = {.health = DRA_UNKNOWN};
    if (c->count == DRA_CACHE_DEVICES_MAX ||
        !text_copy(fresh.pool, sizeof(fresh.pool), said->pool) ||
        !text_copy(fresh.device, sizeof(fresh.device), said->device)) {
        return NULL;
    }
    c->entries[c->count] = fresh;
    return &c->entries[c->count++];
}

/* Returns true if something is different from before. */
static bool take(struct dra_entry *entry, const struct dra_report *said, bool is_new,
                 struct mono now)
{
    char message[DRA_CACHE_MESSAGE_BYTES];
    enum dra_health health = from_wire(said->health);
    int64_t timeout_ns = timeout_of(said->timeout_s);
    copy_message(message, said->message);
    bool has_changed = is_new || entry->health != health || entry->timeout_ns != timeout_ns ||
                       !text_equal(entry->message, message);
    entry->health = health;
    entry->timeout_ns = timeout_ns;
    memcpy(entry->message, message, sizeof(message));
    entry->updated = now;
    return has_changed;
}

/* A device nobody spoke of: Unknown once its time is over. Returns true if that is new. */
static bool let_expire(struct dra_entry *entry, struct mono now)
{
    if (!is_expired(entry, now) || entry->health == DRA_UNKNOWN) {
        return false;
    }
    entry->health = DRA_UNKNOWN;
    entry->message[0] = '\0';
    return true;
}

static bool is_said(const struct dra_entry *entry, const struct dra_report *said, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (text_equal(entry->pool, said[i].pool) && text_equal(entry->device, said[i].device)) {
            return true;
        }
    }
    return false;
}

size_t dra_cache_update(struct dra_cache *c, const struct dra_report *said, size_t count,
                        struct mono now, size_t *out_left_out)
{
    size_t changed = 0;
    *out_left_out = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct dra_entry *entry = &c->entries[i];
        entry->has_changed = !is_said(entry, said, count) && let_expire(entry, now);
        changed += entry->has_changed;
    }
    for (size_t i = 0; i < count; i++) {
        struct dra_entry *entry = find(c, said[i].pool, said[i].device);
        bool is_new = !entry;
        entry = entry ? entry : add(c, &said[i]);
        if (!entry) {
            (*out_left_out)++;
            continue;
        }
        bool was_counted = entry->has_changed; /* named twice in one message */
        entry->has_changed = take(entry, &said[i], is_new, now) || was_counted;
        changed += entry->has_changed && !was_counted;
    }
    return changed;
}

enum dra_health dra_cache_health(const struct dra_entry *entry, struct mono now)
{
    return is_expired(entry, now) ? DRA_UNKNOWN : entry->health;
}

void dra_cache_describe(const struct dra_entry *entry, const char *driver, struct mono now,
                        char out[static DRA_CACHE_LINE_BYTES])
{
    char line[DRA_CACHE_LINE_BYTES];
    text_format(line, sizeof(line), "%-9s  %s/%s/%s  %" PRId64 " s of %" PRId64 " s ago  %s",
                names[dra_cache_health(entry, now)], driver, entry->pool, entry->device,
                mono_since(now, entry->updated) / NS_PER_SEC, entry->timeout_ns / NS_PER_SEC,
                is_expired(entry, now) ? "" : entry->message);
    text_sanitize(out, DRA_CACHE_LINE_BYTES, line, strlen(line));
}
