/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/notebook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/thread.h"

#define NOTEBOOKS 16u
#define LOOK_MS   200
#define HIDDEN_MS 10000 /* for a cell of ours */

struct spoken {
    const char *asked, *shown, *name;
};

static const struct spoken languages[] = {
    { "python", "python", "python" },
    { "javascript", "javascript", "node" },
    { "js", "javascript", "node" },
    { "typescript", "typescript", "typescript" },
    { "ts", "typescript", "typescript" },
    { "bash", "bash", "bash" },
    { "r", "r", "r" },
    { "java", "java", "java" },
};

/* How a language goes to directory @, sets variable @ to #, and takes @ away. */
static const struct speech {
    const char *name, *go, *set, *unset;
} speeches[] = {
    { "python", "__import__('os').chdir(@)\n",
      "__import__('os').environ.update({@: #})\n",
      "__import__('os').environ.pop(@, None)\n" },
    { "node", "process.chdir(@);\n", "process.env[@] = #;\n",
      "delete process.env[@];\n" },
    { "typescript", "process.chdir(@);\n", "process.env[@] = #;\n",
      "delete process.env[@];\n" },
    { "bash", "cd @\n", "export @=#\n", "unset @\n" },
    { "r", "setwd(@)\n", "do.call(Sys.setenv, setNames(list(#), @))\n",
      "Sys.unsetenv(@)\n" },
    { "java", "System.setProperty(\"user.dir\", @);\n", "System.setProperty(@, #);\n",
      "System.clearProperty(@);\n" },
};

static const struct speech *speech_of(const struct notebook *n)
{
    size_t i = 0;

    while (strcmp(speeches[i].name, n->name) != 0)
        i++;
    return &speeches[i];
}

static const struct spoken *language_of(const char *name)
{
    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++)
        if (strcmp(languages[i].asked, name) == 0)
            return &languages[i];
    return NULL;
}

static void notebook_free(struct notebook *n)
{
    vial_context_close(n->context);
    free(n->cwd);
    free(n);
}

bool notebooks_run(const struct box *box)
{
    for (const struct notebook *n = box->notebooks; n; n = n->next)
        if (n->context)
            return true;
    return false;
}

void notebooks_done(struct box *box)
{
    while (box->notebooks) {
        struct notebook *next = box->notebooks->next;

        notebook_free(box->notebooks);
        box->notebooks = next;
    }
}

void notebook_release(struct box *box, struct notebook *n)
{
    bool last;

    (void)pthread_mutex_lock(&box->lock);
    last = --n->users == 0;
    (void)pthread_mutex_unlock(&box->lock);
    if (last)
        notebook_free(n);
}

/* With the lock held, at the end of the list. NULL: no memory. */
static struct notebook *add(struct box *box, const struct spoken *l, const char *cwd,
                            bool usual)
{
    struct notebook *n = calloc(1, sizeof(*n));
    struct notebook **at = &box->notebooks;
    unsigned char random[16] = { 0 };

    if (!n || !(n->cwd = strdup(cwd)) || sys_random(random, sizeof(random)) < 0) {
        if (n)
            free(n->cwd);
        free(n);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(n->id + 2 * i, 3, "%02x", random[i]);
    n->language = l->shown;
    n->name = l->name;
    n->usual = usual;
    n->users = 1;
    while (*at)
        at = &(*at)->next;
    *at = n;
    return n;
}

int notebooks_begin(struct box *box)
{
    return add(box, &languages[0], BOX_HOME, true) &&
                   add(box, &languages[1], BOX_HOME, true)
               ? 0
               : -1;
}

struct notebook *notebook_find(struct box *box, const char *id)
{
    struct notebook *found;

    (void)pthread_mutex_lock(&box->lock);
    for (found = box->notebooks; found && strcmp(found->id, id) != 0;
         found = found->next)
        ;
    if (found)
        found->users++;
    (void)pthread_mutex_unlock(&box->lock);
    return found;
}

static const struct spoken *known(const char *name, struct vial_error *err)
{
    const struct spoken *l = language_of(name);

    if (!l)
        (void)fail(err, VIAL_E_LANGUAGE, "there is no interpreter of '%.32s'", name);
    return l;
}

struct notebook *notebook_usual(struct box *box, const char *language,
                                struct vial_error *err)
{
    const struct spoken *l = known(language, err);
    struct notebook *found;

    if (!l)
        return NULL;
    (void)pthread_mutex_lock(&box->lock);
    for (found = box->notebooks;
         found && !(found->usual && strcmp(found->language, l->shown) == 0);
         found = found->next)
        ;
    if (!found)
        found = add(box, l, BOX_HOME, true);
    if (found)
        found->users++;
    (void)pthread_mutex_unlock(&box->lock);
    if (!found)
        (void)fail_memory(err);
    return found;
}

/* TEXT as a literal of N's language; R knows no pairs of surrogates. */
static void add_literal(const struct notebook *n, struct str *out, const char *text)
{
    size_t ascii = strcmp(n->name, "r") == 0 ? 0 : JSON_ENSURE_ASCII;
    auto_json json_t *value = json_string(text);
    auto_free char *literal = value ? json_dumps(value, JSON_ENCODE_ANY | ascii) : NULL;

    if (strcmp(n->name, "bash") == 0)
        text_shell(out, text);
    else
        str_puts(out, literal ? literal : "''");
}

/* FORM with NAME for '@' and VALUE for '#'. */
static void say(const struct notebook *n, struct str *out, const char *form,
                const char *name, const char *value)
{
    for (; *form; form++)
        if (*form == '@' || *form == '#')
            add_literal(n, out, *form == '@' ? name : value);
        else
            str_putc(out, *form);
}

/* Runs CODE of ours; -1: it did not come to its end. */
static int run_hidden(const struct notebook *n, const struct str *code,
                      struct vial_error *err)
{
    auto_free char *text = NULL;
    auto_json json_t *said = NULL;
    const char *status;

    if (!str_ok(code))
        return fail_memory(err);
    if (vial_context_run(n->context, code->data, code->len, HIDDEN_MS, &text, err) < 0)
        return -1;
    said = json_loads(text, 0, NULL);
    status = json_string_value(json_object_get(said, "status"));
    if (status && strcmp(status, "ok") == 0)
        return 0;
    return fail(
        err, VIAL_E_CONTEXT, "the interpreter refused: %.128s",
        json_string_value(json_object_get(json_object_get(said, "error"), "value")));
}

static int enter_dir(const struct notebook *n, struct vial_error *err)
{
    auto_str struct str code = { 0 };

    if (strcmp(n->cwd, BOX_HOME) == 0)
        return 0;
    say(n, &code, speech_of(n)->go, n->cwd, "");
    return run_hidden(n, &code, err);
}

/* Of ENV each is set; or, back again, to what the sandbox has, if it has it. */
int notebook_set_env(const struct box *box, const struct notebook *n, json_t *env,
                     bool set, struct vial_error *err)
{
    const struct speech *speech = speech_of(n);
    auto_str struct str code = { 0 };
    const char *name;
    json_t *value;

    json_object_foreach(env, name, value)
    {
        const char *text =
            json_string_value(set ? value : json_object_get(box->env, name));

        say(n, &code, text ? speech->set : speech->unset, name, text ? text : "");
    }
    return run_hidden(n, &code, err);
}

/* With the turn. */
static int open_context(struct ask *a, struct notebook *n, struct vial_error *err)
{
    int rc = 0;

    if (n->context && !n->broken)
        return 0;
    if (!n->context)
        rc = vial_context_open(box_session(a->box), n->name, &n->context, err);
    else
        rc = vial_context_restart(n->context, err);
    n->broken = rc < 0;
    if (rc == 0 && enter_dir(n, err) < 0) {
        n->broken = true;
        rc = -1;
    }
    return rc;
}

/* Until it is free; with INTERRUPT what runs is told to stop. */
static int take_turn(struct ask *a, struct notebook *n, bool interrupt,
                     struct vial_error *err)
{
    struct box *box = a->box;
    struct vial_error ignored;
    int rc = 0;

    (void)pthread_mutex_lock(&box->lock);
    if (n->busy && interrupt && n->context)
        (void)!vial_context_interrupt(n->context, &ignored);
    while (n->busy && !ask_is_gone(a))
        thread_wait(&box->changed, &box->lock, LOOK_MS);
    if (n->busy)
        rc = fail(err, VIAL_E_CANCELLED, "the caller has gone");
    else if (n->removed)
        rc = fail(err, VIAL_E_NO_FILE, "Context %s not found", n->id);
    else
        n->busy = true;
    (void)pthread_mutex_unlock(&box->lock);
    return rc;
}

int notebook_enter(struct ask *a, struct notebook *n, struct vial_error *err)
{
    if (take_turn(a, n, false, err) < 0)
        return -1;
    if (open_context(a, n, err) == 0)
        return 0;
    notebook_leave(a->box, n);
    return -1;
}

void notebook_leave(struct box *box, struct notebook *n)
{
    (void)pthread_mutex_lock(&box->lock);
    n->busy = false;
    (void)pthread_cond_broadcast(&box->changed);
    (void)pthread_mutex_unlock(&box->lock);
}

static void unlist(struct box *box, struct notebook *n)
{
    struct notebook **at = &box->notebooks;

    (void)pthread_mutex_lock(&box->lock);
    while (*at && *at != n)
        at = &(*at)->next;
    if (*at) {
        *at = n->next;
        n->users--; /* the list's; the caller has one */
    }
    n->removed = true;
    (void)pthread_mutex_unlock(&box->lock);
}

struct notebook *notebook_make(struct ask *a, const char *language, const char *cwd,
                               struct vial_error *err)
{
    const struct spoken *l = known(language, err);
    struct notebook *n = NULL;
    unsigned count = 0;

    if (!l)
        return NULL;
    (void)pthread_mutex_lock(&a->box->lock);
    for (n = a->box->notebooks; n; n = n->next)
        count++;
    if (count < NOTEBOOKS && (n = add(a->box, l, cwd, false)))
        n->users++;
    (void)pthread_mutex_unlock(&a->box->lock);
    if (!n) {
        (void)fail(err, VIAL_E_BUSY, "this sandbox has %u contexts", count);
        return NULL;
    }
    if (notebook_enter(a, n, err) == 0) {
        notebook_leave(a->box, n);
        return n;
    }
    unlist(a->box, n);
    notebook_release(a->box, n);
    return NULL;
}

int notebook_restart(struct ask *a, struct notebook *n, struct vial_error *err)
{
    int rc = 0;

    if (take_turn(a, n, true, err) < 0)
        return -1;
    if (n->context) {
        n->broken = true;
        rc = open_context(a, n, err);
    }
    n->count = 0;
    notebook_leave(a->box, n);
    return rc;
}

int notebook_remove(struct ask *a, struct notebook *n, struct vial_error *err)
{
    if (take_turn(a, n, true, err) < 0)
        return -1;
    unlist(a->box, n);
    notebook_leave(a->box, n);
    return 0;
}
