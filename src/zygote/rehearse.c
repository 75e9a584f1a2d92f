/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/rehearse.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zygote/shortcuts.h"

#define SECONDS 20 /* for what takes a few thousandths of one */
#define EXIT    3
#define SAID    "b c\nbye\ngone\n"

/* Uses all that the harness gives a program, and lives until python's very end. */
static const char whole[] = "import atexit, os, sys\n"
                            "class Late:\n"
                            "    def __del__(self):\n"
                            "        print('gone')\n"
                            "late = Late()\n"
                            "atexit.register(print, 'bye')\n"
                            "print(sys.argv[1], os.environ['A'] + sys.stdin.read())\n"
                            "sys.exit(3)\n";
static const char usual[] = "x = [str(i) for i in range(99)]\nprint(len(x))\n";

struct rehearsal {
    const char *program;
    const char *const *argv, *const *env;
    bool with_stdin;
    unsigned shortcuts;
    int out; /* its output, or where it waits at its end */
    python_end_fn *at_end;
};

/* The child has done all it will do: it waits to be looked at, and for its end. */
static void wait_at_end(const void *context)
{
    const struct rehearsal *r = context;

    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    (void)!write(r->out, "", 1);
    for (;;)
        (void)pause();
}

/* A real one, whose buffers lie where those of any program's file would. */
static FILE *file_of(const char *text)
{
    int fd = memfd_create("program", MFD_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        _exit(1);
    return fdopen(fd, "rb");
}

/* It does not outlive the zygote, nor what anybody would wait for. */
static void take_place(const struct rehearsal *r, pid_t zygote)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)alarm(SECONDS);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != zygote || null < 0 ||
        dup2(r->at_end ? null : r->out, 1) < 0 || dup2(null, 2) < 0)
        _exit(1);
}

static _Noreturn void live(struct python *py, const struct rehearsal *r, pid_t zygote)
{
    struct exec_message m = { .argv = (char **)(uintptr_t)r->argv,
                              .env = (char **)(uintptr_t)r->env,
                              .stdin_closed = !r->with_stdin };
    struct pack p = { 0 };
    struct unpack u;

    take_place(r, zygote);
    exec_write(&p, &m); /* as if it had come from a guest */
    u = (struct unpack){ .data = p.data, .len = p.len };
    if (p.bad || exec_read(&u, &m) < 0)
        _exit(1);
    py->rehearsing = true;
    py->shortcuts = r->shortcuts;
    py->ending.call = r->at_end;
    py->ending.context = r;
    python_in_child(py);
    python_begin(py, &m);
    py->message = NULL;
    exec_done(&m);
    python_run(py, PROGRAM, file_of(r->program));
    _exit(1);
}

static pid_t start(struct python *py, struct rehearsal *r)
{
    int ends[2];
    pid_t zygote = getpid();
    pid_t pid = 0;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    r->out = ends[1];
    python_before_fork(py);
    pid = fork();
    if (pid == 0)
        live(py, r, zygote);
    python_forked(py);
    (void)close(ends[1]);
    r->out = ends[0];
    return pid;
}

static int end(pid_t pid, int fd)
{
    int status = -1;

    (void)close(fd);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

bool rehearse_holds(struct python *py, unsigned shortcuts)
{
    static const char *const argv[] = { "python3", PROGRAM, "b", NULL };
    static const char *const env[] = { "A=c", NULL };
    struct rehearsal r = { whole, argv, env, true, shortcuts, -1, NULL };
    char said[64] = "";
    size_t len = 0;
    pid_t pid = start(py, &r);
    ssize_t n = 0;
    int status = 0;

    while (len < sizeof said - 1 &&
           (n = read(r.out, said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)n;
    status = end(pid, r.out);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT && strcmp(said, SAID) == 0;
}

void rehearse_pages(struct python *py, struct pages *out, int proc_fd)
{
    static const char *const argv[] = { "python3", PROGRAM, NULL };
    struct rehearsal r = { usual,      argv,          (const char *const *)environ,
                           false,      py->shortcuts, -1,
                           wait_at_end };
    pid_t pid = start(py, &r);
    char byte = 0;

    if (pid > 0 && read(r.out, &byte, 1) == 1)
        pages_look(out, proc_fd, pid);
    if (pid > 0)
        (void)kill(pid, SIGKILL);
    (void)end(pid, r.out);
    pages_keep(out);
}
