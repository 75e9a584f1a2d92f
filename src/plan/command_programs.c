/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/command_programs.h"

#include <ctype.h>
#include <string.h>

/* Programs that start another one, which their arguments name. */
static const struct wrapper {
    const char *name;
    const char *valued; /* letters of options that a value follows */
    unsigned operands;  /* before the program */
} wrappers[] = {
    { "sudo", "ugpCDhRTrt", 0 }, { "doas", "uC", 0 },    { "time", "fo", 0 },
    { "env", "uCS", 0 },         { "nice", "n", 0 },     { "ionice", "cnp", 0 },
    { "nohup", "", 0 },          { "setsid", "", 0 },    { "exec", "a", 0 },
    { "command", "", 0 },        { "stdbuf", "ioe", 0 }, { "timeout", "ks", 1 },
};

/* A simple command while its words go by. */
struct walk {
    const struct wrapper *wrapper; /* the last one, or NULL */
    unsigned operands;             /* of it, yet to come */
    bool value;                    /* of an option, comes next */
    bool over;                     /* the program was seen */
};

static bool is_word(const char *word, size_t len, const char *other)
{
    return strlen(other) == len && strncmp(word, other, len) == 0;
}

static const struct wrapper *find_wrapper(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++)
        if (is_word(name, len, wrappers[i].name))
            return &wrappers[i];
    return NULL;
}

static bool is_assignment(const char *word, size_t len)
{
    size_t i = 0;

    while (i < len && (isalnum((unsigned char)word[i]) || word[i] == '_'))
        i++;
    return i > 0 && i < len && word[i] == '=' && !isdigit((unsigned char)word[0]);
}

/* Behind which a command begins. */
static bool is_keyword(const char *word, size_t len)
{
    static const char *const words[] = { "if",    "then",  "else", "elif", "do",
                                         "while", "until", "{",    "}",    "!" };

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (is_word(word, len, words[i]))
            return true;
    return false;
}

static void strip(const char **word, size_t *len)
{
    const char *slash = NULL;

    if (*len >= 2 && (**word == '"' || **word == '\'') && (*word)[*len - 1] == **word) {
        (*word)++;
        *len -= 2;
    }
    slash = memrchr(*word, '/', *len);
    if (slash) {
        *len -= (size_t)(slash + 1 - *word);
        *word = slash + 1;
    }
}

/* True: WORD is the program, and stands without its directories. */
static bool walk_word(struct walk *w, const char **word, size_t *len)
{
    if (w->over || is_assignment(*word, *len))
        return false;
    if (w->value) {
        w->value = false;
        return false;
    }
    if (w->wrapper && **word == '-') {
        w->value = *len == 2 && strchr(w->wrapper->valued, (*word)[1]);
        return false;
    }
    if (w->operands > 0) {
        w->operands--;
        return false;
    }
    if (is_keyword(*word, *len))
        return false;
    strip(word, len);
    w->wrapper = find_wrapper(*word, *len);
    w->operands = w->wrapper ? w->wrapper->operands : 0;
    w->over = !w->wrapper;
    return w->over;
}

/* Where a word ends that begins at AT: quotes and what is quoted are part of it. */
static size_t word_length(const char *at)
{
    size_t len = 0;

    while (at[len] && !strchr(" \t\n;&|()<>", at[len])) {
        if (at[len] == '\\' && at[len + 1]) {
            len += 2;
        } else if (at[len] == '\'' || at[len] == '"') {
            const char *end = strchr(at + len + 1, at[len]);

            len = end ? (size_t)(end + 1 - at) : strlen(at);
        } else {
            len++;
        }
    }
    return len;
}

static const char *search_line(const char *at, command_programs_ask *ask,
                               const void *context)
{
    struct walk walk = { 0 };
    const char *found = NULL;

    while (*at && !found) {
        const char *word = at;
        size_t len = word_length(at);

        at += len ? len : 1;
        if (len > 0) {
            if (walk_word(&walk, &word, &len))
                found = ask(context, word, len);
        } else if (*word == '<' || *word == '>') {
            at += strspn(at, "<>&"); /* and a file's name, which is no program */
            at += strspn(at, " \t");
            at += word_length(at);
        } else if (strchr("\n;&|()", *word)) {
            walk = (struct walk){ 0 };
        }
    }
    return found;
}

static const char *search_words(const struct strv *command, command_programs_ask *ask,
                                const void *context)
{
    struct walk walk = { 0 };

    for (size_t i = 0; i < command->count; i++) {
        const char *word = command->items[i];
        size_t len = strlen(word);

        if (len > 0 && walk_word(&walk, &word, &len))
            return ask(context, word, len);
    }
    return NULL;
}

static bool is_shell(const char *program)
{
    static const char *const shells[] = { "sh", "bash", "dash", "ash", "zsh" };
    size_t len = strlen(program);

    strip(&program, &len);
    for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++)
        if (is_word(program, len, shells[i]))
            return true;
    return false;
}

const char *command_programs_search(const struct strv *command,
                                    command_programs_ask *ask, const void *context)
{
    const char *option = command->count > 2 ? command->items[1] : "";
    size_t len = strlen(option);

    if (option[0] == '-' && option[1] != '-' && option[len - 1] == 'c' &&
        is_shell(command->items[0]))
        return search_line(command->items[2], ask, context);
    return search_words(command, ask, context);
}
