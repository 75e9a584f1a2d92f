/* SPDX-License-Identifier: Apache-2.0 */

/* What a zygote does about the free room in its memory, done to this process: with
 * libc's own heap (no sanitizer's), and with a python's allocator of ours, whose
 * addresses nobody looks behind. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "zygote/memory.h"

#define BLOCKS    4000
#define LARGE     60000 /* below what holes_fill goes up to */
#define POOL      16384
#define HEAD      48
#define SIZE_STEP 16
#define SIZES     32 /* up to 512 bytes */
#define MANY      100000

struct size {
    unsigned holes; /* free blocks in pools that are in use, handed out first */
    unsigned fresh; /* blocks handed out of a pool that was empty */
    unsigned used_holes;
};

/* Index 0 is unused. */
static struct size sizes[SIZES + 1];

void *PyObject_Malloc(size_t size);

/* Found by its name, as a python's. */
__attribute__((visibility("default"))) void *PyObject_Malloc(size_t size)
{
    size_t which = (size + SIZE_STEP - 1) / SIZE_STEP;
    struct size *s = &sizes[which];
    uintptr_t at = (uintptr_t)which << 32;

    if (s->holes == 0)
        return (void *)(at + HEAD + s->fresh++ * size);
    s->used_holes++;
    return (void *)(at + POOL * (uintptr_t)s->holes-- + HEAD + size);
}

static void leave_holes(unsigned each)
{
    for (size_t i = 1; i <= SIZES; i++)
        sizes[i] = (struct size){ .holes = each };
}

/* Every second one of many blocks, large and small, is given back. */
static void make_holes_in_the_heap(void)
{
    static void *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(i % 40 == 0 ? LARGE / 4 : 24 + i % 500 * 8);
        assert_non_null(blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
}

static bool lies_below(uintptr_t end, size_t size)
{
    uintptr_t at = (uintptr_t)malloc(size);

    assert_true(at != 0);
    return at < end; /* and is kept: what is given back would be handed out next */
}

static void what_is_asked_for_afterwards_lies_beyond_what_was_there(void **state)
{
    uintptr_t end = 0;

    (void)state;
    leave_holes(0);
    make_holes_in_the_heap();
    end = (uintptr_t)sbrk(0);
    assert_true(lies_below(end, 40)); /* or there are no holes to fill */
    assert_true(lies_below(end, 3000));
    holes_fill();
    for (size_t size = 1; size <= 4096; size += 7)
        assert_false(lies_below(end, size));
    for (size_t size = 8192; size <= LARGE; size += 4000)
        assert_false(lies_below(end, size));
}

static void the_free_blocks_of_pythons_pools_are_taken_whatever_their_size(void **state)
{
    (void)state;
    leave_holes(70);
    holes_fill();
    for (size_t i = 1; i <= SIZES; i++) {
        assert_int_equal(sizes[i].holes, 0);
        assert_int_equal(sizes[i].used_holes, 70);
        assert_int_equal(sizes[i].fresh,
                         2); /* and of an empty pool no more than tell */
    }
}

static void holes_without_end_are_not_filled_for_ever(void **state)
{
    (void)state;
    leave_holes(MANY);
    holes_fill();
    for (size_t i = 1; i <= SIZES; i++)
        assert_in_range(sizes[i].used_holes, 1, MANY / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for_afterwards_lies_beyond_what_was_there),
        cmocka_unit_test(
            the_free_blocks_of_pythons_pools_are_taken_whatever_their_size),
        cmocka_unit_test(holes_without_end_are_not_filled_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
