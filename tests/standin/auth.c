/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/auth.h"

#include "base/text.h"
#include "standin/need.h"

#include <stdio.h>
#include <string.h>

static const char BEARER[] = "Bearer ";

void auth_init(struct auth *a)
{
    *a = (struct auth){0};
}

void auth_fini(struct auth *a)
{
    json_decref(a->rules);
    a->rules = NULL;
}

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
    if (!a->rules) {
        (void)text_copy(out->name, sizeof(out->name), cert_name ? cert_name : "system:admin");
        return true;
    }
    if (cert_name) {
        (void)text_copy(out->name, sizeof(out->name), cert_name);
        out->groups = json_object_get(find_user(a, "name", cert_name), "groups");
        return true;
    }
    if (!authorization) {
        (void)text_copy(out->name, sizeof(out->name), "system:anonymous");
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
    out->groups = json_object_get(user, "groups");
    return true;
}

static bool listed(const json_t *list, const char *word)
{
    size_t i;
    json_t *item;
    if (!list) {
        return true;
    }
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);
        if (text && (strcmp(text, "*") == 0 || strcmp(text, word) == 0)) {
            return true;
        }
    }
    return false;
}

bool auth_impersonate(const struct auth *a, struct auth_user *user, const char *as,
                      const json_t *groups, struct api_result *r)
{
    const json_t *own = find_user(a, "name", user->name);
    const json_t *names = json_object_get(own, "impersonates");
    if (a->rules && (!names || !listed(names, as))) {
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
    if (listed(users, user->name)) {
        return true;
    }
    json_array_foreach(user->groups, i, group)
    {
        const char *text = json_string_value(group);
        if (text && listed(users, text)) {
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
    if (!a->rules) {
        return true;
    }
    (void)snprintf(resource, sizeof(resource), "%s%s%s", target->kind->plural,
                   target->subresource[0] ? "/" : "", target->subresource);
    json_array_foreach(json_object_get(a->rules, "rules"), i, rule)
    {
        if (rule_is_for(rule, user) &&
            listed(json_object_get(rule, "verbs"), api_verb_name(target->verb)) &&
            listed(json_object_get(rule, "resources"), resource) &&
            listed(json_object_get(rule, "namespaces"), target->ns)) {
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
    bool allowed =
        !a->rules || (target.kind && target.verb != API_NONE && auth_allows(a, user, &target));
    json_t *body = json_is_object(review) ? need(json_deep_copy(review)) : need(json_object());
    (void)json_object_set_new(body, "status", need(json_pack("{s:b}", "allowed", allowed)));
    api_result_ok(r, 201, body);
}
