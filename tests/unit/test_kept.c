/* SPDX-License-Identifier: Apache-2.0 */

/* Plans, rules and answers in bytes: what one side writes the other reads, and what
 * nobody wrote is refused. */

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "check.h"
#include "keeper/talk/codec.h"
#include "keeper/talk/report.h"
#include "keeper/talk/rules.h"
#include "keeper/talk/talk.h"

#define ROUNDS 500

/* Deterministic: a failure can be repeated. */
struct dice {
    uint64_t state;
};

static uint64_t roll(struct dice *d, uint64_t below)
{
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below ? (d->state >> 33) % below : 0;
}

static char *word(struct dice *d, size_t most)
{
    size_t len = 1 + (size_t)roll(d, most);
    char *text = malloc(len + 1);

    for (size_t i = 0; i < len; i++)
        text[i] = (char)(1 + roll(d, 255));
    text[len] = '\0';
    return text;
}

static char *maybe(struct dice *d, size_t most)
{
    return roll(d, 2) ? word(d, most) : NULL;
}

static void random_container(struct dice *d, struct plan_container *c)
{
    c->network_name = maybe(d, 30);
    c->runtime = maybe(d, 30);
    c->prefix = maybe(d, 30);
    c->uid = (unsigned)roll(d, 100000);
    c->gid = (unsigned)roll(d, 100000);
    c->nproc = roll(d, 2);
    c->open_ms = (int64_t)roll(d, 100000);
    c->retries = (int64_t)roll(d, 20);
    c->retry_ms = (int64_t)roll(d, 1000);
    if (roll(d, 2))
        strv_push(&c->dns, "1.2.3.4");
    c->port_count = (size_t)roll(d, 3);
    c->ports = calloc(c->port_count + 1, sizeof(*c->ports));
    for (size_t i = 0; i < c->port_count; i++)
        c->ports[i] = (struct plan_port){ .address = word(d, 20),
                                          .host = (unsigned)roll(d, 65536),
                                          .inside = (unsigned)roll(d, 65536),
                                          .udp = roll(d, 2) };
    c->cache_count = (size_t)roll(d, 3);
    c->caches = calloc(c->cache_count + 1, sizeof(*c->caches));
    for (size_t i = 0; i < c->cache_count; i++)
        c->caches[i] =
            (struct plan_cache){ .volume = word(d, 40), .target = word(d, 200) };
}

static struct plan *random_plan(struct dice *d)
{
    struct plan *p = calloc(1, sizeof(*p));

    (void)snprintf(p->id, sizeof(p->id), "r-%llx",
                   (unsigned long long)roll(d, 1u << 30));
    p->driver = word(d, 20);
    p->workdir = word(d, 400);
    p->hostname = word(d, 60);
    p->seccomp = word(d, 30);
    p->language = maybe(d, 30);
    p->image = maybe(d, 200);
    p->rootfs = maybe(d, 400);
    p->label_session = maybe(d, 60);
    p->label_task = maybe(d, 60);
    p->correlation = maybe(d, 60);
    p->network = roll(d, 2) ? NETWORK_BRIDGE : NETWORK_NONE;
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        *limits_at(&p->limits, &limit_rows[i]) =
            (int64_t)roll(d, UINT64_C(1) << 31) + (limit_rows[i].needed ? 1 : 0);
    for (uint64_t n = roll(d, 5); n > 0; n--) {
        char *text = word(d, 40);

        strv_push(&p->require, text);
        free(text);
    }
    p->mount_count = (size_t)roll(d, 6);
    p->mounts = calloc(p->mount_count + 1, sizeof(*p->mounts));
    for (size_t i = 0; i < p->mount_count; i++)
        p->mounts[i] = (struct plan_mount){ .source = word(d, 300),
                                            .target = word(d, 300),
                                            .writable = roll(d, 2),
                                            .is_dir = roll(d, 2),
                                            .dev = roll(d, UINT64_MAX),
                                            .ino = roll(d, UINT64_MAX) };
    for (size_t i = 0; i < p->mount_count; i += 2) {
        char *text = word(d, 1000);

        strv_push(&p->mounts[i].hidden, text);
        free(text);
    }
    random_container(d, &p->container);
    return p;
}

static struct pack packed(const struct plan *plan)
{
    struct pack p = { 0 };

    plan_pack(&p, plan);
    assert_false(p.bad);
    return p;
}

/* What comes out, written again, is the same bytes: so nothing was lost. */
static void any_plan_survives_the_journey(void **state)
{
    struct dice d = { 7 };

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct plan *plan = random_plan(&d);
        struct plan *back = NULL;
        struct pack p = packed(plan);
        struct unpack u = { .data = p.data, .len = p.len };
        struct pack again;

        assert_int_equal(plan_unpack(&u, &back, NULL), 0);
        again = packed(back);
        assert_int_equal(again.len, p.len);
        assert_memory_equal(again.data, p.data, p.len);
        assert_string_equal(back->id, plan->id);
        assert_int_equal(back->limits.memory_bytes, plan->limits.memory_bytes);
        assert_int_equal(back->mount_count, plan->mount_count);
        pack_done(&p);
        pack_done(&again);
        plan_free(plan);
        plan_free(back);
    }
}

static int read_bytes(const uint8_t *data, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1); /* so that an overrun is seen */
    struct unpack u = { .data = exact, .len = len };
    struct plan *plan = NULL;
    struct vial_error err = { 0 };
    int rc;

    memcpy(exact, data, len);
    rc = plan_unpack(&u, &plan, &err);
    if (rc < 0)
        assert_string_equal(err.code, "VIAL-VALUE");
    plan_free(plan);
    free(exact);
    return rc;
}

static void a_plan_cut_short_is_refused(void **state)
{
    struct dice d = { 11 };
    struct plan *plan = random_plan(&d);
    struct pack p = packed(plan);

    (void)state;
    for (size_t len = 0; len < p.len; len++)
        assert_int_equal(read_bytes(p.data, len), -1);
    assert_int_equal(read_bytes(p.data, p.len), 0);
    pack_raw(&p, "", 1);
    assert_int_equal(read_bytes(p.data, p.len), -1); /* nor one with more behind it */
    pack_done(&p);
    plan_free(plan);
}

/* A changed byte gives a plan or a refusal; the sanitizers watch. */
static void changed_bytes_do_no_harm(void **state)
{
    struct dice d = { 13 };

    (void)state;
    for (int i = 0; i < ROUNDS * 4; i++) {
        struct plan *plan = random_plan(&d);
        struct pack p = packed(plan);

        for (uint64_t n = 1 + roll(&d, 4); n > 0; n--)
            p.data[roll(&d, p.len)] = (uint8_t)roll(&d, 256);
        (void)read_bytes(p.data, p.len);
        pack_done(&p);
        plan_free(plan);
    }
}

static int read_plan(const struct plan *plan)
{
    struct pack p = packed(plan);
    int rc = read_bytes(p.data, p.len);

    pack_done(&p);
    return rc;
}

static void numbers_beyond_their_sense_are_refused(void **state)
{
    struct dice d = { 17 };
    struct plan *plan = random_plan(&d);

    (void)state;
    assert_int_equal(read_plan(plan), 0);
    plan->limits.memory_bytes = -1;
    assert_int_equal(read_plan(plan), -1);
    plan->limits.memory_bytes = 1;
    plan->limits.wall_ms = 0; /* a plan always has one */
    assert_int_equal(read_plan(plan), -1);
    plan->limits.wall_ms = 1;
    plan->network = (enum plan_network)(NETWORK_GATE + 1);
    assert_int_equal(read_plan(plan), -1);
    plan->network = NETWORK_NONE;
    free(plan->workdir);
    plan->workdir = calloc(1, 5000);
    memset(plan->workdir, 'x', 4500);
    assert_int_equal(read_plan(plan), -1);
    plan->workdir[0] = '\0'; /* needed, and empty */
    assert_int_equal(read_plan(plan), -1);
    plan_free(plan);
}

static void more_mounts_than_a_vessel_takes_are_refused(void **state)
{
    struct dice d = { 19 };
    struct plan *plan = random_plan(&d);

    (void)state;
    for (size_t i = 0; i < plan->mount_count; i++) {
        free(plan->mounts[i].source);
        free(plan->mounts[i].target);
        strv_done(&plan->mounts[i].hidden);
    }
    free(plan->mounts);
    plan->mount_count = CODEC_MOUNTS + 1;
    plan->mounts = calloc(plan->mount_count, sizeof(*plan->mounts));
    for (size_t i = 0; i < plan->mount_count; i++) {
        plan->mounts[i].source = word(&d, 10);
        plan->mounts[i].target = word(&d, 10);
    }
    assert_int_equal(read_plan(plan), -1);
    plan_free(plan);
}

/* What runs inside is the guest's business alone. */
static void code_and_secrets_do_not_reach_the_keeper(void **state)
{
    struct dice d = { 23 };
    struct plan *plan = random_plan(&d);
    struct pack p;

    (void)state;
    strv_push(&plan->env, "TOKEN=hunter2hunter2");
    strv_push(&plan->argv, "hunter2hunter2");
    assert_int_equal(blob_set(&plan->code, "hunter2hunter2", 14), 0);
    assert_int_equal(blob_set(&plan->stdin_data, "hunter2hunter2", 14), 0);
    p = packed(plan);
    assert_null(memmem(p.data, p.len, "hunter2", 7));
    pack_done(&p);
    plan_free(plan);
}

/* Whoever adds a member to a plan decides whether it travels: see codec.c. */
static void the_codec_knows_the_plan_as_it_is(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct plan), PLAN_SIZE);
    assert_int_equal(sizeof(struct plan_mount), PLAN_MOUNT_SIZE);
}

static void counters_survive_the_journey(void **state)
{
    const struct vessel_usage usage = {
        .counted = true,
        .usage = { .cpu_user_ms = 1.5, .memory_peak_bytes = 77, .disk_peak_bytes = 9 },
        .oom_kills = 3,
        .memory_bytes = 5
    };
    struct vessel_usage back;
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    usage_pack(&p, &usage);
    u = (struct unpack){ .data = p.data, .len = p.len };
    assert_int_equal(usage_unpack(&u, &back), 0);
    assert_true(back.counted && !back.net_counted);
    assert_true(back.usage.cpu_user_ms > 1.49 && back.usage.cpu_user_ms < 1.51);
    assert_int_equal(back.usage.memory_peak_bytes, 77);
    assert_int_equal(back.usage.disk_peak_bytes, 9);
    assert_int_equal(back.oom_kills, 3);
    assert_int_equal(back.memory_bytes, 5);
    pack_done(&p);
}

static void an_error_is_told_as_it_was(void **state)
{
    struct vial_error err = { 0 };
    struct vial_error back = { 0 };
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    (void)fail(&err, VIAL_E_CAP, "too much of '%s'", "it");
    (void)fail_remedy(&err, "less");
    err.sys = EPERM;
    talk_write_error(&p, &err);
    u = (struct unpack){ .data = p.data, .len = p.len };
    assert_int_equal(unpack_u32(&u), TALK_BAD);
    talk_read_error(&u, &back);
    assert_error(&back, "VIAL-CAP too much of 'it'");
    assert_string_equal(back.remedy, "less");
    assert_int_equal(back.sys, EPERM);
    pack_done(&p);
}

static void an_error_that_is_none_is_the_keepers_fault(void **state)
{
    struct vial_error err = { .code = "NO-SUCH-CODE" };
    struct vial_error back = { 0 };
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    talk_write_error(&p, &err);
    u = (struct unpack){ .data = p.data, .len = p.len };
    (void)unpack_u32(&u);
    talk_read_error(&u, &back);
    assert_string_equal(back.code, "VIAL-KEEPER");
    pack_done(&p);
}

static void too_many_descriptors_are_closed_and_refused(void **state)
{
    struct pack p = { 0 };
    struct talk_fds fds = { .count = 0 };
    uint8_t buf[64];
    int ends[2];
    int most[TALK_FDS + 1];
    int probe;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    for (size_t i = 0; i <= TALK_FDS; i++)
        most[i] = ends[0];
    pack_u32(&p, TALK_PING);
    assert_int_equal(talk_send(ends[0], &p, most, TALK_FDS), 0);
    assert_int_equal(talk_receive(ends[1], buf, sizeof(buf), NULL), -EMSGSIZE);
    probe = dup(0); /* the lowest free one: as before, if all were closed */
    assert_int_equal(probe, ends[1] > ends[0] ? ends[1] + 1 : ends[0] + 1);
    (void)close(probe);
    assert_int_equal(talk_send(ends[0], &p, most, TALK_FDS), 0);
    assert_int_equal(talk_receive(ends[1], buf, sizeof(buf), &fds), 4);
    assert_int_equal(fds.count, TALK_FDS);
    talk_fds_done(&fds);
    assert_int_equal(talk_send(ends[0], &p, most, TALK_FDS + 1), -EMSGSIZE);
    pack_done(&p);
    (void)close(ends[0]);
    assert_int_equal(talk_receive(ends[1], buf, sizeof(buf), &fds), 0);
    (void)close(ends[1]);
}

static void rules_survive_the_journey(void **state)
{
    static char share[] = "/usr/lib/vial";
    static const char *const imports[] = { "numpy", NULL };
    struct settings settings = { .share_dir = share };
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const char *const sockets[] = { "/nonexistent/socket", at.sun_path, NULL };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct rules rules;
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    assert_int_equal(policy_init(&settings.policy, NULL), 0);
    settings.policy.max_memory = 12345678;
    settings.policy.set = UINT64_C(1) << POLICY_ID_mount_roots;
    strv_push(&settings.policy.mount_roots, "/srv/work");
    assert_true(fd >= 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/vial-rules-%d",
                   (int)getpid());
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    rules_pack(&p, &settings, 7, imports, sockets);
    for (size_t len = 0; len < p.len; len++) {
        u = (struct unpack){ .data = p.data, .len = len };
        assert_int_equal(rules_unpack(&u, &rules), -1);
    }
    u = (struct unpack){ .data = p.data, .len = p.len };
    assert_int_equal(rules_unpack(&u, &rules), 0);
    assert_int_equal(rules.vessels, 7);
    assert_string_equal(rules.imports.items[0], "numpy");
    assert_int_equal(rules.settings.policy.max_memory, 12345678);
    assert_int_equal(rules.settings.policy.max_pids, settings.policy.max_pids);
    assert_int_equal(rules.settings.policy.set, settings.policy.set);
    assert_string_equal(rules.settings.policy.mount_roots.items[0], "/srv/work");
    assert_string_equal(rules.settings.share_dir, share);
    assert_int_equal(rules.socket_count, 1);
    rules_remove_sockets(&rules);
    assert_int_equal(access(at.sun_path, F_OK), -1);
    (void)close(fd);
    rules_done(&rules);
    pack_done(&p);
    policy_done(&settings.policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_plan_survives_the_journey),
        cmocka_unit_test(a_plan_cut_short_is_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(numbers_beyond_their_sense_are_refused),
        cmocka_unit_test(more_mounts_than_a_vessel_takes_are_refused),
        cmocka_unit_test(code_and_secrets_do_not_reach_the_keeper),
        cmocka_unit_test(the_codec_knows_the_plan_as_it_is),
        cmocka_unit_test(counters_survive_the_journey),
        cmocka_unit_test(an_error_is_told_as_it_was),
        cmocka_unit_test(an_error_that_is_none_is_the_keepers_fault),
        cmocka_unit_test(too_many_descriptors_are_closed_and_refused),
        cmocka_unit_test(rules_survive_the_journey),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
