/* SPDX-License-Identifier: Apache-2.0 */

/* What a zygote does to its own memory before it forks, done to this process. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "zygote/code.h"
#include "zygote/mappings.h"

#define SIZE ((size_t)8 * PAGES_AROUND)

struct world {
    int proc;
    uint8_t *at; /* SIZE bytes of a file, mapped to be read only */
    struct pages pages;
};

static int open_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char path[] = "/tmp/test_zygote_memory-XXXXXX";
    int fd = mkstemp(path);

    assert_non_null(w);
    assert_true(fd >= 0);
    for (uint32_t i = 0; i < SIZE / sizeof i; i++)
        assert_int_equal(write(fd, &i, sizeof i), sizeof i);
    w->at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(w->at != MAP_FAILED);
    (void)unlink(path);
    (void)close(fd);
    w->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(w->proc >= 0);
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;

    (void)munmap(w->at, SIZE);
    (void)close(w->proc);
    free(w);
    return 0;
}

struct search {
    uint64_t at;
    struct mapping found;
};

static void note(void *context, const struct mapping *m)
{
    struct search *s = context;

    if (s->at >= m->start && s->at < m->end)
        s->found = *m;
}

static struct mapping mapping_of(const struct world *w, const uint8_t *at)
{
    struct search s = { .at = (uintptr_t)at };

    mappings_each(w->proc, getpid(), note, &s);
    return s.found;
}

static void is_read(struct world *w, size_t block)
{
    w->pages.at[w->pages.count++] =
        (struct page_range){ (uintptr_t)w->at + block * PAGES_AROUND, 4096, 0 };
}

static void assert_same_bytes(const struct world *w)
{
    for (uint32_t i = 0; i < SIZE / sizeof i; i++)
        assert_memory_equal(w->at + i * sizeof i, &i, sizeof i);
}

static void a_mapping_is_told_with_its_place_and_rights(void **state)
{
    const struct world *w = *state;
    struct mapping file = mapping_of(w, w->at);
    struct mapping stack = mapping_of(w, (const uint8_t *)&file);
    struct mapping code = mapping_of(
        w, (const uint8_t *)(uintptr_t)a_mapping_is_told_with_its_place_and_rights);

    assert_int_equal(file.start, (uintptr_t)w->at);
    assert_int_equal(file.end, (uintptr_t)w->at + SIZE);
    assert_true(file.of_file && !file.writable && !file.executable);
    assert_true(stack.writable && !stack.of_file);
    assert_true(code.executable && code.of_file && !code.writable);
}

static void what_is_gathered_has_the_same_bytes_and_rights(void **state)
{
    struct world *w = *state;
    struct mapping m;

    for (size_t i = 0; i < 8; i++)
        is_read(w, i);
    code_gather(&w->pages, w->proc);
    m = mapping_of(w, w->at);
    assert_same_bytes(w);
    assert_true(m.start <= (uintptr_t)w->at && !m.writable && !m.executable);
    /* Where no large page can be had, all is left as it was. */
    assert_true(m.of_file ? w->pages.count == 8 : w->pages.count == 0);
}

static void what_is_hardly_read_stays_a_file(void **state)
{
    struct world *w = *state;

    is_read(w, 1);
    is_read(w, 7);
    code_gather(&w->pages, w->proc);
    assert_true(mapping_of(w, w->at).of_file);
    assert_int_equal(w->pages.count, 2);
    assert_same_bytes(w);
}

static void only_the_part_that_is_read_much_is_gathered(void **state)
{
    struct world *w = *state;

    is_read(w, 0);
    is_read(w, 4);
    is_read(w, 5);
    is_read(w, 6);
    code_gather(&w->pages, w->proc);
    assert_true(mapping_of(w, w->at).of_file);
    assert_true(mapping_of(w, w->at + 2 * PAGES_AROUND).of_file);
    assert_int_equal(w->pages.at[0].start, (uintptr_t)w->at);
    assert_true(w->pages.count == 1 || w->pages.count == 4);
    assert_same_bytes(w);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(a_mapping_is_told_with_its_place_and_rights),
        TEST(what_is_gathered_has_the_same_bytes_and_rights),
        TEST(what_is_hardly_read_stays_a_file),
        TEST(only_the_part_that_is_read_much_is_gathered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
