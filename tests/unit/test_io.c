/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "check.h"

struct place {
    char dir[64];
    int fd;
};

static int make_place(void **state)
{
    struct place *p = calloc(1, sizeof *p);

    assert_non_null(p);
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/vial-test-io-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    p->fd = open(p->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_true(p->fd >= 0);
    *state = p;
    return 0;
}

static int drop_place(void **state)
{
    struct place *p = *state;

    (void)unlinkat(p->fd, "file", 0);
    (void)close(p->fd);
    (void)rmdir(p->dir);
    free(p);
    return 0;
}

static void put_file(const struct place *p, const void *data, size_t len)
{
    int fd = openat(p->fd, "file", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, data, len), 0);
    (void)close(fd);
}

static const char *path_of(const struct place *p)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/file", p->dir);
    return path;
}

static void a_file_comes_back_as_it_was_written(void **state)
{
    struct blob b = { 0 };
    struct vial_error err;
    size_t len = 100000;
    char *data = malloc(len);

    assert_non_null(data);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 31 >> 3);
    put_file(*state, data, len);
    assert_int_equal(io_read_file(path_of(*state), len, &b, &err), 0);
    assert_int_equal(b.len, len);
    assert_memory_equal(b.data, data, len);
    blob_done(&b);
    free(data);
}

static void a_file_of_exactly_16_kib_is_read_whole(void **state)
{
    struct blob b = { 0 };
    struct vial_error err;
    char data[16384] = "x";

    put_file(*state, data, sizeof data);
    assert_int_equal(io_read_file(path_of(*state), sizeof data, &b, &err), 0);
    assert_int_equal(b.len, sizeof data);
    blob_done(&b);
}

static void an_empty_file_is_an_empty_text(void **state)
{
    struct blob b = { 0 };
    struct vial_error err;

    put_file(*state, "", 0);
    assert_int_equal(io_read_file(path_of(*state), 0, &b, &err), 0);
    assert_string_equal(b.data, "");
    blob_done(&b);
}

static void a_file_over_the_limit_is_refused_with_name_and_limit(void **state)
{
    struct blob b = { 0 };
    struct vial_error err;
    char want[200];

    put_file(*state, "123456", 6);
    assert_int_equal(io_read_file(path_of(*state), 5, &b, &err), -1);
    (void)snprintf(want, sizeof want, "VIAL-FILE read '%s': more than 5 bytes",
                   path_of(*state));
    assert_error(&err, want);
    assert_null(b.data);
}

static void a_missing_file_keeps_its_errno(void **state)
{
    struct blob b = { 0 };
    struct vial_error err;

    (void)state;
    assert_int_equal(io_read_file("/nonexistent/file", 5, &b, &err), -1);
    assert_error(&err, "VIAL-FILE read '/nonexistent/file'");
    assert_int_equal(err.sys, ENOENT);
    assert_string_equal(err.cause, "No such file or directory");
}

static void a_directory_is_not_a_file(void **state)
{
    const struct place *p = *state;
    struct blob b = { 0 };
    struct vial_error err;

    assert_int_equal(io_read_file(p->dir, 5, &b, &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_int_equal(err.sys, EISDIR);
}

static void a_kernel_file_loses_one_newline(void **state)
{
    struct place *p = *state;
    char buf[8];

    put_file(p, "max\n", 4);
    assert_int_equal(io_read_at(p->fd, "file", buf, sizeof buf), 3);
    assert_string_equal(buf, "max");
    put_file(p, "", 0);
    assert_int_equal(io_read_at(p->fd, "file", buf, sizeof buf), 0);
    assert_string_equal(buf, "");
}

static void a_kernel_file_that_does_not_fit_is_an_error_not_a_part(void **state)
{
    struct place *p = *state;
    char buf[4];

    put_file(p, "123", 3);
    assert_int_equal(io_read_at(p->fd, "file", buf, sizeof buf), 3);
    put_file(p, "1234", 4);
    assert_int_equal(io_read_at(p->fd, "file", buf, sizeof buf), -EOVERFLOW);
    assert_int_equal(io_read_at(p->fd, "file", buf, 0), -EOVERFLOW);
    assert_int_equal(io_read_at(p->fd, "none", buf, sizeof buf), -ENOENT);
    assert_int_equal(io_read_at(p->fd, ".", buf, sizeof buf), -EISDIR);
}

static void writing_to_a_kernel_file_never_creates_it(void **state)
{
    struct place *p = *state;
    char buf[16];

    assert_int_equal(io_write_at(p->fd, "file", "1"), -ENOENT);
    put_file(p, "", 0);
    assert_int_equal(io_write_at(p->fd, "file", "+memory"), 0);
    assert_int_equal(io_read_at(p->fd, "file", buf, sizeof buf), 7);
    assert_string_equal(buf, "+memory");
}

static void what_the_kernel_refuses_is_reported(void **state)
{
    int null_dir = open("/dev", O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(io_write_at(null_dir, "full", "1"), -ENOSPC);
    (void)close(null_dir);
}

static void a_closed_pipe_is_an_error_and_not_a_short_write(void **state)
{
    int fds[2];
    char byte;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(io_write_all(fds[0], "x", 1), -EBADF);
    assert_int_equal(io_read_all(fds[1], &byte, 1), -EBADF);
    (void)close(fds[0]);
    (void)close(fds[1]);
    assert_int_equal(io_set_nonblocking(fds[1]), -EBADF);
}

/* Runs PLAY in a child with one end of a pipe. */
static pid_t with_child(void (*play)(int fd), int give, int keep)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(keep);
        play(give);
        _exit(0);
    }
    (void)close(give);
    return pid;
}

#define MANY ((size_t)1 << 20)

static void read_many(int fd)
{
    char *data = malloc(MANY);

    if (!data || io_read_all(fd, data, MANY) != (ssize_t)MANY || data[MANY - 1] != 'y')
        _exit(1);
    free(data);
}

static void write_few(int fd)
{
    if (io_write_all(fd, "ab", 2) < 0 || io_write_all(fd, "cd", 2) < 0)
        _exit(1);
}

static void a_full_pipe_that_does_not_block_is_waited_for(void **state)
{
    char *data = malloc(MANY);
    int fds[2], status = -1;
    pid_t pid;

    (void)state;
    assert_non_null(data);
    memset(data, 'y', MANY);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(io_set_nonblocking(fds[1]), 0);
    pid = with_child(read_many, fds[0], fds[1]);
    assert_int_equal(io_write_all(fds[1], data, MANY), 0);
    (void)close(fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(data);
}

static void an_empty_pipe_that_does_not_block_is_waited_for(void **state)
{
    char data[8] = "";
    int fds[2], status = -1;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(io_set_nonblocking(fds[0]), 0);
    pid = with_child(write_few, fds[1], fds[0]);
    assert_int_equal(io_read_all(fds[0], data, sizeof data), 4);
    assert_string_equal(data, "abcd");
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_comes_back_as_it_was_written),
        cmocka_unit_test(a_file_of_exactly_16_kib_is_read_whole),
        cmocka_unit_test(an_empty_file_is_an_empty_text),
        cmocka_unit_test(a_file_over_the_limit_is_refused_with_name_and_limit),
        cmocka_unit_test(a_missing_file_keeps_its_errno),
        cmocka_unit_test(a_directory_is_not_a_file),
        cmocka_unit_test(a_kernel_file_loses_one_newline),
        cmocka_unit_test(a_kernel_file_that_does_not_fit_is_an_error_not_a_part),
        cmocka_unit_test(what_the_kernel_refuses_is_reported),
        cmocka_unit_test(a_closed_pipe_is_an_error_and_not_a_short_write),
        cmocka_unit_test(a_full_pipe_that_does_not_block_is_waited_for),
        cmocka_unit_test(an_empty_pipe_that_does_not_block_is_waited_for),
        cmocka_unit_test_setup_teardown(writing_to_a_kernel_file_never_creates_it,
                                        make_place, drop_place),
    };

    return cmocka_run_group_tests(tests, make_place, drop_place);
}
