/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/contest.h"

#include "base/text.h"

static struct contest_way *find_way(struct contest *c, const char *words)
{
    size_t i = 0;
    while (i < c->count && !text_equal(c->ways[i].words, words)) {
        i++;
    }
    if (i == c->count && i < CONTEST_WAYS) {
        c->count++;
        c->ways[i] = (struct contest_way){.tries = 0};
        text_format(c->ways[i].words, sizeof(c->ways[i].words), "%s", words);
    }
    return &c->ways[i < CONTEST_WAYS ? i : CONTEST_WAYS - 1];
}

enum contest_answer contest_undone(struct contest *c, const char *words, struct mono now,
                                   struct mono *out_again)
{
    struct contest_way *way = find_way(c, words);
    bool is_calm = mono_since(now, way->tried_at) >= CONTEST_CALM_NS;
    if (!way->is_undone && is_calm) {
        way->tries = 0;
        way->is_told = false;
    }
    way->is_undone = true;
    if (way->tries < CONTEST_TRIES || is_calm) {
        return CONTEST_RESTORE;
    }
    *out_again = mono_add(way->tried_at, CONTEST_CALM_NS);
    if (way->is_told) {
        return CONTEST_YIELD;
    }
    way->is_told = true;
    return CONTEST_TELL;
}

void contest_restored(struct contest *c, const char *words, struct mono now)
{
    struct contest_way *way = find_way(c, words);
    way->tries++;
    way->tried_at = now;
    way->is_undone = false;
}

bool contest_stands(struct contest *c, struct mono now, struct mono *out_again)
{
    struct mono tried_at = {0};
    bool was_told = false;
    *out_again = MONO_NEVER;
    for (size_t i = 0; i < c->count; i++) {
        tried_at = mono_max(tried_at, c->ways[i].tried_at);
        was_told = was_told || c->ways[i].is_told;
    }
    if (c->count > 0 && mono_since(now, tried_at) < CONTEST_CALM_NS) {
        *out_again = mono_add(tried_at, CONTEST_CALM_NS);
        return false;
    }
    c->count = 0;
    return was_told;
}
