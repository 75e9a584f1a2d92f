/* SPDX-License-Identifier: Apache-2.0 */

/* Programs that the daemon keeps compiled: how many, and whose. */

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "check.h"
#include "model/request.h"
#include "serve/compiled.h"

#define LARGE ((size_t)48 << 20) /* three are more than are kept */

/* A program whose FIELD has LEN bytes. */
static struct vial_request *program(const char *field, size_t len)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    char *bytes = malloc(len + 1);

    assert_non_null(bytes);
    memset(bytes, 'x', len);
    bytes[len] = '\0';
    assert_int_equal(vial_request_new(&req, &err), 0);
    if (vial_request_set_bytes(req, field, bytes, len, &err) < 0)
        fail_msg("%s", err.message);
    free(bytes);
    return req;
}

/* Whether KEY has to be made now; it is then, of MADE, which is the cache's or freed.
 */
static bool make(struct compiled_cache *c, const char *key, struct vial_request *made)
{
    struct compiled *p = compiled_take(c, key, -1);
    bool is_new;

    assert_non_null(p);
    is_new = p->state == COMPILED_IN_WORK;
    if (is_new) {
        p->made = made;
        compiled_made(c, p, true);
    } else {
        vial_request_free(made);
    }
    compiled_release(c, p);
    return is_new;
}

static void key_of(char key[65], char letter)
{
    memset(key, letter, 64);
    key[64] = '\0';
}

static void what_a_caller_sent_along_counts_for_what_is_kept(void **state)
{
    struct compiled_cache c = { 0 };
    char keys[3][65];

    (void)state;
    assert_int_equal(compiled_cache_init(&c), 0);
    for (int i = 0; i < 3; i++) {
        key_of(keys[i], (char)('a' + i));
        assert_true(make(&c, keys[i], program("stdin", LARGE)));
    }
    assert_false(make(&c, keys[2], program("stdin", 1)));
    assert_false(make(&c, keys[1], program("stdin", 1)));
    assert_true(make(&c, keys[0], program("stdin", 1))); /* the oldest went */
    compiled_cache_done(&c);
}

static void a_program_that_was_asked_for_again_is_the_newest(void **state)
{
    struct compiled_cache c = { 0 };
    char keys[3][65];

    (void)state;
    assert_int_equal(compiled_cache_init(&c), 0);
    for (int i = 0; i < 3; i++)
        key_of(keys[i], (char)('a' + i));
    assert_true(make(&c, keys[0], program("stdin", LARGE)));
    assert_true(make(&c, keys[1], program("stdin", LARGE)));
    assert_false(make(&c, keys[0], program("stdin", 1)));
    assert_true(make(&c, keys[2], program("stdin", LARGE)));
    assert_false(make(&c, keys[0], program("stdin", 1)));
    assert_true(make(&c, keys[1], program("stdin", 1)));
    compiled_cache_done(&c);
}

static void what_is_not_to_be_kept_is_found_by_nobody(void **state)
{
    struct compiled_cache c = { 0 };
    struct compiled *p;
    char key[65];

    (void)state;
    key_of(key, 'a');
    assert_int_equal(compiled_cache_init(&c), 0);
    p = compiled_take(&c, key, -1);
    assert_non_null(p);
    compiled_made(&c, p, false);
    assert_true(make(&c, key, program("stdin", 1))); /* while the first is still held */
    compiled_release(&c, p);
    assert_false(make(&c, key, program("stdin", 1)));
    compiled_cache_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_caller_sent_along_counts_for_what_is_kept),
        cmocka_unit_test(a_program_that_was_asked_for_again_is_the_newest),
        cmocka_unit_test(what_is_not_to_be_kept_is_found_by_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
