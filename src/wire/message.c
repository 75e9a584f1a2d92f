/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SHELL_SIGNAL 128                /* what shells add to the number of a signal */
#define FILTER_MAX   ((size_t)4096 * 8) /* BPF_MAXINSNS instructions of 8 bytes */
#define TEXTS_MAX    65536u
#define JAIL_KNOWN   ((JAIL_FIXED_ADDRESSES << 1) - 1u)
#define MARK         "vial:over:"
#define MARK_LEN     (sizeof MARK - 1)
#define DIGITS       3u

void jail_write(struct pack *p, const struct jail *j)
{
    pack_u32(p, j->flags);
    pack_u32(p, j->uid);
    pack_u32(p, j->gid);
    pack_u32(p, (uint32_t)j->rlimit_count);
    for (size_t i = 0; i < j->rlimit_count; i++) {
        pack_u32(p, j->rlimits[i].resource);
        pack_u64(p, j->rlimits[i].value);
    }
    pack_u32(p, (uint32_t)j->path_count);
    for (size_t i = 0; i < j->path_count; i++) {
        pack_text(p, j->paths[i].path);
        pack_u32(p, j->paths[i].access);
    }
    for (size_t i = 0; i < JAIL_FILTERS; i++)
        pack_bytes(p, j->filters[i].data, j->filters[i].len);
    pack_text(p, j->workdir);
    for (size_t i = 0; i < 2; i++)
        pack_text(p, j->watch_full[i]);
}

static void read_rlimits(struct unpack *u, struct jail *j)
{
    size_t count = unpack_u32(u);

    if (count > JAIL_MAX_RLIMITS)
        u->bad = true;
    for (size_t i = 0; i < count && !u->bad; i++) {
        j->rlimits[i].resource = unpack_u32(u);
        j->rlimits[i].value = unpack_u64(u);
        j->rlimit_count++;
    }
}

static void read_paths(struct unpack *u, struct jail *j)
{
    size_t count = unpack_u32(u);

    if (count > JAIL_MAX_PATHS)
        u->bad = true;
    for (size_t i = 0; i < count && !u->bad; i++) {
        j->paths[i].path = unpack_text(u);
        j->paths[i].access = unpack_u32(u);
        j->path_count++;
        if (j->paths[i].access > (JAIL_READ | JAIL_EXEC | JAIL_WRITE | JAIL_DEVICE))
            u->bad = true;
    }
}

static void read_filters(struct unpack *u, struct jail *j)
{
    for (size_t i = 0; i < JAIL_FILTERS && !u->bad; i++) {
        size_t len;
        const uint8_t *data = unpack_bytes(u, &len);

        if (!len)
            continue;
        j->filters[i].data = len % 8 || len > FILTER_MAX ? NULL : malloc(len);
        if (!j->filters[i].data) {
            u->bad = true;
            return;
        }
        memcpy(j->filters[i].data, data, len);
        j->filters[i].len = len;
    }
}

int jail_read(struct unpack *u, struct jail *out)
{
    struct jail j = { .flags = unpack_u32(u) };

    j.uid = unpack_u32(u);
    j.gid = unpack_u32(u);
    read_rlimits(u, &j);
    read_paths(u, &j);
    read_filters(u, &j);
    j.workdir = unpack_optional(u);
    for (size_t i = 0; i < 2; i++)
        j.watch_full[i] = unpack_optional(u);
    if (!unpack_finished(u) || j.flags > JAIL_KNOWN) {
        jail_done(&j);
        return -1;
    }
    *out = j;
    return 0;
}

void jail_done(struct jail *j)
{
    for (size_t i = 0; i < j->path_count; i++)
        free(j->paths[i].path);
    for (size_t i = 0; i < JAIL_FILTERS; i++)
        free(j->filters[i].data);
    free(j->workdir);
    for (size_t i = 0; i < 2; i++)
        free(j->watch_full[i]);
    *j = (struct jail){ 0 };
}

static size_t count_texts(char *const *texts)
{
    size_t count = 0;

    while (texts && texts[count])
        count++;
    return count;
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts && texts[i]; i++)
        free(texts[i]);
    free(texts);
}

void exec_write(struct pack *p, const struct exec_message *m)
{
    pack_texts(p, m->argv, count_texts(m->argv));
    pack_texts(p, m->env, count_texts(m->env));
    pack_text(p, m->cwd);
    pack_u64(p, m->timeout_ms);
    pack_u32(p, m->stdin_closed);
    pack_u32(p, m->end_on_full);
    pack_u32(p, m->terminal);
    pack_u32(p, m->apart);
    pack_u32(p, m->early_exit);
}

int exec_read(struct unpack *u, struct exec_message *out)
{
    struct exec_message m = { .argv = unpack_texts(u, TEXTS_MAX) };

    m.env = unpack_texts(u, TEXTS_MAX);
    m.cwd = unpack_optional(u);
    m.timeout_ms = unpack_u64(u);
    m.stdin_closed = unpack_u32(u);
    m.end_on_full = unpack_u32(u);
    m.terminal = unpack_u32(u);
    m.apart = unpack_u32(u);
    m.early_exit = unpack_u32(u);
    if (!unpack_finished(u) || !m.argv[0] || m.stdin_closed > 1 || m.end_on_full > 1 ||
        m.apart > 1 || m.early_exit > 1) {
        exec_done(&m);
        return -1;
    }
    *out = m;
    return 0;
}

void exec_done(struct exec_message *m)
{
    free_texts(m->argv);
    free_texts(m->env);
    free(m->cwd);
    *m = (struct exec_message){ 0 };
}

void exit_write(struct pack *p, const struct exit_message *m)
{
    pack_u32(p, m->kind);
    pack_u32(p, m->value);
    pack_u64(p, m->user_us);
    pack_u64(p, m->system_us);
    pack_u64(p, m->max_rss_bytes);
    pack_u64(p, m->out_bytes);
    pack_u64(p, m->err_bytes);
    pack_u64(p, m->disk_peak_bytes);
    pack_u32(p, m->disk_full | m->file_full << 1);
    pack_u32(p, m->timed_out);
    pack_u32(p, m->oom);
    pack_u32(p, m->alive);
    pack_u64(p, m->net_refused);
}

bool exit_was_killed(const struct exit_message *m)
{
    if (m->kind == EXIT_SIGNAL)
        return m->value == SIGKILL;
    return m->value == SHELL_SIGNAL + SIGKILL;
}

int exit_read(struct unpack *u, struct exit_message *out)
{
    struct exit_message m = { .kind = unpack_u32(u) };

    m.value = unpack_u32(u);
    m.user_us = unpack_u64(u);
    m.system_us = unpack_u64(u);
    m.max_rss_bytes = unpack_u64(u);
    m.out_bytes = unpack_u64(u);
    m.err_bytes = unpack_u64(u);
    m.disk_peak_bytes = unpack_u64(u);
    m.disk_full = unpack_u32(u);
    m.file_full = m.disk_full >> 1;
    m.disk_full &= 1;
    m.timed_out = unpack_u32(u);
    m.oom = unpack_u32(u);
    m.alive = unpack_u32(u);
    m.net_refused = unpack_u64(u);
    if (!unpack_finished(u) || m.file_full > 1 || m.timed_out > 1 || m.oom > 1)
        return -1;
    /* An int64_t holds every count: those who add them up need not check. */
    if ((m.user_us | m.system_us | m.max_rss_bytes | m.out_bytes | m.err_bytes |
         m.disk_peak_bytes | m.net_refused) > INT64_MAX / 1024)
        return -1;
    if (!(m.kind == EXIT_CODE && m.value <= 255) &&
        !(m.kind == EXIT_SIGNAL && m.value >= 1 && m.value <= 64))
        return -1;
    *out = m;
    return 0;
}

const char *exec_step_name(uint32_t step)
{
    static const char *const names[] = {
        [STEP_FORK] = "fork",
        [STEP_STDIO] = "stdio",
        [STEP_SESSION] = "session",
        [STEP_RLIMIT] = "rlimit",
        [STEP_CWD] = "cwd",
        [STEP_IDS] = "ids",
        [STEP_CAPS] = "caps",
        [STEP_PRIVS] = "no_new_privs",
        [STEP_OOM] = "oom",
        [STEP_LANDLOCK] = "landlock",
        [STEP_SECCOMP] = "seccomp",
        [STEP_CHECK] = "check",
        [STEP_ADDRESSES] = "addresses",
        [STEP_FIND] = "find",
        [STEP_EXEC] = "exec",
    };

    if (step < STEP_FORK || step > STEP_EXEC)
        return "?";
    return names[step];
}

void put_write(struct pack *p, const struct put_message *m)
{
    pack_text(p, m->path);
    pack_u32(p, m->mode);
    pack_text(p, m->attributes);
}

int put_read(struct unpack *u, struct put_message *out)
{
    struct put_message m = { .path = unpack_text(u) };

    m.mode = unpack_u32(u);
    m.attributes = unpack_optional(u);
    if (!unpack_finished(u)) {
        free(m.path);
        free(m.attributes);
        return -1;
    }
    *out = m;
    return 0;
}

void get_write(struct pack *p, const struct get_message *m)
{
    pack_text(p, m->path);
    pack_u64(p, m->offset);
    pack_u64(p, m->len);
}

int get_read(struct unpack *u, struct get_message *out)
{
    struct get_message m = { .path = unpack_text(u) };

    m.offset = unpack_u64(u);
    m.len = unpack_u64(u);
    if (!unpack_finished(u) || m.offset > INT64_MAX || m.len > INT64_MAX) {
        free(m.path);
        return -1;
    }
    *out = m;
    return 0;
}

void name_write(struct pack *p, const struct name_message *m)
{
    pack_u32(p, m->verb);
    pack_text(p, m->path);
    pack_text(p, m->to);
}

int name_read(struct unpack *u, struct name_message *out)
{
    struct name_message m = { .verb = unpack_u32(u) };

    m.path = unpack_text(u);
    m.to = unpack_text(u);
    if (!unpack_finished(u) || m.verb < NAME_STAT || m.verb > NAME_FOLLOW) {
        free(m.path);
        free(m.to);
        return -1;
    }
    *out = m;
    return 0;
}

void watch_write(struct pack *p, const struct watch_message *m)
{
    pack_text(p, m->path);
    pack_u32(p, m->flags);
}

int watch_read(struct unpack *u, struct watch_message *out)
{
    struct watch_message m = { .path = unpack_text(u) };

    m.flags = unpack_u32(u);
    if (!unpack_finished(u) || m.flags > (WATCH_DEEP | WATCH_ATTRIBUTES)) {
        free(m.path);
        return -1;
    }
    *out = m;
    return 0;
}

void event_write(struct pack *p, const struct event_message *m, const char *path,
                 const char *from)
{
    pack_u32(p, m->kind);
    pack_text(p, path);
    pack_text(p, from);
}

/* A path that can only lead down. */
static bool is_plain(const char *path)
{
    size_t total = strlen(path);

    for (const char *at = path; *at;
         at += strcspn(at, "/") + (strchr(at, '/') != NULL)) {
        size_t len = strcspn(at, "/");

        if (!len || len > 255 || (len <= 2 && memcmp(at, "..", len) == 0))
            return false;
    }
    return total < 4096 && (!total || path[total - 1] != '/');
}

int event_read(struct unpack *u, struct event_message *out)
{
    struct event_message m = { .kind = unpack_u32(u) };
    bool names = m.kind && m.kind <= 'z' && strchr("cwrma", (int)m.kind);

    m.path = unpack_text(u);
    m.from = unpack_text(u);
    if (u->bad || !m.kind || m.kind > 'z' || !strchr("cwrmags", (int)m.kind) ||
        !is_plain(m.path) || !is_plain(m.from) || names != (*m.path != 0) ||
        (m.kind == 'm') != (*m.from != 0)) {
        u->bad = true;
        free(m.path);
        free(m.from);
        return -1;
    }
    *out = m;
    return 0;
}

void list_entry_write(struct pack *p, const struct list_entry *e)
{
    pack_text(p, e->name);
    pack_u32(p, e->type);
    pack_u32(p, e->mode);
    pack_u64(p, e->size);
    pack_u64(p, e->mtime_ns);
    pack_u64(p, e->holes);
    pack_u32(p, e->uid);
    pack_u32(p, e->gid);
    pack_text(p, e->target);
    pack_text(p, e->attributes);
}

/* A name that leads nowhere but to an entry of its own directory. */
static bool is_entry_name(const char *name)
{
    size_t len = strlen(name);

    return len >= 1 && len <= 255 && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

void list_entry_done(struct list_entry *e)
{
    free(e->name);
    free(e->target);
    free(e->attributes);
    *e = (struct list_entry){ 0 };
}

bool attributes_are_good(const char *lines)
{
    size_t len = strlen(lines);

    if (len > LIST_ATTRIBUTES_MAX)
        return false;
    for (const char *end; *lines; lines = end + 1) {
        end = strchr(lines, '\n');
        if (!end || *lines == '=' || !memchr(lines, '=', (size_t)(end - lines)))
            return false;
        for (const char *c = lines; c < end; c++)
            if (*c < ' ' || *c > '~')
                return false;
    }
    return true;
}

int list_entry_read(struct unpack *u, struct list_entry *out)
{
    struct list_entry e = { .name = unpack_text(u) };

    e.type = unpack_u32(u);
    e.mode = unpack_u32(u);
    e.size = unpack_u64(u);
    e.mtime_ns = unpack_u64(u);
    e.holes = unpack_u64(u);
    e.uid = unpack_u32(u);
    e.gid = unpack_u32(u);
    e.target = unpack_optional(u);
    e.attributes = unpack_optional(u);
    if (u->bad || e.holes > e.size || !is_entry_name(e.name) || !e.type ||
        e.type > 'z' || !strchr("fdlo", (int)e.type) || e.mode > 07777 ||
        e.size > INT64_MAX ||
        (e.target && (e.type != 'l' || strlen(e.target) > LIST_TARGET_MAX)) ||
        (e.attributes && (e.type != 'f' || !attributes_are_good(e.attributes)))) {
        u->bad = true;
        list_entry_done(&e);
        return -1;
    }
    *out = e;
    return 0;
}

void early_exit_write(char name[EARLY_EXIT_SIZE], int code)
{
    unsigned left = (unsigned)code & 0xff;

    memcpy(name, MARK, MARK_LEN);
    for (size_t i = DIGITS; i-- > 0; left /= 10)
        name[MARK_LEN + i] = (char)('0' + left % 10);
    name[MARK_LEN + DIGITS] = 0;
}

int early_exit_read(const char *text, size_t len)
{
    unsigned code = 0;

    /* A newline ends it. */
    if (len != MARK_LEN + DIGITS + 1 || memcmp(text, MARK, MARK_LEN) != 0 ||
        text[len - 1] != '\n')
        return -1;
    for (size_t i = MARK_LEN; i < MARK_LEN + DIGITS; i++) {
        unsigned digit = (unsigned)text[i] - '0';

        if (digit > 9)
            return -1;
        code = code * 10 + digit;
    }
    return code > 255 ? -1 : (int)code;
}
