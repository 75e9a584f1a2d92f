/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/script.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "driver/native/raw.h"

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

struct step *script_add(struct script *s, struct step step)
{
    struct step *at = NULL;

    if (s->count == s->cap)
        s->failed = true;
    at = s->failed ? &s->scratch : &s->steps[s->count++];
    *at = step;
    return at;
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

#define TEXTS    4
#define TEXT(at) offsetof(struct step, at)

/* The name of each step, and which of its texts a person wants to see. */
static const struct op_row {
    const char *name;
    uint8_t texts[TEXTS];
} rows[] = {
    [OP_CLOSE] = { "close" },
    [OP_LEASH] = { "leash" },
    [OP_JOIN] = { "join" },
    [OP_WAIT] = { "wait" },
    [OP_SET_IDS] = { "ids" },
    [OP_PDEATH] = { "pdeath" },
    [OP_PRIVATE] = { "private" },
    [OP_MOUNT] = { "mount",
                   { TEXT(mount.source), TEXT(mount.target), TEXT(mount.type),
                     TEXT(mount.data) } },
    [OP_BIND] = { "bind", { TEXT(bind.source), TEXT(bind.target) } },
    [OP_OPEN] = { "open", { TEXT(open.path) } },
    [OP_TREE] = { "tree", { TEXT(tree.source) } },
    [OP_ATTACH] = { "attach", { TEXT(attach.target) } },
    [OP_COVER] = { "cover", { TEXT(attach.target) } },
    [OP_DETACH] = { "detach", { TEXT(path) } },
    [OP_GIVE] = { "give", { TEXT(path) } },
    [OP_ATTR] = { "attributes", { TEXT(attr.path) } },
    [OP_SEAL] = { "seal", { TEXT(attr.path) } },
    [OP_MKDIR] = { "mkdir", { TEXT(dir.path) } },
    [OP_OWN] = { "own", { TEXT(owner.path) } },
    [OP_SYMLINK] = { "symlink", { TEXT(link.to), TEXT(link.path) } },
    [OP_LINK] = { "link", { TEXT(link.to), TEXT(link.path) } },
    [OP_FILE] = { "file", { TEXT(file.path) } },
    [OP_COPY] = { "copy", { TEXT(copy.from), TEXT(copy.to) } },
    [OP_CHDIR] = { "chdir", { TEXT(path) } },
    [OP_FCHDIR] = { "chdir" },
    [OP_PIVOT] = { "pivot" },
    [OP_WRITE] = { "write", { TEXT(file.path), TEXT(file.content) } },
    [OP_HOSTNAME] = { "hostname", { TEXT(name) } },
    [OP_LOOPBACK] = { "lo" },
    [OP_ROUTE] = { "route" },
    [OP_UNSHARE] = { "unshare" },
    [OP_SPLIT] = { "split" },
    [OP_MEET] = { "meet" },
    [OP_ENTER] = { "enter" },
    [OP_KEYRING] = { "keyring" },
    [OP_BOUND] = { "bound" },
    [OP_STREAM] = { "stream" },
    [OP_EXEC] = { "exec", { TEXT(exec.name) } },
};

void script_describe(const struct step *step, struct str *out)
{
    const struct op_row *row = &rows[step->op];

    str_puts(out, row->name);
    for (size_t i = 0; i < TEXTS && row->texts[i]; i++) {
        const char *text = NULL;

        memcpy(&text, (const char *)step + row->texts[i], sizeof(text));
        if (text)
            str_printf(out, " %s", text);
    }
    if (step->flags & STEP_OPTIONAL)
        str_puts(out, " optional");
}

void script_free(struct script *s)
{
    (void)munmap(s, size_of(s->cap, s->text_cap));
}

static long clone_copy(struct clone_args *args, raw_run *run, void *arg)
{
    long pid = syscall(SYS_clone3, args, sizeof(*args));

    if (pid == 0)
        run(arg);
    return pid < 0 ? -(long)errno : pid;
}

#if !RAW_SHARES
static long raw_clone(struct clone_args *args, raw_run *run, void *arg)
{
    return clone_copy(args, run, arg);
}
#endif

long raw_spawn(struct clone_args *args, void *stack, raw_run *run, void *arg)
{
    sigset_t all;
    sigset_t before;
    bool shares = RAW_SHARES && stack;
    long pid = 0;

    if (shares) {
        args->flags |= CLONE_VM;
        args->stack = (uint64_t)(uintptr_t)stack;
        args->stack_size = RAW_STACK;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = shares ? raw_clone(args, run, arg) : clone_copy(args, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}
