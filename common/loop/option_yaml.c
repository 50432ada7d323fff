/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of --config: one YAML mapping from option names to scalars, or to a sequence of scalars
 * for a list. Everything else YAML can do (nesting, anchors, several documents) is refused.
 */
#include "base/text.h"
#include "loop/option_internal.h"

#include <assert.h>
#include <string.h>
#include <yaml.h>

enum { SKIP_MAX_DEPTH = 8 };

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    struct option_run *run;
    const char *path;
    bool seen[OPTION_MAX_ROWS]; /* a key given twice is a mistake */
};

static size_t line_of(const struct reader *r)
{
    return r->event.start_mark.line + 1;
}

/* The next event replaces the one before. */
static int reader_next(struct reader *r, struct err *e)
{
    if (r->has_event) {
        yaml_event_delete(&r->event);
        r->has_event = false;
    }
    if (yaml_parser_parse(&r->parser, &r->event)) {
        r->has_event = true;
        return 0;
    }
    if (r->parser.error == YAML_MEMORY_ERROR) {
        return err_set(e, ERR_NOMEM, "file '%s': out of memory", r->path);
    }
    const char *problem = r->parser.problem ? r->parser.problem : "not readable";
    return err_set(e, ERR_PARSE, "file '%s' line %zu: not valid YAML: %s", r->path,
                   r->parser.problem_mark.line + 1, problem);
}

static int refuse(const struct reader *r, struct err *e, const char *what)
{
    return err_set(e, ERR_PARSE, "file '%s' line %zu: %s", r->path, line_of(r), what);
}

static int take_scalar(struct reader *r, const struct option_row *row, struct err *e)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    bool is_plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && (len == 0 || text_equal(text, "~") || text_equal(text, "null"))) {
        return err_set(e, ERR_PARSE, "file '%s' line %zu: '%s' has no value", r->path, line_of(r),
                       row->name);
    }
    struct option_origin origin = {.source = OPTION_BY_FILE, .line = line_of(r)};
    return option_set(r->run, row, &origin, text, len, e);
}

static int end_sequence(const struct reader *r, struct err *e)
{
    return r->event.type == YAML_SEQUENCE_END_EVENT
               ? 0
               : refuse(r, e, "a list holds plain values only");
}

static int take_sequence(struct reader *r, const struct option_row *row, struct err *e)
{
    int rc;
    while ((rc = reader_next(r, e)) == 0 && r->event.type == YAML_SCALAR_EVENT) {
        rc = take_scalar(r, row, e);
        if (rc != 0) {
            return rc;
        }
    }
    return rc == 0 ? end_sequence(r, e) : rc;
}

static int take_value(struct reader *r, const struct option_row *row, struct err *e)
{
    assert(row);
    int rc = reader_next(r, e);
    if (rc != 0) {
        return rc;
    }
    bool is_list = row->type == OPTION_LIST;
    if (is_list && r->event.type == YAML_SEQUENCE_START_EVENT) {
        return take_sequence(r, row, e);
    }
    if (!is_list && r->event.type == YAML_SCALAR_EVENT) {
        return take_scalar(r, row, e);
    }
    return err_set(e, ERR_PARSE, "file '%s' line %zu: '%s' needs %s", r->path, line_of(r),
                   row->name, is_list ? "a list ('- value' lines)" : "one plain value");
}

static int take_key(struct reader *r, const struct option_row **out, struct err *e)
{
    if (r->event.type != YAML_SCALAR_EVENT) {
        return refuse(r, e, "expected an option name");
    }
    const char *name = (const char *)r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    const struct option_program *program = r->run->program;
    const struct option_row *row = option_find(program, name, len);
    if (!row && program->shared_file) {
        *out = NULL;
        return 0;
    }
    if (!row) {
        char shown[64];
        char hint[96];
        text_sanitize(shown, sizeof(shown), name, len);
        option_suggest(program, name, len, "", hint, sizeof(hint));
        return err_set(e, ERR_PARSE, "file '%s' line %zu: unknown key '%s'%s", r->path, line_of(r),
                       shown, hint);
    }
    bool *seen = &r->seen[row - program->rows];
    if (*seen) {
        return err_set(e, ERR_PARSE, "file '%s' line %zu: '%s' is given twice", r->path, line_of(r),
                       row->name);
    }
    *seen = true;
    *out = row;
    return 0;
}

/* Of a key that is another program's, perhaps a newer one's: whatever it is, but not deep, for
 * libyaml takes seconds for what is nested some ten thousand deep. */
static int skip_value(struct reader *r, struct err *e)
{
    int depth = 0;
    do {
        int rc = reader_next(r, e);
        if (rc != 0) {
            return rc;
        }
        yaml_event_type_t type = r->event.type;
        depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        if (depth > SKIP_MAX_DEPTH) {
            return refuse(r, e, "a value is nested more than 8 deep");
        }
    } while (depth > 0);
    return 0;
}

static int take_mapping(struct reader *r, struct err *e)
{
    int rc;
    while ((rc = reader_next(r, e)) == 0 && r->event.type != YAML_MAPPING_END_EVENT) {
        const struct option_row *row = NULL;
        rc = take_key(r, &row, e);
        if (rc != 0) {
            return rc;
        }
        rc = row ? take_value(r, row, e) : skip_value(r, e);
        if (rc != 0) {
            return rc;
        }
    }
    return rc;
}

/* The next event, and the one after it. */
static int reader_skip(struct reader *r, struct err *e)
{
    int rc = reader_next(r, e);
    return rc != 0 ? rc : reader_next(r, e);
}

/* STREAM-START, then nothing or one document of one mapping, then STREAM-END. */
static int take_stream(struct reader *r, struct err *e)
{
    int rc = reader_skip(r, e); /* STREAM-START */
    if (rc != 0 || r->event.type == YAML_STREAM_END_EVENT) {
        return rc; /* an empty file sets nothing */
    }
    rc = reader_next(r, e); /* past DOCUMENT-START */
    if (rc != 0) {
        return rc;
    }
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        return refuse(r, e, "expected 'option: value' lines");
    }
    rc = take_mapping(r, e);
    if (rc != 0) {
        return rc;
    }
    rc = reader_skip(r, e); /* DOCUMENT-END */
    if (rc != 0) {
        return rc;
    }
    return r->event.type == YAML_STREAM_END_EVENT ? 0
                                                  : refuse(r, e, "only one document is allowed");
}

int option_apply_yaml(struct option_run *run, const char *path, const char *text, size_t len,
                      struct err *e)
{
    if (len > OPTION_MAX_FILE_BYTES) {
        return err_set(e, ERR_LIMIT, "file '%s' has %zu bytes, more than the allowed %d", path, len,
                       (int)OPTION_MAX_FILE_BYTES);
    }
    struct reader r = {.run = run, .path = path};
    run->origins.file = path;
    if (!yaml_parser_initialize(&r.parser)) {
        return err_set(e, ERR_NOMEM, "file '%s': out of memory", path);
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    int rc = take_stream(&r, e);
    if (r.has_event) {
        yaml_event_delete(&r.event);
    }
    yaml_parser_delete(&r.parser);
    return rc;
}
