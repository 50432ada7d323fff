/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/standby.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/record.h"
#include "host-agent/record_writer.h"
#include "loop/agent_page.h"
#include "loop/daemon.h"
#include "loop/dir_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t WARN_NS = 3600 * NS_PER_SEC;

#define STANDBY_AWAY_NS NS_PER_SEC /* between two looks: it was us who stood still */

struct standby {
    struct standby_config config;
    struct file_lock lock;
    struct dir_watch watch; /* of the lock's directory */
    char dir[PATH_MAX];
    char boot_id[CLOCK_BOOT_ID_BYTES];
    bool is_waiting;
    struct boot_timer *timer;
    struct agent_page *page; /* while waiting */
    bool has_record;
    struct record record;      /* as last read */
    struct mono looked_at;     /* at it */
    struct mono overdue_since; /* the writer, as far as we looked on; MONO_NEVER: it is not */
    struct log_repeat unlocked;
};

/* ---- what the writer says ---- */

/* False while it is not written yet: what there was ends by its own time. */
static bool read_record(const struct standby *s, struct record *out)
{
    return record_file_read(s->config.readiness_file, out, NULL) == 0 &&
           text_equal(out->boot_id, s->boot_id);
}

static int check_lease(const struct standby *s, const struct readiness_lease *lease, struct err *e)
{
    if (text_equal(lease->ns, s->config.lease_ns) &&
        text_equal(lease->name, s->config.lease_name)) {
        return 0;
    }
    return err_set(e, ERR_CONFLICT,
                   "'%.64s' is written by the dpu-host-agent of lease '%.40s/%.64s': each DPU of a "
                   "node needs a --readiness-file of its own",
                   s->config.readiness_file, lease->ns, lease->name);
}

static int look_at_record(struct standby *s, struct err *e)
{
    struct record found;
    if (!read_record(s, &found)) {
        return 0;
    }
    int rc = check_lease(s, &found.verdict.lease, e);
    if (rc != 0 || !text_equal(found.node, s->config.node)) {
        return rc;
    }
    bool is_news = !s->has_record || !readiness_same_verdict(&found.verdict, &s->record.verdict);
    s->record = found;
    s->has_record = true;
    if (is_news) {
        s->config.on_verdict(s->config.user, &s->record.verdict);
    }
    return 0;
}

bool standby_vouches(const struct standby *s, struct mono now)
{
    return s->has_record && mono_before(now, s->record.writer_until);
}

/* ---- the page ---- */

static bool is_well(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct standby *s = user;
    return agent_page_answer(words, true, "standing by: another dpu-host-agent writes '%.200s'",
                             s->config.readiness_file);
}

static json_t *describe(const void *user)
{
    const struct standby *s = user;
    return json_pack("{s:s, s:s, s:b}", "version", DPU_VERSION, "node", s->config.node, "standby",
                     1);
}

static int start_page(struct standby *s, struct err *e)
{
    const struct agent_page_config page = {.address = s->config.http_address,
                                           .program = "dpu-host-agent",
                                           .is_live = is_well,
                                           .is_ready = is_well,
                                           .describe = describe,
                                           .user = s};
    return agent_page_start(s->config.loop, &page, &s->page, e);
}

/* ---- the lock ---- */

static int take_lock(struct standby *s, struct err *e)
{
    if (file_lock_is_ours(&s->lock)) {
        return 0;
    }
    int rc = record_writer_make_directory(s->lock.path, e);
    return rc != 0 ? rc : file_lock_take(&s->lock, e);
}

/* True if another process has it. */
static bool is_taken(struct standby *s)
{
    struct err e = ERR_INIT;
    int rc = take_lock(s, &e);
    if (rc == 0) {
        log_repeat_reset(&s->unlocked);
    } else if (rc != ERR_CONFLICT) {
        log_limited(
            &s->unlocked, WARN_NS, LOG_WARN, "standby",
            "%s: writing the record without this lock; a second dpu-host-agent on this node "
            "would write it, too",
            e.msg);
    }
    return rc == ERR_CONFLICT;
}

/* Shorter where the record would not be believed for so long. */
static int64_t patience_ns(const struct standby *s)
{
    int64_t held_ns = s->has_record ? mono_since(s->record.hold_until, s->record.writer_until)
                                    : STANDBY_FROZEN_NS;
    return held_ns / 2 < STANDBY_FROZEN_NS ? held_ns / 2 : STANDBY_FROZEN_NS;
}

/* The writer has its lock and does not write, for all the time that we looked on: a stop of the
 * whole machine is not its fault. */
static bool is_frozen(struct standby *s, struct mono now)
{
    bool was_away = mono_since(now, s->looked_at) > STANDBY_AWAY_NS;
    s->looked_at = now;
    if (standby_vouches(s, now)) {
        s->overdue_since = MONO_NEVER;
        return false;
    }
    if (mono_is_never(s->overdue_since) || was_away) {
        s->overdue_since = now;
    }
    return mono_since(now, s->overdue_since) >= patience_ns(s);
}

/* A lock on a removed file keeps nobody out: if the other one ever wakes it sees that, and yields.
 */
static void seize_lock(struct standby *s)
{
    log_warn("standby",
             "the other dpu-host-agent (pid %d) holds '%s' and has stopped writing: is it frozen? "
             "Taking its place",
             (int)s->record.pid, s->lock.path);
    (void)unlink(s->lock.path); /* if that fails there is nothing else to try */
    s->overdue_since = MONO_NEVER;
}

static void follow(struct standby *s, struct mono now)
{
    struct err e = ERR_INIT;
    if (look_at_record(s, &e) == 0) {
        if (is_frozen(s, now)) {
            seize_lock(s); /* and look again, as with one that has ended */
        }
        boot_timer_arm(s->timer, mono_add(now, STANDBY_POLL_NS));
        return;
    }
    log_error("standby", "%s", e.msg);
    s->config.on_lost(s->config.user);
}

static void look(void *user)
{
    struct standby *s = user;
    struct mono now = clock_mono_now();
    bool is_watched =
        dir_watch_add(&s->watch, s->dir, DIR_WATCH_NAMES); /* first: nothing is missed */
    bool is_anothers = is_taken(s);
    if (is_anothers && s->is_waiting) {
        follow(s, now);
        return;
    }
    if (is_anothers) {
        log_error("standby", "'%s' was removed and another dpu-host-agent has taken it: yielding",
                  s->lock.path);
        s->config.on_lost(s->config.user);
        return;
    }
    bool is_told = is_watched && s->lock.fd >= 0;
    boot_timer_arm(s->timer, is_told ? MONO_NEVER : mono_add(now, STANDBY_AGAIN_NS));
    if (s->is_waiting) {
        s->is_waiting = false;
        log_info("standby", "the other dpu-host-agent has ended, taking over");
        agent_page_stop(TAKE(s->page));
        s->config.on_turn(s->config.user);
    }
}

static int begin(struct standby *s, struct err *e)
{
    struct record found;
    struct mono now = clock_mono_now();
    int rc = file_lock_init(&s->lock, s->config.readiness_file, ".lock", e);
    if (rc != 0) {
        return rc;
    }
    rc = clock_boot_id(s->boot_id, e);
    if (rc != 0) {
        return rc;
    }
    text_format(s->dir, sizeof(s->dir), "%.*s", (int)(strrchr(s->lock.path, '/') - s->lock.path),
                s->lock.path);
    dir_watch_start(&s->watch, s->config.loop, look, s);
    s->timer = boot_timer_new(s->config.loop, look, s);
    s->is_waiting = is_taken(s);
    if (s->is_waiting && read_record(s, &found) &&
        (rc = check_lease(s, &found.verdict.lease, e)) != 0) {
        return rc;
    }
    boot_timer_arm(s->timer, now);
    if (!s->is_waiting) {
        return 0;
    }
    log_info("standby", "another dpu-host-agent holds '%s': standing by until it ends",
             s->lock.path);
    return start_page(s, e);
}

int standby_start(const struct standby_config *config, struct standby **out, struct err *e)
{
    struct standby *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_no_memory(e);
    }
    s->config = *config;
    s->lock.fd = -1;
    s->overdue_since = MONO_NEVER;
    int rc = begin(s, e);
    if (rc != 0) {
        standby_stop(s);
        return rc;
    }
    *out = s;
    return 0;
}

void standby_stop(struct standby *s)
{
    if (!s) {
        return;
    }
    agent_page_stop(s->page);
    boot_timer_free(s->timer);
    dir_watch_stop(&s->watch);
    file_lock_release(&s->lock);
    free(s);
}

bool standby_is_waiting(const struct standby *s)
{
    return s->is_waiting;
}

bool standby_may_write(void *user)
{
    struct standby *s = user;
    bool is_unlocked = s->lock.fd < 0; /* the file system refused it */
    return !s->is_waiting && (is_unlocked || take_lock(s, NULL) != ERR_CONFLICT);
}
