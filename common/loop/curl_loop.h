/* SPDX-License-Identifier: Apache-2.0 */
/* Timers of the loop; curl's sockets and its timer on it, so that no transfer blocks. Loop thread
 * only. */
#ifndef LOOP_CURL_LOOP_H
#define LOOP_CURL_LOOP_H

#include <curl/curl.h>
#include <stdint.h>

struct ev_loop;
struct ev_timer;
struct curl_loop;

/* Arms it anew, for once. It counts from now: the loop's own time may be old after a long callback.
 */
void loop_timer_arm(struct ev_loop *loop, struct ev_timer *timer, int64_t wait_ns);

struct curl_loop_config {
    /* This handle has ended. Must neither add nor remove one. */
    void (*ended)(void *user, CURL *easy, CURLcode code);
    /* Curl is off the stack again, after all that may have moved a transfer. May add and remove
     * handles; must not free the loop. NULL: nothing to do. */
    void (*after)(void *user);
    void *user;
};

/* Borrows `loop`, copies `config`. */
struct curl_loop *curl_loop_new(struct ev_loop *loop, const struct curl_loop_config *config);
/* All handles are removed by then. Accepts NULL. */
void curl_loop_free(struct curl_loop *c);

/* Adds a handle; runs nothing yet. */
void curl_loop_add(struct curl_loop *c, CURL *easy);
/* Also one that was never added. */
void curl_loop_remove(struct curl_loop *c, CURL *easy);
/* No other handle takes over the connection of this one, which has ended. */
void curl_loop_spoil(CURL *easy);

#endif
