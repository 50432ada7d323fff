/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_impersonation.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct yaml_tree *yaml;
    struct kube_impersonation *out;
};

/* Adds "NAME: VALUE" of a scalar node. */
static int add(struct reader *r, const char *name, const char *key, const yaml_node_t *node,
               struct err *e)
{
    size_t line = yaml_tree_line(node);
    const char *value = (const char *)node->data.scalar.value;
    size_t len = node->type == YAML_SCALAR_NODE ? node->data.scalar.length : 0;
    if (len == 0) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' has a value that is not text",
                       r->yaml->path, line, key);
    }
    for (size_t i = 0; i < len; i++) {
        if (iscntrl((unsigned char)value[i])) {
            return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' holds a control character",
                           r->yaml->path, line, key);
        }
    }
    if (r->out->count == KUBE_IMPERSONATION_MAX ||
        strlen(name) + len > KUBE_IMPERSONATION_MAX_BYTES) {
        return err_set(e, ERR_LIMIT,
                       "'%s' line %zu: '%s': more than %d names to act as, or one longer than %d "
                       "bytes",
                       r->yaml->path, line, key, (int)KUBE_IMPERSONATION_MAX,
                       (int)KUBE_IMPERSONATION_MAX_BYTES);
    }
    if (asprintf(&r->out->headers[r->out->count], "%s: %s", name, value) < 0) {
        return err_no_memory(e);
    }
    r->out->count++;
    return 0;
}

static int add_each(struct reader *r, const char *name, const char *key, const yaml_node_t *list,
                    struct err *e)
{
    if (list->type != YAML_SEQUENCE_NODE) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' is not a list", r->yaml->path,
                       yaml_tree_line(list), key);
    }
    for (yaml_node_item_t *item = list->data.sequence.items.start;
         item < list->data.sequence.items.top; item++) {
        int rc = add(r, name, key, yaml_document_get_node(&r->yaml->document, *item), e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* The name of an extra's header. What may not stand in a header's name is percent-encoded; the API
 * server decodes it. */
static int name_extra(struct reader *r, const yaml_node_t *key, char *out, size_t out_bytes,
                      struct err *e)
{
    size_t len = key->type == YAML_SCALAR_NODE ? key->data.scalar.length : 0;
    text_format(out, out_bytes, "Impersonate-Extra-");
    size_t at = strlen(out);
    if (len == 0 || at + 3 * len >= out_bytes) {
        return err_set(e, ERR_PARSE,
                       "'%s' line %zu: 'as-user-extra' has a key that is empty, too long or not "
                       "text",
                       r->yaml->path, yaml_tree_line(key));
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = key->data.scalar.value[i];
        bool is_plain = c < 0x80 && (isalnum(c) || (c != '\0' && strchr("!#$&'*+-.^_`|~", c)));
        text_format(out + at, out_bytes - at, is_plain ? "%c" : "%%%02X", c);
        at += strlen(out + at);
    }
    return 0;
}

static int add_extras(struct reader *r, const yaml_node_t *extra, struct err *e)
{
    if (extra->type != YAML_MAPPING_NODE) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: 'as-user-extra' is not a mapping",
                       r->yaml->path, yaml_tree_line(extra));
    }
    for (yaml_node_pair_t *pair = extra->data.mapping.pairs.start;
         pair < extra->data.mapping.pairs.top; pair++) {
        char name[KUBE_IMPERSONATION_MAX_BYTES];
        yaml_document_t *document = &r->yaml->document;
        int rc = name_extra(r, yaml_document_get_node(document, pair->key), name, sizeof(name), e);
        if (rc != 0 || (rc = add_each(r, name, "as-user-extra",
                                      yaml_document_get_node(document, pair->value), e)) != 0) {
            return rc;
        }
    }
    return 0;
}

/* The value of a key, or NULL if it is absent, empty or null. */
static const yaml_node_t *member(struct yaml_tree *y, yaml_node_t *user, const char *key)
{
    const yaml_node_t *node = yaml_tree_get(y, user, key);
    const char *text;
    bool is_none = node && node->type == YAML_SCALAR_NODE &&
                   yaml_tree_text(y, user, key, &text, NULL) == 0 && !text;
    return is_none ? NULL : node;
}

int kube_impersonation_read(struct yaml_tree *y, yaml_node_t *user, struct kube_impersonation *out,
                            struct err *e)
{
    struct reader r = {.yaml = y, .out = out};
    const yaml_node_t *as = member(y, user, "as");
    const yaml_node_t *uid = member(y, user, "as-uid");
    const yaml_node_t *groups = member(y, user, "as-groups");
    const yaml_node_t *extra = member(y, user, "as-user-extra");
    int rc;
    if (!as && (uid || groups || extra)) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: 'as' is missing: whose '%s' is this?", y->path,
                       yaml_tree_line(user),
                       uid      ? "as-uid"
                       : groups ? "as-groups"
                                : "as-user-extra");
    }
    if ((as && (rc = add(&r, "Impersonate-User", "as", as, e)) != 0) ||
        (uid && (rc = add(&r, "Impersonate-Uid", "as-uid", uid, e)) != 0) ||
        (groups && (rc = add_each(&r, "Impersonate-Group", "as-groups", groups, e)) != 0) ||
        (extra && (rc = add_extras(&r, extra, e)) != 0)) {
        return rc;
    }
    return 0;
}

bool kube_impersonation_equal(const struct kube_impersonation *a,
                              const struct kube_impersonation *b)
{
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++) {
        is_equal = text_equal(a->headers[i], b->headers[i]);
    }
    return is_equal;
}

void kube_impersonation_fini(struct kube_impersonation *i)
{
    while (i->count > 0) {
        free(i->headers[--i->count]);
    }
}
