/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A front that was taken over, against the keeper. An input is a session: what is said
 * on the shared socket and on the leashes, in order, with vessels that end meanwhile.
 * Keeper and wardens are the real ones, in this process: fork gives a number, and the
 * warden is called. Their driver opens nothing, and judges what it is asked to open by
 * what the policy below says, in other words than the keeper's own.
 *
 * A session is a row of steps: one byte for the kind, two for the length (little
 * endian) and as many bytes. Whole messages can be given as they are; or a good plan is
 * changed and packed here, so that the corpus holds whatever the codec's version.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "driver/native/custom_filter.h"
#include "driver/native/zygote.h"
#include "fuzz.h"
#include "fuzz_vessel.h"
#include "keeper/talk/codec.h"
#include "model/limits.h"
#include "settings/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static pid_t fuzz_fork(void);
static pid_t fuzz_waitpid(pid_t pid, int *status, int flags);
static int fuzz_poll(struct pollfd *fds, nfds_t count, int ms);
static int fuzz_line(int fd, const void *data, size_t len);
static _Noreturn void fuzz_exit(int status);

/* The keeper's own files, with what would leave this process replaced. */
/* NOLINTBEGIN(bugprone-suspicious-include) */
#define fork         fuzz_fork
#define waitpid      fuzz_waitpid
#define poll         fuzz_poll
#define io_write_all fuzz_line
#define _exit        fuzz_exit
#include "../../src/keeper/root/keeper.c"
#include "../../src/keeper/root/keeper_log.c"
#include "../../src/keeper/root/warden.c"
#undef fork
#undef waitpid
#undef poll
#undef io_write_all
#undef _exit
/* NOLINTEND(bugprone-suspicious-include) */

#define MIB         (INT64_C(1) << 20)
#define VESSELS     3
#define FIRST_PID   1000
#define STEPS       64
#define HIGHEST_FD  64
#define WORLD_FILES 4

enum step_kind {
    STEP_ASK,     /* a message, with a good leash */
    STEP_STRANGE, /* with other descriptors; the first byte says which */
    STEP_OPEN,    /* edits of a good plan */
    STEP_ZYGOTE,  /* the same, of a zygote's */
    STEP_LEASH,   /* a message on the leash of the question before */
    STEP_GIFT,    /* the same, with a descriptor */
    STEP_LOWER,   /* edits of good limits, to be a vessel's */
    STEP_END,     /* the warden of that place ends */
    STEP_NO_FORK, /* the next question finds no process */
    STEP_KINDS
};

/* What one input sees. */
struct world {
    struct keeper keeper;
    int front;          /* the other end of the shared socket */
    pid_t next, forked; /* FORKED: by the last question, or 0 */
    bool no_fork;
    pid_t ended[STEPS]; /* not yet waited for */
    size_t ended_count;
    bool open;            /* a vessel is */
    struct limits limits; /* that it was opened with, or lowered to */
    jmp_buf warden;       /* where a warden's end leads */
};

/* Made once. */
static struct {
    struct rules rules;
    char root[64];    /* a directory that the policy lets be mounted is below it */
    char inside[96];  /* that one */
    struct world *at; /* of this input */
} fuzz;

static pid_t fuzz_fork(void)
{
    struct world *w = fuzz.at;

    if (w->no_fork) {
        w->no_fork = false;
        errno = EAGAIN;
        return -1;
    }
    w->forked = w->next++;
    return w->forked;
}

static pid_t fuzz_waitpid(pid_t pid, int *status, int flags)
{
    struct world *w = fuzz.at;

    (void)pid;
    (void)status;
    (void)flags;
    if (w->ended_count > 0)
        return w->ended[--w->ended_count];
    errno = ECHILD;
    return -1;
}

/* Who would wait for the front's end sees it at once. */
static int fuzz_poll(struct pollfd *fds, nfds_t count, int ms)
{
    return ms < 0 ? 1 : poll(fds, count, 0);
}

static _Noreturn void fuzz_exit(int status)
{
    MUST(status == 0);
    longjmp(fuzz.at->warden, 1);
}

/* One line, of plain text: nothing that the front says makes another of it. */
static int fuzz_line(int fd, const void *data, size_t len)
{
    const char *text = data;

    MUST(fd == STDERR_FILENO && len > 0 && text[len - 1] == '\n');
    for (size_t i = 0; i + 1 < len; i++)
        MUST(text[i] >= ' ' && text[i] <= '~');
    return 0;
}

#include "fuzz_keeper_driver.h"
#include "fuzz_keeper_plan.h"

/* What can be mounted, and what must not be: beside it, and by a link out of it. */
static void make_world(void)
{
    static const char *const names[WORLD_FILES] = { "in", "in/dir", "out", "in/dir/x" };
    char path[128];

    (void)snprintf(fuzz.root, sizeof(fuzz.root), "/tmp/vial-fuzz-XXXXXX");
    MUST(mkdtemp(fuzz.root));
    for (size_t i = 0; i < WORLD_FILES; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", fuzz.root, names[i]);
        MUST(mkdir(path, 0755) == 0);
    }
    (void)snprintf(path, sizeof(path), "%s/in/link", fuzz.root);
    MUST(symlink("../out", path) == 0);
    (void)snprintf(fuzz.inside, sizeof(fuzz.inside), "%s/in", fuzz.root);
}

static void remove_world(void)
{
    static const char *const names[] = { "in/link", "in/dir/x",  "in/dir", "in",
                                         "out",     "vial.yaml", "" };
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", fuzz.root, names[i]);
        (void)remove(path);
    }
    rules_done(&fuzz.rules);
}

/* As the launcher does it. */
static void make_rules(void)
{
    static const char *const imports[] = { "numpy", NULL };
    char config[128];
    const struct settings_sources from = { .config = config,
                                           .project_dir = "/",
                                           .share_dir = getenv("VIAL_SHARE") };
    struct settings *settings = NULL;
    struct pack p = { 0 };
    struct unpack u;
    FILE *f;

    (void)snprintf(config, sizeof(config), "%s/vial.yaml", fuzz.root);
    f = fopen(config, "we");
    MUST(f);
    (void)fprintf(f,
                  "policy:\n  max_memory: 256m\n  max_pids: 64\n  max_cpus: 2\n"
                  "  max_timeout: 60s\n  max_disk: 64m\n  networks: [none]\n"
                  "  mount_roots: [%s]\nserve:\n  log: json\n",
                  fuzz.inside);
    MUST(fclose(f) == 0);
    MUST(settings_load(&from, &settings, NULL) == 0); /* VIAL_SHARE is a build's */
    rules_pack(&p, settings, VESSELS, imports, NULL);
    u = (struct unpack){ .data = p.data, .len = p.len };
    MUST(!p.bad && rules_unpack(&u, &fuzz.rules) == 0);
    pack_done(&p);
    settings_free(settings);
}

static void make_once(void)
{
    if (fuzz.root[0])
        return;
    make_world();
    make_rules();
    MUST(atexit(remove_world) == 0);
}

/* The session. */

struct step {
    uint8_t kind;
    struct bytes bytes;
};

static bool next_step(struct bytes *input, struct step *out)
{
    uint8_t kind = (uint8_t)bytes_number(input, 1);
    size_t len = bytes_number(input, 2);

    if (input->len == 0 && len > 0)
        return false;
    *out = (struct step){ kind % STEP_KINDS, bytes_take(input, len) };
    return true;
}

static bool is_question(uint8_t kind)
{
    return kind <= STEP_ZYGOTE;
}

static void send_message(int fd, const struct pack *p, const int *fds, size_t count)
{
    if (p->len > 0 && p->len <= TALK_MAX)
        (void)talk_send(fd, p, fds, count); /* what does not fit is not said */
}

/* What the front wants of a vessel is on the leash before the vessel is opened. */
static void say_on_leash(int leash, const struct step *s)
{
    struct pack p = { 0 };

    if (s->kind == STEP_LOWER)
        pack_lowered(&p, s->bytes);
    else
        pack_raw(&p, s->bytes.data, s->bytes.len);
    send_message(leash, &p, &leash, s->kind == STEP_GIFT);
    pack_done(&p);
}

/* Every answer can be read, and its descriptors are ours to close. */
static void hear_answers(int leash)
{
    static uint8_t buf[TALK_MAX];

    for (;;) {
        auto_talk_fds struct talk_fds fds = { .count = 0 };
        ssize_t n = talk_receive(leash, buf, sizeof(buf), &fds);
        struct unpack u = { .data = buf, .len = n > 0 ? (size_t)n : 0 };
        struct vial_error err = { 0 };
        uint32_t verb;

        if (n <= 0)
            return;
        verb = unpack_u32(&u);
        MUST(verb == TALK_GOOD || (verb == TALK_BAD && fds.count == 0));
        if (verb == TALK_BAD) {
            talk_read_error(&u, &err);
            MUST(unpack_finished(&u) && strncmp(err.code, "VIAL-", 5) == 0);
        }
    }
}

/* The newest lent's way to be lent, which fork_warden has closed in its own process. */
static int renew_report(struct keeper *k, uint32_t *number_out)
{
    int ends[2];

    for (size_t i = 0; i < KEEPER_ZYGOTES; i++) {
        struct lent_zygote *n = &k->zygotes[i];

        if (n->warden != fuzz.at->forked)
            continue;
        MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                        ends) == 0);
        MUST(dup3(ends[0], n->report_fd, O_CLOEXEC) >= 0);
        (void)close(ends[0]);
        *number_out = n->number;
        return ends[1];
    }
    abort(); /* a zygote's warden without a place */
}

static void be_warden(struct world *w, int leash, const struct pack *asked)
{
    struct unpack u = { .data = asked->data, .len = asked->len };
    struct warden warden = {
        .keeper = &w->keeper, .leash_fd = leash, .verb = unpack_u32(&u), .report_fd = -1
    };

    warden.request = u;
    if (warden.verb == TALK_ZYGOTE)
        warden.report_fd = renew_report(&w->keeper, &warden.number);
    if (setjmp(w->warden) == 0)
        warden_run(&warden);
    MUST(!w->open);
    if (warden.report_fd >= 0)
        (void)close(warden.report_fd);
}

static size_t other_descriptors(uint8_t which, int leash, int out[TALK_FDS])
{
    out[0] = out[1] = out[2] = leash;
    switch (which % 4) {
    case 0:
        return 0;
    case 1:
        return 2;
    case 2:
        out[0] = STDIN_FILENO;
        return 1;
    default:
        return 3;
    }
}

static void check_places(const struct keeper *k)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < k->rules.vessels; i++)
        used += k->wardens[i] != 0;
    MUST(used == k->vessels && used <= VESSELS);
}

static void pack_question(struct pack *out, const struct step *s)
{
    struct bytes b = s->bytes;

    if (s->kind == STEP_OPEN) {
        pack_edited(out, TALK_OPEN, b);
    } else if (s->kind == STEP_ZYGOTE) {
        pack_edited(out, TALK_ZYGOTE, b);
    } else {
        if (s->kind == STEP_STRANGE)
            (void)bytes_number(&b, 1);
        pack_raw(out, b.data, b.len);
    }
}

/* One question, and what is said on its leash. */
static void ask(struct world *w, const struct step *s, struct bytes *rest)
{
    static uint8_t buf[TALK_MAX];
    struct pack p = { 0 };
    struct step more;
    struct bytes before = *rest;
    int ends[2];
    int fds[TALK_FDS];
    size_t count = 1;

    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    fds[0] = ends[1];
    if (s->kind == STEP_STRANGE)
        count = other_descriptors(s->bytes.len ? s->bytes.data[0] : 0, ends[1], fds);
    pack_question(&p, s);
    send_message(w->front, &p, fds, count);
    while (next_step(rest, &more) && more.kind >= STEP_LEASH &&
           more.kind <= STEP_LOWER) {
        say_on_leash(ends[0], &more);
        before = *rest;
    }
    *rest = before;
    (void)shutdown(ends[0], SHUT_WR);
    w->forked = 0;
    MUST(hear(&w->keeper, buf));
    if (w->forked) {
        MUST(s->kind != STEP_STRANGE);
        be_warden(w, ends[1], &p);
    }
    (void)close(ends[1]);
    zygotes_hear(&w->keeper);
    hear_answers(ends[0]);
    (void)close(ends[0]);
    check_places(&w->keeper);
    pack_done(&p);
}

static void end_one(struct world *w, uint64_t place)
{
    pid_t pid = w->keeper.wardens[place % VESSELS];

    if (pid)
        w->ended[w->ended_count++] = pid;
    reap(&w->keeper);
    check_places(&w->keeper);
}

static void take_step(struct world *w, const struct step *s, struct bytes *rest)
{
    struct bytes b = s->bytes;

    if (is_question(s->kind))
        ask(w, s, rest);
    else if (s->kind == STEP_END)
        end_one(w, bytes_number(&b, 1));
    else if (s->kind == STEP_NO_FORK)
        w->no_fork = true;
}

static uint64_t open_descriptors(void)
{
    uint64_t all = 0;

    for (int fd = 0; fd < HIGHEST_FD; fd++)
        all |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
    return all;
}

static void begin_world(struct world *w, uint8_t how)
{
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) ==
         0);
    *w = (struct world){ .front = ends[0], .next = FIRST_PID };
    w->keeper.rules = fuzz.rules;
    w->keeper.rules.log = how % 2 ? RULES_LOG_JSON : RULES_LOG_LOGFMT;
    w->keeper.front_fd = ends[1];
    w->keeper.guest_fd = -1;
    fuzz.at = w;
    MUST(prepare(&w->keeper, NULL) == 0);
}

static void end_world(struct world *w)
{
    struct keeper *k = &w->keeper;

    for (size_t i = 0; i < VESSELS; i++)
        end_one(w, i);
    MUST(k->vessels == 0);
    for (size_t i = 0; i < KEEPER_ZYGOTES; i++)
        MUST(k->zygotes[i].warden == 0 && k->zygotes[i].report_fd < 0);
    (void)close(w->front);
    (void)close(k->front_fd);
    (void)close(k->signal_fd);
    free(k->wardens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct world w;
    struct bytes input = { data, len };
    struct step s;
    uint64_t before;

    make_once();
    before = open_descriptors();
    begin_world(&w, (uint8_t)bytes_number(&input, 1));
    for (int i = 0; i < STEPS && input.len > 0 && next_step(&input, &s); i++)
        take_step(&w, &s, &input);
    end_world(&w);
    MUST(open_descriptors() == before);
    return 0;
}
