/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_RAW_H
#define VIAL_DRIVER_NATIVE_RAW_H

/*
 * System calls past libc, for processes that share our memory.
 *
 * A child that only makes system calls until it executes another program needs no
 * copy of our memory: making one, the faults on both sides that it causes, and its
 * end cost as much as a namespace. But what is shared includes errno, so such a
 * child must not go through libc; and our signal handlers, so it is born with all
 * signals blocked.
 *
 * Where the instructions are not known here, and under sanitizers, whose books such a
 * child would spoil, the child gets a copy, and nothing else changes.
 */

#include <errno.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    #define RAW_SHARES 0
#elif defined(__x86_64__) || defined(__aarch64__)
    #define RAW_SHARES 1
#else
    #define RAW_SHARES 0
#endif

#define RAW_STACK (32u << 10) /* for a child that shares our memory */

/* The result, or -errno. */
static inline long raw_call(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
    long rc = number;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;

    __asm__ volatile("syscall"
                     : "+a"(rc)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return rc;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory");
    return x0;
#else
    long rc = syscall(number, a, b, c, d, e);

    return rc < 0 ? -(long)errno : rc;
#endif
}

/* The function that a new process runs; it never returns. */
typedef void raw_run(void *arg);

#if RAW_SHARES
/* A process that finds nothing on its stack but what the registers hold. ARGS has that
 * stack, and CLONE_VM. The pid, or -errno. */
static inline long raw_clone(struct clone_args *args, raw_run *run, void *arg)
{
    #if defined(__x86_64__)
    long rc = SYS_clone3;
    register raw_run *fn __asm__("r8") = run;
    register void *of __asm__("r9") = arg;

    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %[of], %%rdi\n\t"
                     "callq *%[fn]\n\t"
                     "ud2\n"
                     "1:"
                     : "+a"(rc)
                     : "D"(args), "S"(sizeof(*args)), [fn] "r"(fn), [of] "r"(of)
                     : "rcx", "r11", "memory");
    return rc;
    #else
    register long number __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = sizeof(*args);
    register raw_run *fn __asm__("x9") = run;
    register void *of __asm__("x10") = arg;

    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x30, xzr\n\t"
                     "mov x0, %[of]\n\t"
                     "blr %[fn]\n\t"
                     "brk 0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(number), "r"(x1), [fn] "r"(fn), [of] "r"(of)
                     : "memory");
    return x0;
    #endif
}
#endif

/* Runs RUN(ARG), which never returns, in a new process. With a STACK it shares our
 * memory; that holds RAW_STACK bytes, is aligned to 16, and must outlive the process or
 * its exec. Without (and always where RAW_SHARES is 0) it gets a copy. ARGS has the
 * flags and no stack. The pid, or -errno. */
long raw_spawn(struct clone_args *args, void *stack, raw_run *run, void *arg);

#endif
