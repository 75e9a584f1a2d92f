/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(struct script *s)
{
    size_t cap = s->cap ? s->cap * 2 : 160;
    struct step *steps = NULL;

    if (s->count < s->cap)
        return true;
    steps = s->failed ? NULL : reallocarray(s->steps, cap, sizeof(*steps));
    if (!steps) {
        s->failed = true;
        return false;
    }
    s->steps = steps;
    s->cap = cap;
    return true;
}

struct step *script_add(struct script *s, enum step_op op)
{
    struct step *step = NULL;

    if (!grow(s))
        return &s->scratch;
    step = &s->steps[s->count++];
    memset(step, 0, sizeof(*step));
    step->op = (uint8_t)op;
    step->fd = -1;
    return step;
}

struct step *script_path(struct script *s, enum step_op op, const char *a,
                         const char *b, uint64_t x)
{
    struct step *step = script_add(s, op);

    step->a = a;
    step->b = b;
    step->x = x;
    return step;
}

const char *script_text(struct script *s, const char *format, ...)
{
    auto_str struct str text = { 0 };
    va_list args;

    va_start(args, format);
    str_vprintf(&text, format, args);
    va_end(args);
    if (!str_ok(&text)) {
        s->failed = true;
        return "";
    }
    strv_push(&s->texts, text.data ? text.data : "");
    if (!strv_ok(&s->texts)) {
        s->failed = true;
        return "";
    }
    return s->texts.items[s->texts.count - 1];
}

const char *script_op_name(unsigned op)
{
    static const char *const names[] = {
        [OP_CLOSE] = "close",     [OP_WRITE_FD] = "join",     [OP_WAIT] = "wait",
        [OP_SET_IDS] = "ids",     [OP_PDEATH] = "pdeath",     [OP_PRIVATE] = "private",
        [OP_MOUNT] = "mount",     [OP_BIND] = "bind",         [OP_OPEN] = "open",
        [OP_TREE] = "tree",       [OP_ATTACH] = "attach",     [OP_ATTR] = "attributes",
        [OP_DETACH] = "detach",   [OP_GIVE] = "give",         [OP_OWN] = "own",
        [OP_MKDIR] = "mkdir",     [OP_SYMLINK] = "symlink",   [OP_FILE] = "file",
        [OP_COPY] = "copy",       [OP_CHDIR] = "chdir",       [OP_PIVOT] = "pivot",
        [OP_WRITE] = "write",     [OP_HOSTNAME] = "hostname", [OP_LOOPBACK] = "lo",
        [OP_UNSHARE] = "unshare", [OP_KEYRING] = "keyring",   [OP_BOUND] = "bound",
        [OP_STREAM] = "stream",   [OP_EXEC] = "exec",
    };

    return op < sizeof(names) / sizeof(*names) ? names[op] : "?";
}

void script_describe(const struct step *step, struct str *out)
{
    str_puts(out, script_op_name(step->op));
    if (step->a && step->op != OP_WRITE_FD)
        str_printf(out, " %s", step->a);
    if (step->b && step->op != OP_FILE)
        str_printf(out, " %s", step->b);
    if (step->c)
        str_printf(out, " %s", step->c);
    if (step->d)
        str_printf(out, " %s", step->d);
    if (step->flags & STEP_OPTIONAL)
        str_puts(out, " optional");
}

void script_done(struct script *s)
{
    free(s->steps);
    strv_done(&s->texts);
    *s = (struct script){ 0 };
}
