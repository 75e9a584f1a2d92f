/* SPDX-License-Identifier: Apache-2.0 */

/* A program that does not stay: below it a process with a session of its own, whose
 * parent is gone, becomes another, and that another, as fast as the kernel can. Counts
 * in the file 'steps', and makes 'pid' when it runs. */

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    int fd = open("steps", O_RDWR | O_CREAT, 0600);
    volatile unsigned long *steps;

    if (fd < 0 || ftruncate(fd, sizeof *steps) < 0)
        return 2;
    steps = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (steps == MAP_FAILED || signal(SIGCHLD, SIG_IGN) == SIG_ERR)
        return 2;
    if (fork() > 0)
        for (;;)
            pause();
    while (syscall(SYS_clone, 0, 0, 0, 0, 0) == 0) {
        (void)setsid();
        if (++*steps == 1)
            (void)!write(open("pid", O_WRONLY | O_CREAT, 0600), "1", 1);
    }
    _exit(0);
}
