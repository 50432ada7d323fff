/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/tree_print.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

bool tree_print_json(const json_t *tree, FILE *out)
{
    return json_dumpf(tree, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12)) ==
               0 &&
           fputc('\n', out) != EOF && fflush(out) == 0;
}

static bool emit(yaml_emitter_t *emitter, const json_t *value);

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, yaml_scalar_style_t style)
{
    yaml_event_t event;
    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                        (int)strlen(text), 1, 1, style) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_mapping(yaml_emitter_t *emitter, const json_t *object)
{
    yaml_event_t event;
    json_t *members = (json_t *)(uintptr_t)object; /* iterated only */
    yaml_mapping_style_t style =
        json_object_size(object) > 0 ? YAML_BLOCK_MAPPING_STYLE : YAML_FLOW_MAPPING_STYLE;
    bool ok = yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, style) &&
              yaml_emitter_emit(emitter, &event);
    for (void *at = json_object_iter(members); ok && at; at = json_object_iter_next(members, at)) {
        ok = emit_scalar(emitter, json_object_iter_key(at), YAML_ANY_SCALAR_STYLE) &&
             emit(emitter, json_object_iter_value(at));
    }
    return ok && yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool emit_sequence(yaml_emitter_t *emitter, const json_t *array)
{
    yaml_event_t event;
    yaml_sequence_style_t style =
        json_array_size(array) > 0 ? YAML_BLOCK_SEQUENCE_STYLE : YAML_FLOW_SEQUENCE_STYLE;
    bool ok = yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, style) &&
              yaml_emitter_emit(emitter, &event);
    for (size_t i = 0; ok && i < json_array_size(array); i++) {
        ok = emit(emitter, json_array_get(array, i));
    }
    return ok && yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool emit(yaml_emitter_t *emitter, const json_t *value)
{
    if (json_is_object(value)) {
        return emit_mapping(emitter, value);
    }
    if (json_is_array(value)) {
        return emit_sequence(emitter, value);
    }
    if (json_is_string(value)) { /* quoted: "true" and "1" stay texts */
        return emit_scalar(emitter, json_string_value(value), YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    bool ok = text && emit_scalar(emitter, text, YAML_PLAIN_SCALAR_STYLE);
    free(text);
    return ok;
}

bool tree_print_yaml(const json_t *tree, FILE *out)
{
    yaml_emitter_t emitter;
    yaml_event_t event;
    if (!yaml_emitter_initialize(&emitter)) {
        return false;
    }
    yaml_emitter_set_output_file(&emitter, out);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    bool ok = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
              yaml_emitter_emit(&emitter, &event) &&
              yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
              yaml_emitter_emit(&emitter, &event) && emit(&emitter, tree) &&
              yaml_document_end_event_initialize(&event, 1) &&
              yaml_emitter_emit(&emitter, &event) && yaml_stream_end_event_initialize(&event) &&
              yaml_emitter_emit(&emitter, &event);
    yaml_emitter_delete(&emitter);
    return ok && fflush(out) == 0;
}
