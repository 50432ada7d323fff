/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/watch.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "dpuctl/node_look.h"
#include "dpuctl/screen.h"
#include "dpuctl/status_text.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

static const char summary[] =
    "Shows each change of this node's readiness as dpu-gate sees it, at the moment it takes "
    "effect: "
    "a line per change, or on a terminal a live view (q leaves). Needs no agent to be alive.";

enum { HISTORY_MAX = 12, LINE_BYTES = 400 };

/* The file system tells of changes; this finds what it cannot tell of, such as a directory that
 * was not there. */
#define LOOK_AGAIN_NS (1 * NS_PER_SEC)

struct watch {
    struct admin_config config;
    struct node_look *look;
    int inotify_fd;
    int signal_fd;
    bool is_screen;
    bool has_color;
    struct termios before; /* of the terminal */
    /* The last change that was shown. */
    bool has_shown;
    enum node_answer answer;
    enum readiness_reason reason;
    bool admit;
    struct mono since;
    char history[HISTORY_MAX][LINE_BYTES];
    size_t history_count;
};

/* ---- one change ------------------------------------------------------------------------------ */

static bool has_changed(const struct watch *w)
{
    return !w->has_shown || w->answer != w->look->answer || w->reason != w->look->gate.reason ||
           w->admit != w->look->gate.admit;
}

static const char *message_of(const struct node_look *look)
{
    return look->gate.message[0] != '\0' ? look->gate.message
           : look->gate.note[0] != '\0'  ? look->gate.note
                                         : look->record.verdict.message;
}

static void describe(const struct watch *w, char out[static LINE_BYTES])
{
    char time[RFC3339_BYTES];
    char span[SCREEN_SPAN_BYTES];
    char message[200];
    const struct node_look *look = w->look;
    rfc3339_format_micro(look->wall, time);
    time[23] = '\0'; /* milliseconds */
    text_sanitize(message, sizeof(message), message_of(look), strlen(message_of(look)));
    (void)snprintf(out, LINE_BYTES, "%sZ  %-8s  %s%s%s%s: %s", time, node_answer_name(look->answer),
                   readiness_reason_name(look->gate.reason), w->has_shown ? " after " : "",
                   w->has_shown ? screen_span(mono_since(look->now, w->since), span) : "",
                   w->has_shown ? (w->answer == NODE_READY       ? " Ready"
                                   : w->answer == NODE_NOT_READY ? " NotReady"
                                                                 : " Unknown")
                                : "",
                   message); /* for people: may be cut */
}

static void print_json(const struct watch *w)
{
    char time[RFC3339_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    const struct node_look *look = w->look;
    rfc3339_format_micro(look->wall, time);
    text_sanitize(message, sizeof(message), message_of(look), strlen(message_of(look)));
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:b, s:s, s:s, s:o}", "time", time, "node", w->config.agent.node_name,
        "answer", node_answer_name(look->answer), "admitsPods", look->gate.admit, "reason",
        readiness_reason_name(look->gate.reason), "message", message, "formerSeconds",
        w->has_shown ? json_real((double)mono_since(look->now, w->since) / 1e9) : json_null());
    if (line) {
        (void)json_dumpf(line, stdout, JSON_COMPACT); /* what matters is flushed and checked */
        (void)putchar('\n');
        json_decref(line);
    }
}

static void note_change(struct watch *w)
{
    char line[LINE_BYTES];
    describe(w, line);
    if (w->config.output == ADMIN_JSON) {
        print_json(w);
    } else if (!w->is_screen) {
        (void)puts(line);
    }
    size_t kept = w->history_count < HISTORY_MAX ? w->history_count++ : HISTORY_MAX - 1;
    memmove(w->history[1], w->history[0], kept * sizeof(w->history[0]));
    memcpy(w->history[0], line, sizeof(line));
    w->has_shown = true;
    w->answer = w->look->answer;
    w->reason = w->look->gate.reason;
    w->admit = w->look->gate.admit;
    w->since = w->look->now;
}

/* ---- the live view --------------------------------------------------------------------------- */

static void draw(const struct watch *w)
{
    (void)fputs("\033[H\033[2J", stdout);
    (void)printf("%s%s%s: ", screen_on(w->has_color, SCREEN_HEAD), w->config.agent.node_name,
                 screen_off(w->has_color));
    status_text_node(w->look, w->has_color, stdout);
    (void)puts("");
    for (size_t i = 0; i < w->history_count; i++) {
        (void)printf("%.79s\n", w->history[i]);
    }
    (void)fputs("\nq leaves", stdout);
}

static void enter_screen(struct watch *w)
{
    w->is_screen = w->config.output == ADMIN_TEXT && isatty(STDOUT_FILENO) &&
                   isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &w->before) == 0;
    if (w->is_screen) {
        struct termios raw = w->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw); /* without it q needs a newline: no harm */
        (void)fputs("\033[?1049h\033[?25l", stdout);
    }
}

static void leave_screen(const struct watch *w)
{
    if (w->is_screen) {
        (void)fputs("\033[?25h\033[?1049l", stdout);
        (void)fflush(stdout); /* nobody is left to tell */
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &w->before);
        if (w->history_count > 0) {
            (void)puts(w->history[0]);
        }
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void watch_directory(const struct watch *w)
{
    char dir[PATH_MAX];
    (void)text_copy(dir, sizeof(dir), w->look->path); /* same size */
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir) {
        *slash = '\0';
    }
    /* Fails while it is not there: then the clock looks. Adding it again only renews the mask. */
    (void)inotify_add_watch(w->inotify_fd, dir,
                            IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                                IN_DELETE_SELF);
}

static int wait_ms(const struct watch *w)
{
    int64_t wait_ns = LOOK_AGAIN_NS;
    if (!mono_is_never(w->look->flips_at)) {
        int64_t flip_ns = mono_since(w->look->flips_at, clock_mono_now());
        wait_ns = flip_ns < wait_ns ? flip_ns : wait_ns;
    }
    return wait_ns <= 0 ? 0 : (int)(wait_ns / NS_PER_MS) + 1; /* never before it */
}

/* False: time to go. */
static bool wait_for_news(const struct watch *w)
{
    char ignored[4096];
    char key;
    struct pollfd fds[] = {{.fd = w->signal_fd, .events = POLLIN},
                           {.fd = w->inotify_fd, .events = POLLIN},
                           {.fd = w->is_screen ? STDIN_FILENO : -1, .events = POLLIN}};
    if (poll(fds, ARRAY_LEN(fds), wait_ms(w)) < 0 && errno != EINTR) {
        return false;
    }
    if (fds[0].revents != 0) {
        struct signalfd_siginfo info;
        ssize_t got = read(w->signal_fd, &info, sizeof(info));
        return got == (ssize_t)sizeof(info) && info.ssi_signo == SIGWINCH;
    }
    while (read(w->inotify_fd, ignored, sizeof(ignored)) > 0) {
        /* which file it was does not matter: we look at ours */
    }
    if (fds[2].revents != 0) {
        ssize_t got = read(STDIN_FILENO, &key, 1);
        return got == 1 && key != 'q' && key != 'Q' && key != 3;
    }
    return true;
}

static int run(struct watch *w)
{
    bool goes_on = true;
    while (goes_on) {
        watch_directory(w); /* before looking, so that nothing is missed */
        node_look_take(&w->config, w->look);
        if (has_changed(w)) {
            note_change(w);
        }
        if (w->is_screen) {
            draw(w);
        }
        goes_on = fflush(stdout) == 0 && wait_for_news(w);
    }
    return ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int open_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* none of these fails with such arguments */
    return signalfd(-1, &set, SFD_CLOEXEC);
}

int watch_main(int argc, char **argv)
{
    int status = EXIT_FAILURE;
    struct watch *w = calloc(1, sizeof(*w)); /* large */
    struct node_look *look = calloc(1, sizeof(*look));
    if (!w || !look) {
        (void)fputs("dpuctl watch: out of memory\n", stderr);
    } else if (admin_options_parse("dpuctl watch", summary, argc, argv, &w->config, &status)) {
        w->look = look;
        w->has_color = screen_has_color(&w->config);
        w->signal_fd = open_signals();
        w->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (w->config.output == ADMIN_YAML) {
            (void)fputs("dpuctl watch: --output=yaml has no lines; use json\n", stderr);
            status = ADMIN_EXIT_USAGE;
        } else if (w->signal_fd < 0 || w->inotify_fd < 0) {
            perror("dpuctl watch");
        } else {
            enter_screen(w);
            status = run(w);
            leave_screen(w);
        }
        (void)close(w->signal_fd); /* at the end */
        (void)close(w->inotify_fd);
        admin_options_fini(&w->config);
    }
    free(look);
    free(w);
    return status;
}
