/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "template/template.h"
#include "template/words.h"

#define BLANKS " \t\r\f\v"

/* What an instruction's text can be. */
enum form {
    FORM_PROGRAM, /* a list of words in JSON, or a line for a shell */
    FORM_PATHS,   /* two words or more, or a list of them */
    FORM_PAIRS,   /* NAME=VALUE …, or NAME VALUE */
    FORM_NAME,    /* NAME or NAME=VALUE */
    FORM_ONE,     /* one word */
    FORM_PORTS    /* numbers */
};

static const struct instruction {
    const char *word;
    enum form form;
    bool flags; /* a form of it with "--flag" is known elsewhere, and refused here */
} instructions[] = {
    [TEMPLATE_ARG] = { "ARG", FORM_NAME, false },
    [TEMPLATE_RUN] = { "RUN", FORM_PROGRAM, true },
    [TEMPLATE_COPY] = { "COPY", FORM_PATHS, true },
    [TEMPLATE_ENV] = { "ENV", FORM_PAIRS, false },
    [TEMPLATE_WORKDIR] = { "WORKDIR", FORM_ONE, false },
    [TEMPLATE_USER] = { "USER", FORM_ONE, false },
    [TEMPLATE_CMD] = { "CMD", FORM_PROGRAM, false },
    [TEMPLATE_ENTRYPOINT] = { "ENTRYPOINT", FORM_PROGRAM, false },
    [TEMPLATE_LABEL] = { "LABEL", FORM_PAIRS, false },
    [TEMPLATE_EXPOSE] = { "EXPOSE", FORM_PORTS, false },
};

#define INSTRUCTIONS (sizeof(instructions) / sizeof(*instructions))

const char *template_word(enum template_kind kind)
{
    return instructions[kind].word;
}

static int refuse(unsigned line, const char *why, struct vial_error *err)
{
    return fail(err, VIAL_E_TEMPLATE, "line %u: %s", line, why);
}

static int refuse_unknown(const char *word, unsigned line, struct vial_error *err)
{
    (void)fail(err, VIAL_E_TEMPLATE, "line %u: instruction '%.40s' is not supported",
               line, word);
    return fail_remedy(err,
                       strcasecmp(word, "ADD") == 0
                           ? "use COPY for files, and RUN to fetch or unpack"
                           : "FROM, RUN, COPY, ENV, WORKDIR, USER, CMD, ENTRYPOINT, "
                             "ARG, LABEL and EXPOSE are");
}

/* The exec form, if TEXT has it: else no words. */
static int read_list(const char *text, struct strv *out)
{
    auto_json json_t *list = NULL;
    json_t *item = NULL;
    size_t i = 0;

    if (text[0] != '[' || json_parse(text, strlen(text), "it", &list, NULL) < 0)
        return 0;
    json_array_foreach(list, i, item)
    {
        const char *word = json_string_value(item);

        if (!word || strlen(word) != json_string_length(item)) {
            strv_done(out);
            return 0;
        }
        strv_push(out, word);
    }
    return out->failed ? -1 : 0;
}

static int check_pairs(const struct strv *words, bool names, unsigned line,
                       struct vial_error *err)
{
    bool old = words->count > 1 && !strchr(words->items[0], '='); /* NAME VALUE */

    for (size_t i = 0; i < words->count && (i == 0 || !old); i++) {
        const char *word = words->items[i];
        size_t len = strcspn(word, "=");

        if ((!word[len] && !old) || len == 0 || (names && !words_is_name(word, len)))
            return refuse(line, "it is not NAME=VALUE", err);
    }
    return 0;
}

static int check_ports(const struct strv *words, unsigned line, struct vial_error *err)
{
    for (size_t i = 0; i < words->count; i++) {
        char *end = NULL;
        unsigned long port = strtoul(words->items[i], &end, 10);

        if (end == words->items[i] || port == 0 || port > 65535 ||
            (*end && strcmp(end, "/tcp") != 0 && strcmp(end, "/udp") != 0))
            return refuse(line, "it is not a port", err);
    }
    return 0;
}

static int check_words(const struct template_step *s, const struct strv *words,
                       struct vial_error *err)
{
    enum form form = instructions[s->kind].form;
    const char *first = words->count ? words->items[0] : "";

    if (words->count == 0)
        return refuse(s->line, "it says nothing", err);
    if (form == FORM_PAIRS)
        return check_pairs(words, s->kind == TEMPLATE_ENV, s->line, err);
    if (form == FORM_PORTS)
        return check_ports(words, s->line, err);
    if (form == FORM_PATHS && words->count < 2)
        return refuse(s->line, "it needs what to copy, and where to", err);
    if ((form == FORM_ONE || form == FORM_NAME) && words->count > 1)
        return refuse(s->line, "it takes one word", err);
    if (form == FORM_NAME && !words_is_name(first, strcspn(first, "=")))
        return refuse(s->line, "it is not NAME or NAME=VALUE", err);
    return 0;
}

/* Of a program in the shell form only that it is one. */
static int check_step(const struct template_step *s, struct vial_error *err)
{
    const struct instruction *i = &instructions[s->kind];
    auto_strv struct strv words = { 0 };

    if (i->flags && str_starts(s->text, "--")) {
        (void)fail(err, VIAL_E_TEMPLATE, "line %u: %s has no flags here: '%.40s'",
                   s->line, i->word, s->text);
        return fail_remedy(err, "leave it out");
    }
    if (i->flags && strstr(s->text, "<<")) {
        (void)refuse(s->line, "a text within the file ('<<') is not supported", err);
        return fail_remedy(err, "COPY a file, or use printf");
    }
    if (i->form == FORM_PROGRAM)
        return *s->text ? 0 : refuse(s->line, "it says nothing", err);
    if (s->words.count > 0)
        return check_words(s, &s->words, err);
    if (words_split(s->text, NULL, &words, err) < 0)
        return fail_in(err, "line %u", s->line);
    return check_words(s, &words, err);
}

static int add_from(struct template *t, const char *text, unsigned line,
                    struct vial_error *err)
{
    if (t->from)
        return refuse(line, "a second FROM: a template has one stage", err);
    if (!*text || strpbrk(text, " \t")) {
        (void)refuse(line, "FROM takes the name of an image alone", err);
        return fail_remedy(err, "flags and stages ('AS name') are not supported");
    }
    t->from = strdup(text);
    t->from_line = line;
    return t->from ? 0 : fail_memory(err);
}

static int find_kind(const char *word)
{
    for (size_t i = 0; i < INSTRUCTIONS; i++)
        if (strcasecmp(instructions[i].word, word) == 0)
            return (int)i;
    return -1;
}

/* The next of T, which counts from now on. */
static struct template_step *new_step(struct template *t, struct vial_error *err)
{
    struct template_step *more = NULL;

    if (t->count == TEMPLATE_STEPS) {
        (void)fail(err, VIAL_E_TEMPLATE, "it has more than %d steps", TEMPLATE_STEPS);
        return NULL;
    }
    more = reallocarray(t->steps, t->count + 1, sizeof(*more));
    if (!more) {
        (void)fail_memory(err);
        return NULL;
    }
    t->steps = more;
    t->steps[t->count] = (struct template_step){ 0 };
    return &t->steps[t->count++];
}

int template_add(struct template *t, const char *word, const char *text, unsigned line,
                 struct vial_error *err)
{
    struct template_step *s = NULL;
    int kind = find_kind(word);

    if (strcasecmp(word, "FROM") == 0)
        return add_from(t, text, line, err);
    if (kind < 0)
        return refuse_unknown(word, line, err);
    if (!t->from && kind != TEMPLATE_ARG)
        return refuse(line, "FROM comes first", err);
    s = new_step(t, err);
    if (!s)
        return -1;
    s->kind = (enum template_kind)kind;
    s->line = line;
    s->text = strdup(text);
    if (!s->text ||
        (instructions[kind].form <= FORM_PATHS && read_list(text, &s->words) < 0))
        return fail_memory(err);
    return check_step(s, err);
}

/* A file's lines, joined where they end in a backslash. */
struct lines {
    const char *at, *end;
    unsigned number; /* of the line that AT is in */
};

/* One line of the file, without its end and the blanks around it. */
static struct str next_raw(struct lines *l)
{
    size_t len = (size_t)(l->end - l->at);
    const char *stop = memchr(l->at, '\n', len);
    const char *from = l->at;
    struct str line = { 0 };

    len = stop ? (size_t)(stop - from) : len;
    l->at = stop ? stop + 1 : l->end;
    l->number++;
    while (len > 0 && strchr(BLANKS, from[len - 1]))
        len--;
    str_add(&line, from, len);
    return line;
}

static bool is_skipped(const char *line)
{
    line += strspn(line, BLANKS);
    return *line == '\0' || *line == '#';
}

/* Fills OUT with the next instruction. False: there is none. */
static bool next_line(struct lines *l, struct str *out, unsigned *line)
{
    bool goes_on = true;

    *line = 0;
    while (goes_on && l->at < l->end) {
        auto_str struct str raw = next_raw(l);
        const char *text = raw.data ? raw.data : "";

        if (is_skipped(text))
            continue;
        if (!*line) {
            *line = l->number;
            text += strspn(text, BLANKS);
        }
        goes_on = text[strlen(text) - 1] == '\\';
        str_add(out, text, strlen(text) - (goes_on ? 1 : 0));
        out->failed = out->failed || raw.failed;
    }
    return *line != 0;
}

static int add_line(struct template *t, char *text, unsigned line,
                    struct vial_error *err)
{
    size_t len = strcspn(text, BLANKS);
    char *rest = text + len;

    rest += strspn(rest, BLANKS);
    text[len] = '\0';
    return template_add(t, text, rest, line, err);
}

static int parse_lines(const char *text, size_t len, struct template *t,
                       struct vial_error *err)
{
    struct lines l = { .at = text, .end = text + len };

    for (;;) {
        auto_str struct str line = { 0 };
        unsigned number = 0;

        if (!next_line(&l, &line, &number))
            break;
        if (!str_ok(&line))
            return fail_memory(err);
        if (add_line(t, line.data, number, err) < 0)
            return -1;
    }
    return 0;
}

static bool is_yaml(const char *name)
{
    size_t len = strlen(name);

    return (len > 5 && strcasecmp(name + len - 5, ".yaml") == 0) ||
           (len > 4 && strcasecmp(name + len - 4, ".yml") == 0);
}

static int parse(const char *text, size_t len, const char *name, struct template *t,
                 struct vial_error *err)
{
    if (len > TEMPLATE_BYTES)
        return fail(err, VIAL_E_TEMPLATE, "it is longer than 64 KiB");
    if (memchr(text, '\0', len) || !text_is_utf8(text, len))
        return fail(err, VIAL_E_TEMPLATE, "it is not text in UTF-8");
    if ((is_yaml(name) ? template_parse_yaml(text, len, name, t, err)
                       : parse_lines(text, len, t, err)) < 0)
        return -1;
    if (!t->from) {
        (void)fail(err, VIAL_E_TEMPLATE, "it names no base image");
        return fail_remedy(err, "begin with 'FROM debian', or 'from: debian' in YAML");
    }
    return 0;
}

int template_parse(const char *text, size_t len, const char *name, struct template *out,
                   struct vial_error *err)
{
    struct template t = { 0 };

    if (parse(text, len, name, &t, err) < 0) {
        template_done(&t);
        return fail_in(err, "template '%s'", name);
    }
    *out = t;
    return 0;
}

void template_done(struct template *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->steps[i].text);
        strv_done(&t->steps[i].words);
    }
    free(t->steps);
    free(t->from);
    strv_done(&t->allow);
    strv_done(&t->wanted);
    strv_done(&t->imports);
    *t = (struct template){ 0 };
}
