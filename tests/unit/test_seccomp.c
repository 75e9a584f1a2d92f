/* SPDX-License-Identifier: Apache-2.0 */

/* Every rule of the profiles, tried on the kernel by a child that has loaded the
 * filters: with the arguments the rule is about, and with high bits set that the
 * kernel ignores. */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "check.h"
#include "driver/native/custom_filter.h"
#include "driver/native/profile.h"

#define HIGH (UINT64_C(1) << 32)

static json_t *read_profile(const char *name)
{
    auto_free char *dir = path_join(getenv("VIAL_TEST_SOURCE"), "seccomp");
    struct vial_error err = { 0 };
    json_t *profile = NULL;

    if (profile_read(dir, name, &profile, &err) < 0)
        fail_msg("%s %s", check_text(&err), err.cause);
    return profile;
}

static void load(const struct blob *filter)
{
    struct sock_fprog program = { (unsigned short)(filter->len /
                                                   sizeof(struct sock_filter)),
                                  (struct sock_filter *)(void *)filter->data };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        _exit(99);
}

static int errno_of(const char *action)
{
    static const struct {
        const char *name;
        int value;
    } names[] = { { "OK", 0 },
                  { "EPERM", EPERM },
                  { "EACCES", EACCES },
                  { "EINVAL", EINVAL },
                  { "ENOMEM", ENOMEM },
                  { "ENOSYS", ENOSYS },
                  { "EAFNOSUPPORT", EAFNOSUPPORT },
                  { "EPROTONOSUPPORT", EPROTONOSUPPORT } };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, action) == 0)
            return names[i].value;
    return -1;
}

/* Arguments that meet every condition of RULE. */
static void meet(json_t *rule, uint64_t args[6])
{
    size_t i = 0;
    json_t *item = NULL;

    json_array_foreach(json_object_get(rule, "args"), i, item)
    {
        const char *text = json_string_value(item);
        const char *value = strpbrk(text, "=>");

        args[text[0] - '0'] = strtoull(value + 1, NULL, 0) + (*value == '>' ? 1 : 0);
    }
}

static int try_call(int number, const uint64_t a[6])
{
    long rc = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);

    if (rc == 0 && number == SYS_clone && getpid() != getpgrp())
        _exit(0); /* the filter let a clone through: this is its child */
    return rc < 0 ? errno : 0;
}

/* In the child: index of the first rule that does not hold, plus 1; 0: all do. */
static size_t first_broken(json_t *rules)
{
    size_t i = 0;
    json_t *rule = NULL;

    json_array_foreach(rules, i, rule)
    {
        const char *action = json_string_value(json_object_get(rule, "action"));
        int number = seccomp_syscall_resolve_name(
            json_string_value(json_object_get(rule, "call")));
        bool has_args = json_object_get(rule, "args") != NULL;
        uint64_t args[6] = { 0 };

        if (number < 0 || (strcmp(action, "allow") == 0 && !has_args))
            continue;
        meet(rule, args);
        if (strcmp(action, "allow") == 0) {
            if (try_call(number, args) == ENOSYS)
                return i + 1;
            continue;
        }
        if (try_call(number, args) != errno_of(action))
            return i + 1;
        for (size_t n = 0; has_args && n < 6; n++)
            args[n] |= HIGH;
        if (has_args && (try_call(number, args) == 0) != (errno_of(action) == 0))
            return i + 1;
    }
    return 0;
}

static int run_child(const char *name, size_t (*body)(json_t *), json_t *rules)
{
    auto_json json_t *profile = read_profile(name);
    struct blob filters[PROFILE_FILTERS] = { 0 };
    struct vial_error err = { 0 };
    int report[2];
    int status = 0;
    size_t broken = 0;
    pid_t pid = 0;

    if (profile_compile(profile, NULL, filters, &err) < 0)
        fail_msg("%s", check_text(&err));
    assert_int_equal(pipe(report), 0);
    pid = fork();
    if (pid == 0) {
        load(&filters[0]);
        load(&filters[1]);
        broken = body(rules ? rules : json_object_get(profile, "rules"));
        (void)!write(report[1], &broken, sizeof broken);
        _exit(0);
    }
    (void)close(report[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (read(report[0], &broken, sizeof broken) == sizeof broken && broken) {
        auto_free char *text = json_dumps(
            json_array_get(json_object_get(profile, "rules"), broken - 1), 0);

        fail_msg("rule does not hold in '%s': %s", name, text);
    }
    (void)close(report[0]);
    blob_done(&filters[0]);
    blob_done(&filters[1]);
    return status;
}

static void every_rule_of_every_profile_holds(void **state)
{
    static const char *const names[] = { "default", "nonet", "debug", "strict",
                                         "machine" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int status = run_child(names[i], first_broken, NULL);

        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static size_t families(json_t *unused)
{
    (void)unused;
    for (int family = 0; family < 64; family++) {
        for (int type = 1; type < 6; type++) {
            bool wanted = (family == 1 && (type == 1 || type == 2 || type == 5)) ||
                          ((family == 2 || family == 10) && type <= 2) || family == 16;
            long fd = syscall(SYS_socket, family, type, 0);

            if (!wanted && fd >= 0)
                return 1;
            if (wanted && fd < 0 && (errno == ENOSYS || errno == EAFNOSUPPORT))
                return 1;
            if (fd >= 0)
                (void)close((int)fd);
        }
    }
    /* MPTCP, UDP-Lite, XFRM and generic netlink. */
    return syscall(SYS_socket, 2, 1, 262) >= 0 || syscall(SYS_socket, 2, 2, 136) >= 0 ||
           syscall(SYS_socket, 16, 3, 6) >= 0 || syscall(SYS_socket, 16, 3, 16) >= 0;
}

static void only_listed_sockets_open(void **state)
{
    (void)state;
    (void)run_child("default", families, NULL);
}

/* In the child: what is refused for process 1 is allowed for oneself. */
static size_t own_limits(json_t *unused)
{
    uint64_t limit[2] = { 0 };
    uint64_t cpus[128] = { 0 };
    long self = getpid();
    long len = syscall(SYS_sched_getaffinity, 0, sizeof cpus, cpus);

    (void)unused;
    if (len <= 0 || syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, limit) != 0 ||
        syscall(SYS_prlimit64, self, RLIMIT_CORE, NULL, limit) != 0 ||
        syscall(SYS_sched_setaffinity, 0, len, cpus) != 0 ||
        syscall(SYS_sched_setaffinity, self, len, cpus) != 0 ||
        syscall(SYS_setpriority, PRIO_PROCESS, 0, 1) != 0 ||
        syscall(SYS_setpriority, PRIO_PROCESS, self, 2) != 0 ||
        syscall(SYS_ioprio_set, 1, 0, 0) != 0)
        return 1;
    return syscall(SYS_prlimit64, 1, RLIMIT_CORE, NULL, limit) == 0 ||
           syscall(SYS_setpriority, PRIO_USER, 0, 2) == 0;
}

static void only_ones_own_limits_can_be_set(void **state)
{
    int status = run_child("default", own_limits, NULL);

    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static size_t buffer_stays(json_t *unused)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    int before = 0;
    int after = 0;
    int wanted = 8192;
    socklen_t len = sizeof before;

    (void)unused;
    return fd < 0 || getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &before, &len) != 0 ||
           setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted) != 0 ||
           getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &after, &len) != 0 ||
           before != after ||
           setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &wanted, sizeof wanted) != 0;
}

static void socket_buffers_keep_their_size(void **state)
{
    int status = run_child("default", buffer_stays, NULL);

    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static size_t makes_aio(json_t *unused)
{
    unsigned long context = 0;

    (void)unused;
    return syscall(SYS_io_setup, 1, &context) != -1 || errno != ENOSYS;
}

static void asynchronous_disk_calls_look_absent(void **state)
{
    int status = run_child("default", makes_aio, NULL);

    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#ifdef __x86_64__
static size_t call_i386(json_t *unused)
{
    long rc = 20; /* getpid there */

    (void)unused;
    __asm__ volatile("int $0x80" : "+a"(rc) : : "memory", "r8", "r9", "r10", "r11");
    return 1;
}

static size_t call_x32(json_t *unused)
{
    (void)unused;
    (void)syscall(0x40000000 | SYS_getpid);
    return 1;
}
#endif

/* What PROGRAM says to CALL, in the kernel's words; it is the kernel's own machine as
 * far as filters use it. */
static uint32_t verdict(const struct blob *program, const struct seccomp_data *call)
{
    const struct sock_filter *f = (const void *)program->data;
    size_t count = program->len / sizeof *f;
    uint32_t a = 0;

    for (size_t i = 0; i < count; i++) {
        bool met = false;

        switch (f[i].code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(f[i].k + sizeof a <= sizeof *call);
            memcpy(&a, (const char *)call + f[i].k, sizeof a);
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f[i].k;
            continue;
        case BPF_RET | BPF_K:
            return f[i].k;
        case BPF_JMP | BPF_JA:
            i += f[i].k;
            continue;
        case BPF_JMP | BPF_JEQ | BPF_K:
            met = a == f[i].k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            met = a >= f[i].k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            met = a > f[i].k;
            break;
        default:
            fail_msg("instruction %zu has code %d", i, f[i].code);
        }
        i += met ? f[i].jt : f[i].jf;
    }
    fail_msg("a filter has no end");
    return 0;
}

/* Of two filters the kernel takes the stricter word, the second's if they are equal. */
static uint32_t verdict_of_both(const struct blob *both,
                                const struct seccomp_data *call)
{
    uint32_t first = verdict(&both[0], call), second = verdict(&both[1], call);

    return (int32_t)(first & SECCOMP_RET_ACTION_FULL) <
                   (int32_t)(second & SECCOMP_RET_ACTION_FULL)
               ? first
               : second;
}

static void compile_twice(json_t *profile, struct blob both[PROFILE_FILTERS],
                          struct blob joined[PROFILE_FILTERS])
{
    struct vial_error err = { 0 };

    if (profile_compile(profile, NULL, both, &err) < 0 ||
        profile_compile(profile, NULL, joined, &err) < 0 ||
        profile_join(profile, joined, &err) < 0)
        fail_msg("%s", check_text(&err));
}

static void blobs_done(struct blob blobs[PROFILE_FILTERS])
{
    for (size_t i = 0; i < PROFILE_FILTERS; i++)
        blob_done(&blobs[i]);
}

/* Every number, with the arguments of every rule in turn. */
static size_t compare(json_t *rules, const struct blob *both, const struct blob *joined)
{
    static const uint32_t arches[] = { SCMP_ARCH_X86_64, SCMP_ARCH_X86,
                                       SCMP_ARCH_AARCH64 };
    size_t compared = 0, i = 0;
    json_t *rule = NULL;

    json_array_foreach(rules, i, rule)
    {
        struct seccomp_data call = { .arch = arches[i % 3] };
        bool has_args = json_object_get(rule, "args") != NULL;

        if (i > 2 && !has_args)
            continue;
        call.arch = has_args ? seccomp_arch_native() : call.arch;
        meet(rule, (uint64_t *)call.args);
        for (call.nr = 0; call.nr < 600; call.nr++, compared++)
            assert_int_equal(verdict(joined, &call), verdict_of_both(both, &call));
        call.nr = 0x40000001; /* x32 */
        assert_int_equal(verdict(joined, &call), verdict_of_both(both, &call));
    }
    return compared;
}

/* Arguments that lie on, beside and between the constants of a filter. */
static void try_constants(const struct blob *both, const struct blob *joined)
{
    const struct sock_filter *f = (const void *)joined->data;
    size_t count = joined->len / sizeof *f;
    struct seccomp_data call = { .arch = seccomp_arch_native() };
    uint64_t seed = 1;

    for (size_t i = 0; i < 200000; i++) {
        for (size_t arg = 0; arg < 6; arg++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            call.args[arg] = f[(seed >> 33) % count].k + (seed >> 60) % 3 - 1;
            if ((seed >> 50) % 4 == 0)
                call.args[arg] |= HIGH;
        }
        call.nr = (int)((seed >> 20) % 600);
        assert_int_equal(verdict(joined, &call), verdict_of_both(both, &call));
    }
}

static void a_joined_filter_says_what_both_said(void **state)
{
    static const char *const names[] = { "default", "nonet", "debug", "strict" };

    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        auto_json json_t *profile = read_profile(names[n]);
        struct blob both[PROFILE_FILTERS] = { 0 }, joined[PROFILE_FILTERS] = { 0 };

        compile_twice(profile, both, joined);
        assert_int_equal(joined[0].len, both[0].len + both[1].len);
        assert_int_equal(joined[1].len, 0);
        assert_true(compare(json_object_get(profile, "rules"), both, joined) > 10000);
        try_constants(both, &joined[0]);
        blobs_done(both);
        blobs_done(joined);
    }
}

#define WORDS 16 /* of a struct seccomp_data */
#define TRIES 512
#define MOST  20000 /* combinations for one call */

/* What a filter can ask about one call, and the answers worth trying. */
struct asked {
    uint32_t tries[WORDS][TRIES];
    size_t count[WORDS];
    uint32_t seen[BPF_MAXINSNS][WORDS], turn;
    struct seccomp_data call;
};

/* The accumulator: a word of the call, under a mask. */
struct word {
    uint32_t at, mask;
};

static uint32_t *word_of(struct asked *a, uint32_t at)
{
    return (uint32_t *)(void *)&a->call + at;
}

static void add_try(struct asked *a, uint32_t at, uint32_t value)
{
    for (size_t i = 0; i < a->count[at]; i++)
        if (a->tries[at][i] == value)
            return;
    assert_true(a->count[at] < TRIES);
    a->tries[at][a->count[at]++] = value;
}

/* On, beside and, for bits that are not looked at, far from the constant. */
static void add_tries(struct asked *a, struct word w, uint32_t k)
{
    const uint32_t all[] = {
        0, UINT32_MAX, k - 1, k, k + 1, k | ~w.mask, k ^ 1u << 31
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        add_try(a, w.at, all[i]);
}

/* All that PROGRAM asks about this call's arguments, whatever they are: both ways are
 * gone where it depends on them. */
static void gather(struct asked *a, const struct blob *program, size_t at,
                   struct word w)
{
    const struct sock_filter *f = (const struct sock_filter *)program->data + at;

    assert_true(at < program->len / sizeof *f);
    if (a->seen[at][w.at] == a->turn || BPF_CLASS(f->code) == BPF_RET)
        return;
    a->seen[at][w.at] = a->turn;
    if (BPF_CLASS(f->code) == BPF_LD)
        gather(a, program, at + 1, (struct word){ f->k / 4, UINT32_MAX });
    else if (BPF_CLASS(f->code) == BPF_ALU)
        gather(a, program, at + 1, (struct word){ w.at, w.mask & f->k });
    else if (BPF_OP(f->code) == BPF_JA)
        gather(a, program, at + 1 + f->k, w);
    else if (w.at < 2) { /* the number, or the architecture: known, and never masked */
        uint32_t value = *word_of(a, w.at);
        bool met = BPF_OP(f->code) == BPF_JEQ   ? value == f->k
                   : BPF_OP(f->code) == BPF_JGE ? value >= f->k
                                                : value > f->k;

        assert_true(w.mask == UINT32_MAX && BPF_OP(f->code) != BPF_JSET);
        gather(a, program, at + 1 + (met ? f->jt : f->jf), w);
    } else {
        add_tries(a, w, f->k);
        gather(a, program, at + 1 + f->jt, w);
        gather(a, program, at + 1 + f->jf, w);
    }
}

/* Every combination of tries, or some of them where there are too many. */
static size_t try_call_with(struct asked *a, const struct blob *both,
                            const struct blob *joined)
{
    uint64_t total = 1, seed = 1;
    size_t tried = 0;

    for (uint32_t at = 2; at < WORDS; at++)
        total = total > MOST || !a->count[at] ? total : total * a->count[at];
    for (; tried < total && tried < MOST; tried++) {
        uint64_t rest = tried;

        for (uint32_t at = 2; at < WORDS; at++) {
            size_t count = a->count[at] ? a->count[at] : 1;

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            *word_of(a, at) = a->tries[at][(total > MOST ? seed >> 33 : rest) % count];
            rest /= count;
        }
        assert_int_equal(verdict(joined, &a->call), verdict_of_both(both, &a->call));
    }
    return tried;
}

static size_t try_number(struct asked *a, uint32_t arch, uint32_t number,
                         const struct blob *both, const struct blob *joined)
{
    const struct word start = { 1, UINT32_MAX };

    memset(a->count, 0, sizeof a->count);
    a->call = (struct seccomp_data){ .nr = (int)number, .arch = arch };
    for (size_t i = 0; i < PROFILE_FILTERS; i++) {
        a->turn++;
        gather(a, &both[i], 0, start);
    }
    a->turn++;
    gather(a, joined, 0, start);
    return try_call_with(a, both, joined);
}

/* Two neighbours that neither filter has a constant between are one to both. */
static size_t try_numbers(struct asked *a, const struct blob *both,
                          const struct blob *joined)
{
    static const uint32_t arches[] = { SCMP_ARCH_X86_64, SCMP_ARCH_X86,
                                       SCMP_ARCH_AARCH64, SCMP_ARCH_ARM, 0 };
    const struct sock_filter *f = (const void *)joined->data;
    size_t tried = 0;

    for (size_t i = 0; i < joined->len / sizeof *f; i++) {
        if (BPF_CLASS(f[i].code) != BPF_JMP)
            continue;
        for (uint32_t k = f[i].k - 1; k != f[i].k + 2; k++)
            tried += try_number(a, arches[0], k, both, joined);
        for (size_t n = 1; n < sizeof arches / sizeof *arches; n++)
            tried += try_number(a, arches[n], f[i].k, both, joined);
    }
    return tried;
}

/* Calls of all numbers there are, and with all arguments that could make a difference:
 * what both filters said, one after the other, the joined one says. */
static void no_call_is_told_apart_by_a_joined_filter(void **state)
{
    static const char *const names[] = { "default", "nonet", "debug", "strict" };
    struct asked *a = calloc(1, sizeof *a);

    (void)state;
    assert_non_null(a);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        auto_json json_t *profile = read_profile(names[n]);
        struct blob both[PROFILE_FILTERS] = { 0 }, joined[PROFILE_FILTERS] = { 0 };

        compile_twice(profile, both, joined);
        assert_true(try_numbers(a, both, &joined[0]) > 1000);
        blobs_done(both);
        blobs_done(joined);
    }
    free(a);
}

static void filters_are_not_joined_when_the_first_kills(void **state)
{
    auto_json json_t *profile =
        json_pack("{ss ss s[{ss ss} {ss ss} {ss ss s[s]}]}", "summary", "", "default",
                  "EPERM", "rules", "call", "read", "action", "allow", "call", "ptrace",
                  "action", "kill", "call", "read", "action", "EPERM", "args", "0=7");
    struct blob both[PROFILE_FILTERS] = { 0 }, joined[PROFILE_FILTERS] = { 0 };

    (void)state;
    assert_non_null(profile);
    compile_twice(profile, both, joined);
    assert_int_equal(joined[0].len, both[0].len);
    assert_int_equal(joined[1].len, both[1].len);
    blobs_done(both);
    blobs_done(joined);
}

static void foreign_architectures_are_killed(void **state)
{
    (void)state;
#ifdef __x86_64__
    int status = run_child("default", call_i386, NULL);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    status = run_child("default", call_x32, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
#else
    skip();
#endif
}

#ifdef __x86_64__
    #define OTHER_ARCH  "arm64"
    #define OTHER_TOKEN SCMP_ARCH_AARCH64
    #define OTHER_AUDIT AUDIT_ARCH_AARCH64
    #define OWN_AUDIT   AUDIT_ARCH_X86_64
#else
    #define OTHER_ARCH  "amd64"
    #define OTHER_TOKEN SCMP_ARCH_X86_64
    #define OTHER_AUDIT AUDIT_ARCH_X86_64
    #define OWN_AUDIT   AUDIT_ARCH_AARCH64
#endif

/* How many calls of the other machine PROFILE's first filter for it allows, as it
 * should. */
static int allowed_there(json_t *profile, const struct blob *filter)
{
    json_t *rule = NULL;
    size_t i = 0;
    int count = 0;

    json_array_foreach(json_object_get(profile, "rules"), i, rule)
    {
        const char *name = json_string_value(json_object_get(rule, "call"));
        int number = seccomp_syscall_resolve_name_arch(OTHER_TOKEN, name);
        struct seccomp_data call = { .nr = number, .arch = OTHER_AUDIT };

        if (number < 0 || json_object_get(rule, "args") ||
            strcmp(json_string_value(json_object_get(rule, "action")), "allow") != 0)
            continue;
        if (verdict(filter, &call) != SECCOMP_RET_ALLOW)
            fail_msg("'%s' is refused on the other architecture", name);
        call.arch = OWN_AUDIT;
        assert_int_equal(verdict(filter, &call), SECCOMP_RET_KILL_PROCESS);
        count++;
    }
    return count;
}

static void a_profile_holds_on_the_other_architecture_too(void **state)
{
    static const char *const names[] = { "default", "nonet", "debug", "strict" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        auto_json json_t *profile = read_profile(names[i]);
        struct blob filters[PROFILE_FILTERS] = { 0 };
        struct vial_error err = { 0 };
        struct seccomp_data reboot = { .nr = seccomp_syscall_resolve_name_arch(
                                           OTHER_TOKEN, "reboot"),
                                       .arch = OTHER_AUDIT };

        if (profile_compile(profile, OTHER_ARCH, filters, &err) < 0)
            fail_msg("%s", check_text(&err));
        assert_true(allowed_there(profile, &filters[0]) > 50);
        assert_int_not_equal(verdict(&filters[0], &reboot), SECCOMP_RET_ALLOW);
        blobs_done(filters);
        assert_int_equal(profile_compile(profile, "vax", filters, &err), -1);
    }
}

static void a_profile_that_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *profile, *error;
    } cases[] = {
        { "{\"default\":\"allow\",\"rules\":[]}",
          "VIAL-YAML seccomp default 'allow' is no refusal" },
        { "{\"default\":\"EPERM\",\"rules\":[{\"call\":\"read\",\"action\":\"EWHAT\"}]}",
          "VIAL-YAML seccomp rule for 'read' is not understood" },
        { "{\"default\":\"EPERM\",\"rules\":[{\"call\":\"read\",\"action\":\"allow\","
          "\"args\":[\"7=1\"]}]}",
          "VIAL-YAML seccomp rule for 'read': condition '7=1'" },
        { "{\"default\":\"EPERM\",\"rules\":[{\"call\":\"read\",\"action\":\"allow\","
          "\"args\":[\"0&1=2\"]}]}",
          "VIAL-YAML seccomp rule for 'read': condition '0&1=2'" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_json json_t *profile = json_loads(cases[i].profile, 0, NULL);
        struct blob filters[PROFILE_FILTERS] = { 0 };
        struct vial_error err = { 0 };

        assert_non_null(profile);
        assert_int_equal(profile_compile(profile, NULL, filters, &err), -1);
        assert_error(&err, cases[i].error);
    }
}

static void a_name_cannot_be_a_path(void **state)
{
    (void)state;
    assert_true(profile_name_ok("default"));
    assert_false(profile_name_ok("../default"));
    assert_false(profile_name_ok(""));
    assert_false(profile_name_ok("Default"));
    assert_false(profile_name_ok("a23456789012345678901234567890123"));
}

static void a_summary_counts_what_is_allowed(void **state)
{
    auto_json json_t *profile = read_profile("default");
    auto_json json_t *summary = profile_summary(profile);

    (void)state;
    assert_string_equal(json_string_value(json_object_get(summary, "default")),
                        "ENOSYS");
    assert_true(json_integer_value(json_object_get(summary, "allowed")) > 200);
    assert_true(json_array_size(json_object_get(summary, "conditions")) > 40);
}

static struct blob custom_of(const char *text)
{
    struct vial_error err = { 0 };
    struct blob in = { 0 };
    struct blob out = { 0 };
    size_t rules = 0;

    assert_int_equal(blob_set(&in, text, strlen(text)), 0);
    if (custom_compile(&in, "x.json", &out, &rules, &err) < 0)
        fail_msg("%s", check_text(&err));
    blob_done(&in);
    return out;
}

#define WHEN                                                                           \
    "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": ["                          \
    "{\"names\": [\"mkdirat\"], \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 13},"    \
    "{\"names\": [\"unlinkat\"], \"action\": \"SCMP_ACT_ERRNO\", %s}]}"

/* What a rule is made conditional on, and whether it counts. */
static void a_rule_counts_where_its_conditions_hold(void **state)
{
    static const struct {
        const char *condition;
        bool counts;
    } cases[] = {
        { "\"comment\": \"\"", true },
        { "\"includes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}", false },
        { "\"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}", true },
        { "\"includes\": {\"minKernel\": \"3.2\"}", true },
        { "\"includes\": {\"minKernel\": \"999.0\"}", false },
        { "\"excludes\": {\"minKernel\": \"3.2\"}", false },
        { "\"includes\": {\"arches\": [\"amd64\", \"arm64\"]}", true },
        { "\"includes\": {\"arches\": [\"s390x\"]}", false },
        { "\"excludes\": {\"arches\": [\"amd64\", \"arm64\"]}", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct blob filter;

        (void)snprintf(text, sizeof text, WHEN, cases[i].condition);
        filter = custom_of(text);
        assert_int_equal(custom_verdict(&filter, SYS_mkdirat),
                         SECCOMP_RET_ERRNO | EACCES);
        assert_int_equal(custom_verdict(&filter, SYS_unlinkat),
                         cases[i].counts ? SECCOMP_RET_ERRNO | EPERM
                                         : SECCOMP_RET_ALLOW);
        blob_done(&filter);
    }
}

/* covers: C-07 */
static void a_custom_profile_only_takes_away(void **state)
{
    auto_json json_t *profile = read_profile("default");
    struct blob own[PROFILE_FILTERS] = { 0 };
    struct vial_error err = { 0 };
    struct blob custom =
        custom_of("{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\"name\": "
                  "\"mkdirat\", \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 13}]}");

    (void)state;
    assert_int_equal(profile_compile(profile, NULL, own, &err), 0);
    assert_int_equal(custom_verdict(&own[0], SYS_mkdirat), SECCOMP_RET_ALLOW);
    assert_int_equal(custom_put(&own[0], &custom, &err), 0);
    assert_int_equal(custom_verdict(&own[0], SYS_mkdirat), SECCOMP_RET_ERRNO | EACCES);
    assert_int_equal(custom_verdict(&own[0], SYS_unlinkat), SECCOMP_RET_ALLOW);
    assert_int_equal(custom_verdict(&own[0], SYS_mount), SECCOMP_RET_ERRNO | EPERM);
    blob_done(&custom);
    blob_done(&own[0]);
    blob_done(&own[1]);
}

/* Whoever made it: nothing leads past the filter that stands behind. */
static void a_filter_that_could_lead_past_the_vessels_own_is_refused(void **state)
{
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_filter hostile[][2] = {
        { BPF_STMT(BPF_JMP | BPF_JA, 1), allow },
        { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), allow },
        { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 200), allow },
        { BPF_STMT(BPF_RET | BPF_A, 0), allow },
        { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0), allow }, /* "it is done" */
        { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE), allow },
        { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_LOG), allow },
        { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), allow },
        { allow, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) },
        { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4096), allow },
    };
    struct blob filter = { .data = (char *)(uintptr_t)&allow, .len = sizeof allow };

    (void)state;
    assert_true(custom_check(&filter));
    filter.len = 0;
    assert_false(custom_check(&filter));
    filter.len = sizeof allow - 1;
    assert_false(custom_check(&filter));
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        filter = (struct blob){ (char *)(uintptr_t)hostile[i], sizeof hostile[i] };
        assert_false(custom_check(&filter));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_of_every_profile_holds),
        cmocka_unit_test(only_listed_sockets_open),
        cmocka_unit_test(only_ones_own_limits_can_be_set),
        cmocka_unit_test(socket_buffers_keep_their_size),
        cmocka_unit_test(asynchronous_disk_calls_look_absent),
        cmocka_unit_test(a_joined_filter_says_what_both_said),
        cmocka_unit_test(filters_are_not_joined_when_the_first_kills),
        cmocka_unit_test(no_call_is_told_apart_by_a_joined_filter),
        cmocka_unit_test(foreign_architectures_are_killed),
        cmocka_unit_test(a_profile_holds_on_the_other_architecture_too),
        cmocka_unit_test(a_profile_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_name_cannot_be_a_path),
        cmocka_unit_test(a_summary_counts_what_is_allowed),
        cmocka_unit_test(a_rule_counts_where_its_conditions_hold),
        cmocka_unit_test(a_custom_profile_only_takes_away),
        cmocka_unit_test(a_filter_that_could_lead_past_the_vessels_own_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
