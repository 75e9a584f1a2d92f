/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "wire/frame.h"

static uint8_t buf[WIRE_HEADER + 16];

static void write_frame(const struct frame *f)
{
    memset(buf, 0xee, sizeof buf);
    frame_write_header(buf, f);
}

static void a_written_header_reads_back(void **state)
{
    struct frame in = {
        .channel = 0x01020304, .type = WIRE_DATA, .stream = 2, .len = 16
    };
    struct frame out;

    (void)state;
    write_frame(&in);
    assert_int_equal(frame_read(buf, sizeof buf, 16, &out), WIRE_HEADER + 16);
    assert_int_equal(out.channel, in.channel);
    assert_int_equal(out.type, WIRE_DATA);
    assert_int_equal(out.stream, 2);
    assert_int_equal(out.len, 16);
    assert_ptr_equal(out.payload, buf + WIRE_HEADER);
}

static void the_header_is_little_endian(void **state)
{
    static const uint8_t want[WIRE_HEADER] = { 4, 3, 2, 1, 4, 1, 0, 0, 16, 0, 0, 0 };

    (void)state;
    write_frame(&(struct frame){
        .channel = 0x01020304, .type = WIRE_DATA, .stream = 1, .len = 16 });
    assert_memory_equal(buf, want, WIRE_HEADER);
}

static void every_shorter_piece_asks_for_more(void **state)
{
    struct frame f = { .channel = 1, .type = WIRE_DATA, .len = 16 };

    (void)state;
    write_frame(&f);
    for (size_t len = 0; len < sizeof buf; len++)
        assert_int_equal(frame_read(buf, len, 16, &f), 0);
}

static void an_empty_frame_is_whole_with_its_header(void **state)
{
    struct frame f = { .type = WIRE_CLOSE };

    (void)state;
    write_frame(&f);
    assert_int_equal(frame_read(buf, WIRE_HEADER, 0, &f), WIRE_HEADER);
}

static void a_length_over_the_maximum_is_refused_before_its_bytes_come(void **state)
{
    struct frame f = { .type = WIRE_DATA, .len = 17 };

    (void)state;
    write_frame(&f);
    assert_int_equal(frame_read(buf, WIRE_HEADER, 16, &f), -1);
    f.len = UINT32_MAX;
    write_frame(&f);
    assert_int_equal(frame_read(buf, WIRE_HEADER, WIRE_MAX_TO_GUEST, &f), -1);
}

static void reserved_bytes_and_unknown_values_are_refused(void **state)
{
    struct frame f = { .type = WIRE_DATA };

    (void)state;
    for (size_t i = 6; i < 8; i++) {
        write_frame(&f);
        buf[i] = 1;
        assert_int_equal(frame_read(buf, WIRE_HEADER, 16, &f), -1);
        f = (struct frame){ .type = WIRE_DATA };
    }
    for (int type = 0; type < 256; type++) {
        write_frame(&(struct frame){ .type = (uint8_t)type });
        assert_int_equal(frame_read(buf, WIRE_HEADER, 16, &f),
                         type >= 1 && type <= WIRE_ROOT ? (long)WIRE_HEADER : -1L);
    }
    write_frame(&(struct frame){ .type = WIRE_DATA, .stream = 3 });
    assert_int_equal(frame_read(buf, WIRE_HEADER, 16, &f), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_header_reads_back),
        cmocka_unit_test(the_header_is_little_endian),
        cmocka_unit_test(every_shorter_piece_asks_for_more),
        cmocka_unit_test(an_empty_frame_is_whole_with_its_header),
        cmocka_unit_test(a_length_over_the_maximum_is_refused_before_its_bytes_come),
        cmocka_unit_test(reserved_bytes_and_unknown_values_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
