/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "driver/native/zygote.h"
#include "images/snapshot_name.h"
#include "images/store_remove.h"
#include "keeper/root/check.h"
#include "keeper/root/keeper.h"
#include "keeper/root/keeper_log.h"
#include "keeper/talk/codec.h"
#include "keeper/talk/report.h"
#include "keeper/talk/talk.h"
#include "wire/link.h"

#define STREAM_MS 10000 /* a guest that has not read its jail by then is stuck */

/* How busy a vessel is, is looked at; the less often the longer it has been idle. */
#define LOOK_MS       250
#define LOOK_MOST_MS  8000
#define IDLE          0.005 /* of one processor */
#define LONG_MS       300
#define LONG_PERCENT  5u  /* its share then */
#define USUAL_PERCENT 50u /* what all vessels of a daemon begin with */

void warden_answer(const struct warden *w, struct pack *p, const int *fds, size_t count)
{
    /* A front that does not read has no more to expect. */
    if (talk_send(w->leash_fd, p, fds, count) < 0)
        (void)shutdown(w->leash_fd, SHUT_RDWR);
    pack_done(p);
}

void warden_refuse(const struct warden *w, const struct vial_error *err)
{
    struct pack p = { 0 };

    talk_write_error(&p, err);
    warden_answer(w, &p, NULL, 0);
}

static int write_whole(int fd, const uint8_t *data, size_t len, struct vial_error *err)
{
    while (len > 0) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EAGAIN && poll(&ready, 1, STREAM_MS) == 1)
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_sys(err, "tell the guest its jail");
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* By us, so that a front that was taken over cannot leave a layer out. The guest
 * takes one jail, and the first. */
static int send_jail(const struct vessel *v, struct vial_error *err)
{
    static const struct link_events none;
    struct link *link = link_new(&none, NULL);
    const uint8_t *data;
    size_t len;
    int rc = -1;

    if (!link)
        return fail_memory(err);
    if (link_jail(link, &v->jail, err) == 0) {
        data = link_pending(link, &len);
        rc = write_whole(v->stream_fd, data, len, err);
    }
    link_free(link);
    return rc;
}

static int open_checked(struct warden *w, const struct plan *plan, struct vessel **out,
                        struct vial_error *err)
{
    const struct keeper *k = w->keeper;
    struct vessel *v = NULL;

    if (check_plan(&k->rules, keeper_driver, plan, err) < 0 ||
        (k->shared ? keeper_driver->open_supplied(k->shared, plan, k->guest_fd, &v, err)
                   : keeper_driver->open(plan, k->guest_fd, &v, err)) < 0)
        return -1;
    if (check_vessel(&k->rules, v, err) < 0 || send_jail(v, err) < 0) {
        v->driver->close(v);
        return -1;
    }
    *out = v;
    return 0;
}

static void answer_vessel(const struct warden *w, const struct vessel *v)
{
    struct pack p = { 0 };
    int fds[TALK_FDS] = { v->stream_fd };
    size_t count = 1;

    if (v->death_fd >= 0)
        fds[count++] = v->death_fd;
    if (v->event_fd >= 0)
        fds[count++] = v->event_fd;
    if (v->gate_fd >= 0)
        fds[count++] = v->gate_fd;
    pack_u32(&p, TALK_GOOD);
    vessel_pack(&p, v);
    warden_answer(w, &p, fds, count);
}

static void answer_usage(const struct warden *w, struct vessel *v)
{
    struct vessel_usage usage;
    struct pack p = { 0 };

    (v->driver->usage_now ? v->driver->usage_now : v->driver->usage)(v, &usage);
    pack_u32(&p, TALK_GOOD);
    usage_pack(&p, &usage);
    warden_answer(w, &p, NULL, 0);
}

/* With these the front counts by itself when a run has ended, without us. They can only
 * be read. */
static void answer_counters(const struct warden *w, struct vessel *v)
{
    const struct driver *d = v->driver;
    struct vessel_usage usage = { 0 };
    struct pack p = { 0 };
    int fds[TALK_FDS];
    uint32_t which = 0;
    size_t count = d->lend ? d->lend(v, fds, &which) : 0;

    (d->spent ? d->spent : d->usage)(v, &usage);
    pack_u32(&p, TALK_GOOD);
    pack_u32(&p, which);
    usage_pack(&p, &usage);
    warden_answer(w, &p, fds, count);
}

static void answer_limits(const struct warden *w, struct vessel *v, struct plan *plan,
                          struct unpack *u)
{
    struct limits wanted = { 0 };
    struct vial_error err = { 0 };
    struct pack p = { 0 };
    int rc = limits_unpack(u, &wanted);

    if (rc < 0)
        (void)fail(&err, VIAL_E_VALUE, "the limits are not understood");
    else if (v->driver != keeper_driver || !keeper_driver->limit)
        rc = fail(&err, VIAL_E_UNSUPPORTED, "this vessel's limits cannot be changed");
    else
        rc = check_lower(&plan->limits, &wanted, &err);
    if (rc == 0)
        rc = keeper_driver->limit(v, &wanted, &err);
    if (rc < 0) {
        warden_refuse(w, &err);
        return;
    }
    plan->limits = wanted;
    pack_u32(&p, TALK_GOOD);
    warden_answer(w, &p, NULL, 0);
}

static void answer_pause(const struct warden *w, struct vessel *v, struct unpack *u)
{
    struct vial_error err = { 0 };
    struct pack p = { 0 };
    uint32_t still = unpack_u32(u);
    uint32_t reclaim = unpack_u32(u);
    int rc = 0;

    if (u->bad || still > 1 || reclaim > 1)
        rc = fail(&err, VIAL_E_VALUE, "the order to pause is not understood");
    else if (!v->driver->pause)
        rc = fail(&err, VIAL_E_UNSUPPORTED, "this vessel cannot be paused");
    else
        rc = v->driver->pause(v, still, reclaim, &err);
    if (rc < 0) {
        warden_refuse(w, &err);
        return;
    }
    pack_u32(&p, TALK_GOOD);
    warden_answer(w, &p, NULL, 0);
}

/* Its report goes to the front by the descriptor that came: we hear nothing of it, and
 * read no JSON. */
static void answer_snapshot(const struct warden *w, struct vessel *v, struct unpack *u,
                            const struct talk_fds *fds)
{
    struct snapshot_order order = { .report_fd = fds->count == 1 ? fds->fd[0] : -1 };
    auto_free char *name = unpack_text(u);
    struct vial_error err = { 0 };
    struct pack p = { 0 };
    int rc;

    order.name = name;
    if (u->bad || !name || order.report_fd < 0)
        rc = fail(&err, VIAL_E_VALUE, "the order to save is not understood");
    else if (!v->driver->snapshot)
        rc = fail(&err, VIAL_E_UNSUPPORTED, "this vessel has no snapshots");
    else
        rc = check_snapshot(&w->keeper->rules, name, &err);
    if (rc == 0)
        rc = v->driver->snapshot(v, &order, &err);
    if (rc < 0) {
        warden_refuse(w, &err);
        return;
    }
    pack_u32(&p, TALK_GOOD);
    warden_answer(w, &p, NULL, 0);
}

static int fork_into(const struct warden *w, struct vessel *v, uint32_t number, int *fd,
                     uint32_t *pid, struct vial_error *err)
{
    const struct lent_zygote *lent = zygotes_find(w->keeper, number);
    auto_free struct zygote *zygote = lent ? zygote_borrow(lent->fds) : NULL;

    if (!lent)
        return fail(err, VIAL_E_UNSUPPORTED, "there was no such zygote");
    if (!zygote)
        return fail_memory(err);
    if (v->driver != keeper_driver || !keeper_driver->fork_into)
        return fail(err, VIAL_E_UNSUPPORTED,
                    "no interpreter can be forked into this vessel");
    return keeper_driver->fork_into(zygote, v, fd, pid, err);
}

static void answer_fork(const struct warden *w, struct vessel *v, struct unpack *u)
{
    struct vial_error err = { 0 };
    struct pack p = { 0 };
    auto_fd int fd = -1;
    uint32_t pid = 0;

    if (fork_into(w, v, unpack_u32(u), &fd, &pid, &err) < 0) {
        warden_refuse(w, &err);
        return;
    }
    pack_u32(&p, TALK_GOOD);
    pack_u32(&p, pid);
    warden_answer(w, &p, &fd, 1);
}

/* What a vessel was seen to use, and when. */
struct watched {
    double cpu_ms;
    double spent_ms; /* since it was last idle */
    int64_t at_ns;
    int rest_ms; /* until the next look */
};

/* Who has used a processor for long has a small share from then on, until it is idle:
 * short runs of others do not wait behind long ones. Not by what it gets now, which is
 * little where many want it. */
static void weigh(const struct vessel *v, struct watched *seen)
{
    int64_t now_ns = clock_now_ns();
    double cpu_ms = v->driver->cpu_ms(v);
    double used_ms = cpu_ms - seen->cpu_ms;
    bool idle = used_ms < IDLE * clock_ms_between(seen->at_ns, now_ns);
    double spent_ms = idle ? 0 : seen->spent_ms + used_ms;
    bool was_long = seen->spent_ms > LONG_MS;
    bool is_long = spent_ms > LONG_MS;
    int rest_ms = LOOK_MS;

    if (is_long != was_long)
        v->driver->weigh(v, is_long ? LONG_PERCENT : USUAL_PERCENT);
    if (idle && !was_long)
        rest_ms = seen->rest_ms < LOOK_MOST_MS ? 2 * seen->rest_ms : LOOK_MOST_MS;
    *seen = (struct watched){ cpu_ms, spent_ms, now_ns, rest_ms };
}

/* Until something is said on the leash. */
static void wait_for_word(const struct warden *w, const struct vessel *v,
                          struct watched *seen)
{
    struct pollfd leash = { .fd = w->leash_fd, .events = POLLIN };

    while (poll(&leash, 1, v->driver->weigh ? seen->rest_ms : -1) == 0)
        weigh(v, seen);
}

/* False: the vessel is to be closed. */
static bool obey(const struct warden *w, struct vessel *v, struct plan *plan)
{
    uint8_t buf[1024];
    auto_talk_fds struct talk_fds fds = { .count = 0 };
    ssize_t n = talk_receive(w->leash_fd, buf, sizeof(buf), &fds);
    struct unpack u = { .data = buf, .len = n > 0 ? (size_t)n : 0 };
    uint32_t verb = unpack_u32(&u);

    if (n <= 0 || (fds.count > 0 && verb != TALK_SNAPSHOT))
        return false;
    if (verb == TALK_KILL)
        v->driver->kill(v);
    else if (verb == TALK_STOP && v->driver->stopping)
        v->driver->stopping(v);
    else if (verb == TALK_USAGE)
        answer_usage(w, v);
    else if (verb == TALK_COUNTERS)
        answer_counters(w, v);
    else if (verb == TALK_LIMIT)
        answer_limits(w, v, plan, &u);
    else if (verb == TALK_PAUSE)
        answer_pause(w, v, &u);
    else if (verb == TALK_FORK)
        answer_fork(w, v, &u);
    else if (verb == TALK_SNAPSHOT)
        answer_snapshot(w, v, &u, &fds);
    else
        return false;
    return unpack_finished(&u);
}

/* The front, having given up its rights, names images and volumes; where they are, we
 * know. */
static int take_store(const struct rules *rules, struct plan *plan,
                      struct vial_error *err)
{
    plan->volume_store = rules->volumes ? strdup(rules->volumes) : NULL;
    if (rules->volumes && !plan->volume_store)
        return fail_memory(err);
    if (!plan_has_root(plan) || !rules->store)
        return 0;
    free(plan->root.store);
    plan->root.store = strdup(rules->store);
    return plan->root.store ? 0 : fail_memory(err);
}

static void serve_vessel(struct warden *w, struct vial_error *err)
{
    auto_plan struct plan *plan = NULL;
    const struct rules *rules = &w->keeper->rules;
    struct vessel *v = NULL;
    int64_t began_ns = clock_now_ns();
    struct watched seen = { .at_ns = began_ns, .rest_ms = LOOK_MS };
    char id[sizeof(v->id)];
    double open_ms;

    if (plan_unpack(&w->request, &plan, err) == 0)
        plan->yields = true; /* or one caller's programs would hold up the front */
    if (!plan || take_store(rules, plan, err) < 0 ||
        open_checked(w, plan, &v, err) < 0) {
        warden_refuse(w, err);
        journal_refusal(rules, plan, err);
        return;
    }
    open_ms = clock_ms_between(began_ns, clock_now_ns());
    answer_vessel(w, v);
    do
        wait_for_word(w, v, &seen);
    while (obey(w, v, plan));
    /* Its end frees memory and a place: it does not stand back for that. */
    if (v->driver->weigh)
        v->driver->weigh(v, 100);
    memcpy(id, v->id, sizeof(id));
    v->driver->close(v);
    journal_vessel(rules, plan, id, open_ms,
                   clock_ms_between(began_ns, clock_now_ns()));
}

static void serve_probe(struct warden *w, struct vial_error *err)
{
    auto_free struct caps *caps = calloc(1, sizeof(*caps));
    struct pack p = { 0 };

    if (!caps)
        (void)fail_memory(err);
    if (!caps || keeper_driver->probe(caps, err) < 0) {
        warden_refuse(w, err);
        return;
    }
    pack_u32(&p, TALK_GOOD);
    caps_pack(&p, caps);
    warden_answer(w, &p, NULL, 0);
}

/* We find what there is to remove; the front only says when. The search is given up
 * when the front lets go of the question. */
static void serve_sweep(struct warden *w, struct vial_error *err)
{
    struct pack p = { 0 };
    unsigned removed = 0;

    if (keeper_driver->sweep(w->leash_fd, &removed, err) < 0) {
        warden_refuse(w, err);
        return;
    }
    pack_u32(&p, TALK_GOOD);
    pack_u32(&p, removed);
    warden_answer(w, &p, NULL, 0);
}

/* The front says whose it is; nobody can guess a name that another was given. */
static void serve_forget(struct warden *w, struct vial_error *err)
{
    const struct rules *rules = &w->keeper->rules;
    auto_free char *name = unpack_text(&w->request);
    struct store_removed removed = { 0 };
    struct pack p = { 0 };

    if (!name || !unpack_finished(&w->request) || !snapshot_name_ok(name))
        (void)fail(err, VIAL_E_VALUE, "that is no snapshot's name");
    else if (rules->store && store_remove(rules->store, name, &removed, err) == 0) {
        pack_u32(&p, TALK_GOOD);
        warden_answer(w, &p, NULL, 0);
        return;
    }
    warden_refuse(w, err);
}

/* The names of one owner's, as the front says who asks. Its chance in them is what lets
 * him use them again after the front was started anew. */
static void serve_saved(struct warden *w, struct vial_error *err)
{
    const struct rules *rules = &w->keeper->rules;
    auto_free char *owner = unpack_text(&w->request);
    auto_strv struct strv names = { 0 };
    struct pack p = { 0 };

    if (!owner || !unpack_finished(&w->request))
        (void)fail(err, VIAL_E_VALUE, "the question for snapshots is not understood");
    else if (!rules->store)
        (void)fail(err, VIAL_E_FILE, "there is no place for images");
    else if (snapshot_names(rules->store, owner, &names, err) == 0) {
        if (names.count > TALK_SAVED_MAX)
            names.count = TALK_SAVED_MAX;
        pack_u32(&p, TALK_GOOD);
        pack_texts(&p, names.items, names.count);
        warden_answer(w, &p, NULL, 0);
        return;
    }
    warden_refuse(w, err);
}

static void zygote_order_done(struct zygote_order *o)
{
    free(o->program);
    strv_done(&o->env);
    strv_done(&o->imports);
}

static int read_order(struct warden *w, struct zygote_order *order, struct plan **plan,
                      struct vial_error *err)
{
    struct unpack *u = &w->request;

    order->program = unpack_text(u);
    list_unpack(u, ZYGOTE_ENV_MAX, SIZE_MAX, &order->env);
    list_unpack(u, ZYGOTE_IMPORTS_MAX, SIZE_MAX, &order->imports);
    if (u->bad)
        return fail(err, VIAL_E_VALUE, "the zygote's order is not understood");
    if (!keeper_driver->zygote_open)
        return fail(err, VIAL_E_UNSUPPORTED, "this keeper has no zygotes");
    if (check_zygote(&w->keeper->rules, order, err) < 0 ||
        plan_unpack(u, plan, err) < 0 || check_zygote_plan(*plan, err) < 0)
        return -1;
    strv_push(&(*plan)->argv, order->program);
    strv_copy(&(*plan)->env, &order->env);
    if (!strv_ok(&(*plan)->argv) || !strv_ok(&(*plan)->env))
        return fail_memory(err);
    return check_plan(&w->keeper->rules, keeper_driver, *plan, err);
}

/* Lends it to the wardens that come, then tells the front; in this order. */
static int lend(const struct warden *w, const struct zygote *zygote)
{
    struct pack p = { 0 };
    int fds[2];
    int rc;

    zygote_lend(zygote, fds);
    pack_u32(&p, TALK_GOOD);
    rc = talk_send(w->report_fd, &p, fds, 2);
    pack_u32(&p, w->number);
    if (rc < 0)
        pack_done(&p);
    else
        warden_answer(w, &p, NULL, 0);
    return rc;
}

static void serve_zygote(struct warden *w, struct vial_error *err)
{
    __attribute__((cleanup(zygote_order_done))) struct zygote_order order = { 0 };
    auto_plan struct plan *plan = NULL;
    const struct keeper *k = w->keeper;
    struct zygote *zygote = NULL;
    struct pollfd leash = { .fd = w->leash_fd };
    int rc = read_order(w, &order, &plan, err);
    const struct zygote_options options = {
        .guest_fd = k->guest_fd,
        .share_dir = k->rules.settings.share_dir,
        .imports = (const char *const *)order.imports.items,
    };

    if (rc < 0 || keeper_driver->zygote_open(plan, &options, &zygote, err) < 0) {
        warden_refuse(w, err);
        return;
    }
    if (lend(w, zygote) == 0)
        while (poll(&leash, 1, -1) < 0 && errno == EINTR)
            ;
    keeper_driver->zygote_close(zygote);
}

static void serve_images(struct warden *w, struct vial_error *err)
{
    if (keeper_images) {
        keeper_images(w, err);
        return;
    }
    (void)fail(err, VIAL_E_UNSUPPORTED, "this keeper has no images");
    warden_refuse(w, err);
}

_Noreturn void warden_run(struct warden *w)
{
    struct vial_error err = { 0 };

    if (w->verb == TALK_OPEN)
        serve_vessel(w, &err);
    else if (w->verb == TALK_ZYGOTE)
        serve_zygote(w, &err);
    else if (w->verb == TALK_SWEEP)
        serve_sweep(w, &err);
    else if (w->verb == TALK_FORGET)
        serve_forget(w, &err);
    else if (w->verb == TALK_SAVED)
        serve_saved(w, &err);
    else if (volumes_serve(w, &err))
        ;
    else if (w->verb != TALK_PROBE)
        serve_images(w, &err);
    else
        serve_probe(w, &err);
    _exit(0);
}
