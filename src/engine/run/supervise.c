/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One run's part in the conversation with its guest: what the guest reports goes to
 * steps, transfers and artifacts; deadline, limits and the caller's cancelling end it.
 * Whatever ends the run, the vessel is killed before this returns.
 */

#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/run/run.h"
#include "wire/weaken.h"

#define SETUP_MS     30000 /* for taking in the files, before any deadline */
#define METER_MIN_MS 5
#define ROOM_MS      1000 /* between two looks whether a reader goes on */
#define METER_MAX_MS 1000
#define PIDS_POLL_MS 50 /* for vessels without an event descriptor */
#define WATCH_MS     20 /* for vessels whose memory no cgroup holds */

void run_stop(struct run *r, enum run_end end)
{
    if (r->end != RUN_GOING)
        return;
    r->end = end;
    conversation_stop(&r->talk);
}

void run_fail(struct run *r, enum run_end end, const struct vial_error *err)
{
    if (r->end == RUN_GOING)
        r->error = *err;
    run_stop(r, end);
}

int64_t run_set_due(struct run *r, int64_t ms)
{
    int64_t due_ns = clock_now_ns() + ms * 1000000;

    conversation_due(&r->talk, due_ns);
    return due_ns;
}

static void lose_guest(struct run *r)
{
    struct vial_error err = { 0 };

    if (r->started) {
        (void)fail(&err, VIAL_E_LOST, "the vessel ended while its program ran");
        (void)fail_remedy(&err, "run it again; the log of the kernel, or of the "
                                "container engine, says what ended it");
        if (r->vessel->driver->explain)
            r->vessel->driver->explain(r->vessel, &err);
    } else if (link_is_up(r->talk.link))
        (void)fail(&err, VIAL_E_GUEST, "wait for the guest: it went away");
    else
        (void)fail(&err, VIAL_E_GUEST, "start the guest: it went away at once");
    run_fail(r, RUN_LOST, &err);
}

static void on_lost(void *context, const struct vial_error *why)
{
    if (why)
        run_fail(context, RUN_FAILED, why);
    else
        lose_guest(context);
}

static bool has_room(const struct run *r)
{
    const struct vial_watch *w = r->watch;

    return !w->room || r->muted || r->unheld || run_is_compiling(r) ||
           w->room(w->context);
}

/* The program will wait for its reader, and the loop goes on. */
static void hold(struct run *r, int stream, size_t len)
{
    if (r->owed[0] + r->owed[1] == 0) {
        loop_set(&r->talk.loop, r->room_slot, r->watch->room_fd, POLLIN);
        loop_set_timer(&r->talk.loop, r->room_timer, ROOM_MS);
    }
    r->owed[stream - 1] += len;
}

static void let_go(struct run *r)
{
    loop_set(&r->talk.loop, r->room_slot, -1, 0);
    loop_set_timer(&r->talk.loop, r->room_timer, -1);
    for (int i = 0; i < 2; i++) {
        if (r->owed[i] > 0 && r->exec_channel)
            link_consumed(r->talk.link, r->exec_channel, i + 1, r->owed[i]);
        r->owed[i] = 0;
    }
}

static void on_deadline(void *context)
{
    struct run *r = context;
    struct vial_error err = { 0 };

    if (r->stage <= LIFE_FILES_IN) {
        (void)fail(&err, VIAL_E_GUEST, "put files into the vessel: the guest is stuck");
        run_fail(r, RUN_FAILED, &err);
        return;
    }
    /* It may be over but for what its reader did not take; the guest knows. */
    if (!r->exited && !r->unheld && r->owed[0] + r->owed[1] > 0) {
        r->unheld = true;
        let_go(r);
        (void)run_set_due(r, RUN_GRACE_MS);
        return;
    }
    run_stop(r, r->exited ? RUN_EXITED : RUN_WALL);
}

static void on_cancel(void *context, short events)
{
    (void)events;
    run_stop(context, RUN_CANCELLED);
}

static void on_stdin(void *context, short events)
{
    (void)events;
    input_read(context);
}

static void on_more(void *context)
{
    struct run *r = context;

    if (r->stage == LIFE_FILES_IN)
        transfer_put(r);
}

/* The soonest moment at which the cpu limit can be used up. */
static int64_t next_look_ms(const struct limits *limits, double left_ms)
{
    int64_t cpus = limits->milli_cpus ? limits->milli_cpus
                                      : 1000 * (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    int64_t ms = (int64_t)(left_ms * 1000.0 / (double)cpus);

    if (ms < METER_MIN_MS)
        return METER_MIN_MS;
    return ms < METER_MAX_MS ? ms : METER_MAX_MS;
}

/* The kernel holds nothing for the vessel as a whole. */
static bool watches_memory(const struct run *r)
{
    return r->plan->limits.memory_bytes && str_eq(r->vessel->limits_by, "rlimit");
}

static void look_at_counters(struct run *r)
{
    const struct limits *limits = &r->plan->limits;
    struct vessel_usage u = { 0 };
    int64_t next_ms = watches_memory(r) ? WATCH_MS : PIDS_POLL_MS;
    double left_ms;

    run_usage(r, &u);
    left_ms = (double)limits->cpu_ms - u.usage.cpu_user_ms - u.usage.cpu_system_ms;
    if (strv_has(&r->plan->end_on, "pids") && u.pids_events > 0)
        run_stop(r, RUN_PIDS);
    else if (limits->cpu_ms && u.counted && left_ms <= 0)
        run_stop(r, RUN_CPU);
    else if (watches_memory(r) && u.memory_bytes > (uint64_t)limits->memory_bytes)
        run_stop(r, RUN_MEMORY);
    if (limits->cpu_ms && next_look_ms(limits, left_ms) < next_ms)
        next_ms = next_look_ms(limits, left_ms);
    if (r->metered)
        loop_set_timer(&r->talk.loop, r->meter_slot, u.counted ? next_ms : -1);
}

static void on_meter(void *context, short events)
{
    (void)events;
    look_at_counters(context);
}

static void on_limit(void *context)
{
    look_at_counters(context);
}

static void on_room(void *context, short events)
{
    struct run *r = context;

    (void)events;
    if (has_room(r))
        let_go(r);
    else
        loop_set_timer(&r->talk.loop, r->room_timer, ROOM_MS);
}

static void on_data(void *context, uint32_t channel, int stream, const uint8_t *bytes,
                    size_t len)
{
    struct run *r = context;

    if (r->artifacts && artifacts_owns(r, channel))
        artifacts_data(r, bytes, len);
    else if (channel == r->get_channel)
        transfer_data(r, bytes, len);
    else
        step_output(r, stream, bytes, len);
    if (channel == r->exec_channel && !has_room(r))
        hold(r, stream, len);
    else
        link_consumed(r->talk.link, channel, stream, len);
}

static void on_started(void *context, uint32_t channel, uint32_t pid)
{
    struct run *r = context;

    (void)channel;
    (void)pid;
    r->started = true;
    if (r->log.on)
        run_note_exec(r);
}

/* Of compile step and run together. */
static void on_denied(void *context, uint32_t channel, uint32_t number, uint64_t count)
{
    struct run *r = context;
    size_t i = 0;

    while (i < r->denied_count && r->denied[i].number != number)
        i++;
    if (i == DENIED_MAX)
        return;
    if (i == r->denied_count)
        r->denied[r->denied_count++].number = number;
    if (r->denied[i].channel != channel) {
        r->denied[i].before += r->denied[i].count;
        r->denied[i].channel = channel;
    }
    r->denied[i].count = count;
}

static void on_done(void *context, uint32_t channel, int error, const char *text)
{
    struct run *r = context;

    (void)text;
    if (r->artifacts && artifacts_owns(r, channel))
        artifacts_done(r, error);
    else
        transfer_done(r, channel, error);
}

static void on_writable(void *context, uint32_t channel)
{
    struct run *r = context;

    if (channel == r->exec_channel)
        input_feed(r);
}

static void watch_all(struct run *r)
{
    struct loop *l = &r->talk.loop;
    bool pids = strv_has(&r->plan->end_on, "pids");

    r->stdin_slot = loop_add(l, -1, 0, on_stdin, r);
    r->meter_slot = loop_add_timer(l, on_meter, r);
    r->room_slot = loop_add(l, -1, 0, on_room, r);
    r->room_timer = loop_add_timer(l, on_room, r);
    (void)loop_add(l, weaken("cancel") ? -1 : r->watch->cancel_fd, POLLIN, on_cancel,
                   r);
    r->metered = pids && !conversation_watch_limits(&r->talk);
    r->metered = r->metered || r->plan->limits.cpu_ms != 0 || watches_memory(r);
    if (r->metered)
        loop_set_timer(l, r->meter_slot, METER_MIN_MS);
    (void)run_set_due(r, SETUP_MS);
}

static int prepare(struct run *r, struct vial_error *err)
{
    static const struct conversation_owner owner = {
        .guest = { .started = on_started,
                   .data = on_data,
                   .exited = step_exited,
                   .failed = step_failed,
                   .denied = on_denied,
                   .done = on_done,
                   .writable = on_writable },
        .lost = on_lost,
        .more = on_more,
        .due = on_deadline,
        .limit = on_limit,
    };
    const struct plan *plan = r->plan;

    if (conversation_begin(&r->talk, r->vessel, ptr_take(&r->taken_link), &owner, r,
                           err) < 0)
        return -1;
    if (plan->outputs.count > 0)
        r->files = calloc(plan->outputs.count, sizeof *r->files);
    if (plan->outputs.count > 0 && !r->files)
        return fail_memory(err);
    watch_all(r);
    run_go_on(r);
    return 0;
}

void supervise(struct run *r)
{
    struct vial_error err = { 0 };

    /* Jail, files and program are on their way before the guest is up. */
    if (prepare(r, &err) < 0 || conversation_run(&r->talk, &err) < 0)
        run_fail(r, RUN_FAILED, &err);
    r->ended_ns = clock_now_ns();
    r->driver->kill(r->vessel);
    if (r->end != RUN_EXITED)
        conversation_drain(&r->talk);
    if (r->files)
        transfer_give_up(r);
}
