/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/standin.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/time.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static const char BEARER[] = "Bearer ";

void auth_set_rules(struct auth *a, json_t *rules)
{
    json_decref(a->rules);
    a->rules = rules;
}

/* The user of that member ("token" or "name"), or NULL. */
static const json_t *find_user(const struct auth *a, const char *key, const char *value)
{
    size_t i;
    json_t *user;
    json_array_foreach(json_object_get(a->rules, "users"), i, user)
    {
        const char *text = json_string_value(json_object_get(user, key));
        if (text && strcmp(text, value) == 0) {
            return user;
        }
    }
    return NULL;
}

bool auth_identify(const struct auth *a, const char *authorization, const char *cert_name,
                   struct auth_user *out, struct api_result *r)
{
    *out = (struct auth_user){0};
    if (cert_name || !authorization) {
        (void)text_copy(out->name, sizeof(out->name), cert_name ? cert_name : "system:anonymous");
        return true;
    }
    const json_t *user = strncmp(authorization, BEARER, strlen(BEARER)) == 0
                             ? find_user(a, "token", authorization + strlen(BEARER))
                             : NULL;
    if (!user) {
        return api_fail(r, 401, "Unauthorized", "Unauthorized");
    }
    const char *name = json_string_value(json_object_get(user, "name"));
    (void)text_copy(out->name, sizeof(out->name), name ? name : "");
    return true;
}

/* Whether `wanted` (absent: all, a text, or a list, in which "*" is all) covers `word`. */
static bool covers(const json_t *wanted, const char *word)
{
    size_t i;
    json_t *item;
    json_array_foreach(wanted, i, item)
    {
        const char *text = json_string_value(item);
        if (text && (strcmp(text, "*") == 0 || strcmp(text, word) == 0)) {
            return true;
        }
    }
    return !wanted || (json_is_string(wanted) && strcmp(json_string_value(wanted), word) == 0);
}

bool auth_impersonate(const struct auth *a, struct auth_user *user, const char *as,
                      const json_t *groups, struct api_result *r)
{
    const json_t *own = find_user(a, "name", user->name);
    const json_t *names = json_object_get(own, "impersonates");
    if (!names || !covers(names, as)) {
        return api_fail(r, 403, "Forbidden",
                        "users \"%s\" is forbidden: User \"%s\" cannot impersonate resource "
                        "\"users\" in API group \"\" at the cluster scope",
                        as, user->name);
    }
    (void)text_copy(user->name, sizeof(user->name), as);
    user->groups = groups;
    return true;
}

static bool rule_is_for(const json_t *rule, const struct auth_user *user)
{
    const json_t *users = json_object_get(rule, "users");
    size_t i;
    json_t *group;
    if (covers(users, user->name)) {
        return true;
    }
    json_array_foreach(user->groups, i, group)
    {
        const char *text = json_string_value(group);
        if (text && covers(users, text)) {
            return true;
        }
    }
    return false;
}

bool auth_allows(const struct auth *a, const struct auth_user *user,
                 const struct api_target *target)
{
    char resource[2 * API_NAME_BYTES];
    size_t i;
    json_t *rule;
    (void)snprintf(resource, sizeof(resource), "%s%s%s", target->kind->plural,
                   target->subresource[0] ? "/" : "", target->subresource);
    json_array_foreach(json_object_get(a->rules, "rules"), i, rule)
    {
        if (rule_is_for(rule, user) &&
            covers(json_object_get(rule, "verbs"), api_verb_name(target->verb)) &&
            covers(json_object_get(rule, "resources"), resource) &&
            covers(json_object_get(rule, "namespaces"), target->ns)) {
            return true;
        }
    }
    return false;
}

bool auth_fail(const struct auth_user *user, const struct api_target *target, const char *name,
               struct api_result *r)
{
    char resource[API_NAME_BYTES];
    char where[API_NAME_BYTES + 32] = "at the cluster scope";
    char quoted[API_NAME_BYTES + 8] = "";

    api_kind_resource(target->kind, resource);
    if (target->ns[0]) {
        (void)snprintf(where, sizeof(where), "in the namespace \"%s\"", target->ns);
    }
    if (name[0]) {
        (void)snprintf(quoted, sizeof(quoted), " \"%s\"", name);
    }
    (void)api_fail(r, 403, "Forbidden",
                   "%s%s is forbidden: User \"%s\" cannot %s resource \"%s%s%s\" in API group "
                   "\"%s\" %s",
                   resource, quoted, user->name, api_verb_name(target->verb), target->kind->plural,
                   target->subresource[0] ? "/" : "", target->subresource, target->kind->group,
                   where);
    return false;
}

static enum api_verb verb_from_name(const char *name)
{
    for (int verb = API_GET; verb <= API_DELETE; verb++) {
        if (strcmp(api_verb_name((enum api_verb)verb), name) == 0) {
            return (enum api_verb)verb;
        }
    }
    return API_NONE;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

void auth_review(const struct auth *a, const struct auth_user *user, const json_t *review,
                 struct api_result *r)
{
    const json_t *wanted = json_object_get(json_object_get(review, "spec"), "resourceAttributes");
    struct api_target target = {
        .verb = verb_from_name(text_at(wanted, "verb")),
        .kind = api_kind_find(text_at(wanted, "group"), text_at(wanted, "resource")),
    };
    (void)text_copy(target.ns, sizeof(target.ns), text_at(wanted, "namespace"));
    (void)text_copy(target.subresource, sizeof(target.subresource), text_at(wanted, "subresource"));
    bool allowed = target.kind && target.verb != API_NONE && auth_allows(a, user, &target);
    json_t *body = json_is_object(review) ? need(json_deep_copy(review)) : need(json_object());
    (void)json_object_set_new(body, "status", need(json_pack("{s:b}", "allowed", allowed)));
    api_result_ok(r, 201, body);
}

/* ---- faults ---------------------------------------------------------------------------------- */

bool fault_add(json_t *rules, const json_t *rule)
{
    static const char *const ACTIONS[] = {"status", "delay", "hang", "cut",
                                          "answer", "slow",  "patch"};
    const char *action = json_string_value(json_object_get(rule, "action"));
    for (size_t i = 0; i < ARRAY_LEN(ACTIONS); i++) {
        if (text_equal(action, ACTIONS[i])) {
            json_t *own = need(json_deep_copy(rule));
            (void)json_object_set_new(own, "hits", json_integer(0));
            (void)json_array_append_new(rules, own);
            return true;
        }
    }
    return false;
}

/* Counts it down; true if it applies once more. */
static bool count_down(json_t *rule)
{
    const json_t *count = json_object_get(rule, "count");
    json_int_t left = json_integer_value(count);
    if (count && left > 0) {
        (void)json_object_set_new(rule, "count", json_integer(left - 1));
    }
    return !count || left > 0;
}

json_t *fault_take(const json_t *rules, const struct api_target *target, const char *user,
                   const char *name)
{
    size_t i;
    json_t *rule;
    json_array_foreach(rules, i, rule)
    {
        const json_t *match = json_object_get(rule, "match");
        if (!covers(json_object_get(match, "verb"), api_verb_name(target->verb)) ||
            !covers(json_object_get(match, "resource"), target->kind ? target->kind->plural : "") ||
            !covers(json_object_get(match, "user"), user) ||
            !covers(json_object_get(match, "name"), name) || !count_down(rule)) {
            continue;
        }
        json_int_t hits = json_integer_value(json_object_get(rule, "hits"));
        (void)json_object_set_new(rule, "hits", json_integer(hits + 1));
        return json_incref(rule);
    }
    return NULL;
}

/* ---- the witness ----------------------------------------------------------------------------- */

void audit_write(FILE *audit, const struct audit_entry *e)
{
    const char *resource = e->target->kind ? e->target->kind->plural : "";
    if (!audit) {
        return;
    }
    json_t *line = need(json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:I}", "bootNs",
        (json_int_t)clock_mono_now().ns, "time", rfc3339_text(clock_wall_now(), true).text, "user",
        e->user, "verb", api_verb_name(e->target->verb), "resource", resource, "namespace",
        e->target->ns, "name", e->target->name, "path", e->path, "code", e->code, "reason",
        e->reason, "fault", e->fault ? e->fault : "", "conn", (json_int_t)e->conn));
    char *text = need(json_dumps(line, JSON_COMPACT));
    (void)fprintf(audit, "%s\n", text); /* a full disk shows in the tests */
    (void)fflush(audit);
    free(text);
    json_decref(line);
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum { LOOK_EVERY_MS = 100 }; /* how soon a client's hang-up is noticed by a waiting thread */

void standin_init(struct standin *s, uint64_t first_version)
{
    *s = (struct standin){.faults = need(json_array()), .injections = need(json_array())};
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&s->lock, NULL);
    store_init(&s->store, first_version);
    s->store.last_uid = (uint64_t)clock_wall_now().ns; /* no other server's */
}

void standin_fini(struct standin *s)
{
    if (s->audit) {
        (void)fclose(s->audit); /* each line was flushed */
    }
    json_decref(s->faults);
    json_decref(s->auth.rules);
    store_fini(&s->store);
    json_decref(s->injections);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
}

void standin_lock(struct standin *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->store.now = clock_wall_now();
}

void standin_unlock(struct standin *s)
{
    (void)pthread_mutex_unlock(&s->lock);
}

void standin_changed(struct standin *s)
{
    (void)pthread_cond_broadcast(&s->changed);
}

void standin_drop_connections(struct standin *s)
{
    s->dropped_upto = s->last_conn;
    for (struct standin_conn *c = s->conns; c; c = c->next) {
        (void)shutdown(c->fd, SHUT_RDWR); /* idle ones as well; already closed is fine */
    }
    standin_changed(s);
}

void standin_freeze_connections(struct standin *s)
{
    s->frozen_upto = s->last_conn;
    standin_changed(s);
}

bool standin_is_frozen(const struct standin *s, const struct standin_conn *conn)
{
    return conn->id <= s->frozen_upto;
}

int64_t standin_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool client_is_gone(const struct standin_conn *conn)
{
    struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

bool standin_wait(struct standin *s, const struct standin_conn *conn, int64_t wait_ms)
{
    if (wait_ms < 0 || wait_ms > LOOK_EVERY_MS) {
        wait_ms = LOOK_EVERY_MS;
    }
    int64_t until_ms = standin_now_ms() + wait_ms;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = (until_ms % 1000) * 1000000};
    (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
    s->store.now = clock_wall_now();
    return !s->stopping && conn->id > s->dropped_upto && !client_is_gone(conn);
}

bool standin_sleep(struct standin *s, const struct standin_conn *conn, int64_t wait_ms)
{
    int64_t until_ms = standin_now_ms() + wait_ms;
    while (wait_ms < 0 || standin_now_ms() < until_ms) {
        if (!standin_wait(s, conn, wait_ms < 0 ? wait_ms : until_ms - standin_now_ms())) {
            return false;
        }
    }
    return true;
}
