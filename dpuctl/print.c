/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/print.h"

#include "base/mem.h"
#include "base/text.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JSON_FLAGS = JSON_REAL_PRECISION(12) };

bool print_has_color(int wanted)
{
    if (wanted != ADMIN_COLOR_AUTO) {
        return wanted == ADMIN_COLOR_ALWAYS;
    }
    return isatty(STDOUT_FILENO) && text_is_empty(getenv("NO_COLOR"));
}

void print_cell(bool has_color, enum print_color color, const char *text, int width)
{
    static const char *const codes[] = {[PRINT_PLAIN] = "",
                                        [PRINT_GOOD] = "\033[32m",
                                        [PRINT_BAD] = "\033[31m",
                                        [PRINT_DOUBT] = "\033[33m",
                                        [PRINT_FAINT] = "\033[2m"};
    (void)printf("%s%-*s%s", has_color ? codes[color] : "", width, text,
                 has_color ? "\033[0m" : "");
}

enum print_color print_state_color(const char *state)
{
    return text_equal(state, "Ready")      ? PRINT_GOOD
           : text_equal(state, "NotReady") ? PRINT_BAD
                                           : PRINT_DOUBT;
}

/* "12.3s", "4m10s", "3h2m", "5d1h". */
static void put_span(long long ms, const char *sign, char *out, size_t out_bytes)
{
    long long s = ms / 1000;
    if (s < 120) {
        text_append(out, out_bytes, "%s%lld.%llds", sign, s, ms / 100 % 10);
    } else if (s < 7200) {
        text_append(out, out_bytes, "%s%lldm%llds", sign, s / 60, s % 60);
    } else if (s < 172800) {
        text_append(out, out_bytes, "%s%lldh%lldm", sign, s / 3600, s / 60 % 60);
    } else {
        text_append(out, out_bytes, "%s%lldd%lldh", sign, s / 86400, s / 3600 % 24);
    }
}

/* ---- a document as text ---------------------------------------------------------------------- */

/* "lease.found" of `len` bytes. */
static const json_t *find_member(const json_t *doc, const char *path, size_t len)
{
    const char *dot = memchr(path, '.', len);
    size_t key_len = dot ? (size_t)(dot - path) : len;
    CLEANUP(free) char *key = mem_format("%.*s", (int)key_len, path);
    const json_t *member = json_object_get(doc, key);
    return dot ? find_member(member, dot + 1, len - key_len - 1) : member;
}

static bool says_something(const json_t *member)
{
    return json_is_true(member) || json_is_real(member) || json_integer_value(member) != 0 ||
           json_string_length(member) > 0 || json_array_size(member) > 0 ||
           json_object_size(member) > 0;
}

static bool word_holds(const json_t *doc, const char *word, size_t len)
{
    const char *end = word + len;
    size_t path = strcspn(word, "=<> ");
    const json_t *member = find_member(doc, word, path < len ? path : len);
    if (path >= len) {
        return says_something(member);
    }
    const char *value = word + path + 1;
    size_t value_len = (size_t)(end - value);
    int64_t bound = 0;
    if (word[path] == '=') {
        const char *text = json_is_false(member) ? "no" : json_string_value(member);
        return text && strlen(text) == value_len && memcmp(text, value, value_len) == 0;
    }
    return text_to_i64(value, value_len, &bound, NULL) == 0 && json_is_number(member) &&
           (word[path] == '>' ? json_number_value(member) > (double)bound
                              : json_number_value(member) < (double)bound);
}

bool print_holds(const json_t *doc, const char *when)
{
    for (const char *word = when; *word;) {
        bool is_not = *word == '!';
        word += is_not;
        size_t len = strcspn(word, " ");
        if (word_holds(doc, word, len) == is_not) {
            return false;
        }
        word += len + (word[len] == ' ');
    }
    return true;
}

static void put_member(const json_t *member, char sign_mark, char *out, size_t out_bytes)
{
    double ms = json_real_value(member) * 1000;
    if (json_is_real(member)) {
        const char *sign = sign_mark == '}' ? "" : ms < 0 ? "-" : sign_mark == '+' ? "+" : "";
        put_span((long long)((ms < 0 ? -ms : ms) + 0.5), sign, out, out_bytes);
    } else if (json_is_integer(member)) {
        text_append(out, out_bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(member));
    } else if (json_is_array(member)) {
        size_t i;
        const json_t *item;
        json_array_foreach(member, i, item)
        {
            text_append(out, out_bytes, i > 0 ? ", " : "");
            put_member(item, '}', out, out_bytes);
        }
    } else if (json_is_true(member) || json_is_string(member)) {
        const char *word = json_string_value(member);
        text_append(out, out_bytes, "%s", word ? word : "yes");
    }
}

void print_fill(const json_t *doc, const char *text, char *out, size_t out_bytes)
{
    out[0] = '\0';
    while (*text) {
        size_t plain = strcspn(text, "{");
        if (plain > 0) {
            text_append(out, out_bytes, "%.*s", (int)plain, text);
            text += plain;
            continue;
        }
        size_t path = strcspn(++text, "+-}");
        put_member(find_member(doc, text, path), text[path], out, out_bytes);
        text += strcspn(text, "}");
        text += *text == '}';
    }
}

void print_rows(const json_t *doc, const struct print_row *rows, size_t count, bool has_color)
{
    char text[PRINT_TEXT_BYTES];
    size_t k;
    const json_t *item;
    for (size_t i = 0; i < count && json_is_object(doc); i++) {
        if (print_holds(doc, rows[i].when)) {
            print_fill(doc, rows[i].text, text, sizeof(text));
            print_cell(has_color, PRINT_FAINT, rows[i].label, 0);
            (void)fputs(text, stdout);
        }
    }
    json_array_foreach(doc, k, item)
    {
        print_rows(item, rows, count, has_color);
    }
}

/* As YAML, which takes what JSON says of a text, a number or a word as it is. `is_begun`: on the
 * line of its dash. Whether it was written is seen at the flush. */
static void put_yaml(json_t *value, int indent, bool is_begun)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_object_size(value) == 0 && json_array_size(value) == 0) {
        (void)fputs(is_begun ? "" : " ", stdout);
        (void)json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_FLAGS);
    }
    json_object_foreach(value, key, member)
    {
        (void)printf("%s%*s%s:", is_begun ? "" : "\n", is_begun ? 0 : indent, "", key);
        put_yaml(member, indent + 2, false);
        is_begun = false;
    }
    json_array_foreach(value, i, member)
    {
        (void)printf("\n%*s- ", indent - 2, "");
        put_yaml(member, indent, true);
    }
}

int print_document(const struct admin_config *config, json_t *doc, print_text_fn *print_text,
                   enum admin_answer answer)
{
    if (!doc) {
        return ADMIN_UNCLEAR;
    }
    if (config->output == ADMIN_YAML) {
        put_yaml(doc, 0, true);
        (void)putchar('\n');
    } else if (config->output == ADMIN_JSON) {
        (void)json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_FLAGS);
        (void)putchar('\n');
    } else {
        print_text(config, doc);
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? (int)answer : ADMIN_UNCLEAR;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void print_json_line(const json_t *json)
{
    (void)json_dumpf(json, stdout, JSON_COMPACT | JSON_FLAGS);
    (void)putchar('\n');
}

json_t *print_json_seconds(int64_t ns)
{
    int64_t ms = ns / NS_PER_MS;
    return json_real((double)ms / 1000);
}

json_t *print_json_stamp(struct wall at)
{
    return at.ns > 0 ? json_string(rfc3339_text(at, false).text) : json_null();
}

json_t *print_json_text(const char *text)
{
    char shown[PRINT_TEXT_BYTES];
    if (text_is_empty(text)) {
        return json_null();
    }
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    return json_string(shown);
}

void print_json_put(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value); /* fails only for a text that is no UTF-8 */
}

bool version_reaches(const char *text, const char *since)
{
    const char *number = text && text[0] == 'v' ? text + 1 : text;
    return number && isdigit((unsigned char)number[0]) && strverscmp(number, since) >= 0;
}
