/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/commands.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "dpuctl/node_look.h"
#include "dpuctl/screen.h"
#include "dpuctl/status.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
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
    struct mono since; /* from when on that held */
    char history[HISTORY_MAX][LINE_BYTES];
    size_t history_count;
};

/* ---- one change ------------------------------------------------------------------------------ */

static bool has_changed(const struct watch *w)
{
    return !w->has_shown || w->answer != w->look->answer || w->reason != w->look->gate.reason ||
           w->admit != w->look->gate.admit;
}

/* " after 12.3 s Ready", or nothing for the first. */
static void describe_former(const struct watch *w, char out[static SCREEN_SPAN_BYTES + 24])
{
    char span[SCREEN_SPAN_BYTES];
    out[0] = '\0';
    if (w->has_shown) {
        text_format(out, SCREEN_SPAN_BYTES + 24, " after %s %s",
                    screen_span(mono_since(w->look->now, w->since), span),
                    node_answer_name(w->answer));
    }
}

static void describe(const struct watch *w, char out[static LINE_BYTES])
{
    char time[RFC3339_BYTES];
    char former[SCREEN_SPAN_BYTES + 24];
    char message[200];
    const struct node_look *look = w->look;
    const char *said = node_look_message(look);
    rfc3339_format_micro(look->wall, time);
    time[23] = '\0'; /* milliseconds */
    describe_former(w, former);
    text_sanitize(message, sizeof(message), said, strlen(said));
    text_format(out, LINE_BYTES, "%sZ  %-8s  %s%s: %s", time, node_answer_name(look->answer),
                readiness_reason_name(look->gate.reason), former, message);
}

static void print_json(const struct watch *w)
{
    char time[RFC3339_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    const struct node_look *look = w->look;
    const char *said = node_look_message(look);
    int64_t former_ms = mono_since(look->now, w->since) / NS_PER_MS;
    rfc3339_format_micro(look->wall, time);
    text_sanitize(message, sizeof(message), said, strlen(said));
    json_t *line = json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s?, s:o}", "time", time, "node",
                             w->config.agent.node_name, "answer", node_answer_name(look->answer),
                             "admitsPods", look->gate.admit, "reason",
                             readiness_reason_name(look->gate.reason), "message", message, "former",
                             w->has_shown ? node_answer_name(w->answer) : NULL, "formerSeconds",
                             w->has_shown ? json_real((double)former_ms / 1000) : json_null());
    if (line) { /* whether it was written is seen at the flush */
        (void)json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
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
    w->answer = w->look->answer;
    w->reason = w->look->gate.reason;
    w->admit = w->look->gate.admit;
    if (w->has_shown) {
        w->since = w->look->now;
    }
    w->has_shown = true;
}

/* ---- the live view --------------------------------------------------------------------------- */

static struct winsize screen_size(void)
{
    struct winsize size;
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    return is_known && size.ws_col > 0 ? size : (struct winsize){.ws_row = 24, .ws_col = 80};
}

/* What does not fit is left out below; the terminal itself cuts what is too wide. Each line is
 * cleared behind its text, so that nothing flickers. */
static void put_frame(const char *text, size_t rows)
{
    (void)fputs("\033[H", stdout);
    for (size_t row = 1; row < rows && *text != '\0'; row++) {
        size_t len = strcspn(text, "\n");
        (void)fwrite(text, 1, len, stdout);
        (void)fputs("\033[K\n", stdout);
        text += len + (text[len] == '\n');
    }
    (void)fputs("\033[Jq leaves", stdout);
}

static void draw(const struct watch *w)
{
    char *text = NULL;
    size_t len = 0;
    struct winsize size = screen_size();
    const struct status_screen how = {.has_color = w->has_color, .columns = size.ws_col};
    FILE *frame = open_memstream(&text, &len);
    if (!frame) {
        return; /* the next second may have memory */
    }
    bool is_whole = status_print(w->look, w->config.agent.node_name, NULL, how, frame);
    (void)fputc('\n', frame);
    for (size_t i = 0; i < w->history_count; i++) {
        (void)fprintf(frame, "%s\n", w->history[i]);
    }
    if (fclose(frame) == 0 && is_whole) {
        put_frame(text, size.ws_row);
    }
    free(text);
}

static void enter_screen(struct watch *w)
{
    w->is_screen = w->config.output == ADMIN_TEXT && isatty(STDOUT_FILENO) &&
                   isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &w->before) == 0;
    if (w->is_screen) {
        struct termios raw = w->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw); /* without it q needs a newline: no harm */
        (void)fputs("\033[?1049h\033[?25l\033[?7l", stdout); /* other screen, no cursor, no wrap */
    }
}

static void leave_screen(const struct watch *w)
{
    if (w->is_screen) {
        (void)fputs("\033[?7h\033[?25h\033[?1049l", stdout);
        if (w->history_count > 0) {
            (void)printf("%s\n", w->history[0]);
        }
        (void)fflush(stdout); /* nobody is left to tell */
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &w->before);
    }
}

/* Ctrl-Z: the shell gets its terminal back, and we ours with `fg`. */
static void suspend(struct watch *w)
{
    leave_screen(w);
    (void)raise(SIGSTOP); /* goes on here */
    enter_screen(w);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void watch_directory(const struct watch *w)
{
    char dir[PATH_MAX];
    text_format(dir, sizeof(dir), "%s", w->look->path);
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
static bool take_signal(struct watch *w)
{
    struct signalfd_siginfo info;
    ssize_t got = read(w->signal_fd, &info, sizeof(info));
    bool is_stop = got == (ssize_t)sizeof(info) && info.ssi_signo == SIGTSTP;
    if (is_stop) {
        suspend(w);
    }
    return is_stop || (got == (ssize_t)sizeof(info) && info.ssi_signo == SIGWINCH);
}

/* False: time to go. */
static bool wait_for_news(struct watch *w)
{
    char ignored[4096];
    char key;
    struct pollfd fds[] = {{.fd = w->signal_fd, .events = POLLIN},
                           {.fd = w->inotify_fd, .events = POLLIN},
                           {.fd = STDOUT_FILENO}, /* the reader has gone: told without asking */
                           {.fd = w->is_screen ? STDIN_FILENO : -1, .events = POLLIN}};
    if (poll(fds, ARRAY_LEN(fds), wait_ms(w)) < 0 && errno != EINTR) {
        return false;
    }
    if (fds[0].revents != 0) {
        return take_signal(w);
    }
    while (read(w->inotify_fd, ignored, sizeof(ignored)) > 0) {
        /* which file it was does not matter: we look at ours */
    }
    if (fds[3].revents != 0) {
        ssize_t got = read(STDIN_FILENO, &key, 1);
        return got == 1 && key != 'q' && key != 'Q' && key != 3;
    }
    return (fds[2].revents & (POLLERR | POLLHUP)) == 0;
}

static int run(struct watch *w)
{
    bool is_written = true;
    bool goes_on = true;
    while (goes_on) {
        watch_directory(w); /* before looking, so that nothing is missed */
        admin_read_record(&w->config);
        node_look_take(&w->config, w->look);
        if (!w->has_shown) {
            w->since = w->look->since.ns > 0 ? w->look->since : w->look->now;
        }
        if (has_changed(w)) {
            note_change(w);
        }
        if (w->is_screen) {
            draw(w);
        }
        is_written = fflush(stdout) == 0 || errno == EPIPE; /* a reader may go at any moment */
        goes_on = !ferror(stdout) && wait_for_news(w);
    }
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int open_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGQUIT);
    (void)sigaddset(&set, SIGTSTP);
    (void)sigaddset(&set, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* none of these fails with such arguments */
    return signalfd(-1, &set, SFD_CLOEXEC);
}

int watch_main(int argc, char **argv)
{
    int status = EXIT_FAILURE;
    (void)signal(SIGPIPE, SIG_IGN);          /* seen by the flush */
    struct watch *w = calloc(1, sizeof(*w)); /* large */
    struct node_look *look = calloc(1, sizeof(*look));
    if (!w || !look) {
        (void)fputs("dpuctl watch: out of memory\n", stderr);
    } else if (admin_options_parse("dpuctl watch", summary, argc, argv, &w->config, &status)) {
        w->look = look;
        w->has_color = screen_has_color((enum admin_color)w->config.color);
        w->signal_fd = open_signals();
        w->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (w->config.output == ADMIN_YAML) {
            status = admin_wrong_usage("dpuctl watch", "--output=yaml has no lines; use json");
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
