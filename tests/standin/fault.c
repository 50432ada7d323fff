/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/fault.h"

#include "base/attr.h"
#include "standin/need.h"

#include <string.h>

void fault_init(struct fault_list *f)
{
    *f = (struct fault_list){.rules = need(json_array())};
}

void fault_fini(struct fault_list *f)
{
    json_decref(f->rules);
}

json_int_t fault_add(struct fault_list *f, json_t *rule)
{
    static const char *const ACTIONS[] = {"status", "delay", "hang", "cut",
                                          "answer", "slow",  "patch"};
    const char *action = json_string_value(json_object_get(rule, "action"));
    for (size_t i = 0; action && i < ARRAY_LEN(ACTIONS); i++) {
        if (strcmp(action, ACTIONS[i]) == 0) {
            f->last_id++;
            (void)json_object_set_new(rule, "id", json_integer(f->last_id));
            (void)json_object_set_new(rule, "hits", json_integer(0));
            (void)json_array_append_new(f->rules, rule);
            return f->last_id;
        }
    }
    json_decref(rule);
    return 0;
}

void fault_clear(struct fault_list *f)
{
    (void)json_array_clear(f->rules);
}

/* Whether a member of match (absent, text or list) covers `word`. */
static bool covers(const json_t *match, const char *key, const char *word)
{
    const json_t *wanted = json_object_get(match, key);
    size_t i;
    json_t *item;
    if (!wanted) {
        return true;
    }
    if (json_is_string(wanted)) {
        return strcmp(json_string_value(wanted), word) == 0;
    }
    json_array_foreach(wanted, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), word) == 0) {
            return true;
        }
    }
    return false;
}

/* Counts `key` down; true if it was above zero. */
static bool count_down(json_t *rule, const char *key)
{
    json_int_t left = json_integer_value(json_object_get(rule, key));
    if (left > 0) {
        (void)json_object_set_new(rule, key, json_integer(left - 1));
    }
    return left > 0;
}

json_t *fault_take(struct fault_list *f, const struct api_target *target, const char *user,
                   const char *name, bool after)
{
    size_t i;
    json_t *rule;
    json_array_foreach(f->rules, i, rule)
    {
        const json_t *match = json_object_get(rule, "match");
        if (json_is_true(json_object_get(rule, "after")) != after ||
            !covers(match, "verb", api_verb_name(target->verb)) ||
            !covers(match, "resource", target->kind ? target->kind->plural : "") ||
            !covers(match, "user", user) || !covers(match, "name", name)) {
            continue;
        }
        if (count_down(rule, "skip") ||
            (json_object_get(rule, "count") && !count_down(rule, "count"))) {
            continue;
        }
        json_int_t hits = json_integer_value(json_object_get(rule, "hits"));
        (void)json_object_set_new(rule, "hits", json_integer(hits + 1));
        return json_incref(rule);
    }
    return NULL;
}
