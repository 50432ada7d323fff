/* SPDX-License-Identifier: Apache-2.0 */
/* A kubeconfig as a tree: strict reads with errors that name file, line and key. */
#ifndef KUBE_KUBE_YAML_H
#define KUBE_KUBE_YAML_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

struct kube_yaml {
    yaml_document_t document;
    const char *path; /* borrowed: for messages */
};

/* Parses the first document of `text`. Errors: ERR_PARSE. On success free with kube_yaml_fini. */
NODISCARD int kube_yaml_init(struct kube_yaml *y, const char *path, const char *text, size_t len,
                             struct err *e);
void kube_yaml_fini(struct kube_yaml *y);

/* The value of a key of a mapping, or NULL if the mapping is NULL or has no such key. */
yaml_node_t *kube_yaml_get(struct kube_yaml *y, yaml_node_t *mapping, const char *key);

/* The text of a scalar member: NULL if absent, empty or null. Errors: ERR_PARSE if it is no
 * scalar. Borrowed from the document. */
NODISCARD int kube_yaml_text(struct kube_yaml *y, yaml_node_t *mapping, const char *key,
                             const char **out, struct err *e);
NODISCARD int kube_yaml_bool(struct kube_yaml *y, yaml_node_t *mapping, const char *key, bool *out,
                             struct err *e);

/* The mapping `inner` of the entry called `name` in the sequence `list` of the root:
 * clusters / users / contexts. Errors: ERR_PARSE naming what is missing. */
NODISCARD int kube_yaml_named(struct kube_yaml *y, const char *list, const char *name,
                              const char *inner, yaml_node_t **out, struct err *e);

/* Line of a node, counted from 1. */
size_t kube_yaml_line(const yaml_node_t *node);

#endif
