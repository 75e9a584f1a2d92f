/* SPDX-License-Identifier: Apache-2.0 */

/* What a zygote learns of its child's memory. */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "zygote/memory.h"

#define PAGE ((size_t)4096)
#define SIZE (16 * PAGE)

static int open_proc(void **state)
{
    int *fd = malloc(sizeof *fd);

    assert_non_null(fd);
    *fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(*fd >= 0);
    *state = fd;
    return 0;
}

static int close_proc(void **state)
{
    int *fd = *state;

    (void)close(*fd);
    free(fd);
    return 0;
}

static uint8_t *map(int rights)
{
    uint8_t *at = mmap(NULL, SIZE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

/* Leaves what lies in MAP alone; how many pages that is. */
static size_t count_in(struct pages *p, const uint8_t *map)
{
    size_t bytes = 0, kept = 0;

    for (size_t i = 0; i < p->count; i++)
        if (p->at[i].start >= (uintptr_t)map &&
            p->at[i].start < (uintptr_t)map + SIZE) {
            bytes += p->at[i].len;
            p->at[kept++] = p->at[i];
        }
    p->count = kept;
    return bytes / PAGE;
}

static pid_t fork_and_write(uint8_t *at, size_t pages)
{
    int ends[2];
    pid_t pid = 0;
    char byte = 0;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < pages; i++)
            at[i * 2 * PAGE] = 1;
        (void)!write(ends[1], "", 1);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return pid;
}

/* What a child learns that writes to WRITTEN pages of AT. */
static struct pages *learn(int proc, uint8_t *at, size_t written)
{
    struct pages *p = calloc(1, sizeof *p);
    pid_t pid = fork_and_write(at, written);

    assert_non_null(p);
    pages_look(p, proc, pid);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return p;
}

static void what_a_child_has_written_to_is_learned_and_nothing_else(void **state)
{
    uint8_t *at = map(PROT_READ | PROT_WRITE);
    struct pages *p = NULL;

    for (size_t i = 0; i < SIZE; i += PAGE)
        at[i] = 7;
    p = learn(*(int *)*state, at, 5);
    assert_int_equal(count_in(p, at), 5);
    pages_keep(p);
    assert_int_equal(count_in(p, at), 5);
    pages_touch(p);
    for (size_t i = 0; i < SIZE; i += PAGE)
        assert_int_equal(at[i], 7); /* touching changes nothing */
    (void)munmap(at, SIZE);
    pages_keep(p); /* what is no more there is not touched */
    assert_int_equal(count_in(p, at), 0);
    free(p);
}

static void what_cannot_be_read_is_not_learned(void **state)
{
    uint8_t *at = map(PROT_READ | PROT_WRITE);
    struct pages *p = NULL;

    for (size_t i = 0; i < SIZE; i += PAGE)
        at[i] = 7;
    assert_int_equal(mprotect(at, SIZE, PROT_NONE), 0);
    p = learn(*(int *)*state, at, 0);
    assert_int_equal(count_in(p, at), 0);
    (void)munmap(at, SIZE);
    free(p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_proc, close_proc)
    const struct CMUnitTest tests[] = {
        TEST(what_a_child_has_written_to_is_learned_and_nothing_else),
        TEST(what_cannot_be_read_is_not_learned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
