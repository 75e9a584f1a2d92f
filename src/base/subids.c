/* SPDX-License-Identifier: Apache-2.0 */
#include "base/subids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/str.h"

#define FILE_MAX  ((size_t)1 << 20)
#define NAME_MAX_ 64
#define WHY       160
#define FIRST_ID  1000u       /* below are the system's own, whatever a file says */
#define LAST_ID   0xfffffffeu /* the kernel's "nobody changes" is above */

static const char *const programs[] = { "/usr/bin/newuidmap", "/usr/bin/newgidmap" };

__attribute__((format(printf, 2, 3))) static bool no(char why[WHY], const char *form,
                                                     ...)
{
    va_list args;

    va_start(args, form);
    (void)vsnprintf(why, WHY, form, args);
    va_end(args);
    return false;
}

/* A line "A:B:C…" as fields, whose ends are cut; how many there are. */
static size_t split(char *line, char **fields, size_t most)
{
    size_t count = 0;

    while (count < most) {
        fields[count++] = line;
        line = strchr(line, ':');
        if (!line)
            break;
        *line++ = '\0';
    }
    return count;
}

static bool number(const char *text, uint32_t *out)
{
    char *end = NULL;
    unsigned long long value;

    if (*text < '0' || *text > '9')
        return false;
    value = strtoull(text, &end, 10);
    *out = (uint32_t)value;
    return *end == '\0' && value <= LAST_ID;
}

/* What is looked for, line by line; true: it was found. */
struct search {
    uid_t uid;
    gid_t gid;
    char name[NAME_MAX_]; /* of the user; "": not known yet */
    uint32_t first;       /* of the range */
};

static bool is_user(struct search *s, char *line)
{
    char *f[4];
    uint32_t uid = 0;
    uint32_t gid = 0;

    if (split(line, f, 4) < 4 || !number(f[2], &uid) || uid != s->uid)
        return false;
    /* The programs map for nobody whose group is another than his line has. */
    if (!number(f[3], &gid) || gid != s->gid || strlen(f[0]) >= sizeof(s->name))
        return false;
    (void)snprintf(s->name, sizeof(s->name), "%s", f[0]);
    return s->name[0] != '\0';
}

static bool is_range(struct search *s, char *line)
{
    char *f[3];
    uint32_t id = 0;
    uint32_t count = 0;

    if (split(line, f, 3) < 3 || !number(f[1], &s->first) || !number(f[2], &count))
        return false;
    if (strcmp(f[0], s->name) != 0 && !(number(f[0], &id) && id == s->uid))
        return false;
    return count >= SUBIDS_COUNT && s->first >= FIRST_ID &&
           s->first <= LAST_ID - SUBIDS_COUNT &&
           (s->uid < s->first || s->uid - s->first >= SUBIDS_COUNT) &&
           (s->gid < s->first || s->gid - s->first >= SUBIDS_COUNT);
}

static bool look_in(const char *dir, const char *name, struct search *s,
                    bool (*is)(struct search *s, char *line))
{
    struct blob text = { 0 };
    char path[256];
    char *rest = NULL;
    bool found = false;

    (void)snprintf(path, sizeof(path), "%.200s/%s", dir, name);
    if (io_read_file(path, FILE_MAX, &text, NULL) < 0 || !text.data) {
        blob_done(&text);
        return false;
    }
    for (char *line = strtok_r(text.data, "\n", &rest); line && !found;
         line = strtok_r(NULL, "\n", &rest))
        found = is(s, line);
    blob_done(&text);
    return found;
}

bool subids_read(const char *etc_dir, uid_t uid, gid_t gid, struct subids *out,
                 char why[WHY])
{
    struct search s = { .uid = uid, .gid = gid };

    if (!look_in(etc_dir, "passwd", &s, is_user))
        return no(why, "%s/passwd has no such user, with his own group", etc_dir);
    if (!look_in(etc_dir, "subuid", &s, is_range))
        return no(why, "%s/subuid has no range of 65535 ids for him", etc_dir);
    out->first_uid = s.first;
    if (!look_in(etc_dir, "subgid", &s, is_range))
        return no(why, "%s/subgid has no range of 65535 ids for him", etc_dir);
    out->first_gid = s.first;
    return true;
}

/* One that root has given the right to: by its bit, or by a capability. */
static bool may_map(const char *program)
{
    struct stat st;

    return stat(program, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
           !(st.st_mode & 022) &&
           ((st.st_mode & S_ISUID) ||
            getxattr(program, "security.capability", NULL, 0) > 0);
}

bool subids_find(struct subids *out, char why[WHY])
{
    why[0] = '\0';
    if (geteuid() == 0 || geteuid() != getuid() || getegid() != getgid())
        return no(why, "it is for ordinary users");
    if (!subids_read("/etc", getuid(), getgid(), out, why))
        return false;
    for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
        if (!may_map(programs[i]))
            return no(why, "'%s' is not there, or has no right (package uidmap)",
                      programs[i]);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
        return no(why, "vial itself runs without new privileges");
    return true;
}

/* Between fork and exec, where only system calls are made. */
__attribute__((noreturn)) static void become(const char *program, char *const *args)
{
    static char *const none[] = { NULL };
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 &&
        dup2(null_fd, 2) == 2)
        (void)execve(program, args, none);
    _exit(127);
}

/* The process that maps, or -1. */
static pid_t start(const char *program, pid_t pid, uint32_t own, uint32_t first,
                   struct vial_error *err)
{
    char name[32];
    char who[16];
    char me[16];
    char from[16];
    char count[16];
    char zero[] = "0";
    char one[] = "1";
    char *const args[] = { name, who, zero, me, one, one, from, count, NULL };
    pid_t child;

    (void)snprintf(name, sizeof(name), "%s", program);
    (void)snprintf(who, sizeof(who), "%d", (int)pid);
    (void)snprintf(me, sizeof(me), "%u", own);
    (void)snprintf(from, sizeof(from), "%u", first);
    (void)snprintf(count, sizeof(count), "%u", SUBIDS_COUNT);
    child = fork();
    if (child == 0)
        become(program, args);
    return child < 0 ? fail_sys(err, "start '%s'", program) : child;
}

/* How it ended is no matter, and may be another's to hear: the map tells. */
static void wait_for(pid_t child)
{
    while (child > 0 && waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

/* What the kernel says of the map, against what was asked for. */
static int check(const char *program, pid_t pid, const char *file, uint32_t own,
                 uint32_t first, struct vial_error *err)
{
    char path[64];
    char text[256];
    unsigned got[6] = { 0 };
    char more = 0;
    int n = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    if (io_read_at(AT_FDCWD, path, text, sizeof(text)) > 0)
        /* NOLINTNEXTLINE(cert-err34-c): numbers of the kernel's own */
        n = sscanf(text, "%u %u %u %u %u %u %c", &got[0], &got[1], &got[2], &got[3],
                   &got[4], &got[5], &more);
    if (n == 6 && got[0] == 0 && got[1] == own && got[2] == 1 && got[3] == 1 &&
        got[4] == first && got[5] == SUBIDS_COUNT)
        return 0;
    (void)fail(err, VIAL_E_OPEN, "'%s' did not map the range of ids of the user",
               program);
    return fail_remedy(err,
                       "try it: 'unshare --map-auto --map-root-user true'; or take "
                       "the range out of /etc/subuid");
}

int subids_map(pid_t pid, const struct subids *ids, struct vial_error *err)
{
    pid_t users = start(programs[0], pid, getuid(), ids->first_uid, err);
    pid_t groups =
        users < 0 ? -1 : start(programs[1], pid, getgid(), ids->first_gid, err);

    wait_for(users);
    wait_for(groups);
    if (groups < 0 ||
        check(programs[0], pid, "uid_map", getuid(), ids->first_uid, err) < 0)
        return -1;
    return check(programs[1], pid, "gid_map", getgid(), ids->first_gid, err);
}
