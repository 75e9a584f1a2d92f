/* SPDX-License-Identifier: Apache-2.0 */

/* How an API server is asked again: patiently, and as somebody it knows. The server is
 * a socket pair in which its answer lies. */

#include <sys/socket.h>
#include <time.h>

#include "base/fail.h"
#include "driver/kubernetes/cluster_api.h"
#include "driver/kubernetes/kubernetes.h"
#include "driver/kubernetes/login.h"
#include "driver/kubernetes/own_pod.h"
#include "driver/kubernetes/retry_after.h"
#include "model_case.h"

#define CALLS 8

/* Answers each call with the next of its texts; what it then writes to the token's file
 * is what the next but one reads. */
struct server {
    const char *answers[CALLS];
    const char *tokens[CALLS]; /* or NULL: the file stays as it is */
    struct scratch *scratch;
    unsigned calls;
    int fds[CALLS];
    char seen[CALLS][1024];
};

static int serve(const void *context, int64_t timeout_ms, int cancel_fd,
                 struct vial_error *err)
{
    struct server *s = (struct server *)(uintptr_t)context;
    const char *answer = s->answers[s->calls];
    int ends[2];

    (void)timeout_ms;
    (void)cancel_fd;
    if (!answer)
        return fail(err, VIAL_E_ENGINE_DOWN, "connect to '/x'");
    if (s->tokens[s->calls])
        (void)scratch_write(s->scratch, "token", s->tokens[s->calls]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[1], answer, strlen(answer)), (ssize_t)strlen(answer));
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    s->fds[s->calls++] = ends[1];
    return ends[0];
}

static void finish(struct server *s)
{
    for (unsigned i = 0; i < s->calls; i++) {
        ssize_t n = read(s->fds[i], s->seen[i], sizeof(s->seen[i]) - 1);

        s->seen[i][n > 0 ? n : 0] = '\0';
        (void)close(s->fds[i]);
    }
}

static bool said(const struct server *s, unsigned call, const char *token)
{
    char line[128];

    (void)snprintf(line, sizeof(line), "Authorization: Bearer %s\r\n", token);
    return strstr(s->seen[call], line) != NULL;
}

static struct cluster_api api_on(struct server *s)
{
    return (struct cluster_api){ .transport = { .connect = serve, .context = s },
                                 .head = "k",
                                 .retries = 2,
                                 .retry_ms = 1 };
}

static const struct cluster_call call = { .method = "GET",
                                          .path = "/x",
                                          .about = "do it" };

#define OK_JSON "HTTP/1.1 200 OK\r\n\r\n{\"a\":1}"
#define UNKNOWN "HTTP/1.1 401 Unauthorized\r\n\r\n{\"message\":\"Unauthorized\"}"
#define BUSY    "HTTP/1.1 429 Too Many Requests\r\n\r\n"
#define DENIED  "HTTP/1.1 403 Forbidden\r\n\r\n{\"message\":\"no RBAC yet\"}"
#define NONE    "HTTP/1.1 404 Not Found\r\n\r\n{}"
#define SOON    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\n\r\n"
#define NEVER   "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\n\r\n"

static int ask(struct server *s, struct cluster_api *api, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    int rc = cluster_do(api, &call, &answer, err);

    finish(s);
    cluster_api_close(api);
    return rc;
}

static void use_token_file(struct cluster_api *api, struct scratch *s, const char *now)
{
    struct vial_error err = { 0 };

    api->cluster.token_file = strdup(scratch_write(s, "token", now));
    assert_int_equal(cluster_read_token(&api->cluster, &err), 0);
}

static void a_token_that_is_refused_is_read_again(void **state)
{
    struct server s = { .answers = { UNKNOWN, OK_JSON },
                        .tokens = { "second\n" },
                        .scratch = *state };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_token_file(&api, *state, "first\n");
    if (ask(&s, &api, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(s.calls, 2);
    assert_true(said(&s, 0, "first") && said(&s, 1, "second"));
}

static void a_token_that_is_the_same_is_not_tried_again(void **state)
{
    struct server s = { .answers = { UNKNOWN, OK_JSON } };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_token_file(&api, *state, "first\n");
    assert_int_equal(ask(&s, &api, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-ACCESS");
    assert_int_equal(s.calls, 1);
}

static void credentials_are_renewed_once_for_a_call(void **state)
{
    struct server s = { .answers = { UNKNOWN, UNKNOWN, OK_JSON },
                        .tokens = { "second\n", "third\n" },
                        .scratch = *state };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_token_file(&api, *state, "first\n");
    assert_int_equal(ask(&s, &api, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-ACCESS");
    assert_int_equal(s.calls, 2);
}

static void use_certificate(struct cluster_api *api, struct scratch *s)
{
    struct vial_error err = { 0 };

    api->cluster.cert_file = strdup(scratch_write(s, "token", "first\n"));
    api->cluster.key_file = strdup(scratch_write(s, "key", "a key\n"));
    assert_int_equal(cluster_read_certificate(&api->cluster, &err), 1);
    assert_int_equal(cluster_read_certificate(&api->cluster, &err), 0);
}

static void a_certificate_that_is_refused_is_read_again(void **state)
{
    struct server s = { .answers = { UNKNOWN, UNKNOWN, OK_JSON },
                        .tokens = { "second\n" },
                        .scratch = *state };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_certificate(&api, *state);
    assert_int_equal(cluster_do(&api, &call, NULL, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-ACCESS");
    assert_int_equal(s.calls, 2);
    assert_memory_equal(api.cluster.cert.data, "second\n", api.cluster.cert.len);
    assert_memory_equal(api.cluster.key.data, "a key\n", api.cluster.key.len);
    /* The same is not tried again. */
    s.answers[2] = UNKNOWN;
    s.answers[3] = OK_JSON;
    assert_int_equal(ask(&s, &api, &err), -1);
    assert_int_equal(s.calls, 3);
}

static void a_certificate_whose_key_has_gone_is_kept_whole(void **state)
{
    struct server s = { .answers = { NULL } };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_certificate(&api, *state);
    (void)scratch_write(*state, "token", "second\n");
    assert_int_equal(unlink(api.cluster.key_file), 0);
    assert_int_equal(cluster_read_certificate(&api.cluster, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-CONFIG");
    assert_memory_equal(api.cluster.cert.data, "first\n", api.cluster.cert.len);
    cluster_api_close(&api);
}

/* A plugin that gives one token after the other, and fails after the last. */
static void use_plugin(struct cluster_api *api, struct scratch *s, const char *ends,
                       int last)
{
    static const char kind[] = "client.authentication.k8s.io/v1beta1";
    auto_str struct str text = { 0 };
    struct vial_error err = { 0 };

    str_printf(
        &text,
        "n=$(($(cat '%s/count' 2>/dev/null || echo 0) + 1)); echo $n >'%s/count'; "
        "[ $n -le %d ] || exit 1; "
        "echo '{\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\",\"status\":"
        "{\"token\":\"t-'$n'\",\"expirationTimestamp\":\"%s\"}}'",
        s->dir, s->dir, last, kind, ends);
    strv_push(&api->cluster.exec, "/bin/sh");
    strv_push(&api->cluster.exec, "-c");
    strv_push(&api->cluster.exec, text.data);
    api->cluster.exec_version = strdup(kind);
    assert_int_equal(login_renew(&api->cluster, &err), 1);
}

static void a_plugin_is_asked_again_when_it_is_refused(void **state)
{
    struct server s = { .answers = { UNKNOWN, OK_JSON } };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_plugin(&api, *state, "2199-01-31T12:00:00Z", 2);
    if (ask(&s, &api, &err) < 0)
        fail_msg("%s", err.message);
    assert_true(said(&s, 0, "t-1") && said(&s, 1, "t-2"));
}

static void a_plugin_is_asked_again_before_what_it_gave_ends(void **state)
{
    struct server s = { .answers = { OK_JSON } };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    use_plugin(&api, *state, "2026-01-31T12:00:00Z", 2);
    assert_true(login_ends(&api.cluster));
    if (ask(&s, &api, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(s.calls, 1);
    assert_true(said(&s, 0, "t-2"));
}

static void what_ends_soon_is_used_where_nothing_else_comes(void **state)
{
    struct server good = { .answers = { OK_JSON } };
    struct server bad = { .answers = { UNKNOWN, OK_JSON } };
    struct cluster_api api = api_on(&good);
    struct vial_error err = { 0 };

    use_plugin(&api, *state, "2026-01-31T12:00:00Z", 1);
    if (ask(&good, &api, &err) < 0)
        fail_msg("%s", err.message);
    assert_true(said(&good, 0, "t-1"));
    assert_int_equal(unlink(scratch_path(*state, "count")), 0);
    api = api_on(&bad);
    use_plugin(&api, *state, "2026-01-31T12:00:00Z", 1);
    assert_int_equal(ask(&bad, &api, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-CONFIG");
    assert_int_equal(bad.calls, 1);
}

static void a_server_that_is_too_busy_is_asked_again(void **state)
{
    struct server s = { .answers = { BUSY, SOON, OK_JSON } };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    (void)state;
    if (ask(&s, &api, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(s.calls, 3);
}

#define A_POD "/api/v1/namespaces/n/pods/p"

static int remove_pod(struct server *s, int64_t ms, struct vial_error *err)
{
    struct cluster_api api = api_on(s);
    int rc = pods_remove_within(&api, A_POD, "", ms, err);

    finish(s);
    cluster_api_close(&api);
    return rc;
}

static void a_pod_is_removed_once_the_server_allows_it_again(void **state)
{
    struct server back = { .answers = { UNKNOWN, DENIED, DENIED, OK_JSON } };
    struct server gone = { .answers = { DENIED, NONE, OK_JSON } };
    struct server late = { .answers = { DENIED, OK_JSON } };
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(remove_pod(&back, 600000, &err), 0);
    assert_int_equal(back.calls, 4);
    assert_true(str_starts(back.seen[3], "DELETE " A_POD " HTTP"));
    assert_int_equal(remove_pod(&gone, 600000, &err), 1);
    assert_int_equal(gone.calls, 2);
    assert_int_equal(remove_pod(&late, 0, &err), -1);
    assert_int_equal(late.calls, 1);
    assert_string_equal(err.code, "VIAL-CLUSTER-ACCESS");
}

static void nobody_waits_for_an_hour(void **state)
{
    struct server s = { .answers = { NEVER, OK_JSON } };
    struct cluster_api api = api_on(&s);
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(ask(&s, &api, &err), -1);
    assert_string_equal(err.message, "do it: the API server refuses with status 429");
    assert_int_equal(s.calls, 1);
}

static void waits_are_as_long_as_the_server_says(void **state)
{
    struct retry_after p = { .tries = 2, .wait_ms = 250, .left_ms = 60000 };

    (void)state;
    assert_int_equal(retry_after_next(&p), 250);
    retry_after_hear(&p, "retry-after:  7");
    assert_int_equal(retry_after_next(&p), 7000);
    retry_after_hear(&p, "Retry-After: 52");
    assert_int_equal(retry_after_next(&p), 52000);
    /* These have not counted as tries; what is left is 750 ms. */
    retry_after_hear(&p, "Retry-After: 1");
    assert_int_equal(retry_after_next(&p), -1);
    p = (struct retry_after){ .tries = 2, .wait_ms = 250, .left_ms = 60000 };
    retry_after_hear(&p, "Retry-After: Thu, 19 Nov 2026 12:00:00 GMT");
    retry_after_hear(&p, "Retry-Afterwards: 9");
    retry_after_hear(&p, "Retry-After: -3");
    assert_int_equal(retry_after_next(&p), 250);
    assert_int_equal(retry_after_next(&p), 500);
    assert_int_equal(retry_after_next(&p), -1);
    p = (struct retry_after){ .tries = 0, .wait_ms = 250 };
    retry_after_hear(&p, "Retry-After: 1");
    assert_int_equal(retry_after_next(&p), -1);
    p = (struct retry_after){ .tries = 2, .wait_ms = 250, .left_ms = 60000 };
    retry_after_hear(&p, "Retry-After: 99999999999999999999");
    retry_after_hear(&p, "Retry-After: 9223372036854775807");
    assert_int_equal(retry_after_next(&p), -1);
}

#define UID_                   "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
#define POD_(metadata, status) "{\"metadata\":{" metadata "},\"status\":{" status "}}"
#define NAMED                  "\"name\":\"a\",\"uid\":\"" UID_ "\""
#define RUNNING                "\"phase\":\"Running\",\"podIP\":\"10.0.0.7\""

static void a_pod_is_ours_only_if_it_is_seen_from_inside(void **state)
{
    static const char theirs[] =
        "1 2 0:1 /lib/pods/9a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9/etc-hosts /etc/hosts rw";
    static const char ours[] = "1 2 0:1 /lib/pods/" UID_ "/etc-hosts /etc/hosts rw";
    static const struct {
        const char *text, *mounts;
        bool is;
    } rows[] = {
        { POD_(NAMED, RUNNING), theirs, true },
        { POD_(NAMED, "\"phase\":\"Pending\""), ours, true },
        { POD_(NAMED, "\"phase\":\"Pending\""), theirs, false },
        { POD_(NAMED, "\"phase\":\"Running\",\"podIP\":\"10.0.0.8\""), theirs, false },
        { POD_(NAMED, "\"phase\":\"Failed\",\"podIP\":\"10.0.0.7\""), theirs, false },
        { POD_(NAMED ",\"deletionTimestamp\":\"now\"", RUNNING), ours, false },
        { POD_("\"name\":\"b\",\"uid\":\"" UID_ "\"", RUNNING), ours, false },
        { POD_("\"name\":\"a\"", RUNNING), ours, false },
        { POD_("\"name\":\"a\",\"uid\":\"../../../x\"", RUNNING), ours, false },
        { "[]", ours, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        auto_json json_t *pod = json_loads(rows[i].text, 0, NULL);
        struct own_view view = { .mounts = { 0 } };
        struct own_pod found;

        assert_non_null(pod);
        strv_push(&view.addresses, "127.0.0.1");
        strv_push(&view.addresses, "10.0.0.7");
        assert_int_equal(blob_set(&view.mounts, rows[i].mounts, strlen(rows[i].mounts)),
                         0);
        assert_int_equal(own_pod_read(pod, "a", &view, &found), rows[i].is);
        assert_string_equal(found.uid, rows[i].is ? UID_ : "");
        strv_done(&view.addresses);
        blob_done(&view.mounts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_token_that_is_refused_is_read_again),
        scratch_test(a_token_that_is_the_same_is_not_tried_again),
        scratch_test(credentials_are_renewed_once_for_a_call),
        scratch_test(a_certificate_that_is_refused_is_read_again),
        scratch_test(a_certificate_whose_key_has_gone_is_kept_whole),
        scratch_test(a_plugin_is_asked_again_when_it_is_refused),
        scratch_test(a_plugin_is_asked_again_before_what_it_gave_ends),
        scratch_test(what_ends_soon_is_used_where_nothing_else_comes),
        cmocka_unit_test(a_server_that_is_too_busy_is_asked_again),
        cmocka_unit_test(a_pod_is_removed_once_the_server_allows_it_again),
        cmocka_unit_test(nobody_waits_for_an_hour),
        cmocka_unit_test(waits_are_as_long_as_the_server_says),
        cmocka_unit_test(a_pod_is_ours_only_if_it_is_seen_from_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
