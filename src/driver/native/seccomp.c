/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "driver/native/custom_filter.h"
#include "driver/native/profile.h"

#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))

int seccomp_find_dir(int guest_fd, char *out, struct vial_error *err)
{
    char link[32];
    char path[PATH_MAX - 16];
    ssize_t n = 0;
    char *slash = NULL;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", guest_fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return fail_sys(err, "find the guest's directory");
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (path[0] != '/' || !slash)
        return fail(err, VIAL_E_GUEST, "guest program '%s' has no directory", path);
    *slash = '\0';
    (void)snprintf(out, PATH_MAX, "%s/seccomp", path);
    return 0;
}

/* Begins by looking at the architecture and ends in a verdict. The kernel judges
 * the rest; this is to tell a damaged file from a kernel that refuses. */
static bool looks_like_filter(const struct blob *b)
{
    struct sock_filter first;
    struct sock_filter last;

    if (b->len < 2 * sizeof(first) || b->len % sizeof(first) != 0)
        return false;
    memcpy(&first, b->data, sizeof(first));
    memcpy(&last, b->data + b->len - sizeof(last), sizeof(last));
    return first.code == (BPF_LD | BPF_W | BPF_ABS) &&
           first.k == offsetof(struct seccomp_data, arch) &&
           last.code == (BPF_RET | BPF_K);
}

/* Moves LEN bytes of TEXT at AT into OUT. Nothing of nothing is fine. */
static int take_filter(const struct blob *text, size_t at, uint32_t len,
                       struct blob *out)
{
    if (len > text->len - at)
        return -1;
    if (len && (blob_set(out, text->data + at, len) < 0 || !looks_like_filter(out)))
        return -1;
    return 0;
}

/* Two lengths, then what they say. */
static int parse(const struct blob *text, struct blob filters[PROFILE_FILTERS])
{
    uint32_t len[PROFILE_FILTERS];

    if (text->len < sizeof(len))
        return -1;
    memcpy(len, text->data, sizeof(len));
    if (!len[0] || sizeof(len) + (size_t)len[0] + len[1] != text->len)
        return -1;
    if (take_filter(text, sizeof(len), len[0], &filters[0]) < 0)
        return -1;
    return take_filter(text, sizeof(len) + len[0], len[1], &filters[1]);
}

int seccomp_read(const char *dir, const char *name,
                 struct blob filters[PROFILE_FILTERS], struct vial_error *err)
{
    char path[PATH_MAX + 64];
    struct blob text = { 0 };
    auto_fd int fd = -1;
    int rc = 0;

    (void)snprintf(path, sizeof(path), "%s/%s.bpf", dir, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return seccomp_compile(dir, name, filters, err);
    if (fd < 0)
        return fail_sys(err, "open '%s'", path);
    if (io_read_fd(fd, path, PROFILE_FILTERS * FILTER_MAX + 8, &text, err) < 0)
        return -1;
    rc = parse(&text, filters);
    blob_done(&text);
    return rc < 0 ? fail(err, VIAL_E_VALUE, "seccomp filter '%s' is damaged", path) : 0;
}

/* JAIL's, from the files. */
static int fetch(struct jail *jail, int guest_fd, const char *name,
                 struct vial_error *err)
{
    struct blob filters[PROFILE_FILTERS] = { 0 };
    char dir[PATH_MAX];

    if (!profile_name_ok(name))
        return fail(err, VIAL_E_VALUE, "seccomp profile '%s' is not a name", name);
    if (seccomp_find_dir(guest_fd, dir, err) < 0)
        return -1;
    if (seccomp_read(dir, name, filters, err) < 0) {
        blob_done(&filters[0]);
        blob_done(&filters[1]);
        return -1;
    }
    for (size_t i = 0; i < PROFILE_FILTERS && filters[i].len; i++) {
        jail->filters[i].data = (uint8_t *)filters[i].data;
        jail->filters[i].len = filters[i].len;
    }
    jail->flags |= JAIL_SECCOMP;
    return 0;
}

static int add_plans_own(struct jail *jail, const struct plan *plan,
                         struct vial_error *err)
{
    struct blob own = { .data = (char *)jail->filters[0].data,
                        .len = jail->filters[0].len };

    if (plan->seccomp_file && custom_put(&own, &plan->custom.filter, err) < 0)
        return -1;
    jail->filters[0].data = (uint8_t *)own.data;
    jail->filters[0].len = own.len;
    /* Under the filter, a child still has to give its listener to the guest. */
    if (plan->count_denied && custom_verdict(&own, SYS_sendmsg) == SECCOMP_RET_ALLOW)
        jail->flags |= JAIL_COUNT;
    return 0;
}

int seccomp_fill(struct jail *jail, int guest_fd, const char *name,
                 const struct plan *plan, struct vial_error *err)
{
    return fetch(jail, guest_fd, name, err) < 0 ? -1 : add_plans_own(jail, plan, err);
}

/* Two filters as one. The keeper has this too: it judges what it is given. */

/* Elsewhere every verdict is a kill, and so every custom profile is refused. */
#ifdef __x86_64__
    #define NATIVE_ARCH AUDIT_ARCH_X86_64
#else
    #define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD_WORD (BPF_LD | BPF_W | BPF_ABS)

static size_t count(const struct blob *b)
{
    return b->len / sizeof(struct sock_filter);
}

static struct sock_filter at(const struct blob *b, size_t i)
{
    struct sock_filter f;

    memcpy(&f, b->data + i * sizeof(f), sizeof(f));
    return f;
}

static bool is_branch(unsigned code)
{
    return code == (BPF_JMP | BPF_JEQ | BPF_K) || code == (BPF_JMP | BPF_JGT | BPF_K) ||
           code == (BPF_JMP | BPF_JGE | BPF_K) || code == (BPF_JMP | BPF_JSET | BPF_K);
}

/* No action that lets a call happen but ALLOW itself, which custom_put replaces; and
 * none that says of a call that it was done, which it was not: the guest loads what
 * filters follow under this one. */
static bool is_verdict(uint32_t k)
{
    uint32_t action = k & SECCOMP_RET_ACTION_FULL;

    return k == SECCOMP_RET_ALLOW || action == SECCOMP_RET_TRAP ||
           (action == SECCOMP_RET_ERRNO && (k & SECCOMP_RET_DATA)) ||
           action == SECCOMP_RET_KILL_THREAD || action == SECCOMP_RET_KILL_PROCESS;
}

/* Jumps stay inside: none may reach into the filter that will stand behind. */
static bool is_good(const struct sock_filter *f, size_t left)
{
    if (f->code == (BPF_RET | BPF_K))
        return is_verdict(f->k);
    if (left == 0)
        return false;
    if (f->code == LOAD_WORD)
        return f->k % 4 == 0 && f->k < sizeof(struct seccomp_data);
    if (f->code == (BPF_ALU | BPF_AND | BPF_K))
        return true;
    if (f->code == (BPF_JMP | BPF_JA))
        return f->k < left;
    return is_branch(f->code) && f->jt < left && f->jf < left;
}

bool custom_check(const struct blob *filter)
{
    size_t n = count(filter);

    if (n == 0 || n >= BPF_MAXINSNS || filter->len % sizeof(struct sock_filter))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct sock_filter f = at(filter, i);

        if (!is_good(&f, n - i - 1))
            return false;
    }
    return true;
}

int custom_put(struct blob *own, const struct blob *filter, struct vial_error *err)
{
    size_t n = count(filter);
    size_t total = filter->len + own->len;
    auto_free char *joined = NULL;
    struct blob both = { 0 };

    if (!custom_check(filter))
        return fail(err, VIAL_E_VALUE, "the plan's own seccomp filter is damaged");
    if (total > BPF_MAXINSNS * sizeof(struct sock_filter))
        return fail(err, VIAL_E_VALUE,
                    "the seccomp profile is too long: with the vessel's own filter it "
                    "has %zu instructions, of %d",
                    total / sizeof(struct sock_filter), BPF_MAXINSNS);
    joined = malloc(total);
    if (!joined)
        return fail_memory(err);
    memcpy(joined, filter->data, filter->len);
    memcpy(joined + filter->len, own->data, own->len);
    for (size_t i = 0; i < n; i++) {
        struct sock_filter f = at(filter, i);
        const struct sock_filter on = BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(n - i - 1));

        if (f.code == (BPF_RET | BPF_K) && f.k == SECCOMP_RET_ALLOW)
            memcpy(joined + i * sizeof(on), &on, sizeof(on));
    }
    if (blob_set(&both, joined, total) < 0)
        return fail_memory(err);
    blob_done(own);
    *own = both;
    return 0;
}

static bool holds(const struct sock_filter *f, uint32_t a)
{
    switch (BPF_OP(f->code)) {
    case BPF_JEQ:
        return a == f->k;
    case BPF_JGT:
        return a > f->k;
    case BPF_JGE:
        return a >= f->k;
    default:
        return a & f->k;
    }
}

/* Jumps lead forward only, so that this ends. */
uint32_t custom_verdict(const struct blob *filter, int number)
{
    size_t n = count(filter);
    uint32_t a = 0;

    for (size_t i = 0; i < n; i++) {
        struct sock_filter f = at(filter, i);

        if (f.code == (BPF_RET | BPF_K))
            return f.k;
        if (f.code == LOAD_WORD)
            a = f.k == offsetof(struct seccomp_data, nr)     ? (uint32_t)number
                : f.k == offsetof(struct seccomp_data, arch) ? NATIVE_ARCH
                                                             : 0;
        else if (f.code == (BPF_ALU | BPF_AND | BPF_K))
            a &= f.k;
        else if (f.code == (BPF_JMP | BPF_JA))
            i += f.k;
        else if (is_branch(f.code))
            i += holds(&f, a) ? f.jt : f.jf;
        else
            break;
    }
    return SECCOMP_RET_KILL_PROCESS;
}
