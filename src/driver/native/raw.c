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
