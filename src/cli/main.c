/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"

/* A standard descriptor that the caller left closed would be taken by the next
 * file we open, and the program's output would end up in it. Output that is asked for
 * and cannot be written stays an error. */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
            _exit(STATUS_VIAL);
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    /* A closed pipe is then an error of write, which ends the run tidily. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* the caller's file-size limit: likewise */
    json_seed();
    return cli_main(argc, argv);
}
