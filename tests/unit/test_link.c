/* SPDX-License-Identifier: Apache-2.0 */

/* The host's half of the wire against guests that lie. */

#include <stdlib.h>

#include "check.h"
#include "wire/frame.h"
#include "wire/link.h"

/* What was reported, as a text: "started 1, data 1/1 3, …". */
struct fixture {
    struct link *l;
    char log[4096];
    size_t log_len;
    bool consume;
    struct vial_error err;
};

__attribute__((format(printf, 2, 3))) static void note(struct fixture *f,
                                                       const char *format, ...)
{
    va_list args;
    int n;

    if (f->log_len > sizeof f->log - 400)
        return;
    va_start(args, format);
    n = vsnprintf(f->log + f->log_len, sizeof f->log - f->log_len, format, args);
    va_end(args);
    f->log_len += (size_t)n;
}

static void on_started(void *context, uint32_t channel, uint32_t pid)
{
    note(context, "started %u as %u;", channel, pid);
}

static void on_data(void *context, uint32_t channel, int stream, const uint8_t *data,
                    size_t len)
{
    struct fixture *f = context;
    volatile uint8_t last = data[len - 1]; /* every byte must be readable */

    (void)last;
    note(f, "data %u/%d %zu;", channel, stream, len);
    if (f->consume)
        link_consumed(f->l, channel, stream, len);
}

static void on_eof(void *context, uint32_t channel, int stream)
{
    note(context, "eof %u/%d;", channel, stream);
}

static void on_exited(void *context, uint32_t channel, const struct exit_message *exit)
{
    note(context, "exited %u %u:%u;", channel, exit->kind, exit->value);
}

static void on_failed(void *context, uint32_t channel, uint32_t step, int error)
{
    note(context, "failed %u %s %d;", channel, exec_step_name(step), error);
}

static void on_done(void *context, uint32_t channel, int error, const char *text)
{
    note(context, "done %u %d '%s';", channel, error, text);
}

static void on_writable(void *context, uint32_t channel)
{
    note(context, "writable %u;", channel);
}

static const struct link_events all_events = {
    .started = on_started,
    .data = on_data,
    .eof = on_eof,
    .exited = on_exited,
    .failed = on_failed,
    .done = on_done,
    .writable = on_writable,
};

static void feed_raw(struct fixture *f, const struct frame *frame, int want)
{
    static uint8_t buf[WIRE_HEADER + WIRE_MAX_TO_HOST];

    frame_write_header(buf, frame);
    if (frame->len)
        memcpy(buf + WIRE_HEADER, frame->payload, frame->len);
    assert_int_equal(link_feed(f->l, buf, WIRE_HEADER + frame->len, &f->err), want);
}

/* Feeds one frame whose payload is COUNT numbers. */
static void feed(struct fixture *f, enum wire_type type, uint32_t channel, int stream,
                 int want, size_t count, ...)
{
    struct pack p = { 0 };
    va_list args;

    va_start(args, count);
    for (size_t i = 0; i < count; i++)
        pack_u32(&p, va_arg(args, uint32_t));
    va_end(args);
    feed_raw(f,
             &(struct frame){ .channel = channel,
                              .type = (uint8_t)type,
                              .stream = (uint8_t)stream,
                              .len = (uint32_t)p.len,
                              .payload = p.data },
             want);
    pack_done(&p);
}

#define REFUSED(f, text)                                                               \
    do {                                                                               \
        assert_error(&(f)->err, "VIAL-GUEST " text);                                   \
        assert_int_equal(link_feed((f)->l, (const uint8_t *)"x", 1, &(f)->err), -1);   \
    } while (0)

static void feed_data(struct fixture *f, uint32_t channel, int stream, uint32_t len,
                      int want)
{
    static const uint8_t bytes[WIRE_MAX_TO_HOST];

    feed_raw(f,
             &(struct frame){ .channel = channel,
                              .type = WIRE_DATA,
                              .stream = (uint8_t)stream,
                              .len = len,
                              .payload = bytes },
             want);
}

static void feed_exit(struct fixture *f, uint32_t channel, uint32_t code, int want)
{
    struct exit_message m = { .kind = EXIT_CODE, .value = code };
    struct pack p = { 0 };

    exit_write(&p, &m);
    feed_raw(f,
             &(struct frame){ .channel = channel,
                              .type = WIRE_EXIT,
                              .len = (uint32_t)p.len,
                              .payload = p.data },
             want);
    pack_done(&p);
}

static void feed_done(struct fixture *f, uint32_t channel, uint32_t error,
                      const char *text, int want)
{
    struct pack p = { 0 };

    pack_u32(&p, error);
    pack_text(&p, text);
    feed_raw(f,
             &(struct frame){ .channel = channel,
                              .type = WIRE_DONE,
                              .len = (uint32_t)p.len,
                              .payload = p.data },
             want);
    pack_done(&p);
}

static uint32_t open_exec(struct fixture *f, bool stdin_closed)
{
    char name[] = "x";
    char *argv[] = { name, NULL };
    struct exec_message m = { .argv = argv, .stdin_closed = stdin_closed };
    uint32_t channel;

    assert_int_equal(link_exec(f->l, &m, &channel, &f->err), 0);
    return channel;
}

static uint32_t open_put(struct fixture *f)
{
    char path[] = "p";
    struct put_message m = { .path = path };
    uint32_t channel;

    assert_int_equal(link_put(f->l, &m, &channel, &f->err), 0);
    return channel;
}

static uint32_t open_get(struct fixture *f)
{
    char path[] = "p";
    struct get_message m = { .path = path };
    uint32_t channel;

    assert_int_equal(link_get(f->l, &m, &channel, &f->err), 0);
    return channel;
}

static void drain(struct fixture *f)
{
    size_t len;

    while (link_pending(f->l, &len))
        link_sent(f->l, len);
}

/* A link that has greeted and jailed, with nothing left to write. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct jail jail = { 0 };

    assert_non_null(f);
    f->l = link_new(&all_events, f);
    assert_non_null(f->l);
    assert_int_equal(link_jail(f->l, &jail, &f->err), 0);
    feed(f, WIRE_HELLO, 0, 0, 0, 1, WIRE_VERSION);
    drain(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    link_free(f->l);
    free(f);
    return 0;
}

static void an_exec_runs_from_started_to_exit(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 77u);
    feed_data(f, c, 1, 5, 0);
    feed_data(f, c, 2, 6, 0);
    feed(f, WIRE_EOF, c, 1, 0, 0);
    feed(f, WIRE_EOF, c, 2, 0, 0);
    feed_exit(f, c, 3, 0);
    assert_string_equal(
        f->log, "started 1 as 77;data 1/1 5;data 1/2 6;eof 1/1;eof 1/2;exited 1 1:3;");
}

static void an_exit_ends_streams_that_are_still_open(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 77u);
    feed(f, WIRE_EOF, c, 2, 0, 0);
    feed_exit(f, c, 0, 0);
    assert_string_equal(f->log, "started 1 as 77;eof 1/2;eof 1/1;exited 1 1:0;");
}

static void requests_are_queued_before_the_guest_greets(void **state)
{
    struct fixture *f = *state;
    struct jail jail = { 0 };
    struct link *l = link_new(&all_events, f);
    uint32_t c;
    size_t len, jailed;

    assert_false(link_is_up(l));
    assert_int_equal(link_list(l, "", &c, &f->err), -1);
    assert_error(&f->err, "VIAL-INTERNAL the guest has not been told its jail");
    assert_int_equal(link_jail(l, &jail, &f->err), 0);
    (void)link_pending(l, &jailed);
    assert_int_equal(link_list(l, "", &c, &f->err), 0);
    (void)link_pending(l, &len);
    assert_int_equal(len, jailed + WIRE_HEADER + 4);
    assert_int_equal(link_jail(l, &jail, &f->err), -1);
    link_free(l);
}

static void nothing_is_believed_before_hello(void **state)
{
    struct fixture *f = *state;
    struct link *up = f->l;

    f->l = link_new(&all_events, f);
    feed(f, WIRE_STARTED, 1, 0, -1, 1, 1u);
    REFUSED(f, "guest frame 'STARTED' on channel 1: it came before HELLO");
    link_free(f->l);
    f->l = link_new(&all_events, f);
    feed(f, WIRE_HELLO, 0, 0, -1, 1, WIRE_VERSION + 1);
    REFUSED(f, "guest frame 'HELLO' on channel 0: the guest speaks another version; "
               "reinstall vial");
    assert_false(link_is_up(f->l));
    link_free(f->l);
    f->l = up;
    assert_true(link_is_up(f->l));
}

static void a_second_hello_is_refused(void **state)
{
    struct fixture *f = *state;

    feed(f, WIRE_HELLO, 0, 0, -1, 1, WIRE_VERSION);
    REFUSED(f, "guest frame 'HELLO' on channel 0: it came twice");
}

static void bytes_that_are_no_frame_are_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t junk[WIRE_HEADER] = { [4] = 99 };

    assert_int_equal(link_feed(f->l, junk, sizeof junk, &f->err), -1);
    REFUSED(f, "read from the guest: this is not a frame");
}

static void a_frame_over_the_guests_maximum_is_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t header[WIRE_HEADER];

    frame_write_header(
        header, &(struct frame){ .type = WIRE_DATA, .len = WIRE_MAX_TO_HOST + 1 });
    for (size_t i = 0; i < WIRE_HEADER - 1; i++)
        assert_int_equal(link_feed(f->l, header + i, 1, &f->err), 0);
    assert_int_equal(link_feed(f->l, header + WIRE_HEADER - 1, 1, &f->err), -1);
    REFUSED(f, "read from the guest: this is not a frame");
}

static void a_channel_nobody_opened_is_refused(void **state)
{
    struct fixture *f = *state;

    feed(f, WIRE_STARTED, 5, 0, -1, 1, 1u);
    REFUSED(f, "guest frame 'STARTED' on channel 5: there is no such channel");
}

static void a_frame_after_the_end_of_its_channel_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_FAILED, c, 0, 0, 2, (uint32_t)STEP_FIND, 2u);
    assert_string_equal(f->log, "failed 1 find 2;");
    feed(f, WIRE_STARTED, c, 0, -1, 1, 1u);
    REFUSED(f, "guest frame 'STARTED' on channel 1: there is no such channel");
}

static void data_before_started_is_refused(void **state)
{
    struct fixture *f = *state;

    feed_data(f, open_exec(f, true), 1, 1, -1);
    REFUSED(f, "guest frame 'DATA' on channel 1: there is no such stream now");
}

static void exit_before_started_is_refused(void **state)
{
    struct fixture *f = *state;

    feed_exit(f, open_exec(f, true), 0, -1);
    REFUSED(f, "guest frame 'EXIT' on channel 1: nothing was running");
}

static void failed_after_started_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    feed(f, WIRE_FAILED, c, 0, -1, 2, 1u, 1u);
    REFUSED(f, "guest frame 'FAILED' on channel 1: nothing was to start");
}

static void started_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    feed(f, WIRE_STARTED, c, 0, -1, 1, 9u);
    REFUSED(f, "guest frame 'STARTED' on channel 1: nothing was to start");
}

static void an_impossible_step_or_errno_is_refused(void **state)
{
    struct fixture *f = *state;

    feed(f, WIRE_FAILED, open_exec(f, true), 0, -1, 2, (uint32_t)STEP_EXEC + 1, 2u);
    REFUSED(f, "guest frame 'FAILED' on channel 1: it is malformed");
}

static void data_on_stdin_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    feed_data(f, c, 0, 1, -1);
    REFUSED(f, "guest frame 'DATA' on channel 1: there is no such stream now");
}

static void data_after_its_eof_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    feed(f, WIRE_EOF, c, 1, 0, 0);
    feed_data(f, c, 2, 1, 0);
    feed_data(f, c, 1, 1, -1);
    REFUSED(f, "guest frame 'DATA' on channel 1: the stream has ended");
}

static void empty_data_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    feed_data(f, c, 1, 0, -1);
    REFUSED(f, "guest frame 'DATA' on channel 1: it is empty");
}

static void one_byte_over_the_credit_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    for (uint32_t sent = 0; sent < WIRE_CREDIT; sent += WIRE_MAX_TO_HOST)
        feed_data(f, c, 1, WIRE_MAX_TO_HOST, 0);
    feed_data(f, c, 2, 1, 0); /* the other stream has its own */
    feed_data(f, c, 1, 1, -1);
    REFUSED(f, "guest frame 'DATA' on channel 1: it exceeds its credit");
}

static void what_is_consumed_may_come_again(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);

    f->consume = true;
    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    for (int i = 0; i < 1000; i++) {
        feed_data(f, c, 1, WIRE_MAX_TO_HOST, 0);
        drain(f);
    }
}

static void a_guest_that_never_reads_cannot_grow_the_buffer(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, false);
    static uint8_t input[WIRE_CREDIT];
    size_t len;
    int rc = 0;

    f->consume = true;
    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    link_send(f->l, c, input, sizeof input); /* never written to the stream */
    for (int i = 0; i < 100 && rc == 0; i++) {
        static uint8_t buf[WIRE_HEADER + WIRE_MAX_TO_HOST];

        frame_write_header(buf, &(struct frame){ .channel = c,
                                                 .type = WIRE_DATA,
                                                 .stream = 1,
                                                 .len = WIRE_MAX_TO_HOST });
        rc = link_feed(f->l, buf, sizeof buf, &f->err);
    }
    assert_int_equal(rc, -1);
    (void)link_pending(f->l, &len);
    assert_true(len < WIRE_CREDIT + 4096);
}

static void grants_held_back_are_sent_once_there_is_room(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, false);
    static uint8_t input[WIRE_CREDIT];
    size_t len;

    f->consume = true;
    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    link_send(f->l, c, input, sizeof input);
    feed_data(f, c, 1, WIRE_MAX_TO_HOST, 0);
    (void)link_pending(f->l, &len);
    link_sent(f->l, len);
    (void)link_pending(f->l, &len);
    assert_int_equal(len, WIRE_HEADER + 4);
}

static void credit_for_more_than_was_sent_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, false);

    link_send(f->l, c, "abc", 3);
    feed(f, WIRE_CREDIT_, c, 0, 0, 1, 3u);
    assert_string_equal(f->log, "writable 1;");
    assert_int_equal(link_writable(f->l, c), WIRE_CREDIT);
    feed(f, WIRE_CREDIT_, c, 0, -1, 1, 1u);
    REFUSED(f, "guest frame 'CREDIT' on channel 1: it grants more than was sent");
}

static void credit_where_nothing_is_sent_is_refused(void **state)
{
    struct fixture *f = *state;

    feed(f, WIRE_CREDIT_, open_get(f), 0, -1, 1, 1u);
    REFUSED(f, "guest frame 'CREDIT' on channel 1: there is no such stream now");
}

static void done_on_an_exec_is_refused(void **state)
{
    struct fixture *f = *state;

    feed_done(f, open_exec(f, true), 0, "", -1);
    REFUSED(f, "guest frame 'DONE' on channel 1: no file was under way");
}

static void a_file_done_before_it_was_complete_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t failing = open_put(f), c = open_put(f);

    feed_done(f, failing, 28, "full", 0);
    assert_string_equal(f->log, "done 1 28 'full';");
    feed_done(f, c, 0, "", -1);
    REFUSED(f, "guest frame 'DONE' on channel 2: the file was not complete");
}

static void stderr_of_a_file_is_refused(void **state)
{
    struct fixture *f = *state;

    feed_data(f, open_get(f), 2, 1, -1);
    REFUSED(f, "guest frame 'DATA' on channel 1: there is no such stream now");
}

static void the_guests_words_are_made_harmless(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_get(f);
    char text[1000];

    feed_data(f, c, 1, 4, 0);
    memset(text, 'a', sizeof text);
    memcpy(text, "\033[2J\xff\n", 6);
    text[sizeof text - 1] = 0;
    feed_done(f, c, 5, text, 0);
    assert_non_null(strstr(f->log, "data 1/1 4;eof 1/1;done 1 5 '?[2J??aaaa"));
    assert_true(f->log_len < 300);
}

static void a_frame_only_the_host_sends_is_refused(void **state)
{
    static const enum wire_type types[] = { WIRE_JAIL, WIRE_EXEC, WIRE_SIGNAL, WIRE_PUT,
                                            WIRE_GET,  WIRE_LIST, WIRE_CLOSE };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t c = open_exec(f, true);

        feed(f, types[i], c, 0, -1, 0);
        assert_non_null(strstr(f->err.message, "only the host sends it"));
        (void)teardown(state);
        (void)setup(state);
        f = *state;
    }
}

static void a_closed_channel_is_silent_until_the_guest_ends_it(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, false);

    link_close_channel(f->l, c);
    assert_int_equal(link_writable(f->l, c), 0);
    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    feed_data(f, c, 1, 100, 0);
    feed_exit(f, c, 0, 0);
    assert_string_equal(f->log, "");
    feed_exit(f, c, 0, -1);
    REFUSED(f, "guest frame 'EXIT' on channel 1: there is no such channel");
}

static void input_is_sent_only_within_credit_and_before_its_end(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, false);
    static uint8_t input[WIRE_CREDIT + 1];
    size_t len;

    drain(f);
    link_send(f->l, c, input, sizeof input);
    assert_null(link_pending(f->l, &len));
    link_send(f->l, c, input, WIRE_CREDIT);
    assert_int_equal(link_writable(f->l, c), 0);
    (void)link_pending(f->l, &len);
    assert_int_equal(len, WIRE_CREDIT + 4 * WIRE_HEADER);
    link_send_eof(f->l, c);
    drain(f);
    link_send_eof(f->l, c);
    link_send(f->l, c, input, 1);
    assert_null(link_pending(f->l, &len));
}

static void nothing_is_sent_to_a_channel_that_has_ended(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, false);
    size_t len;

    feed(f, WIRE_FAILED, c, 0, 0, 2, 1u, 1u);
    drain(f);
    link_send(f->l, c, "x", 1);
    link_send_eof(f->l, c);
    link_signal(f->l, c, 9, true);
    link_close_channel(f->l, c);
    link_consumed(f->l, c, 1, 100);
    assert_null(link_pending(f->l, &len));
    assert_false(link_out_of_memory(f->l));
}

static void channels_are_bounded_and_their_numbers_never_used_twice(void **state)
{
    struct fixture *f = *state;
    char name[] = "x";
    char *argv[] = { name, NULL };
    struct exec_message m = { .argv = argv };
    uint32_t c = 0;

    for (uint32_t i = 0; i < WIRE_MAX_CHANNELS; i++)
        c = open_exec(f, true);
    assert_int_equal(c, WIRE_MAX_CHANNELS);
    assert_int_equal(link_exec(f->l, &m, &c, &f->err), -1);
    assert_error(&f->err, "VIAL-GUEST open channel: 256 are open already");
    feed(f, WIRE_FAILED, 7, 0, 0, 2, 1u, 1u);
    assert_int_equal(open_exec(f, true), WIRE_MAX_CHANNELS + 7);
}

static void a_message_too_large_for_the_wire_is_refused(void **state)
{
    struct fixture *f = *state;
    char *argv[] = { calloc(1, WIRE_MAX_TO_GUEST + 1), NULL };
    struct exec_message m = { .argv = argv };
    uint32_t c;

    assert_non_null(argv[0]);
    memset(argv[0], 'a', WIRE_MAX_TO_GUEST);
    assert_int_equal(link_exec(f->l, &m, &c, &f->err), -1);
    assert_string_equal(f->err.code, "VIAL-VALUE");
    free(argv[0]);
}

static void frames_arrive_in_pieces_of_any_size(void **state)
{
    struct fixture *f = *state;
    uint32_t c = open_exec(f, true);
    struct pack p = { 0 };
    uint8_t header[WIRE_HEADER];

    feed(f, WIRE_STARTED, c, 0, 0, 1, 9u);
    for (uint32_t i = 1; i <= 40; i++) {
        static const uint8_t bytes[40];

        frame_write_header(
            header,
            &(struct frame){ .channel = c, .type = WIRE_DATA, .stream = 1, .len = i });
        pack_raw(&p, header, WIRE_HEADER);
        pack_raw(&p, bytes, i);
    }
    for (size_t piece = 1; piece < 100; piece += 7) {
        const char *at;
        int frames = 0;

        f->log_len = 0;
        for (size_t i = 0; i < p.len; i += piece)
            assert_int_equal(link_feed(f->l, p.data + i,
                                       p.len - i < piece ? p.len - i : piece, &f->err),
                             0);
        for (at = f->log; (at = strstr(at, "data 1/1 ")); at++)
            assert_int_equal(strtol(at + 9, NULL, 10), ++frames);
        assert_int_equal(frames, 40);
    }
    pack_done(&p);
}

/* xorshift64: the same sequence every time. */
static uint32_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return (uint32_t)(*x >> 16);
}

/* A stream that is sound, with one byte in it changed now and then. */
static void make_session(struct pack *p, uint64_t *seed)
{
    uint8_t header[WIRE_HEADER];
    struct exit_message m = { .kind = EXIT_CODE };
    struct pack body = { 0 };

    p->len = 0;
    for (int i = 0; i < 6; i++) {
        static const enum wire_type types[] = { WIRE_HELLO, WIRE_STARTED, WIRE_DATA,
                                                WIRE_EOF,   WIRE_EXIT,    WIRE_DONE };
        uint32_t roll = next_random(seed) % 64;
        struct frame f = { .channel = i ? 1 + (roll == 1) : 0,
                           .type = (uint8_t)(roll == 0 ? 1 + next_random(seed) % 16
                                                       : (uint32_t)types[i]),
                           .stream = (uint8_t)(i == 2 || i == 3) };

        body.len = 0;
        if (types[i] == WIRE_EXIT)
            exit_write(&body, &m);
        else if (types[i] != WIRE_EOF)
            pack_u32(&body, types[i] == WIRE_HELLO ? WIRE_VERSION : 1);
        if (types[i] == WIRE_DONE)
            f.channel = 2;
        if (types[i] == WIRE_DONE)
            pack_text(&body, "text");
        f.len = (uint32_t)body.len;
        frame_write_header(header, &f);
        pack_raw(p, header, WIRE_HEADER);
        pack_raw(p, body.data, body.len);
    }
    pack_done(&body);
    if (next_random(seed) % 4)
        p->data[next_random(seed) % p->len] ^= (uint8_t)(1u << next_random(seed) % 8);
}

static void no_stream_of_bytes_breaks_the_link(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 0x9e3779b97f4a7c15;
    struct jail jail = { 0 };
    struct pack p = { 0 };
    int refused = 0, finished = 0;

    for (int i = 0; i < 100000; i++) {
        struct link *l = link_new(&all_events, f);
        size_t at = 0;
        int rc = 0;

        f->l = (link_free(f->l), l);
        f->log_len = 0;
        f->consume = i & 1;
        assert_int_equal(link_jail(l, &jail, &f->err), 0);
        (void)open_exec(f, true);
        (void)open_get(f);
        make_session(&p, &seed);
        while (at < p.len && rc == 0) {
            size_t n = 1 + next_random(&seed) % 60;

            n = n < p.len - at ? n : p.len - at;
            rc = link_feed(l, p.data + at, n, &f->err);
            at += n;
        }
        if (rc < 0)
            assert_string_equal(f->err.code, "VIAL-GUEST");
        refused += rc < 0;
        finished += rc == 0;
    }
    assert_true(refused > 10000 && finished > 10000);
    pack_done(&p);
}

static void no_random_bytes_break_the_link(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 88172645463325252;
    uint8_t bytes[64];

    for (int i = 0; i < 20000; i++) {
        f->l = (link_free(f->l), link_new(&all_events, f));
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)next_random(&seed);
        bytes[4] %= 20; /* types that exist, mostly */
        bytes[6] = bytes[7] = 0;
        bytes[9] = bytes[10] = bytes[11] = 0;
        (void)link_feed(f->l, bytes, sizeof bytes, &f->err);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_exec_runs_from_started_to_exit),
        TEST(an_exit_ends_streams_that_are_still_open),
        TEST(requests_are_queued_before_the_guest_greets),
        TEST(nothing_is_believed_before_hello),
        TEST(a_second_hello_is_refused),
        TEST(bytes_that_are_no_frame_are_refused),
        TEST(a_frame_over_the_guests_maximum_is_refused),
        TEST(a_channel_nobody_opened_is_refused),
        TEST(a_frame_after_the_end_of_its_channel_is_refused),
        TEST(data_before_started_is_refused),
        TEST(exit_before_started_is_refused),
        TEST(failed_after_started_is_refused),
        TEST(started_twice_is_refused),
        TEST(an_impossible_step_or_errno_is_refused),
        TEST(data_on_stdin_is_refused),
        TEST(data_after_its_eof_is_refused),
        TEST(empty_data_is_refused),
        TEST(one_byte_over_the_credit_is_refused),
        TEST(what_is_consumed_may_come_again),
        TEST(a_guest_that_never_reads_cannot_grow_the_buffer),
        TEST(grants_held_back_are_sent_once_there_is_room),
        TEST(credit_for_more_than_was_sent_is_refused),
        TEST(credit_where_nothing_is_sent_is_refused),
        TEST(done_on_an_exec_is_refused),
        TEST(a_file_done_before_it_was_complete_is_refused),
        TEST(stderr_of_a_file_is_refused),
        TEST(the_guests_words_are_made_harmless),
        TEST(a_frame_only_the_host_sends_is_refused),
        TEST(a_closed_channel_is_silent_until_the_guest_ends_it),
        TEST(input_is_sent_only_within_credit_and_before_its_end),
        TEST(nothing_is_sent_to_a_channel_that_has_ended),
        TEST(channels_are_bounded_and_their_numbers_never_used_twice),
        TEST(a_message_too_large_for_the_wire_is_refused),
        TEST(frames_arrive_in_pieces_of_any_size),
        TEST(no_stream_of_bytes_breaks_the_link),
        TEST(no_random_bytes_break_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
