/* SPDX-License-Identifier: Apache-2.0 */

/* A real keeper and a front that has been taken over: it says whatever it likes, and
 * gets what the policy allows. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "keeper/talk/codec.h"
#include "keeper/talk/report.h"
#include "keeper/talk/talk.h"
#include "plan_case.h"
#include "run_case.h"
#include "volumes/volume_store.h"

#include "vial/warm.h"

#define VESSELS     12
#define PATIENCE_MS 120000 /* only reached when something is broken */

static void set(char **text, const char *value)
{
    free(*text);
    *text = value ? strdup(value) : NULL;
}

/* Sends P on the shared socket; the leash. */
static int ask_raw(const struct pack *p)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    for (;;) {
        struct pollfd ready = { .fd = KEPT_FD_native, .events = POLLOUT };
        int rc = talk_send(KEPT_FD_native, p, &ends[1], 1);

        if (rc == 0)
            break;
        assert_int_equal(rc, -EAGAIN);
        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    }
    (void)close(ends[1]);
    return ends[0];
}

/* Takes PLAN. */
static int ask_for(struct plan *plan)
{
    struct pack p = { 0 };
    int leash;

    pack_u32(&p, TALK_OPEN);
    plan_pack(&p, plan);
    plan_free(plan);
    leash = ask_raw(&p);
    pack_done(&p);
    return leash;
}

/* The answer's verb; 0 when there is none but the end. */
static uint32_t hear(int leash, struct vial_error *err, struct talk_fds *fds)
{
    static uint8_t buf[TALK_MAX];
    struct pollfd ready = { .fd = leash, .events = POLLIN };
    struct unpack u = { .data = buf };
    uint32_t verb;
    ssize_t n;

    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    n = talk_receive(leash, buf, sizeof(buf), fds);
    assert_true(n >= 0);
    u.len = (size_t)n;
    verb = unpack_u32(&u);
    if (verb == TALK_BAD)
        talk_read_error(&u, err);
    return n == 0 ? 0 : verb;
}

static void assert_refused(struct plan *plan, const char *code)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    int leash = ask_for(plan);

    assert_int_equal(hear(leash, &err, &fds), TALK_BAD);
    if (strcmp(err.code, code) != 0)
        fail_msg("refused with %s: %s, not %s", err.code, err.message, code);
    assert_int_equal(fds.count, 0);
    (void)close(leash);
}

static void assert_opens(void)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    int leash = ask_for(good_plan());

    if (hear(leash, &err, &fds) != TALK_GOOD)
        fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
    assert_true(fds.count >= 1);
    talk_fds_done(&fds);
    (void)close(leash);
}

static struct kept_health health(void)
{
    struct kept_health h = { 0 };
    struct vial_error err = { 0 };

    if (kept_ping(KEPT_FD_native, &h, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    return h;
}

/* By what the keeper says: leashes end at once, removing takes a moment. */
static void wait_until_empty(void)
{
    for (int i = 0; i < PATIENCE_MS / 10 && health().vessels > 0; i++)
        (void)poll(NULL, 0, 10);
    assert_int_equal(health().vessels, 0);
}

static void what_fits_the_policy_is_opened(void **state)
{
    (void)state;
    assert_opens();
    wait_until_empty();
}

#define refuses(code, change)                                                          \
    do {                                                                               \
        struct plan *p = good_plan();                                                  \
        change;                                                                        \
        assert_refused(p, code);                                                       \
    } while (0)

static void limits_above_the_caps_are_refused(void **state)
{
    (void)state;
    refuses("VIAL-CAP", p->limits.memory_bytes = (INT64_C(256) << 20) + 1);
    refuses("VIAL-CAP", p->limits.pids = 65);
    refuses("VIAL-CAP", p->limits.milli_cpus = 2001);
    refuses("VIAL-CAP", p->limits.wall_ms = 60001);
    refuses("VIAL-CAP", p->limits.compile_wall_ms = 60001);
    refuses("VIAL-CAP", p->limits.disk_bytes = (INT64_C(64) << 20) + 1);
    refuses("VIAL-CAP", p->limits.tmp_bytes = (INT64_C(64) << 20) + 1);
    wait_until_empty();
}

static void limits_left_out_are_refused(void **state)
{
    (void)state;
    refuses("VIAL-CAP", p->limits.memory_bytes = 0);
    refuses("VIAL-CAP", p->limits.pids = 0);
    refuses("VIAL-CAP", p->limits.milli_cpus = 0);
    refuses("VIAL-VALUE", p->limits.wall_ms = 0);
    refuses("VIAL-VALUE", p->limits.disk_bytes = -5);
    refuses("VIAL-VALUE", p->limits.open_files = INT64_MAX);
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    refuses("VIAL-VALUE", set(&p->seccomp, "../../etc/passwd"));
    refuses("VIAL-VALUE", set(&p->seccomp, "no-such-profile"));
    refuses("VIAL-VALUE", set(&p->workdir, "/etc"));
    refuses("VIAL-VALUE", set(&p->workdir, "/work/../etc"));
    refuses("VIAL-VALUE", set(&p->hostname, "a b"));
    refuses("VIAL-VALUE", set(&p->label_task, "x\033[2J"));
    refuses("VIAL-VALUE", set(&p->correlation, "x\nevent=forged"));
    refuses("VIAL-DRIVER", set(&p->driver, "process"));
    refuses("VIAL-DRIVER", set(&p->driver, "docker"));
    refuses("VIAL-VALUE", set(&p->image, "python:3"));
    refuses("VIAL-POLICY", p->network = NETWORK_BRIDGE);
}

static void mount(struct plan *p, const char *source, const char *target, bool writable)
{
    struct stat st = { 0 };

    p->mounts = calloc(1, sizeof(*p->mounts));
    p->mount_count = 1;
    (void)stat(source, &st);
    p->mounts[0] = (struct plan_mount){ .source = strdup(source),
                                        .target = strdup(target),
                                        .writable = writable,
                                        .is_dir = S_ISDIR(st.st_mode),
                                        .dev = st.st_dev,
                                        .ino = st.st_ino };
}

/* The policy names one root; a front that skipped its own judgement gains nothing. */
static void mounts_are_judged_again(void **state)
{
    const char *root = *state;
    char inside[256];
    char link[256];

    (void)snprintf(inside, sizeof(inside), "%s/inside", root);
    (void)snprintf(link, sizeof(link), "%s/link", root);
    assert_int_equal(mkdir(inside, 0755), 0);
    assert_int_equal(symlink("/usr", link), 0);
    refuses("VIAL-MOUNT", mount(p, "/etc", "/data", false));
    refuses("VIAL-MOUNT", mount(p, "/", "/data", false));
    refuses("VIAL-MOUNT", mount(p, "/proc/self/root/etc", "/data", false));
    refuses("VIAL-MOUNT-OUTSIDE", mount(p, "/usr/share", "/data", false));
    refuses("VIAL-MOUNT-OUTSIDE", mount(p, link, "/data", false));
    refuses("VIAL-MOUNT", mount(p, inside, "/etc/cron.d", true));
    refuses("VIAL-MOUNT", mount(p, inside, "/data/../etc", true));
    refuses("VIAL-MOUNT", mount(p, inside, "/data", true); p->mounts[0].ino++);
    refuses("VIAL-MOUNT-OUTSIDE", set(&p->rootfs, "/usr"));
    refuses("VIAL-MOUNT", set(&p->rootfs, "/"));
    struct plan *p = good_plan();
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    mount(p, inside, "/data", true);
    int leash = ask_for(p);
    if (hear(leash, &err, &fds) != TALK_GOOD)
        fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
    talk_fds_done(&fds);
    (void)close(leash);
    wait_until_empty();
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(inside), 0);
}

static void garbage_is_dropped_and_the_keeper_lives(void **state)
{
    pid_t before = health().pid;
    uint64_t dice = 42;
    struct vial_error err;
    struct talk_fds fds = { .count = 0 };

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct pack p = { 0 };
        int leash;

        if (i % 3 == 0)
            pack_u32(&p, i % 2 ? TALK_OPEN : TALK_KILL);
        for (int n = 0; n < (i * 37) % 900; n++) {
            uint8_t byte;

            dice = dice * 6364136223846793005u + 1442695040888963407u;
            byte = (uint8_t)(dice >> 40);
            pack_raw(&p, &byte, 1);
        }
        if (p.len == 0)
            pack_u32(&p, 0);
        leash = ask_raw(&p);
        /* A refusal, or an end without a word; never a vessel. */
        assert_int_not_equal(hear(leash, &err, &fds), TALK_GOOD);
        (void)close(leash);
        pack_done(&p);
    }
    wait_until_empty();
    assert_int_equal(health().pid, before);
    assert_opens();
}

static void messages_that_are_too_long_are_dropped(void **state)
{
    static char big[TALK_MAX + 1];
    struct iovec iov = { big, sizeof(big) };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    pid_t before = health().pid;

    (void)state;
    assert_int_equal(sendmsg(KEPT_FD_native, &message, 0), sizeof(big));
    assert_int_equal(health().pid, before);
}

static size_t count_fds(pid_t pid)
{
    char path[64];
    size_t count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

/* Files, pipes and too many sockets as leashes: all closed again. */
static void floods_of_descriptors_leave_none_behind(void **state)
{
    struct kept_health h = health();
    size_t before = count_fds(h.pid);
    struct pack p = { 0 };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int many[3];
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    many[0] = many[1] = many[2] = null;
    pack_u32(&p, TALK_PING);
    for (int i = 0; i < 3000; i++) {
        const int *fds = i % 3 == 1 ? &ends[1] : many;
        struct pollfd ready = { .fd = KEPT_FD_native, .events = POLLOUT };

        while (talk_send(KEPT_FD_native, &p, fds, i % 3 == 0 ? 3 : 1) == -EAGAIN)
            assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    }
    assert_int_equal(health().pid, h.pid);
    /* It answers before it closes that question's leash. */
    for (int i = 0; i < PATIENCE_MS / 10 && count_fds(h.pid) > before; i++)
        (void)poll(NULL, 0, 10);
    assert_true(count_fds(h.pid) <= before);
    pack_done(&p);
    (void)close(null);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void no_more_vessels_than_allowed_exist_at_once(void **state)
{
    int leash[VESSELS + 3];
    unsigned opened = 0;
    unsigned busy = 0;

    (void)state;
    wait_until_empty();
    for (size_t i = 0; i < VESSELS + 3; i++) {
        struct vial_error err = { 0 };
        struct talk_fds fds = { .count = 0 };

        leash[i] = ask_for(good_plan());
        if (hear(leash[i], &err, &fds) == TALK_GOOD)
            opened++;
        else if (strcmp(err.code, "VIAL-BUSY") == 0)
            busy++;
        talk_fds_done(&fds);
    }
    assert_int_equal(opened, VESSELS);
    assert_int_equal(busy, 3);
    assert_int_equal(health().vessels, VESSELS);
    for (size_t i = 0; i < VESSELS + 3; i++)
        (void)close(leash[i]);
    wait_until_empty();
}

static int ask_volume(enum talk_verb verb, const char *name)
{
    struct pack p = { 0 };
    int leash;

    pack_u32(&p, verb);
    pack_text(&p, name);
    if (verb == TALK_VOLUME_MAKE) {
        pack_u32(&p, 0);
        pack_u64(&p, 0);
    }
    leash = ask_raw(&p);
    pack_done(&p);
    return leash;
}

/* ROOT's, empty. */
static int open_volumes(const char *root, char store[80])
{
    int fd;

    (void)snprintf(store, 80, "%s/volumes", root);
    assert_int_equal(mkdir(store, 0700), 0);
    fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* All that are asked to make one wait for the store, which is held here. */
static void questions_for_volumes_take_no_vessels_place(void **state)
{
    int leash[TALK_VOLUME_PLACES];
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    char store[80], name[16];
    int store_fd = open_volumes(*state, store);
    int late;

    assert_int_equal(flock(store_fd, LOCK_EX), 0);
    for (unsigned i = 0; i < TALK_VOLUME_PLACES; i++) {
        (void)snprintf(name, sizeof name, "v%u", i);
        leash[i] = ask_volume(TALK_VOLUME_MAKE, name);
    }
    late = ask_volume(TALK_VOLUMES, "");
    assert_int_equal(hear(late, &err, &fds), TALK_BAD);
    assert_string_equal(err.message,
                        "the keeper is asked for too many volumes at once");
    no_more_vessels_than_allowed_exist_at_once(state);
    (void)close(store_fd);
    for (unsigned i = 0; i < TALK_VOLUME_PLACES; i++) {
        (void)hear(leash[i], &err, &fds); /* the first is made: the settings say so */
        (void)close(leash[i]);
        (void)snprintf(name, sizeof name, "v%u", i);
        (void)volume_remove(store, name, &err);
    }
    do { /* the last of them may be ending just now */
        (void)close(late);
        late = ask_volume(TALK_VOLUMES, "");
    } while (hear(late, &err, &fds) != TALK_GOOD);
    (void)close(late);
    assert_int_equal(rmdir(store), 0);
}

/* A front that leaves the size out gets what the settings say, or nothing. */
static void a_volume_without_a_size_has_that_of_the_settings(void **state)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    struct volume_info made = { 0 };
    char store[80];
    int store_fd = open_volumes(*state, store);
    int leash = ask_volume(TALK_VOLUME_MAKE, "v");

    if (hear(leash, &err, &fds) == TALK_GOOD) {
        assert_int_equal(volume_look(store, "v", &made, &err), 0);
        assert_int_equal(made.size, VOLUME_SIZE_LEAST);
        assert_int_equal(volume_remove(store, "v", &err), 0);
    } else if (strcmp(err.code, "VIAL-UNSUPPORTED") != 0) {
        assert_non_null(
            strstr(err.message, "reserve 16777216 bytes")); /* a full disk */
    }
    (void)close(leash);
    (void)close(store_fd);
    assert_int_equal(rmdir(store), 0);
}

/* Nobody waits for the answers: each leash is dropped as soon as it was sent. */
static void ten_thousand_opens_leave_the_keeper_alive_and_empty(void **state)
{
    struct kept_health before = health();

    (void)state;
    for (int i = 0; i < 10000; i++)
        (void)close(ask_for(good_plan()));
    wait_until_empty();
    assert_int_equal(health().pid, before.pid);
    assert_opens();
    wait_until_empty();
}

static void a_dropped_leash_ends_the_vessel(void **state)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    struct pollfd guest = { .events = POLLIN };
    int leash = ask_for(good_plan());

    (void)state;
    assert_int_equal(hear(leash, &err, &fds), TALK_GOOD);
    assert_true(fds.count >= 2);
    guest.fd = fds.fd[1]; /* tells of its death */
    assert_int_equal(poll(&guest, 1, 0), 0);
    (void)close(leash);
    assert_int_equal(poll(&guest, 1, PATIENCE_MS), 1);
    talk_fds_done(&fds);
    wait_until_empty();
}

/* The keeper has told the guest its jail; the guest ends when it is told another. */
static void a_front_cannot_give_the_guest_a_jail_of_its_own(void **state)
{
    static const uint8_t frame[] = { 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0 };
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    struct pollfd guest = { .events = POLLIN };
    int leash = ask_for(good_plan());

    (void)state;
    assert_int_equal(hear(leash, &err, &fds), TALK_GOOD);
    guest.fd = fds.fd[1];
    assert_int_equal(write(fds.fd[0], frame, sizeof(frame)), sizeof(frame));
    assert_int_equal(poll(&guest, 1, PATIENCE_MS), 1);
    talk_fds_done(&fds);
    (void)close(leash);
    wait_until_empty();
}

static void nonsense_on_a_leash_ends_its_vessel(void **state)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    int leash = ask_for(good_plan());

    (void)state;
    assert_int_equal(hear(leash, &err, &fds), TALK_GOOD);
    assert_int_equal(send(leash, "nonsense", 8, 0), 8);
    assert_int_equal(hear(leash, &err, NULL), 0);
    talk_fds_done(&fds);
    (void)close(leash);
    wait_until_empty();
}

static bool has_line(pid_t pid, const char *line)
{
    char path[64];
    char text[8192] = "";
    int fd;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    return n > 0 && strstr(text, line);
}

static void the_keeper_has_given_up_what_it_does_not_need(void **state)
{
    pid_t pid = health().pid;

    (void)state;
    /* Its policy lets vessels have sudo, which they could not have from it otherwise.
     */
    assert_true(
        has_line(pid, geteuid() == 0 ? "NoNewPrivs:\t0\n" : "NoNewPrivs:\t1\n"));
    assert_true(has_line(pid, "Seccomp:\t2\n"));
    assert_true(has_line(pid, "Threads:\t1\n"));
    assert_false(has_line(pid, "CapEff:\t000001ffffffffff"));
    assert_true(has_line(pid, "CapInh:\t0000000000000000"));
}

/* A run that is under way loses its vessel and says so; the next one works. */
static void a_keeper_that_is_killed_is_replaced(void **state)
{
    struct vial_engine *e = case_engine(NULL);
    struct kept_health before = health();
    struct kept_health after;
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    struct pollfd guest = { .events = POLLIN };
    int leash = ask_for(good_plan());
    struct vial_result *r;

    (void)state;
    assert_int_equal(hear(leash, &err, &fds), TALK_GOOD);
    guest.fd = fds.fd[1];
    assert_int_equal(kill(before.pid, SIGKILL), 0);
    assert_int_equal(poll(&guest, 1, PATIENCE_MS),
                     1); /* no vessel outlives its keeper */
    assert_int_equal(hear(leash, &err, NULL), 0);
    talk_fds_done(&fds);
    (void)close(leash);
    r = case_run(e,
                 case_request("{'driver':'native','command':['echo','on'],"
                              "'memory':'64m','pids':16,'disk':'8m','tmp':'8m',"
                              "'timeout':'60s','compile_timeout':'60s'}"),
                 NULL);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "on\n");
    vial_result_free(r);
    after = health();
    assert_int_not_equal(after.pid, before.pid);
    assert_int_equal(after.restarts, before.restarts + 1);
    vial_engine_close(e);
}

#define SMALL                                                                          \
    "'driver':'native','memory':'128m','pids':32,'disk':'8m','tmp':'8m',"              \
    "'timeout':'60s','compile_timeout':'60s'"

static struct vial_engine *warm_engine(void)
{
    static const char *const none[] = { NULL };
    const struct vial_warm_options options = { .languages = none, .ceiling = 2 };
    struct vial_engine *e = case_engine(NULL);
    struct vial_error err = { 0 };

    if (vial_engine_warm(e, &options, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    return e;
}

static void want(struct vial_engine *e, const char *request)
{
    struct vial_request *req = case_request(request);
    struct vial_error err = { 0 };

    if (vial_warm_ready(e, req, 1, 60000, &err) < 0)
        fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
    vial_request_free(req);
}

/* The pool is the front's, its vessels and zygotes are the keeper's. */
static void an_interpreter_waits_in_a_vessel_of_the_keepers(void **state)
{
    struct vial_engine *e = warm_engine();
    struct vial_result *r;
    struct vial_error err = { 0 };
    char *report = NULL;

    (void)state;
    want(e, "{" SMALL ",'language':'python','code':'print(1)'}");
    r = case_run(e,
                 case_request("{" SMALL ",'language':'python',"
                              "'code':'import os; print(6 * 7, os.getpid() > 1)'}"),
                 NULL);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "42 True\n");
    assert_string_equal(r->start, "warm");
    vial_result_free(r);
    assert_int_equal(vial_warm_report(e, &report, &err), 0);
    if (geteuid() == 0) /* others may have none; the vessel waits all the same */
        assert_non_null(strstr(report, "\"zygote\":true"));
    free(report);
    vial_engine_close(e);
    wait_until_empty();
}

static void a_waiting_vessels_limits_are_lowered_by_the_keeper(void **state)
{
    struct vial_engine *e = warm_engine();
    struct vial_result *r;

    (void)state;
    want(e, "{" SMALL ",'command':['true']}");
    r = case_run(e,
                 case_request("{'driver':'native','memory':'64m','pids':16,'disk':'8m',"
                              "'tmp':'8m','timeout':'60s','compile_timeout':'60s',"
                              "'command':['sh','-c','echo low']}"),
                 NULL);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "low\n");
    if (strncmp(r->limits_by, "cgroup", 6) == 0)
        assert_string_equal(r->start, "warm");
    vial_result_free(r);
    vial_engine_close(e);
    wait_until_empty();
}

/* Takes PLAN. */
static void order_of_plan(struct plan *plan, const char *program, const char *variable,
                          const char *import, const char *code)
{
    struct vial_error err = { 0 };
    struct pack p = { 0 };
    int leash;

    pack_u32(&p, TALK_ZYGOTE);
    pack_text(&p, program);
    pack_u32(&p, 1);
    pack_text(&p, variable);
    pack_u32(&p, import ? 1 : 0);
    if (import)
        pack_text(&p, import);
    plan_pack(&p, plan);
    plan_free(plan);
    leash = ask_raw(&p);
    pack_done(&p);
    assert_int_equal(hear(leash, &err, NULL), TALK_BAD);
    assert_string_equal(err.code, code);
    (void)close(leash);
}

static void order_zygote(const char *program, const char *variable, const char *import,
                         const char *code)
{
    order_of_plan(good_plan(), program, variable, import, code);
}

/* Python would run what it finds there, before there is any confinement. */
static void a_zygote_sees_nothing_but_the_hosts_own_files(void **state)
{
    char *root = *state;
    struct plan *mounted = good_plan();
    struct plan *rooted = good_plan();
    struct stat st;

    assert_int_equal(stat(root, &st), 0);
    mounted->mounts = calloc(1, sizeof(*mounted->mounts));
    mounted->mount_count = 1;
    mounted->mounts[0] = (struct plan_mount){ .source = strdup(root),
                                              .target = strdup("/data"),
                                              .is_dir = true,
                                              .dev = st.st_dev,
                                              .ino = st.st_ino };
    rooted->rootfs = strdup(root);
    order_of_plan(mounted, "python3", "LANG=C", NULL, "VIAL-VALUE");
    order_of_plan(rooted, "python3", "LANG=C", NULL, "VIAL-VALUE");
    order_zygote("python3", "HOME=/data", NULL, "VIAL-VALUE");
    wait_until_empty();
}

static void a_zygote_is_started_as_vial_would_or_not_at_all(void **state)
{
    (void)state;
    order_zygote("/bin/sh", "LANG=C", NULL, "VIAL-VALUE");
    order_zygote("../python3", "LANG=C", NULL, "VIAL-VALUE");
    order_zygote("python3.11x", "LANG=C", NULL, "VIAL-VALUE");
    order_zygote("python3", "LD_PRELOAD=/tmp/evil.so", NULL, "VIAL-VALUE");
    order_zygote("python3", "PYTHONPATH=/tmp", NULL, "VIAL-VALUE");
    order_zygote("python3", "PATH=/tmp", NULL, "VIAL-VALUE");
    order_zygote("python3", "LANG", NULL, "VIAL-VALUE");
    order_zygote("python3", "LANG=C", "antigravity", "VIAL-POLICY");
    wait_until_empty();
}

static void limits_are_never_raised_and_eggs_never_stolen(void **state)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    struct plan *plan = good_plan();
    struct limits more = plan->limits;
    struct pack p = { 0 };
    int leash = ask_for(plan);

    (void)state;
    assert_int_equal(hear(leash, &err, &fds), TALK_GOOD);
    more.memory_bytes *= 2;
    pack_u32(&p, TALK_LIMIT);
    limits_pack(&p, &more);
    assert_int_equal(talk_send(leash, &p, NULL, 0), 0);
    assert_int_equal(hear(leash, &err, NULL), TALK_BAD);
    assert_string_equal(err.code, "VIAL-CAP");
    pack_done(&p);
    pack_u32(&p, TALK_FORK);
    pack_u32(&p, 77);
    assert_int_equal(talk_send(leash, &p, NULL, 0), 0);
    assert_int_equal(hear(leash, &err, NULL), TALK_BAD);
    assert_string_equal(err.code, "VIAL-UNSUPPORTED");
    pack_done(&p);
    talk_fds_done(&fds);
    (void)close(leash);
    wait_until_empty();
}

static int read_number(int fd)
{
    int value = 0;

    return read(fd, &value, sizeof(value)) == sizeof(value) ? value : -1;
}

/* A front of its own, which is killed: its keeper, wardens and vessels go with it. */
static void a_front_that_is_killed_takes_everything_with_it(void **state)
{
    struct vial_error err = { 0 };
    struct talk_fds fds = { .count = 0 };
    struct pollfd ended = { .events = POLLIN };
    int pipes[2];
    int leash;
    pid_t front;
    int keeper;

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    front = fork();
    if (front == 0) {
        (void)close(KEPT_FD_native);
        kept_start(NULL, 4);
        leash = ask_for(good_plan());
        keeper = hear(leash, &err, &fds) == TALK_GOOD ? health().pid : -1;
        (void)!write(pipes[1], &keeper, sizeof(keeper));
        (void)pause();
        _exit(0);
    }
    keeper = read_number(pipes[0]);
    assert_true(keeper > 0);
    ended.fd = sys_pidfd_open(keeper);
    assert_true(ended.fd >= 0);
    assert_int_equal(poll(&ended, 1, 0), 0);
    assert_int_equal(kill(front, SIGKILL), 0);
    assert_int_equal(waitpid(front, NULL, 0), front);
    assert_int_equal(poll(&ended, 1, PATIENCE_MS),
                     1); /* it waits for its wardens first */
    (void)close(ended.fd);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static int in_child(void (*act)(void *), void *context)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        act(context);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* As a front does it: then tries what it must not. The number of what failed. */
static void act_as_front(void *context)
{
    const char *share = getenv("VIAL_SHARE");
    const char *writable[] = { context, NULL };
    struct kept_health h = health();
    struct vial_error err = { 0 };
    char mem[64];

    if (keeper_drop("nobody", &err) < 0 || keeper_seal(share, writable, &err) < 0) {
        print_error("%s: %s (%s)\n", err.code, err.message, err.cause);
        _exit(2);
    }
    if (!has_line(getpid(), "NoNewPrivs:\t1\n") ||
        !has_line(getpid(), "Seccomp:\t2\n") ||
        !has_line(getpid(), "CapEff:\t0000000000000000\n") ||
        !has_line(getpid(), "CapPrm:\t0000000000000000\n"))
        _exit(3);
    if (fork() >= 0)
        _exit(4);
    if (execl("/bin/true", "true", NULL) == 0 || errno != EPERM)
        _exit(5);
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0)
        _exit(6);
    if (open("/tmp/vial-front-was-here", O_CREAT | O_WRONLY, 0600) >= 0)
        _exit(7);
    if (open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) < 0)
        _exit(11); /* long output has to go somewhere */
    (void)snprintf(mem, sizeof(mem), "/proc/%d/mem", h.pid);
    if (open(mem, O_RDWR) >= 0 || kill(h.pid, 0) == 0)
        _exit(8);
    if (setuid(0) == 0 || unshare(CLONE_NEWUSER) == 0)
        _exit(9);
    struct vial_error none;
    struct talk_fds fds = { .count = 0 };
    int leash = ask_for(good_plan());
    if (hear(leash, &none, &fds) != TALK_GOOD) /* and yet it has vessels */
        _exit(10);
}

static void a_sealed_front_can_open_vessels_and_nothing_else(void **state)
{
    assert_int_equal(in_child(act_as_front, *state), 0);
    wait_until_empty();
}

int main(void)
{
    char root[] = "/tmp/vial-keeper-XXXXXX";
    char policy[64];
    FILE *file;
    int bad;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(what_fits_the_policy_is_opened, root),
        cmocka_unit_test_prestate(limits_above_the_caps_are_refused, root),
        cmocka_unit_test_prestate(limits_left_out_are_refused, root),
        cmocka_unit_test_prestate(names_that_are_none_are_refused, root),
        cmocka_unit_test_prestate(mounts_are_judged_again, root),
        cmocka_unit_test_prestate(garbage_is_dropped_and_the_keeper_lives, root),
        cmocka_unit_test_prestate(messages_that_are_too_long_are_dropped, root),
        cmocka_unit_test_prestate(floods_of_descriptors_leave_none_behind, root),
        cmocka_unit_test_prestate(no_more_vessels_than_allowed_exist_at_once, root),
        cmocka_unit_test_prestate(questions_for_volumes_take_no_vessels_place, root),
        cmocka_unit_test_prestate(a_volume_without_a_size_has_that_of_the_settings,
                                  root),
        cmocka_unit_test_prestate(ten_thousand_opens_leave_the_keeper_alive_and_empty,
                                  root),
        cmocka_unit_test_prestate(a_dropped_leash_ends_the_vessel, root),
        cmocka_unit_test_prestate(a_front_cannot_give_the_guest_a_jail_of_its_own,
                                  root),
        cmocka_unit_test_prestate(nonsense_on_a_leash_ends_its_vessel, root),
        cmocka_unit_test_prestate(the_keeper_has_given_up_what_it_does_not_need, root),
        cmocka_unit_test_prestate(a_sealed_front_can_open_vessels_and_nothing_else,
                                  root),
        cmocka_unit_test_prestate(an_interpreter_waits_in_a_vessel_of_the_keepers,
                                  root),
        cmocka_unit_test_prestate(a_waiting_vessels_limits_are_lowered_by_the_keeper,
                                  root),
        cmocka_unit_test_prestate(a_zygote_is_started_as_vial_would_or_not_at_all,
                                  root),
        cmocka_unit_test_prestate(a_zygote_sees_nothing_but_the_hosts_own_files, root),
        cmocka_unit_test_prestate(limits_are_never_raised_and_eggs_never_stolen, root),
        cmocka_unit_test_prestate(a_front_that_is_killed_takes_everything_with_it,
                                  root),
        cmocka_unit_test_prestate(a_keeper_that_is_killed_is_replaced, root),
    };

    if (!mkdtemp(root) || chmod(root, 0755) < 0)
        return 1;
    (void)snprintf(policy, sizeof(policy), "%s/policy.yaml", root);
    file = fopen(policy, "we");
    if (!file)
        return 1;
    (void)fprintf(file,
                  "policy:\n  max_memory: 256m\n  max_pids: 64\n  max_cpus: 2\n"
                  "  max_timeout: 60s\n  max_disk: 64m\n  networks: [none]\n"
                  "  mount_roots: ['%s']\n  volumes: ['v*']\n"
                  "volumes: {store: '%s/volumes', size: 16m, most: 1}\n",
                  root, root);
    (void)fclose(file);
    kept_start(policy, VESSELS);
    bad = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(policy);
    (void)rmdir(root);
    return bad;
}
