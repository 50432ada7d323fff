/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include "base/mem.h"
#include "base/text.h"

#include <string.h>
#include <yaml.h>

json_t *json_text_parse(const char *text, size_t len, struct err *e)
{
    json_error_t why;
    json_t *json = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!json) {
        (void)err_set(e, ERR_PARSE, "not valid JSON at byte %d: %.119s", why.position, why.text);
    }
    return json;
}

const char *json_text_get(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    const char *text = json_string_value(member);
    bool has_nul = text && strlen(text) != json_string_length(member);
    return has_nul ? JSON_TEXT_WITH_NUL : text;
}

json_t *json_text_find(const json_t *list, const char *key, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (text_equal(json_text_get(item, key), text)) {
            return item;
        }
    }
    return NULL;
}

char *json_text_dump(const json_t *json)
{
    return json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* ---- YAML ------------------------------------------------------------------------------------ */

/* A kubeconfig nests six deep (contexts, users, exec, env ...); libyaml's time grows with the
 * square of the depth. */
enum { DEPTH_MAX = 32 };

struct yaml_reader {
    yaml_parser_t parser;
    const char *path;
    json_t *root; /* owned; NULL: none yet */
    size_t depth;
    json_t *open[DEPTH_MAX]; /* from the root to the innermost; all in the root */
    char *key[DEPTH_MAX];    /* owned: of a mapping, if its value is next */
};

static int refuse(const struct yaml_reader *r, int code, const yaml_mark_t *at, const char *what,
                  struct err *e)
{
    const char *key = NULL; /* the innermost one whose value is being read */
    for (size_t i = r->depth; i > 0 && !key; i--) {
        key = r->key[i - 1];
    }
    return err_set(e, code, key ? "file '%s' line %zu: %s, at '%.79s'" : "file '%s' line %zu: %s",
                   r->path, at->line + 1, what, key);
}

static int take_key(struct yaml_reader *r, const json_t *value, const yaml_mark_t *at,
                    struct err *e)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != json_string_length(value)) {
        return refuse(r, ERR_PARSE, at, "expected 'key: value'", e);
    }
    if (text_equal(text, "<<")) {
        return refuse(r, ERR_PARSE, at, "merge keys ('<<') are not supported", e);
    }
    if (json_object_get(r->open[r->depth - 1], text)) {
        char what[160];
        text_format(what, sizeof(what), "'%s' is given twice", text);
        return refuse(r, ERR_PARSE, at, what, e);
    }
    r->key[r->depth - 1] = mem_strdup(text);
    return 0;
}

/* Puts it where it stands in the file. */
static int place(struct yaml_reader *r, json_t *value, const yaml_mark_t *at, struct err *e)
{
    json_t *in = r->depth > 0 ? r->open[r->depth - 1] : NULL;
    char **key = r->depth > 0 ? &r->key[r->depth - 1] : NULL;
    if (!in) {
        r->root = json_incref(value);
    } else if (json_is_array(in)) {
        (void)json_array_append(in, value);
    } else if (!*key) {
        return take_key(r, value, at, e);
    } else {
        (void)json_object_set(in, *key, value);
        free(TAKE(*key));
    }
    return 0;
}

static json_t *scalar_of(const yaml_event_t *event)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    const char *text = (const char *)event->data.scalar.value;
    bool is_null = false;
    for (size_t i = 0; i < ARRAY_LEN(nulls) && event->data.scalar.plain_implicit; i++) {
        is_null |= event->data.scalar.length == strlen(nulls[i]) && text_equal(text, nulls[i]);
    }
    return is_null ? json_null() : json_stringn_nocheck(text, event->data.scalar.length);
}

/* A tag that says no more than that it is text ("!", "!!str"), or none. */
static bool is_text(const yaml_event_t *event)
{
    const char *tag = (const char *)event->data.scalar.tag;
    return !tag || text_equal(tag, "!") || text_equal(tag, YAML_STR_TAG);
}

/* What is not supported; NULL: it is. */
static const char *refusal_of(const struct yaml_reader *r, const yaml_event_t *event)
{
    if (event->type == YAML_DOCUMENT_START_EVENT && r->root) {
        return "only one document is allowed";
    }
    if (event->type == YAML_ALIAS_EVENT) {
        return "aliases are not supported";
    }
    return event->type == YAML_SCALAR_EVENT && !is_text(event) ? "tags are not supported" : NULL;
}

static int take_event(struct yaml_reader *r, const yaml_event_t *event, struct err *e)
{
    CLEANUP(json) json_t *value = NULL;
    const char *refusal = refusal_of(r, event);
    bool opens =
        event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
    if (refusal) {
        return refuse(r, ERR_PARSE, &event->start_mark, refusal, e);
    }
    if (opens && r->depth == DEPTH_MAX) {
        return refuse(r, ERR_LIMIT, &event->start_mark, "nested deeper than 32 levels", e);
    }
    if (event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT) {
        r->depth--;
    } else if (opens) {
        value = event->type == YAML_MAPPING_START_EVENT ? json_object() : json_array();
    } else if (event->type == YAML_SCALAR_EVENT) {
        value = scalar_of(event);
    }
    int rc = value ? place(r, value, &event->start_mark, e) : 0;
    if (rc == 0 && opens) {
        r->open[r->depth++] = value;
    }
    return rc;
}

static json_t *parse_yaml(const char *path, const char *text, size_t len, yaml_event_type_t last,
                          struct err *e)
{
    struct yaml_reader r = {.path = path};
    yaml_event_type_t type = YAML_NO_EVENT;
    int rc = 0;
    if (!yaml_parser_initialize(&r.parser)) {
        mem_exhausted();
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    while (rc == 0 && type != last && type != YAML_STREAM_END_EVENT) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r.parser, &event)) {
            char what[160];
            text_format(what, sizeof(what), "not valid YAML: %s", r.parser.problem);
            rc = refuse(&r, ERR_PARSE, &r.parser.problem_mark, what, e);
            break;
        }
        type = event.type;
        rc = take_event(&r, &event, e);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < DEPTH_MAX; i++) {
        free(r.key[i]);
    }
    if (rc != 0) {
        json_decref(r.root);
        return NULL;
    }
    return r.root ? r.root : json_null();
}

json_t *json_text_parse_yaml(const char *path, const char *text, size_t len, struct err *e)
{
    return parse_yaml(path, text, len, YAML_STREAM_END_EVENT, e);
}

json_t *json_text_parse_yaml_first(const char *path, const char *text, size_t len, struct err *e)
{
    return parse_yaml(path, text, len, YAML_DOCUMENT_END_EVENT, e);
}
