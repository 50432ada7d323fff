/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader [FILE]: whether Pods are admitted, as the readiness record of dpu-host-agent says.
 *
 *     cc -o reader reader.c -ljansson
 *
 * Prints "admit" or "reject", the state and the reason; exits with 0 or 1. It follows
 * docs/architecture.md, "How to read it". Without the offset of a time namespace: it runs on the
 * host, or in a Pod, which has none of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BYTES = 64 << 10, TRIES = 5 /* it may be rewritten while we read */ };

static uint32_t crc32c(const char *data, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
        }
    }
    return ~crc;
}

/* The object of a whole page; NULL if it is torn, or no record of version 1. */
static json_t *parse(const char *page, size_t len)
{
    static const char member[] = ",\"crc32c\":\"";
    char tail[sizeof(member) + 10];
    const char *state = NULL;
    json_t *record;
    int version;
    int admit;
    while (len > 0 && (page[len - 1] == ' ' || page[len - 1] == '\n')) {
        len--;
    }
    size_t body = len < sizeof(tail) - 1 ? 0 : len - (sizeof(tail) - 1);
    (void)snprintf(tail, sizeof(tail), "%s%08" PRIx32 "\"}", member, crc32c(page, body));
    if (body == 0 || memcmp(page + body, tail, sizeof(tail) - 1) != 0) {
        return NULL;
    }
    record = json_loadb(page, len, 0, NULL);
    if (json_unpack(record, "{s:i, s:s, s:b, s:I, s:I, s:I, s:s, s:s}", "version", &version,
                    "state", &state, "admit", &admit, "observedBoottimeNs", &(json_int_t){0},
                    "writerUntilBoottimeNs", &(json_int_t){0}, "holdUntilBoottimeNs",
                    &(json_int_t){0}, "bootId", &(const char *){0}, "reason",
                    &(const char *){0}) != 0 ||
        version != 1 ||
        (strcmp(state, "Ready") != 0 && strcmp(state, "NotReady") != 0 &&
         strcmp(state, "Unknown") != 0)) {
        json_decref(record);
        return NULL;
    }
    return record;
}

/* NULL with *out_reason set. */
static json_t *read_record(const char *path, const char **out_reason)
{
    static char page[MAX_BYTES];
    struct timespec pause = {.tv_nsec = 200000};
    struct stat found;
    json_t *record = NULL;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *out_reason =
        fd < 0 && (errno == ENOENT || errno == ENOTDIR) ? "RecordMissing" : "RecordInvalid";
    if (fd < 0) {
        return NULL;
    }
    bool is_ours = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= MAX_BYTES &&
                   (geteuid() != 0 || (found.st_uid == 0 && (found.st_mode & 022) == 0));
    for (int i = 0; is_ours && !record && i < TRIES; i++, pause.tv_nsec *= 4) {
        ssize_t len = pread(fd, page, sizeof(page), 0);
        record = len > 0 ? parse(page, (size_t)len) : NULL;
        if (!record) {
            (void)nanosleep(&pause, NULL);
        }
    }
    (void)close(fd);
    return record;
}

static bool is_this_boot(const char *boot_id)
{
    char now[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool is_read = file && fgets(now, sizeof(now), file);
    if (file) {
        (void)fclose(file);
    }
    now[strcspn(now, "\n")] = '\0';
    return is_read && strcmp(now, boot_id) == 0;
}

static int64_t time_in(const json_t *record, const char *member)
{
    return json_integer_value(json_object_get(record, member));
}

static const char *text_in(const json_t *record, const char *member)
{
    return json_string_value(json_object_get(record, member));
}

/* As dpu-gate would decide. */
static bool judge(const json_t *record, const char **out_state, const char **out_reason)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    if (!is_this_boot(text_in(record, "bootId")) ||
        time_in(record, "observedBoottimeNs") > now + 1000000000) {
        *out_reason = "RecordInvalid";
        return false;
    }
    *out_state = text_in(record, "state");
    *out_reason = text_in(record, "reason");
    if (strcmp(*out_state, "NotReady") == 0 || !json_is_true(json_object_get(record, "admit"))) {
        return false;
    }
    if (now < time_in(record, "writerUntilBoottimeNs")) {
        return true;
    }
    /* The writer is overdue: nobody knows the state. Pods are admitted a while longer. */
    bool is_held = now < time_in(record, "holdUntilBoottimeNs");
    *out_state = "Unknown";
    *out_reason = is_held ? *out_reason : "RecordStale";
    return is_held;
}

int main(int argc, char **argv)
{
    const char *state = "Unknown";
    const char *reason;
    json_t *record = read_record(argc > 1 ? argv[1] : "/run/dpu-heartbeat/readiness.json", &reason);
    bool is_admitted = record && judge(record, &state, &reason);
    (void)printf("%s %s %s\n", is_admitted ? "admit" : "reject", state, reason);
    json_decref(record);
    return is_admitted ? 0 : 1;
}
