/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "driver/native/profile.h"

#define CALLS_END 1024 /* beyond the kernel's last call */

static bool is_return(const struct sock_filter *f, uint32_t action)
{
    return f->code == (BPF_RET | BPF_K) && (f->k & SECCOMP_RET_ACTION_FULL) == action;
}

/* A walk through a filter with the architecture and the call known and the
 * arguments not: both ways are gone where they decide. */
struct walk {
    const struct sock_filter *f;
    size_t count;
    uint32_t arch, call;
};

struct place {
    size_t at;
    uint32_t a;
    bool known; /* what A holds does not depend on an argument */
};

static bool meets(const struct sock_filter *f, uint32_t a)
{
    switch (BPF_OP(f->code)) {
    case BPF_JEQ:
        return a == f->k;
    case BPF_JGE:
        return a >= f->k;
    case BPF_JGT:
        return a > f->k;
    default:
        return a & f->k; /* JSET */
    }
}

static bool can_kill(const struct walk *w, struct place p);

static bool can_kill_from_jump(const struct walk *w, struct place p)
{
    const struct sock_filter *f = &w->f[p.at];
    struct place yes = { p.at + 1 + f->jt, p.a, p.known };
    struct place no = { p.at + 1 + f->jf, p.a, p.known };

    if (BPF_OP(f->code) == BPF_JA)
        return can_kill(w, (struct place){ p.at + 1 + f->k, p.a, p.known });
    if (p.known)
        return can_kill(w, meets(f, p.a) ? yes : no);
    return can_kill(w, yes) || can_kill(w, no);
}

/* What is not understood may kill. Jumps only lead forward, so this ends. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static bool can_kill(const struct walk *w, struct place p)
{
    const struct sock_filter *f = &w->f[p.at];

    if (p.at >= w->count)
        return true;
    if (f->code == (BPF_LD | BPF_W | BPF_ABS)) {
        p.known = f->k < offsetof(struct seccomp_data, instruction_pointer);
        p.a = f->k == offsetof(struct seccomp_data, arch) ? w->arch : w->call;
        p.at++;
        return can_kill(w, p);
    }
    if (f->code == (BPF_ALU | BPF_AND | BPF_K)) {
        p.a &= f->k;
        p.at++;
        return can_kill(w, p);
    }
    if (BPF_CLASS(f->code) == BPF_JMP)
        return can_kill_from_jump(w, p);
    return !is_return(f, SECCOMP_RET_ALLOW) && !is_return(f, SECCOMP_RET_ERRNO);
}

/* The kernel takes the strictest word of all filters, and of equal ones the last
 * filter's. So if the first never kills a call, asking the second, and the first only
 * when the second allows, is the same. Foreign architectures are killed by both. */
static bool may_follow(const struct blob *first)
{
    struct walk w = { .f = (const void *)first->data,
                      .count = first->len / sizeof(struct sock_filter),
                      .arch = seccomp_arch_native() };

    for (w.call = 0; w.call < CALLS_END; w.call++) {
        if (can_kill(&w, (struct place){ 0, 0, true }))
            return false;
    }
    return true;
}

int profile_join(struct blob filters[PROFILE_FILTERS], struct vial_error *err)
{
    size_t len = filters[0].len + filters[1].len;
    size_t count = filters[1].len / sizeof(struct sock_filter);
    struct sock_filter *joined = NULL;

    if (len > BPF_MAXINSNS * sizeof(*joined) || !may_follow(&filters[0]))
        return 0;
    joined = malloc(len);
    if (!joined)
        return fail_memory(err);
    memcpy(joined, filters[1].data, filters[1].len);
    memcpy(joined + count, filters[0].data, filters[0].len);
    for (size_t i = 0; i < count; i++) {
        if (is_return(&joined[i], SECCOMP_RET_ALLOW))
            joined[i] = (struct sock_filter){ .code = BPF_JMP | BPF_JA,
                                              .k = (uint32_t)(count - i - 1) };
    }
    blob_done(&filters[0]);
    blob_done(&filters[1]);
    filters[0] = (struct blob){ (char *)joined, len };
    return 0;
}
