/* SPDX-License-Identifier: Apache-2.0 */

/* Streams with cursors: every byte once and in order, or an explicit gap. */

#include <sys/resource.h>
#include <unistd.h>

#include "session_case.h"

#define LINES 12500000u /* of eight bytes: 100 MB */

/* FNV-1a */
static uint64_t hash_more(uint64_t hash, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_of_counter(unsigned lines)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char line[16];

    for (unsigned i = 0; i < lines; i++) {
        (void)snprintf(line, sizeof line, "%07u\n", i % 10000000);
        hash = hash_more(hash, line, 8);
    }
    return hash;
}

static long resident_kb(void)
{
    char line[128];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    (void)fclose(f);
    return kb;
}

/* Reads PART bytes from *AT on, then goes away. */
static bool attach(struct vial_exec *x, uint64_t *at, uint64_t part, uint64_t *hash)
{
    static char buf[100000];
    struct vial_chunk c = { 0 };
    uint64_t until = *at + part;

    while (!c.end && *at < until) {
        uint64_t left = until - *at;

        good(vial_exec_read(x, 1, *at, buf, left < sizeof buf ? left : sizeof buf, -1,
                            &c, &err));
        assert_int_equal(c.gap, 0);
        assert_int_equal(c.offset, *at);
        *hash = hash_more(*hash, buf, c.len);
        *at += c.len;
    }
    return c.end;
}

static void a_hundred_megabytes_survive_fifty_detachments(void **state)
{
    uint64_t at = 0, hash = UINT64_C(0xcbf29ce484222325);
    struct vial_exec *x;
    long before;
    int attached = 0;

    begin(on);
    /* Nobody follows it while nobody is attached: what may come meanwhile is kept. */
    struct vial_session *s =
        open_with(on, "'timeout':'300s', 'output_limit':'128m'", NULL);
    check_line(s, "true", "");
    before = resident_kb();
    x = start(s, "seq -f %07.0f 0 9999999; seq -f %07.0f 0 2499999");
    while (!attach(x, &at, UINT64_C(100000000) / 50, &hash))
        attached++;
    assert_true(attached >= 49);
    assert_int_equal(at, UINT64_C(8) * LINES);
    assert_true(hash == hash_of_counter(LINES));
    /* The ring has 256 KiB; what is more here is the allocator's and the
     * sanitizer's. */
    assert_true(resident_kb() - before < 40000);
    vial_session_free(s);
}

static void a_reader_that_comes_too_late_is_told_the_gap(void **state)
{
    struct vial_session_options options = { .ring_bytes = 4096, .spill_bytes = 65536 };
    struct vial_chunk c;
    struct vial_exec *x;
    char buf[64];

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s'", &options);
    x = start(s, "seq -f %07.0f 0 99999");
    assert_int_equal(wait_for(x).stdout_bytes, 800000);
    good(vial_exec_read(x, 1, 8, buf, sizeof buf, 0, &c, &err));
    assert_true(c.gap >= 800000 - 65536 - 4096 - 8);
    assert_int_equal(c.offset, 8 + c.gap);
    assert_int_equal(c.len, sizeof buf);
    for (size_t i = 0; i < sizeof buf; i++) {
        char line[16];

        (void)snprintf(line, sizeof line, "%07u\n", (unsigned)((c.offset + i) / 8));
        assert_int_equal(buf[i], line[(c.offset + i) % 8]);
    }
    good(vial_exec_read(x, 1, 800000, buf, sizeof buf, -1, &c, &err));
    assert_int_equal(c.len, 0);
    assert_true(c.end);
    refused(vial_exec_read(x, 1, 800001, buf, sizeof buf, 0, &c, &err), "VIAL-OFFSET");
    refused(vial_exec_read(x, 3, 0, buf, sizeof buf, 0, &c, &err), "VIAL-VALUE");
    vial_session_free(s);
}

static void a_stream_nobody_reads_slows_nobody(void **state)
{
    struct vial_chunk c;
    struct vial_exec *flood;
    char buf[8];

    begin(on);
    struct vial_session *s = open_on(on);
    flood = start(s, "yes; :");
    good(vial_exec_read(flood, 1, 0, buf, sizeof buf, -1, &c, &err));
    for (int i = 0; i < 20; i++)
        check_line(s, "echo quick", "quick\n");
    vial_exec_free(flood);
    check_line(s, "echo quick", "quick\n");
    vial_session_free(s);
}

static void a_read_does_not_wait_longer_than_told(void **state)
{
    struct vial_chunk c;
    struct vial_exec *x;
    char buf[8];

    begin(on);
    struct vial_session *s = open_on(on);
    x = start(s, "sleep 50");
    good(vial_exec_read(x, 1, 0, buf, sizeof buf, 0, &c, &err));
    assert_int_equal(c.len, 0);
    assert_false(c.end);
    good(vial_exec_read(x, 2, 0, buf, sizeof buf, 50, &c, &err));
    assert_false(c.end);
    vial_session_free(s);
}

/* Each read of a slow reader moved it, and the guest's own ended the program. */
static void a_reader_does_not_move_the_deadline(void **state)
{
    struct vial_exec_options o = { .shell = "exec yes", .timeout_ms = 500 };
    struct vial_exec_status st = { .running = true };
    struct vial_chunk c = { 0 };
    struct vial_exec *x = NULL;
    char byte;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_exec(s, &o, &x, &err));
    vial_exec_follow(x, NULL);
    for (uint64_t at = 0; st.running; at = c.offset + c.len) {
        good(vial_exec_read(x, 1, at, &byte, 1, -1, &c, &err));
        vial_exec_wait(x, 0, &st);
    }
    assert_int_equal(st.verdict, VIAL_TIMEOUT);
    vial_exec_unfollow(x);
    check_line(s, "echo still", "still\n");
    vial_session_free(s);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(a_hundred_megabytes_survive_fifty_detachments, on),                          \
            T(a_reader_that_comes_too_late_is_told_the_gap, on),                       \
            T(a_stream_nobody_reads_slows_nobody, on),                                 \
            T(a_read_does_not_wait_longer_than_told, on),                              \
            T(a_reader_does_not_move_the_deadline, on),                                \
    }

run_on_driver(TESTS)
