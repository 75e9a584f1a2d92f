/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/script.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static size_t size_of(size_t steps, size_t text)
{
    return sizeof(struct script) + steps * sizeof(struct step) + text;
}

struct script *script_new(size_t steps, size_t text, bool sharing)
{
    int how = RAW_SHARES && sharing ? MAP_PRIVATE : MAP_SHARED; /* shared either way */
    struct script *s = mmap(NULL, size_of(steps, text), PROT_READ | PROT_WRITE,
                            how | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (s == MAP_FAILED)
        return NULL;
    s->sharing = sharing;
    s->cap = steps;
    s->text_cap = text;
    return s;
}

struct step *script_add(struct script *s, enum step_op op)
{
    struct step *step = NULL;

    if (s->count == s->cap)
        s->failed = true;
    if (s->failed)
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
    char *text = (char *)&s->steps[s->cap] + s->text_len;
    size_t room = s->text_cap - s->text_len;
    va_list args;
    int len = 0;

    va_start(args, format);
    len = vsnprintf(text, room, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= room) {
        s->failed = true;
        return "";
    }
    s->text_len += (size_t)len + 1;
    return text;
}

void script_rebind(struct script *s, const struct script_fds *fds)
{
    for (size_t i = 0; i < s->count; i++) {
        struct step *step = &s->steps[i];

        if (step->op == OP_CLOSE)
            step->fd = fds->close;
        else if (step->op == OP_LEASH)
            step->fd = fds->leash;
        else if (step->op == OP_STREAM)
            step->fd = fds->stream;
        else if (step->op == OP_EXEC)
            step->fd = fds->exec;
    }
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
        [OP_SPLIT] = "split",     [OP_MEET] = "meet",         [OP_ENTER] = "enter",
        [OP_STREAM] = "stream",   [OP_EXEC] = "exec",         [OP_SEAL] = "seal",
        [OP_LINK] = "link",       [OP_LEASH] = "leash",       [OP_COVER] = "cover",
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

void script_free(struct script *s)
{
    (void)munmap(s, size_of(s->cap, s->text_cap));
}
