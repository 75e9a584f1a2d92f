/* SPDX-License-Identifier: Apache-2.0 */
/* Two filters as one. The keeper has this too: it judges what it is given. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/native/custom_filter.h"

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
