/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sys.h"
#include "check.h"

static bool is_cloexec(int fd)
{
    return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

static void a_process_is_killed_through_its_descriptor(void **state)
{
    auto_fd int fd = -1;
    int status = 0;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        for (;;)
            (void)pause();
    }
    fd = sys_pidfd_open(pid);
    assert_true(fd >= 0);
    assert_true(is_cloexec(fd));
    assert_int_equal(sys_pidfd_kill(fd, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(sys_pidfd_kill(fd, SIGKILL), -ESRCH);
    assert_int_equal(sys_pidfd_open(-1), -EINVAL);
}

static void close_range_closes_what_it_names(void **state)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 500);

    (void)state;
    assert_true(fd >= 500);
    assert_int_equal(sys_close_range((unsigned)fd, (unsigned)fd), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(sys_close_range(2, 1), -EINVAL);
}

static void resolution_can_be_kept_beneath_a_directory(void **state)
{
    auto_fd int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd int inside = sys_openat2(proc, "version", O_RDONLY, 0, RESOLVE_BENEATH);

    (void)state;
    assert_true(inside >= 0);
    assert_true(is_cloexec(inside));
    assert_int_equal(sys_openat2(proc, "../etc", O_RDONLY, 0, RESOLVE_BENEATH), -EXDEV);
    assert_int_equal(sys_openat2(proc, "self/exe", O_RDONLY, 0, RESOLVE_NO_SYMLINKS),
                     -ELOOP);
}

static void a_sealed_file_holds_its_bytes_and_cannot_be_changed(void **state)
{
    auto_fd int fd = sys_memfd_sealed("test", "sealed", 6);
    char buf[8] = "";

    (void)state;
    assert_true(fd >= 0);
    assert_true(is_cloexec(fd));
    assert_int_equal(read(fd, buf, sizeof buf), 6);
    assert_string_equal(buf, "sealed");
    assert_int_equal(pwrite(fd, "X", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

static void a_sealed_file_that_cannot_be_made_is_an_error(void **state)
{
    char name[300];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(sys_memfd_sealed(name, "x", 1), -EINVAL);
    assert_int_equal(sys_memfd_sealed("x", (const void *)16, 4096), -EFAULT);
}

static void random_bytes_fill_the_buffer(void **state)
{
    unsigned char buf[1024] = { 0 };
    unsigned zeros = 0;

    (void)state;
    assert_int_equal(sys_random(buf, sizeof buf), sizeof buf);
    for (size_t i = 0; i < sizeof buf; i++)
        zeros += buf[i] == 0;
    assert_true(zeros < 64);
}

static void ids_have_their_form_and_do_not_repeat(void **state)
{
    char a[20], b[20];

    (void)state;
    sys_make_id('r', a);
    sys_make_id('r', b);
    assert_memory_equal(a, "r-", 2);
    assert_int_equal(strlen(a), 18);
    assert_int_equal(strspn(a + 2, "0123456789abcdef"), 16);
    assert_string_not_equal(a, b);
}

static void the_clock_never_goes_back(void **state)
{
    int64_t before = clock_now_ns();

    (void)state;
    assert_true(before > 0);
    assert_true(clock_now_ns() >= before);
}

static void differences_are_in_milliseconds(void **state)
{
    (void)state;
    assert_true(clock_ms_between(1000000, 3500000) == 2.5);
    assert_true(clock_ms_between(3500000, 1000000) == -2.5);
}

/* As many as were sent, each closed again; -1: the message was not "hi". */
static int receive(int socket)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * SYS_SEND_FDS)] = { 0 };
    char text[8] = "";
    struct iovec iov = { text, sizeof text };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    struct cmsghdr *c;
    size_t count;

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 2 || memcmp(text, "hi", 2) != 0)
        return -1;
    c = CMSG_FIRSTHDR(&message);
    count = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    for (size_t i = 0; i < count; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
        assert_int_equal(close(fd), 0);
    }
    return (int)count;
}

static void descriptors_go_with_the_bytes(void **state)
{
    struct iovec hi = { (char[]){ 'h', 'i' }, 2 };
    int fds[SYS_SEND_FDS + 1] = { 0 };
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (size_t count = 0; count <= SYS_SEND_FDS; count += 16) {
        assert_int_equal(sys_send_fds(pair[0], hi, fds, count, 0), 2);
        assert_int_equal(receive(pair[1]), count);
    }
    assert_int_equal(sys_send_fds(pair[0], hi, fds, SYS_SEND_FDS + 1, 0), -EMSGSIZE);
    fds[0] = -1;
    assert_int_equal(sys_send_fds(pair[0], hi, fds, 1, 0), -EBADF);
    (void)close(pair[1]);
    assert_int_equal(sys_send_fds(pair[0], hi, NULL, 0, 0), -EPIPE); /* and no signal */
    (void)close(pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_killed_through_its_descriptor),
        cmocka_unit_test(close_range_closes_what_it_names),
        cmocka_unit_test(resolution_can_be_kept_beneath_a_directory),
        cmocka_unit_test(a_sealed_file_holds_its_bytes_and_cannot_be_changed),
        cmocka_unit_test(a_sealed_file_that_cannot_be_made_is_an_error),
        cmocka_unit_test(random_bytes_fill_the_buffer),
        cmocka_unit_test(descriptors_go_with_the_bytes),
        cmocka_unit_test(ids_have_their_form_and_do_not_repeat),
        cmocka_unit_test(the_clock_never_goes_back),
        cmocka_unit_test(differences_are_in_milliseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
