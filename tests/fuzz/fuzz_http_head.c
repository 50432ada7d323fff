/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an API server's answer: what is read of its head stays within its bounds. */
#include "kube/kube_client.c" /* read_head is its own */
#include "tests/fuzz/fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MAX_BYTES = 64 << 10 }; /* what a socket takes without a reader */

/* An abstract socket: nothing is left on a disk. */
static int listen_here(char name[static 40])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                (size_t)snprintf(name, 40, "fuzz-http-head-%d", (int)getpid()));
    memcpy(address.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 1) == 0);
    return fd;
}

static size_t drop_body(char *bytes, size_t size, size_t count, void *user)
{
    return size * count;
}

static void serve(CURLM *multi, int listener, const uint8_t *data, size_t size)
{
    int running = 1;
    int peer = -1;
    while (running > 0 && curl_multi_perform(multi, &running) == CURLM_OK) {
        if (peer < 0 && (peer = accept(listener, NULL, NULL)) >= 0) {
            check(write(peer, data, size) == (ssize_t)size && shutdown(peer, SHUT_WR) == 0);
        }
        (void)curl_multi_poll(multi, NULL, 0, 10, NULL); /* it goes on by itself */
    }
    check(peer < 0 || close(peer) == 0);
}

static void answer(const uint8_t *data, size_t size, struct kube_response *out)
{
    char name[40];
    int listener = listen_here(name);
    CURLM *multi = curl_multi_init();
    struct try t = {.transfer = {.easy = curl_easy_init()}};
    check(multi && t.transfer.easy);
    (void)curl_easy_setopt(t.transfer.easy, CURLOPT_URL, "http://localhost/");
    (void)curl_easy_setopt(t.transfer.easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name);
    (void)curl_easy_setopt(t.transfer.easy, CURLOPT_TIMEOUT_MS, 1000L);
    (void)curl_easy_setopt(t.transfer.easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(t.transfer.easy, CURLOPT_HEADERDATA, &t);
    (void)curl_easy_setopt(t.transfer.easy, CURLOPT_WRITEFUNCTION, drop_body);
    check(curl_multi_add_handle(multi, t.transfer.easy) == CURLM_OK);
    serve(multi, listener, data, size);
    read_head(&t, out); /* however it ended */
    buf_fini(&t.head);
    (void)curl_multi_remove_handle(multi, t.transfer.easy);
    curl_easy_cleanup(t.transfer.easy);
    (void)curl_multi_cleanup(multi);
    (void)close(listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_response r;
    if (size > ANSWER_MAX_BYTES) {
        return 0;
    }
    answer(data, size, &r);
    check(r.retry_after_ns >= 0 && r.retry_after_ns <= (int64_t)RETRY_AFTER_MAX_S * NS_PER_SEC);
    check(!r.has_server_date || r.server_date.ns >= 0);
    check(r.http_status >= 0 && (r.code == 0) == (r.http_status >= 200 && r.http_status < 300));
    fuzz_tell(r.retry_after_ns > 0 || r.has_server_date);
    return 0;
}
