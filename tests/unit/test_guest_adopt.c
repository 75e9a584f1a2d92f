/* SPDX-License-Identifier: Apache-2.0 */

/* A process of ours becomes the real guest's child, waits for a program as a forked
 * interpreter does, and tells its exit early, or does not. */

#include <signal.h>
#include <sys/prctl.h>

#include "base/sys.h"
#include "guest_world.h"
#include "wire/message.h"

#define MESSAGE_MAX (64u << 10)
#define FDS_MAX     8

/* What the adopted process does, by its program's only argument. */
enum deed {
    EXIT_7,
    EARLY_EXIT_7,
    STOP_THEN_EXIT_7,
    FORGE_300,
    EARLY_EXIT_UNHEARD,
    READ_FILE /* that was put just before, and exit 7 if it is whole */
};

/* What it does before it waits. */
enum birth { WAITS, DIES };

struct adopted {
    struct world *w;
    uint32_t channel;
};

/* One message, with how many descriptors came. */
static size_t hear(int fd, uint8_t *bytes, int *fds, size_t *count)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    struct iovec iov = { bytes, MESSAGE_MAX };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    *count = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if (c)
        memcpy(fds, CMSG_DATA(c), *count * sizeof(int));
    return n > 0 ? (size_t)n : 0;
}

static void stop_as(const char *name)
{
    (void)prctl(PR_SET_NAME, name);
    (void)raise(SIGSTOP);
}

static int read_file(const char *path)
{
    char text[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);

    return n == 4 && memcmp(text, "file", 4) == 0 ? 7 : 8;
}

static _Noreturn void do_deed(enum deed deed, const char *path)
{
    char name[EARLY_EXIT_SIZE];

    early_exit_write(name, 7);
    switch (deed) {
    case EARLY_EXIT_7:
    case EARLY_EXIT_UNHEARD:
        stop_as(name);
        break;
    case STOP_THEN_EXIT_7:
        stop_as("innocent");
        break;
    case FORGE_300:
        stop_as("vial:over:300");
        break;
    case READ_FILE:
        _exit(read_file(path));
    case EXIT_7:
        break;
    }
    _exit(7);
}

/* In the guest's pid namespace, as its child. */
static _Noreturn void be_adopted(int fd, enum birth birth)
{
    static uint8_t bytes[MESSAGE_MAX];
    struct unpack u = { .data = bytes };
    struct exec_message m;
    int fds[FDS_MAX];
    size_t count = 0;
    pid_t pid;

    while (getppid() != 1)
        (void)usleep(1000);
    pid = getpid();
    if (write(fd, &pid, sizeof pid) < 0)
        _exit(120);
    if (birth == DIES)
        _exit(0);
    u.len = hear(fd, bytes, fds, &count); /* with its output's pipes */
    if (exec_read(&u, &m) < 0 || count != 2)
        _exit(122);
    if (hear(fd, bytes, fds + 2, &count) != 1) /* it may begin */
        _exit(123);
    if (write(fds[0], "said", 4) != 4)
        _exit(124);
    do_deed((enum deed)(m.argv[0][0] - 'a'), m.argv[1]);
}

/* Forks into the guest's pid namespace, twice, so that the guest inherits it. */
static void fork_into(pid_t guest, int fd, enum birth birth)
{
    int space = (int)syscall(SYS_pidfd_open, guest, 0);
    pid_t carrier = fork();

    if (carrier == 0) {
        if (setns(space, CLONE_NEWPID) < 0)
            _exit(1);
        if (fork() == 0) {
            if (fork() == 0)
                be_adopted(fd, birth);
            _exit(0);
        }
        (void)wait(NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(carrier, NULL, 0), carrier);
    (void)close(space);
}

static struct world *open_world(struct jail *jail)
{
    struct world *w;

    if (geteuid() != 0)
        skip();
    w = world_open(jail);
    while (!link_is_up(w->l))
        assert_true(world_pump(w));
    return w;
}

static void hand_over(struct world *w, pid_t pid, int fd)
{
    struct iovec frame;

    world_send(w);
    assert_int_equal(link_adopt(w->l, (uint32_t)pid, &w->err), 0);
    frame.iov_base = (void *)(uintptr_t)link_pending(w->l, &frame.iov_len);
    assert_int_equal(sys_send_fds(w->fd, frame, &fd, 1, 0), frame.iov_len);
    link_sent(w->l, frame.iov_len);
}

static struct adopted adopt_under(struct jail *jail, enum birth birth, enum deed deed)
{
    struct adopted a = { .w = open_world(jail) };
    char word[] = { (char)('a' + deed), 0 };
    char name[] = "f", path[128];
    char *argv[] = { word, path, NULL }, *env[] = { NULL };
    struct put_message file = { .path = name, .mode = 0644 };
    struct exec_message m = { .argv = argv,
                              .env = env,
                              .stdin_closed = 1,
                              .early_exit = deed != EARLY_EXIT_UNHEARD };
    int ends[2];
    pid_t pid = 0;

    (void)snprintf(path, sizeof path, "%s/f", a.w->dir);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fork_into(a.w->pid, ends[1], birth);
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
    hand_over(a.w, pid, ends[0]);
    (void)close(ends[0]);
    assert_int_equal(link_put(a.w->l, &file, &a.channel, &a.w->err), 0);
    link_send(a.w->l, a.channel, "file", 4);
    link_send_eof(a.w->l, a.channel);
    assert_int_equal(link_exec(a.w->l, &m, &a.channel, &a.w->err), 0);
    return a;
}

static struct adopted adopt(enum deed deed)
{
    struct jail jail = { .flags = JAIL_PID1 };

    return adopt_under(&jail, WAITS, deed);
}

/* Returns once the adopted process is in STATE ("": gone), as a program in the same
 * vessel sees it: it is the guest's only child besides the asker. */
static void wait_for_state(struct adopted *a, const char *wanted)
{
    char script[512];

    (void)snprintf(script, sizeof script,
                   "state() { for p in /proc/[0-9]*; do read -r line < $p/stat || "
                   "continue; set -- ${line##*) }; [ $2 = 1 ] && "
                   "[ ${p#/proc/} != $$ ] && echo $1; done 2>/dev/null; }; "
                   "until [ \"$(state)\" = \"%s\" ]; do :; done; echo so",
                   wanted);
    assert_string_equal(world_out(world_sh(a->w, script), 1), "so\n");
}

static void expect_seven(struct adopted *a)
{
    const struct seen *s = world_wait(a->w, a->channel);

    assert_true(s->exited);
    assert_int_equal(s->exit.kind, EXIT_CODE);
    assert_int_equal(s->exit.value, 7);
    assert_string_equal(world_out(s, 1), "said");
}

static void an_adopted_program_that_exits_is_over(void **state)
{
    struct adopted a = adopt(EXIT_7);

    (void)state;
    expect_seven(&a);
    world_close(a.w);
}

static void what_is_put_before_an_adopted_program_is_there(void **state)
{
    struct adopted a = adopt(READ_FILE);

    (void)state;
    expect_seven(&a);
    world_close(a.w);
}

static void an_early_exit_is_the_end_and_who_told_it_is_killed(void **state)
{
    struct adopted a = adopt(EARLY_EXIT_7);

    (void)state;
    expect_seven(&a);
    wait_for_state(&a, "");
    world_close(a.w);
}

static void who_tells_its_end_early_is_not_one_of_the_others(void **state)
{
    struct adopted a = adopt(EARLY_EXIT_7);

    (void)state;
    expect_seven(&a);
    assert_int_equal(a.w->seen[a.channel].exit.alive, 0);
    world_close(a.w);
}

/* Waits until it has stopped, finds that its exec goes on, and wakes it. */
static void expect_no_end_before_it_is_woken(enum deed deed)
{
    struct adopted a = adopt(deed);

    wait_for_state(&a, "T");
    assert_false(a.w->seen[a.channel].exited);
    link_signal(a.w->l, a.channel, SIGCONT, false);
    expect_seven(&a);
    world_close(a.w);
}

static void a_stop_is_no_end(void **state)
{
    (void)state;
    expect_no_end_before_it_is_woken(STOP_THEN_EXIT_7);
}

static void an_early_exit_with_an_impossible_code_is_none(void **state)
{
    (void)state;
    expect_no_end_before_it_is_woken(FORGE_300);
}

static void an_early_exit_that_nobody_asked_for_is_none(void **state)
{
    (void)state;
    expect_no_end_before_it_is_woken(EARLY_EXIT_UNHEARD);
}

/* Somebody holds the dead one's socket, so that what is sent to it gets lost. */
static void one_that_was_reaped_before_it_was_adopted_is_not_waited_for(void **state)
{
    struct jail jail = { .flags = JAIL_PID1 };
    struct adopted a = { .w = open_world(&jail) };
    int ends[2];
    pid_t pid = 0;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fork_into(a.w->pid, ends[1], DIES);
    assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
    wait_for_state(&a, "");
    hand_over(a.w, pid, ends[0]);
    assert_string_equal(world_out(world_sh(a.w, "echo ran"), 1), "ran\n");
    (void)close(ends[0]);
    (void)close(ends[1]);
    world_close(a.w);
}

static void after_an_adopted_program_nothing_runs_without_rules_of_before(void **state)
{
    static char root[] = "/";
    struct jail jail = { .flags = JAIL_PID1 | JAIL_NO_NEW_PRIVS | JAIL_LANDLOCK |
                                  JAIL_AWAITS,
                         .path_count = 1,
                         .paths = { { root, JAIL_READ | JAIL_EXEC | JAIL_WRITE } } };
    struct adopted a = { 0 };

    (void)state;
    if (syscall(444 /* landlock_create_ruleset */, NULL, 0, 1) <= 0)
        skip();
    a = adopt_under(&jail, WAITS, EXIT_7);
    expect_seven(&a);
    for (int i = 0; i < 2; i++) {
        const struct seen *s = world_sh(a.w, "echo ran");

        assert_true(s->failed);
        assert_int_equal(s->step, STEP_LANDLOCK);
        assert_int_equal(s->error, ESTALE);
    }
    world_close(a.w);
}

static void every_exit_code_survives_an_early_exit(void **state)
{
    char text[EARLY_EXIT_SIZE + 1];

    (void)state;
    for (int code = 0; code < 256; code++) {
        early_exit_write(text, code);
        (void)strcat(text, "\n");
        assert_int_equal(early_exit_read(text, strlen(text)), code);
    }
    early_exit_write(text, -1); /* as _exit takes it */
    assert_string_equal(text + strlen(text) - 3, "255");
}

static void other_names_are_no_early_exit(void **state)
{
    static const char *const names[] = {
        "",
        "\n",
        "python3\n",
        "vial:over:\n",
        "vial:over:12\n",
        "vial:over:256\n",
        "vial:over:-12\n",
        "vial:over:007",
        "vial:over:0007\n",
        "Vial:over:007\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(early_exit_read(names[i], strlen(names[i])), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exit_code_survives_an_early_exit),
        cmocka_unit_test(other_names_are_no_early_exit),
        cmocka_unit_test(an_adopted_program_that_exits_is_over),
        cmocka_unit_test(what_is_put_before_an_adopted_program_is_there),
        cmocka_unit_test(an_early_exit_is_the_end_and_who_told_it_is_killed),
        cmocka_unit_test(who_tells_its_end_early_is_not_one_of_the_others),
        cmocka_unit_test(a_stop_is_no_end),
        cmocka_unit_test(an_early_exit_with_an_impossible_code_is_none),
        cmocka_unit_test(an_early_exit_that_nobody_asked_for_is_none),
        cmocka_unit_test(one_that_was_reaped_before_it_was_adopted_is_not_waited_for),
        cmocka_unit_test(after_an_adopted_program_nothing_runs_without_rules_of_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
