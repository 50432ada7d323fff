/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_options.h"

#include "base/log.h"
#include "base/text.h"
#include "host-agent/dra/host_device.h"

#include <string.h>
#include <unistd.h>

enum { DEVICE_MAX_BYTES = 63 };

static int parse_attributes(const struct dra_options *o, struct attribute_list *out, struct err *e)
{
    for (size_t i = 0; i < o->attributes.count; i++) {
        struct attribute attribute;
        int rc = attribute_parse(o->attributes.items[i], &attribute, e);
        if (rc == 0) {
            rc = attribute_list_set(out, &attribute, e);
        }
        if (rc != 0) {
            (void)err_wrap(e, "--dra-attribute"); /* rc is the code */
            return rc;
        }
    }
    return 0;
}

static bool is_label(const char *s)
{
    return text_is_dns1123_subdomain(s) && strlen(s) <= DEVICE_MAX_BYTES && !strchr(s, '.');
}

static struct socket_dirs dirs_of(const struct dra_options *o)
{
    return (struct socket_dirs){
        .kubelet_root = o->kubelet_root, .registry = o->registrar_dir, .plugin = o->plugin_dir};
}

int dra_options_check(const struct dra_options *o, struct err *e)
{
    struct socket_names names;
    struct attribute_list attributes = {.count = 0};
    if (o->mode == DRA_OFF) {
        return 0;
    }
    if (!is_label(o->device)) {
        return err_set(e, ERR_PARSE, "--dra-device-name '%s' is not a DNS label", o->device);
    }
    if (!text_is_empty(o->pool) && !text_is_dns1123_subdomain(o->pool)) {
        return err_set(e, ERR_PARSE, "--dra-pool-name '%s' is not a DNS name", o->pool);
    }
    if (o->health_timeout_ns % NS_PER_SEC != 0) {
        return err_set(e, ERR_PARSE, "--dra-health-timeout is not a number of whole seconds");
    }
    if (!text_is_empty(o->lock_dir) && o->lock_dir[0] != '/') {
        return err_set(e, ERR_PARSE, "--dra-lock-dir '%s' is not absolute", o->lock_dir);
    }
    const struct socket_dirs dirs = dirs_of(o);
    int rc = socket_names_make(&dirs, o->driver, o->rolling_uid, &names, e);
    if (rc != 0) {
        return rc;
    }
    return parse_attributes(o, &attributes, e);
}

bool dra_options_enabled(const struct dra_options *o)
{
    const struct socket_dirs dirs = dirs_of(o);
    struct socket_names names;
    if (o->mode != DRA_AUTO) {
        return o->mode == DRA_ON;
    }
    return socket_names_make(&dirs, o->driver, o->rolling_uid, &names, NULL) == 0 &&
           access(names.registry_dir, F_OK) == 0;
}

int dra_options_apply(const struct dra_options *o, struct dra_config *config, struct err *e)
{
    config->driver = o->driver;
    config->device = o->device;
    config->pool = o->pool;
    config->dirs = dirs_of(o);
    config->lock_dir = o->lock_dir;
    config->rolling_uid = o->rolling_uid;
    config->health_timeout_ns = o->health_timeout_ns;
    config->taint_effect = (enum slice_effect)o->taint_effect;
    config->attributes.count = 0;
    if (!text_is_empty(o->netdev)) {
        struct err why = ERR_INIT;
        if (host_device_describe("/sys", o->netdev, &config->attributes, &why) != 0) {
            log_warn("dra", "--dpu-netdev '%s': %s, continuing without its attributes", o->netdev,
                     why.msg);
        }
    }
    return parse_attributes(o, &config->attributes, e);
}
