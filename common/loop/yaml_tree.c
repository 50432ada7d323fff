/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/yaml_tree.h"

#include "base/mem.h"
#include "base/text.h"

#include <string.h>

/* A kubeconfig nests six deep (contexts, users, exec, env ...); libyaml's time grows with the
 * square of the depth. */
enum { DEPTH_MAX = 32 };

static int refuse_invalid(const struct yaml_tree *y, const yaml_parser_t *parser, struct err *e)
{
    return err_set(e, ERR_PARSE, "%s'%s' line %zu: not valid YAML: %s", y->kind, y->path,
                   parser->problem_mark.line + 1, parser->problem ? parser->problem : "unknown");
}

/* Before the tree is made: its depth, and where a second document begins. */
static int scan_events(struct yaml_tree *y, yaml_parser_t *parser, struct err *e)
{
    yaml_event_t event;
    yaml_event_type_t type = YAML_NO_EVENT;
    int depth = 0;
    size_t documents = 0;
    while (type != YAML_STREAM_END_EVENT) {
        if (!yaml_parser_parse(parser, &event)) {
            return documents > 1 ? 0 : refuse_invalid(y, parser, e);
        }
        type = event.type;
        depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        documents += type == YAML_DOCUMENT_START_EVENT;
        size_t line = event.start_mark.line + 1;
        yaml_event_delete(&event);
        if (documents == 2 && y->second_line == 0) {
            y->second_line = line;
        }
        if (depth > DEPTH_MAX) {
            return err_set(e, ERR_LIMIT, "%s'%s' line %zu: nested deeper than %d levels", y->kind,
                           y->path, line, (int)DEPTH_MAX);
        }
    }
    return 0;
}

static void start_parser(yaml_parser_t *parser, const char *text, size_t len)
{
    if (!yaml_parser_initialize(parser)) {
        mem_exhausted(0);
    }
    yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
}

int yaml_tree_init(struct yaml_tree *y, const char *kind, const char *path, const char *text,
                   size_t len, struct err *e)
{
    yaml_parser_t parser;
    *y = (struct yaml_tree){.kind = kind, .path = path};
    start_parser(&parser, text, len);
    int rc = scan_events(y, &parser, e);
    yaml_parser_delete(&parser);
    if (rc != 0) {
        return rc;
    }
    start_parser(&parser, text, len);
    if (!yaml_parser_load(&parser, &y->document)) {
        rc = refuse_invalid(y, &parser, e);
    }
    yaml_parser_delete(&parser);
    return rc;
}

void yaml_tree_fini(struct yaml_tree *y)
{
    yaml_document_delete(&y->document);
}

size_t yaml_tree_line(const yaml_node_t *node)
{
    return node->start_mark.line + 1;
}

static bool scalar_is(const yaml_node_t *node, const char *text)
{
    return node && node->type == YAML_SCALAR_NODE &&
           text_equal((const char *)node->data.scalar.value, text);
}

yaml_node_t *yaml_tree_root(struct yaml_tree *y)
{
    return yaml_document_get_root_node(&y->document);
}

yaml_node_t *yaml_tree_get(struct yaml_tree *y, yaml_node_t *mapping, const char *key)
{
    if (!mapping || mapping->type != YAML_MAPPING_NODE) {
        return NULL;
    }
    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
         pair < mapping->data.mapping.pairs.top; pair++) {
        if (scalar_is(yaml_document_get_node(&y->document, pair->key), key)) {
            return yaml_document_get_node(&y->document, pair->value);
        }
    }
    return NULL;
}

int yaml_tree_text(struct yaml_tree *y, yaml_node_t *mapping, const char *key, const char **out,
                   struct err *e)
{
    yaml_node_t *node = yaml_tree_get(y, mapping, key);
    *out = NULL;
    if (!node) {
        return 0;
    }
    if (node->type != YAML_SCALAR_NODE) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' is not text", y->path,
                       yaml_tree_line(node), key);
    }
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' holds a NUL byte", y->path,
                       yaml_tree_line(node), key);
    }
    bool is_null = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                   (text_equal(text, "null") || text_equal(text, "~"));
    *out = text[0] == '\0' || is_null ? NULL : text;
    return 0;
}

int yaml_tree_bool(struct yaml_tree *y, yaml_node_t *mapping, const char *key, bool *out,
                   struct err *e)
{
    const char *text;
    int rc = yaml_tree_text(y, mapping, key, &text, e);
    if (rc != 0) {
        return rc;
    }
    if (text && !text_equal(text, "true") && !text_equal(text, "false")) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' is neither true nor false", y->path,
                       yaml_tree_line(yaml_tree_get(y, mapping, key)), key);
    }
    *out = text_equal(text, "true");
    return 0;
}

int yaml_tree_named(struct yaml_tree *y, const char *list, const char *name, const char *inner,
                    yaml_node_t **out, struct err *e)
{
    yaml_node_t *sequence = yaml_tree_get(y, yaml_tree_root(y), list);
    if (!sequence || sequence->type != YAML_SEQUENCE_NODE) {
        return err_set(e, ERR_PARSE, "'%s' has no list '%s'", y->path, list);
    }
    for (yaml_node_item_t *item = sequence->data.sequence.items.start;
         item < sequence->data.sequence.items.top; item++) {
        yaml_node_t *entry = yaml_document_get_node(&y->document, *item);
        if (!scalar_is(yaml_tree_get(y, entry, "name"), name)) {
            continue;
        }
        *out = yaml_tree_get(y, entry, inner);
        if (!*out || (*out)->type != YAML_MAPPING_NODE) {
            return err_set(e, ERR_PARSE, "'%s' line %zu: entry '%s' of '%s' has no mapping '%s'",
                           y->path, yaml_tree_line(entry), name, list, inner);
        }
        return 0;
    }
    return err_set(e, ERR_PARSE, "'%s' has no entry '%s' in '%s'", y->path, name, list);
}
