/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"
#include "check.h"

static void hash_is(const char *data, size_t len, size_t piece, const char *want)
{
    struct sha256 h;
    char text[65];

    sha256_init(&h);
    for (size_t at = 0; at < len; at += piece)
        sha256_add(&h, data + at, len - at < piece ? len - at : piece);
    sha256_text(&h, text);
    assert_string_equal(text, want);
}

/* FIPS 180-4's examples, and two lengths around a block as sha256sum has them. */
static void known_texts_have_their_hashes(void **state)
{
    static const char two[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char a[64];

    (void)state;
    memset(a, 'a', sizeof a);
    for (size_t piece = 1; piece < 70; piece++) {
        hash_is("", 0, piece,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        hash_is("abc", 3, piece,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        hash_is(two, 56, piece,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        hash_is(a, 55, piece,
                "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
        hash_is(a, 64, piece,
                "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_their_hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
