/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/screen.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool screen_has_color(const struct admin_config *config)
{
    if (config->color != ADMIN_COLOR_AUTO) {
        return config->color == ADMIN_COLOR_ALWAYS;
    }
    return isatty(STDOUT_FILENO) && text_is_empty(getenv("NO_COLOR"));
}

const char *screen_on(bool has_color, enum screen_color color)
{
    static const char *const codes[] = {
        [SCREEN_PLAIN] = "",         [SCREEN_GOOD] = "\033[32m", [SCREEN_BAD] = "\033[31m",
        [SCREEN_DOUBT] = "\033[33m", [SCREEN_FAINT] = "\033[2m", [SCREEN_HEAD] = "\033[1m"};
    return has_color ? codes[color] : "";
}

const char *screen_off(bool has_color)
{
    return has_color ? "\033[0m" : "";
}

const char *screen_span(int64_t ns, char out[static SCREEN_SPAN_BYTES])
{
    int64_t tenths = (ns < 0 ? mono_ns_sub(0, ns) : ns) / (NS_PER_SEC / 10);
    long long s = tenths / 10;
    if (s < 120) {
        text_format(out, SCREEN_SPAN_BYTES, "%lld.%lld s", s, (long long)(tenths % 10));
    } else if (s < 7200) {
        text_format(out, SCREEN_SPAN_BYTES, "%lld m %lld s", s / 60, s % 60);
    } else if (s < 172800) {
        text_format(out, SCREEN_SPAN_BYTES, "%lld h %lld m", s / 3600, s / 60 % 60);
    } else {
        text_format(out, SCREEN_SPAN_BYTES, "%lld d %lld h", s / 86400, s / 3600 % 24);
    }
    return out;
}
