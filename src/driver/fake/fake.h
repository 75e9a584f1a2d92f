/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_FAKE_FAKE_H
#define VIAL_DRIVER_FAKE_FAKE_H

/* clang-format off */
/*
 * A driver for tests of the engine. Its guest is a child process that does what
 * the program's arguments say, so that a test can make it misbehave. Found only
 * when the environment has VIAL_TEST_FAKE=1. It isolates nothing and runs no
 * program.
 *
 * The arguments of an exec, done in order:
 *   out:TEXT err:TEXT  bytes on a stream        flood:N  N KiB of 'x' within credit
 *   exit:N signal:N    end like that            failed:STEP:ERRNO  could not start
 *   raw:TEXT           bytes that are no frame  undead   output after the stream's end
 *   echo               stdin back on stdout     early    an exit before the start
 *   hang               nothing more, ever       die      the guest ends
 *   full late          the disk was full, the guest's deadline fired (in the exit)
 *   trap:N             a signal is awaited, then exit N
 *   make:NAME          from now on there is a file NAME
 * and what the kernel is said to have counted: oom:N pids:N cpu:MS.
 *
 * A file named "refused" cannot be put (no space), nor "once" a second time; "missing",
 * "link", "busy" cannot be had, "stuck" never comes, "endless" never ends, "growing" has
 * 65 MiB from the second time on; any other holds "content of NAME". The directory "liar"
 * has two files, one of which has more than it says; there are no others, but for the
 * file that was made.
 */
/* clang-format on */

#include "driver/driver.h"

/* The child's whole life, on stream FD. */
_Noreturn void fake_guest(int fd);

#endif
