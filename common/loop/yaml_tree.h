/* SPDX-License-Identifier: Apache-2.0 */
/* A YAML file as a tree: strict reads with errors that name file, line and key. */
#ifndef LOOP_YAML_TREE_H
#define LOOP_YAML_TREE_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

struct yaml_tree {
    yaml_document_t document;
    const char *kind; /* borrowed, for messages, like the next: "", or "file " */
    const char *path;
    size_t second_line; /* where a second document begins, which is not in the tree; 0: nowhere */
};

/* Parses the first document of `text`. Errors: ERR_PARSE, ERR_LIMIT (nested deeper than 32). On
 * success free with yaml_tree_fini. */
NODISCARD int yaml_tree_init(struct yaml_tree *y, const char *kind, const char *path,
                             const char *text, size_t len, struct err *e);
void yaml_tree_fini(struct yaml_tree *y);

/* NULL if there is no document. */
yaml_node_t *yaml_tree_root(struct yaml_tree *y);

/* The value of a key of a mapping, or NULL if the mapping is NULL or has no such key. */
yaml_node_t *yaml_tree_get(struct yaml_tree *y, yaml_node_t *mapping, const char *key);

/* The text of a scalar member: NULL if absent, empty or null. Errors: ERR_PARSE if it is no
 * scalar. Borrowed from the document. */
NODISCARD int yaml_tree_text(struct yaml_tree *y, yaml_node_t *mapping, const char *key,
                             const char **out, struct err *e);
NODISCARD int yaml_tree_bool(struct yaml_tree *y, yaml_node_t *mapping, const char *key, bool *out,
                             struct err *e);

/* The mapping `inner` of the entry called `name` in the sequence `list` of the root:
 * clusters / users / contexts. Errors: ERR_PARSE naming what is missing. */
NODISCARD int yaml_tree_named(struct yaml_tree *y, const char *list, const char *name,
                              const char *inner, yaml_node_t **out, struct err *e);

/* Line of a node, counted from 1. */
size_t yaml_tree_line(const yaml_node_t *node);

#endif
