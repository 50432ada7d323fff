/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate_source.h"

#include "base/file.h"
#include "base/text.h"
#include "cni/delegate_conf.h"

struct json_slice delegate_source_plugin(const struct delegate_source *source, size_t index)
{
    struct json_walk w = json_walk_start(source->plugins);
    struct json_slice key;
    struct json_slice plugin = source->plugins;
    if (json_scan_kind(source->plugins) == JSON_KIND_ARRAY) {
        for (size_t i = 0; i <= index && json_walk_next(&w, &key, &plugin); i++) {
        }
    }
    return plugin;
}

/* Of a .conf, or of a .conflist; `name` is that of the file, or of our key. */
static int take(struct json_slice object, enum cni_verb verb, const char *name,
                struct delegate_source *out, struct cni_error *error)
{
    struct json_slice plugins = json_scan_member(object, "plugins");
    bool is_list = json_scan_kind(plugins) == JSON_KIND_ARRAY;
    size_t count = is_list ? json_scan_count(plugins) : plugins.len == 0;
    if (count == 0 || (count > 1 && verb != CNI_DEL)) {
        return cni_fail(error, CNI_INVALID_CONFIG, "",
                        "%s lists %zu plugins: exactly one can be wrapped, put dpu-gate first in "
                        "the list instead",
                        name, count);
    }
    *out = (struct delegate_source){
        .file = out->file, .plugins = is_list ? plugins : object, .count = count};
    for (size_t i = 0; i < count; i++) {
        if (!delegate_conf_is_usable(delegate_source_plugin(out, i))) {
            return cni_fail(error, CNI_INVALID_CONFIG, "",
                            "plugin %zu of %s has no type, or is dpu-gate itself", i, name);
        }
    }
    return 0;
}

static int take_file(const struct cni_conf *conf, enum cni_verb verb, struct delegate_source *out,
                     struct cni_error *error)
{
    char path[PATH_MAX];
    char name[PATH_MAX + 32];
    struct err e = ERR_INIT;
    struct json_slice object = {.at = NULL};
    (void)json_scan_text(json_scan_member(conf->object, "delegateConf"), path,
                         sizeof(path)); /* conf_read_options has seen that it fits */
    text_format(name, sizeof(name), "delegateConf '%s'", path);
    int rc = file_read(path, &out->file, &e); /* it may be a link */
    if (rc != 0) {
        /* Its owner writes it when it is ready: worth another try. */
        return cni_fail(error, rc == ERR_LIMIT ? CNI_INVALID_CONFIG : CNI_TRY_AGAIN_LATER, "",
                        "delegateConf cannot be read: %s", e.msg);
    }
    rc = json_scan_check(buf_text(&out->file), out->file.len, &object, &e);
    if (rc != 0 || json_scan_kind(object) != JSON_KIND_OBJECT) {
        return cni_fail(error, CNI_DECODING_FAILURE, "", "%s: %s", name,
                        rc == 0 ? "it is not an object" : e.msg);
    }
    return take(object, verb, name, out, error);
}

int delegate_source_open(const struct cni_conf *conf, enum cni_verb verb,
                         struct delegate_source *out, struct cni_error *error)
{
    struct cni_error ignored;
    struct json_slice last = json_scan_member(conf->object, "lastDelegate");
    *out =
        (struct delegate_source){.plugins = json_scan_member(conf->object, "delegate"), .count = 1};
    buf_init(&out->file, CONF_MAX_BYTES);
    if (out->plugins.len > 0) {
        return 0;
    }
    int code = take_file(conf, verb, out, error);
    bool is_gated = verb == CNI_ADD || verb == CNI_STATUS;
    if (code == 0 || is_gated || json_scan_kind(last) != JSON_KIND_OBJECT ||
        take(last, verb, "lastDelegate", out, &ignored) != 0) {
        return code;
    }
    *error = (struct cni_error){.code = 0};
    return 0;
}

void delegate_source_close(struct delegate_source *source)
{
    buf_fini(&source->file);
}
