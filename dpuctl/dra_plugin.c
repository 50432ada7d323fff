/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/dra_plugin.h"

#include "base/text.h"
#include "dra_proto/registration.pb-c.h"
#include "grpc/unix_call.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CALL_NS (5 * NS_PER_SEC) /* a kubelet's deadline for registration calls */

struct search {
    const char *driver;
    int stop_fd;
    struct dra_plugin asked; /* the socket that is being asked */
    struct dra_plugin *best; /* so far; without a service: none */
    struct err why;          /* of the first socket that did not answer */
};

/* The newest health service that the plugin advertises; NULL if none. */
static const char *pick_service(const Registration__PluginInfo *info)
{
    static const char *const services[][2] = {{"v1.DRAResourceHealth", "v1"},
                                              {"v1alpha1.DRAResourceHealth", "v1alpha1"}};
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        for (size_t k = 0; k < info->n_supported_versions; k++) {
            if (text_equal(info->supported_versions[k], services[i][0])) {
                return services[i][1];
            }
        }
    }
    return NULL;
}

static void on_info(void *user, const uint8_t *message, size_t len)
{
    struct search *s = user;
    struct dra_plugin *asked = &s->asked;
    Registration__PluginInfo *info = registration__plugin_info__unpack(NULL, len, message);
    if (!info) {
        return; /* told by the missing service */
    }
    text_sanitize(asked->endpoint, sizeof(asked->endpoint), info->endpoint, strlen(info->endpoint));
    if (text_equal(info->type, "DRAPlugin") && text_equal(info->name, s->driver) &&
        text_equal(asked->endpoint, info->endpoint)) {
        asked->service = pick_service(info);
    }
    registration__plugin_info__free_unpacked(info, NULL);
}

/* As plugins name their sockets: by the driver, then by the UID of a rolling update or a hash of
 * it, or where that is too long by "dra-" and a hash of both. */
static bool is_named_for(const char *driver, const char *name)
{
    size_t len = strlen(driver);
    return (strncmp(name, driver, len) == 0 && name[len] == '-') || strncmp(name, "dra-", 4) == 0;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Asks one socket who it is. One that is not of our driver is no error. */
static int ask_socket(struct search *s, const char *dir, const char *name, struct err *e)
{
    struct stat found;
    s->asked = (struct dra_plugin){.service = NULL};
    text_format(s->asked.socket, sizeof(s->asked.socket), "%s/%s", dir, name);
    if (stat(s->asked.socket, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return 0;
    }
    s->asked.made = found.st_ctim;
    struct unix_call call = {.path = s->asked.socket,
                             .method = "/pluginregistration.Registration/GetInfo",
                             .on_message = on_info,
                             .user = s,
                             .stop_fd = s->stop_fd};
    int rc = unix_call_make(&call, CALL_NS, e);
    if (rc == 0 && s->asked.service &&
        (!s->best->service || is_newer(&s->asked.made, &s->best->made))) {
        *s->best = s->asked;
    }
    return rc;
}

/* The sockets that are named for our driver, or the others. Errors: ERR_GONE, ERR_IO. */
static int ask_sockets(struct search *s, const char *dir, bool are_named, struct err *e)
{
    int rc = 0;
    DIR *entries = opendir(dir);
    if (!entries) {
        return err_set_errno(e, ERR_IO, errno, "looking into '%s'", dir);
    }
    for (struct dirent *at = readdir(entries); at && rc != ERR_GONE; at = readdir(entries)) {
        struct err own = ERR_INIT;
        if (at->d_name[0] == '.' || is_named_for(s->driver, at->d_name) != are_named) {
            continue;
        }
        rc = ask_socket(s, dir, at->d_name, &own);
        if (rc != 0 && s->why.code == 0) {
            s->why = own;
        }
    }
    (void)closedir(entries); /* read-only */
    return rc == ERR_GONE ? err_set(e, rc, "interrupted") : 0;
}

/* A kubelet asks all; we begin with likely ones, so that a plugin of others that hangs does not
 * hold us up. */
int dra_plugin_find(const char *kubelet_root, const char *driver, int stop_fd,
                    struct dra_plugin *out, struct err *e)
{
    char dir[PATH_MAX];
    struct search s = {.driver = driver, .stop_fd = stop_fd, .best = out};
    *out = (struct dra_plugin){.service = NULL};
    text_format(dir, sizeof(dir), "%s/plugins_registry", kubelet_root);
    int rc = ask_sockets(&s, dir, true, e);
    if (rc == 0 && !out->service) {
        rc = ask_sockets(&s, dir, false, e);
    }
    if (rc != 0 || out->service) {
        return rc;
    }
    return err_set(e, ERR_NOTFOUND,
                   "no socket in '%s', such as %s-reg.sock, is of DRA plugin '%s' with a health "
                   "service%s%s",
                   dir, driver, driver, s.why.code != 0 ? "; " : "", s.why.msg);
}

static void on_nothing(void *user, const uint8_t *message, size_t len)
{
    (void)user;
    (void)message;
    (void)len;
}

int dra_plugin_accept(const struct dra_plugin *plugin, int stop_fd, struct err *e)
{
    static const uint8_t registered[] = {0x08, 0x01}; /* RegistrationStatus{1: true} */
    struct unix_call call = {.path = plugin->socket,
                             .method = "/pluginregistration.Registration/NotifyRegistrationStatus",
                             .message = {.bytes = registered, .len = sizeof(registered)},
                             .on_message = on_nothing,
                             .stop_fd = stop_fd};
    return unix_call_make(&call, CALL_NS, e);
}
