/* SPDX-License-Identifier: Apache-2.0 */

/* A session whose programs work against the guest and one another. Where no filter
 * holds, nothing of this is promised. */

#include <signal.h>

#include "session_case.h"

/* A child that the guest becomes the parent of, in a session of its own, is no
 * descendant of the program. Where it cannot be made, an ordinary one is found. */
static void a_kill_finds_a_child_that_was_made_for_the_guest(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    static const char hide[] =
        "import ctypes, os, time\n"
        "clone = 56 if os.uname().machine == 'x86_64' else 220\n"
        "clone_parent, sigchld = 0x8000, 17\n"
        "libc = ctypes.CDLL(None)\n"
        "pid = libc.syscall(clone, clone_parent | sigchld, 0, 0, 0, 0)\n"
        "if pid == 0 or pid < 0 and os.fork() == 0:\n"
        " os.setsid()\n"
        " open('pid.new', 'w').write(str(os.getpid()))\n"
        " os.rename('pid.new', 'pid')\n"
        "time.sleep(1000)\n";
    const char *const argv[] = { "python3", "-c", hide, NULL };
    struct vial_exec_options o = { .argv = argv };
    struct vial_exec *other = start(s, "sleep 1000");
    struct vial_exec *x = NULL;
    struct vial_exec_status st;

    good(vial_session_exec(s, &o, &x, &err));
    check_line(s, "while [ ! -e pid ]; do sleep 0.05; done; test -d /proc/$(cat pid)",
               "");
    good(vial_exec_signal(x, SIGKILL, true, &err));
    assert_int_equal(wait_for(x).signal, SIGKILL);
    check_line(s, "test -d /proc/$(cat pid) || echo gone", "gone\n");
    vial_exec_wait(other, 0, &st);
    assert_true(st.running);
    vial_session_free(s);
}

/* The kernel would let whoever opens it wait for the lease's holder, who does not care;
 * and the guest stands still until a program that it starts is open. */
static void a_program_cannot_make_the_guest_wait_for_a_file(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    static const char hold[] =
        "import fcntl, os, signal\n"
        "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "file = os.open('tool', os.O_RDWR)\n"
        "try: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n"
        "except OSError: os.close(file)\n"
        "open('held', 'w')\n"
        "signal.pause()\n";
    const char *const argv[] = { "python3", "-c", hold, NULL };
    struct vial_exec_options o = { .argv = argv };
    const char *const tool[] = { "./tool", NULL };
    struct vial_exec_options started = { .argv = tool };
    struct vial_exec *x = NULL;

    check_line(s, "printf '#!/bin/sh\\necho ran\\n' > tool; chmod 755 tool", "");
    good(vial_session_exec(s, &o, &x, &err));
    check_line(s, "while [ ! -e held ]; do sleep 0.05; done", "");
    good(vial_session_exec(s, &started, &x, &err));
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    assert_output(x, 1, "ran\n");
    vial_session_free(s);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(a_kill_finds_a_child_that_was_made_for_the_guest, on),                       \
            T(a_program_cannot_make_the_guest_wait_for_a_file, on),                    \
    }

run_on_driver(TESTS)
