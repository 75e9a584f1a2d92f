/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/raw.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

static long clone_copy(struct clone_args *args, raw_run *run, void *arg)
{
    long pid = syscall(SYS_clone3, args, sizeof(*args));

    if (pid == 0)
        run(arg);
    return pid < 0 ? -(long)errno : pid;
}

#if !RAW_SHARES
static long clone_and_run(struct clone_args *args, raw_run *run, void *arg)
{
    return clone_copy(args, run, arg);
}
#elif defined(__x86_64__)
/* The new process finds nothing on its stack but what the registers hold. */
static long clone_and_run(struct clone_args *args, raw_run *run, void *arg)
{
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
}
#else
static long clone_and_run(struct clone_args *args, raw_run *run, void *arg)
{
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
    pid = shares ? clone_and_run(args, run, arg) : clone_copy(args, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}
