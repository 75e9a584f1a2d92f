/* SPDX-License-Identifier: Apache-2.0 */

/* The conversation with a guest, whose part is played here, over a socket pair. */

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "engine/conversation.h"
#include "wire/frame.h"

#define MANY 100000u /* frames: more than a socket holds */

struct talk {
    struct conversation c;
    struct vessel vessel;
    int guest; /* its end of the stream */
    char log[200];
    struct vial_error why;
    unsigned turns, stop_after; /* 0: at no turn */
    pthread_mutex_t lock;
    unsigned held_back; /* frames that are queued as the stream takes more */
};

static void note(struct talk *t, const char *text)
{
    (void)strncat(t->log, text, sizeof t->log - strlen(t->log) - 1);
}

static void on_exited(void *context, uint32_t channel, const struct exit_message *m)
{
    (void)channel;
    (void)m;
    note(context, "exited;");
}

static void on_lost(void *context, const struct vial_error *why)
{
    struct talk *t = context;

    note(t, why ? "lost why;" : "lost;");
    if (why)
        t->why = *why;
    conversation_stop(&t->c);
}

static void on_turn(void *context)
{
    struct talk *t = context;

    if (++t->turns == t->stop_after)
        conversation_stop(&t->c);
}

static void on_due(void *context)
{
    struct talk *t = context;

    note(t, "due;");
    conversation_stop(&t->c);
}

static void on_limit(void *context)
{
    struct talk *t = context;

    note(t, "limit;");
    conversation_stop(&t->c);
}

/* One frame at a time, as if there were no room for two. */
static void on_more(void *context)
{
    struct talk *t = context;
    size_t pending;

    if (t->held_back == 0 || link_pending(t->c.link, &pending))
        return;
    link_stop(t->c.link);
    t->held_back--;
}

static void on_unlock(void *context)
{
    struct talk *t = context;

    assert_int_equal(pthread_mutex_unlock(&t->lock), 0);
}

static void on_lock(void *context)
{
    struct talk *t = context;

    assert_int_equal(pthread_mutex_lock(&t->lock), 0);
}

static const struct conversation_owner owner = {
    .guest = { .exited = on_exited },
    .lost = on_lost,
    .turn = on_turn,
    .more = on_more,
    .due = on_due,
    .limit = on_limit,
    .unlock = on_unlock,
    .lock = on_lock,
};

/* It was told its jail before, so that nothing is written of itself. */
static int setup(void **state)
{
    static struct talk talk;
    struct vial_error err;
    int ends[2];

    talk = (struct talk){ .lock = PTHREAD_MUTEX_INITIALIZER };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    talk.guest = ends[1];
    talk.vessel = (struct vessel){ .stream_fd = ends[0],
                                   .death_fd = eventfd(0, EFD_CLOEXEC),
                                   .event_fd = eventfd(1, EFD_CLOEXEC),
                                   .jailed = true };
    assert_int_equal(
        conversation_begin(&talk.c, &talk.vessel, NULL, &owner, &talk, &err), 0);
    assert_int_equal(pthread_mutex_lock(&talk.lock), 0);
    *state = &talk;
    return 0;
}

static void hang_up(struct talk *t)
{
    if (t->guest >= 0)
        (void)close(t->guest);
    t->guest = -1;
}

static int teardown(void **state)
{
    struct talk *t = *state;

    conversation_end(&t->c);
    hang_up(t);
    (void)close(t->vessel.stream_fd);
    (void)close(t->vessel.death_fd);
    (void)close(t->vessel.event_fd);
    (void)pthread_mutex_unlock(&t->lock);
    return 0;
}

static void run(struct talk *t)
{
    struct vial_error err;

    assert_int_equal(conversation_run(&t->c, &err), 0);
}

/* The guest sends a frame. */
static void say(const struct talk *t, enum wire_type type, uint32_t channel,
                const struct pack *p)
{
    const struct frame f = { .channel = channel,
                             .type = (uint8_t)type,
                             .len = (uint32_t)p->len };
    uint8_t head[WIRE_HEADER];

    frame_write_header(head, &f);
    assert_int_equal(write(t->guest, head, sizeof head), sizeof head);
    if (p->len > 0)
        assert_int_equal(write(t->guest, p->data, p->len), p->len);
}

static void say_hello(const struct talk *t)
{
    struct pack p = { 0 };

    pack_u32(&p, WIRE_VERSION);
    say(t, WIRE_HELLO, 0, &p);
    pack_done(&p);
}

static void what_a_guest_said_before_it_died_still_counts(void **state)
{
    struct talk *t = *state;
    char name[] = "x";
    char *argv[] = { name, NULL };
    const struct exec_message m = { .argv = argv };
    const struct exit_message gone = { .kind = EXIT_CODE };
    struct pack p = { 0 };
    struct vial_error err;
    uint32_t channel = 0;

    assert_int_equal(link_exec(t->c.link, &m, &channel, &err), 0);
    assert_false(conversation_flush(&t->c));
    assert_int_equal(eventfd_write(t->vessel.death_fd, 1), 0);
    say_hello(t);
    pack_u32(&p, 77); /* its pid */
    say(t, WIRE_STARTED, channel, &p);
    pack_done(&p);
    exit_write(&p, &gone);
    say(t, WIRE_EXIT, channel, &p);
    pack_done(&p);
    run(t);
    assert_string_equal(t->log, "exited;lost;");
}

static void a_guest_that_breaks_the_rules_is_lost_with_the_reason(void **state)
{
    struct talk *t = *state;
    static const char nonsense[64] = "GET / HTTP/1.1";

    assert_int_equal(write(t->guest, nonsense, sizeof nonsense), sizeof nonsense);
    run(t);
    assert_string_equal(t->log, "lost why;lost;");
    assert_string_equal(t->why.code, "VIAL-GUEST");
}

static void a_guest_that_hangs_up_is_lost_without_one(void **state)
{
    struct talk *t = *state;

    hang_up(t);
    run(t);
    assert_string_equal(t->log, "lost;");
}

static void a_stop_at_a_turn_waits_for_nothing(void **state)
{
    struct talk *t = *state;

    t->stop_after = 1;
    run(t); /* nothing would ever come */
    assert_int_equal(t->turns, 1);
    assert_string_equal(t->log, "");
}

static void limits_are_told_to_who_watches_them(void **state)
{
    struct talk *t = *state;

    conversation_due(&t->c, clock_now_ns());
    run(t);
    assert_string_equal(t->log, "due;");
    assert_true(conversation_watch_limits(&t->c));
    run(t);
    assert_string_equal(t->log, "due;limit;");
}

static void what_was_held_back_goes_out_in_the_same_turn(void **state)
{
    struct talk *t = *state;
    uint8_t bytes[8 * WIRE_HEADER];

    t->held_back = 3;
    assert_false(conversation_flush(&t->c));
    assert_int_equal(t->held_back, 0);
    assert_int_equal(recv(t->guest, bytes, sizeof bytes, MSG_DONTWAIT),
                     3 * WIRE_HEADER);
}

static void *read_all(void *context)
{
    struct talk *t = context;
    static uint8_t bytes[1 << 16];
    size_t total = 0;

    while (total < (size_t)MANY * WIRE_HEADER) {
        ssize_t n = read(t->guest, bytes, sizeof bytes);

        assert_true(n > 0);
        total += (size_t)n;
    }
    hang_up(t);
    return NULL;
}

static void what_the_stream_does_not_take_is_written_later(void **state)
{
    struct talk *t = *state;
    pthread_t reader;

    for (unsigned i = 0; i < MANY; i++)
        link_stop(t->c.link);
    assert_true(conversation_flush(&t->c));
    assert_int_equal(pthread_create(&reader, NULL, read_all, t), 0);
    run(t);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_string_equal(t->log, "lost;");
}

static void *run_locked(void *context)
{
    struct talk *t = context;

    on_lock(t);
    run(t);
    on_unlock(t);
    return NULL;
}

static void another_thread_may_speak_while_it_waits(void **state)
{
    struct talk *t = *state;
    uint8_t bytes[2 * WIRE_HEADER];
    pthread_t thread;

    on_unlock(t);
    assert_int_equal(pthread_create(&thread, NULL, run_locked, t), 0);
    on_lock(t);
    link_stop(t->c.link);
    assert_false(conversation_flush(&t->c));
    on_unlock(t);
    assert_int_equal(read(t->guest, bytes, sizeof bytes), WIRE_HEADER);
    hang_up(t);
    assert_int_equal(pthread_join(thread, NULL), 0);
    on_lock(t);
    assert_string_equal(t->log, "lost;");
}

static void another_owner_goes_on_where_the_first_left(void **state)
{
    struct talk *t = *state;
    struct vial_error err;
    struct link *link;

    say_hello(t);
    t->stop_after = 2;
    run(t);
    link = conversation_leave(&t->c);
    assert_true(link_is_up(link));
    assert_true(conversation_is_quiet(&t->vessel));
    assert_int_equal(conversation_begin(&t->c, &t->vessel, link, &owner, t, &err), 0);
    hang_up(t);
    assert_false(conversation_is_quiet(&t->vessel));
    run(t);
    assert_string_equal(t->log, "lost;");
}

int main(void)
{
#define t(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        t(what_a_guest_said_before_it_died_still_counts),
        t(a_guest_that_breaks_the_rules_is_lost_with_the_reason),
        t(a_guest_that_hangs_up_is_lost_without_one),
        t(a_stop_at_a_turn_waits_for_nothing),
        t(limits_are_told_to_who_watches_them),
        t(what_was_held_back_goes_out_in_the_same_turn),
        t(what_the_stream_does_not_take_is_written_later),
        t(another_thread_may_speak_while_it_waits),
        t(another_owner_goes_on_where_the_first_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
