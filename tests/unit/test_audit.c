/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/json.h"
#include "check.h"
#include "engine/session/session.h"

#include "vial/vial.h"

struct place {
    char dir[64], path[96];
};

static int make_place(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/vial-audit-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(p->path, sizeof(p->path), "%s/log", p->dir);
    *state = p;
    return 0;
}

static int remove_place(void **state)
{
    static const char *const endings[] = { "", ".head", ".000001", ".000002",
                                           ".000003" };
    struct place *p = *state;

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        char name[128];

        (void)snprintf(name, sizeof(name), "%s%s", p->path, endings[i]);
        (void)unlink(name);
    }
    (void)rmdir(p->dir);
    free(p);
    return 0;
}

static void redacts(const char *text, const char *want)
{
    auto_str struct str out = { 0 };

    audit_redact(&out, text, strlen(text));
    assert_true(str_ok(&out));
    assert_string_equal(out.data, want);
}

static void secrets_are_replaced_and_all_else_stays(void **state)
{
    (void)state;
    redacts("PASSWORD=abc rest", "PASSWORD=[redacted] rest");
    redacts("{\"apiKey\": \"abc\"}", "{\"apiKey\": \"[redacted]\"}");
    redacts("--token abc --verbose", "--token [redacted] --verbose");
    redacts("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer [redacted]");
    redacts("x ghp_0123456789012345678901234567890123 y", "x [redacted] y");
    redacts("git clone https://me:pw@host/x", "git clone https://me:[redacted]@host/x");
    redacts("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
            "[redacted]-----END RSA PRIVATE KEY-----");
    redacts("-----BEGIN RSA PRIVATE KEY-----\nabc", "[redacted]");
    redacts("print('hello'); x = a[1:2]", "print('hello'); x = a[1:2]");
    redacts("http://host:80/path@x", "http://host:80/path@x");
    redacts("the token", "the token");
    redacts("sk-", "sk-");
}

static void append(struct audit *a, const char *word)
{
    auto_json json_t *record = json_pack("{s:s, s:s}", "event", "test", "word", word);
    struct vial_error err = { 0 };

    if (audit_append(a, record, &err) < 0)
        fail_msg("%s: %s", err.message, err.cause);
}

static struct audit *opened(const struct place *p, uint64_t rotate, unsigned keep)
{
    const struct audit_options o = { .path = p->path,
                                     .rotate_bytes = rotate,
                                     .keep_files = keep };
    struct vial_error err = { 0 };
    struct audit *a = NULL;

    if (audit_open(&o, &a, &err) < 0)
        fail_msg("%s: %s", err.message, err.cause);
    return a;
}

static void *append_many(void *context)
{
    for (int i = 0; i < 50; i++)
        append(context, "thread");
    return NULL;
}

static void threads_and_openers_share_one_chain(void **state)
{
    struct place *p = *state;
    auto_audit struct audit *a = opened(p, 0, 0);
    auto_audit struct audit *b = opened(p, 0, 0);
    struct audit_report report;
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, i % 2 ? a : b),
                         0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(audit_verify(p->path, NULL, &report, NULL), 0);
    assert_true(report.whole);
    assert_int_equal(report.records, 200);
}

static void only_as_many_older_files_stay_as_were_asked_for(void **state)
{
    struct place *p = *state;
    auto_audit struct audit *a = opened(p, 500, 2);
    struct audit_report report;
    char oldest[128];

    for (int i = 0; i < 16; i++)
        append(a, "0123456789012345678901234567890123456789");
    (void)snprintf(oldest, sizeof(oldest), "%s.000001", p->path);
    assert_int_equal(access(oldest, F_OK), -1);
    assert_int_equal(audit_verify(p->path, NULL, &report, NULL), 0);
    if (!report.whole)
        fail_msg("%s", report.problem);
    assert_true(report.first > 1);
    assert_int_equal(report.files, 3);
    for (unsigned i = 2; i < 20; i++) { /* what remove_place does not know */
        (void)snprintf(oldest, sizeof(oldest), "%s.%06u", p->path, i);
        (void)unlink(oldest);
    }
}

static void a_link_in_its_place_is_not_followed(void **state)
{
    struct place *p = *state;
    const struct audit_options o = { .path = p->path };
    struct vial_error err = { 0 };
    struct audit *a = NULL;

    assert_int_equal(symlink("/dev/null", p->path), 0);
    assert_int_equal(audit_open(&o, &a, &err), -1);
    assert_string_equal(err.code, "VIAL-AUDIT");
}

static void a_record_too_long_is_refused_and_the_chain_goes_on(void **state)
{
    struct place *p = *state;
    auto_audit struct audit *a = opened(p, 0, 0);
    char *big = calloc(1, AUDIT_LINE_MAX + 1);
    auto_json json_t *record = NULL;
    struct vial_error err = { 0 };
    struct audit_report report;

    memset(big, 'x', AUDIT_LINE_MAX);
    record = json_pack("{s:s}", "big", big);
    free(big);
    assert_int_equal(audit_append(a, record, &err), -1);
    assert_string_equal(err.code, "VIAL-AUDIT");
    append(a, "small");
    assert_int_equal(audit_verify(p->path, NULL, &report, NULL), 0);
    assert_int_equal(report.records, 1);
}

struct seen {
    char events[512];
};

static int see(void *context, const char *line, size_t len)
{
    struct seen *s = context;
    auto_json json_t *record = json_loadb(line, len, 0, NULL);
    const char *event = json_string_value(json_object_get(record, "event"));
    size_t used = strlen(s->events);

    (void)snprintf(s->events + used, sizeof(s->events) - used, "%s%s", used ? " " : "",
                   event);
    return 0;
}

static void a_session_and_its_programs_are_recorded_with_their_ends(void **state)
{
    struct place *p = *state;
    const struct vial_engine_options options = { .audit = p->path };
    const char *const argv[] = { "sh", "-c", "exit 3", NULL };
    const struct vial_exec_options what = { .argv = argv };
    struct vial_engine *engine = NULL;
    struct vial_request *req = NULL;
    struct vial_session *session = NULL;
    struct vial_exec *exec = NULL;
    struct vial_exec_status status;
    struct seen seen = { 0 };
    struct vial_error err = { 0 };

    assert_int_equal(vial_engine_open(&options, &engine, &err), 0);
    assert_int_equal(vial_request_new(&req, &err), 0);
    assert_int_equal(vial_request_set(req, "driver", "process", &err), 0);
    assert_int_equal(vial_session_open(engine, req, NULL, &session, &err), 0);
    assert_int_equal(vial_session_exec(session, &what, &exec, &err), 0);
    vial_exec_wait(exec, -1, &status);
    assert_int_equal(status.exit_code, 3);
    vial_session_free(session);
    assert_int_equal(vial_request_set(req, "memory", "100g", &err), 0);
    assert_int_equal(vial_session_open(engine, req, NULL, &session, &err), -1);
    vial_request_free(req);
    vial_engine_close(engine);
    assert_int_equal(audit_read(p->path, see, &seen, &err), 0);
    assert_string_equal(seen.events, "session.begin exec.begin exec.end session.end "
                                     "session.refused");
}

static struct vial_session *open_session(struct vial_engine *engine)
{
    struct vial_request *req = NULL;
    struct vial_session *session = NULL;

    assert_int_equal(vial_request_new(&req, NULL), 0);
    assert_int_equal(vial_request_set(req, "driver", "process", NULL), 0);
    assert_int_equal(vial_session_open(engine, req, NULL, &session, NULL), 0);
    vial_request_free(req);
    return session;
}

/* One program cannot be sent, as all channels are taken; one is given back while it
 * runs. */
static void whatever_has_begun_has_an_end(void **state)
{
    struct place *p = *state;
    const struct vial_engine_options options = { .audit = p->path };
    const char *const argv[] = { "sleep", "1000", NULL };
    const struct vial_exec_options what = { .argv = argv };
    struct vial_engine *engine = NULL;
    struct vial_session *session;
    struct vial_exec *exec = NULL;
    struct seen seen = { 0 };
    struct vial_error err = { 0 };
    uint32_t channel;

    assert_int_equal(vial_engine_open(&options, &engine, &err), 0);
    session = open_session(engine);
    session_lock(session);
    while (link_list(session->talk.link, "", &channel, &err) == 0)
        ;
    assert_int_equal(exec_new(session, &what, false, &exec, &err), -1);
    session_unlock(session);
    assert_string_equal(err.code, "VIAL-GUEST");
    vial_session_free(session);
    session = open_session(engine);
    assert_int_equal(vial_session_exec(session, &what, &exec, &err), 0);
    vial_exec_free(exec);
    vial_session_free(session);
    vial_engine_close(engine);
    assert_int_equal(audit_read(p->path, see, &seen, &err), 0);
    assert_string_equal(seen.events, "session.begin exec.begin exec.end session.end "
                                     "session.begin exec.begin exec.end session.end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_replaced_and_all_else_stays),
        cmocka_unit_test_setup_teardown(threads_and_openers_share_one_chain, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(only_as_many_older_files_stay_as_were_asked_for,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_link_in_its_place_is_not_followed, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(
            a_record_too_long_is_refused_and_the_chain_goes_on, make_place,
            remove_place),
        cmocka_unit_test_setup_teardown(
            a_session_and_its_programs_are_recorded_with_their_ends, make_place,
            remove_place),
        cmocka_unit_test_setup_teardown(whatever_has_begun_has_an_end, make_place,
                                        remove_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
