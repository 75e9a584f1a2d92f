/* SPDX-License-Identifier: Apache-2.0 */

/* The pure parts of driver kubernetes: pods, kubeconfigs, what a cluster says, and the
 * channels of its streams. */

#include "driver/kubernetes/channels.h"
#include "driver/kubernetes/cluster_api.h"
#include "driver/kubernetes/kubeconfig.h"
#include "driver/kubernetes/pod_status.h"
#include "pod_case.h"

/* Pods. */

static void every_plan_becomes_the_pod_that_was_agreed(void **state)
{
    golden_dir(*state, "pods", "pod", pod_of_request);
}

static void no_request_makes_a_pod_that_is_less_than_restricted(void **state)
{
    static const char *const parts[] = {
        "'memory':'64m'",
        "'cpus':0.5",
        "'pids':7",
        "'network':'bridge'",
        "'file_size':'1m'",
        "'session':'../../etc --privileged'",
        "'task':'hostPath'",
        "'env':{'A':'host','privileged':'true'}",
        "'disk':'1m'",
        "'image':'host/privileged:latest'",
        "'args':['--privileged']",
        "'runtime':'runsc'",
        "'prefix':'host'",
        "'pull':'always'",
        "'stdin':'hostNetwork: true'",
    };
    unsigned seed = 1;

    for (int round = 0; round < 200; round++) {
        auto_str struct str request = { 0 };
        auto_json json_t *pod = NULL;

        str_puts(&request, "{'language':'python','code':'host'");
        for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
            seed = seed * 1103515245u + 12345u;
            if ((seed >> 16) & 1u)
                str_printf(&request, ",%s", parts[i]);
        }
        str_putc(&request, '}');
        pod = pod_of_request(*state, request.data);
        pod_expect_restricted(pod);
    }
}

static json_int_t deadline_of(const struct plan *plan)
{
    auto_json json_t *pod = pod_json(plan, &pod_options_usual);

    return json_integer_value(
        json_object_get(json_object_get(pod, "spec"), "activeDeadlineSeconds"));
}

static void a_pod_that_stays_has_as_much_more_time(void **state)
{
    auto_plan struct plan *plan =
        golden_plan(*state, "{'language':'python','code':'1'}", "kubernetes");
    json_int_t once = deadline_of(plan);

    plan->stay_ms = 3600000;
    assert_int_equal(deadline_of(plan), once + 3600);
}

static void what_no_pod_can_give_is_refused_with_what_to_do(void **state)
{
    static const struct {
        const char *request, *what;
    } rows[] = {
        { "'cpu_time':'2s'", "a limit on cpu time" },
        { "'end_on':['pids']", "an end at the limit of processes" },
        { "'caches':['pip']", "cache volumes" },
        { "'user':'1000'", "another user" },
        { "'nproc':'pids'", "a ulimit of processes in a user namespace" },
        { "'containers':4", "a number of containers" },
        { "'seccomp':'strict'", "another seccomp profile without a network" },
        { "'mounts':['/usr/share:/data']",
          "directories of this host, nor a workspace" },
        { "'network':'bridge','ports':['8000:80']", "published ports" },
        { "'network':'bridge','network_name':'x'", "a named network" },
        { "'network':'bridge','network_timeout':'5s'", "a time-out of its network" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        auto_str struct str request = { 0 };
        auto_str struct str message = { 0 };
        auto_plan struct plan *plan = NULL;
        struct vial_error err = { 0 };

        str_printf(&request, "{'language':'python','code':'1',%s}", rows[i].request);
        str_printf(&message, "driver 'kubernetes' cannot give the program %s",
                   rows[i].what);
        plan = golden_plan(*state, request.data, "kubernetes");
        assert_int_equal(pod_check(plan, &err), -1);
        assert_string_equal(err.message, message.data);
        assert_string_equal(err.code, "VIAL-UNSUPPORTED");
        assert_true(err.remedy[0]);
    }
}

/* Kubeconfigs. */

#define CONFIG_HEAD                                                                    \
    "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u"
#define CONFIG(cluster, user)                                                          \
    CONFIG_HEAD "}\nclusters:\n- name: k\n  cluster: {" cluster                        \
                "}\nusers:\n- name: u\n"                                               \
                "  user: {" user "}\n"

static int read_text(struct scratch *s, const char *text, struct cluster *out,
                     struct vial_error *err)
{
    const struct cluster_source from = { .kubeconfig =
                                             scratch_write(s, "config", text) };

    return cluster_read(out, &from, err);
}

static void a_kubeconfig_says_where_the_cluster_is_and_who_asks(void **state)
{
    auto_cluster struct cluster c = { 0 };
    struct vial_error err = { 0 };

    (void)scratch_write(*state, "ca.pem", "an authority");
    assert_int_equal(
        read_text(
            *state,
            CONFIG("server: 'https://api.example:6443/k8s/c-1/', "
                   "certificate-authority: ca.pem, tls-server-name: other.example",
                   "token: abc, client-certificate-data: Q0VSVA==, "
                   "client-key-data: S0VZ"),
            &c, &err),
        0);
    assert_string_equal(c.host, "api.example");
    assert_string_equal(c.port, "6443");
    assert_string_equal(c.prefix, "/k8s/c-1");
    assert_string_equal(c.name, "other.example");
    assert_string_equal(c.namespace, "default");
    assert_string_equal(c.token, "abc");
    assert_string_equal(c.ca.data, "an authority");
    assert_string_equal(c.cert.data, "CERT");
    assert_string_equal(c.key.data, "KEY");
    assert_true(c.tls);
}

static void the_first_of_several_kubeconfigs_counts(void **state)
{
    struct scratch *s = *state;
    auto_cluster struct cluster c = { 0 };
    struct vial_error err = { 0 };
    char both[300];

    (void)scratch_write(s, "one",
                        "current-context: d\nusers:\n- name: u\n  user: {token: "
                        "first}\n");
    (void)scratch_write(s, "two",
                        CONFIG_HEAD
                        "}\n- name: d\n  context: {cluster: k, user: u, "
                        "namespace: mine}\nclusters:\n- name: k\n  cluster: "
                        "{server: 'https://k'}\nusers:\n- name: u\n  user: "
                        "{token: second}\n");
    (void)snprintf(both, sizeof(both), "%s/none:%s/one:%s/two", s->dir, s->dir, s->dir);
    const struct cluster_source from = { .kubeconfig = both };

    if (cluster_read(&c, &from, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(c.token, "first");
    assert_string_equal(c.namespace, "mine");
    assert_string_equal(c.port, "443");
}

static void what_is_weaker_than_kubectl_or_not_carried_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *code, *message;
    } rows[] = {
        { CONFIG("server: 'https://k', insecure-skip-tls-verify: true", "token: a"),
          "VIAL-UNSUPPORTED",
          "driver 'kubernetes' does not support 'insecure-skip-tls-verify' in a "
          "kubeconfig" },
        { CONFIG("server: 'https://k', proxy-url: 'http://p'", "token: a"),
          "VIAL-UNSUPPORTED",
          "driver 'kubernetes' does not support 'proxy-url' in a kubeconfig" },
        { CONFIG("server: 'http://k'", "token: a"), "VIAL-UNSUPPORTED",
          "driver 'kubernetes' does not support a server without TLS on another host in "
          "a kubeconfig" },
        { CONFIG("server: 'http://127.0.0.1:1'", "token: a"), "VIAL-UNSUPPORTED",
          "driver 'kubernetes' does not support credentials for a server without TLS in "
          "a kubeconfig" },
        { CONFIG("server: 'https://k'", "username: a, password: b"), "VIAL-UNSUPPORTED",
          "driver 'kubernetes' does not support 'username' in a kubeconfig" },
        { CONFIG("server: 'https://k'", "token: a, as: root"), "VIAL-UNSUPPORTED",
          "driver 'kubernetes' does not support 'as' in a kubeconfig" },
        { CONFIG("server: 'https://k'", "token: \"a\\r\\nX: y\""),
          "VIAL-CLUSTER-CONFIG", "the cluster's token is not valid text" },
        { CONFIG("server: 'https://k/../x'", "token: a"), "VIAL-CLUSTER-CONFIG",
          "the cluster's server 'https://k/../x' is not https://HOST[:PORT][/PATH]" },
        { CONFIG("server: 'ftp://k'", "token: a"), "VIAL-CLUSTER-CONFIG",
          "the cluster's server 'ftp://k' is not https://HOST[:PORT][/PATH]" },
        { CONFIG("server: 'https://k'", "client-certificate-data: Q0VSVA=="),
          "VIAL-CLUSTER-CONFIG",
          "the kubeconfig has no client-key, or client-certificate, beside 'the other'" },
        { CONFIG("server: 'https://k', certificate-authority-data: '*'", "token: a"),
          "VIAL-CLUSTER-CONFIG",
          "'certificate-authority-data' of the kubeconfig is not base64" },
        { "current-context: none\n", "VIAL-CLUSTER-CONFIG",
          "the kubeconfig has no context 'none'" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        auto_cluster struct cluster c = { 0 };
        struct vial_error err = { 0 };

        assert_int_equal(read_text(*state, rows[i].text, &c, &err), -1);
        assert_string_equal(err.message, rows[i].message);
        assert_string_equal(err.code, rows[i].code);
    }
}

static void without_a_kubeconfig_a_pods_account_counts(void **state)
{
    struct scratch *s = *state;
    auto_cluster struct cluster c = { 0 };
    auto_cluster struct cluster none = { 0 };
    struct vial_error err = { 0 };
    struct cluster_source from = { .home = s->dir };

    assert_int_equal(cluster_read(&none, &from, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-CONFIG");
    (void)scratch_write(s, "ca.crt", "an authority");
    (void)scratch_write(s, "token", "abc\n");
    (void)scratch_write(s, "namespace", "mine");
    from.account_dir = s->dir;
    from.host = "fd00::1";
    from.port = "443";
    if (cluster_read(&c, &from, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(c.host, "fd00::1");
    assert_string_equal(c.token, "abc");
    assert_string_equal(c.namespace, "mine");
    assert_true(c.at_home);
    cluster_done(&c);
    from.namespace = "other";
    assert_int_equal(cluster_read(&c, &from, &err), 0);
    assert_string_equal(c.namespace, "other");
    assert_false(c.at_home);
}

static void a_plugins_credential_is_taken_if_it_is_one(void **state)
{
    static const char good[] =
        "{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":"
        "\"ExecCredential\",\"status\":{\"token\":\"t-1\","
        "\"expirationTimestamp\":\"2026-01-31T12:00:00Z\"}}";
    static const char other[] =
        "{\"apiVersion\":\"client.authentication.k8s.io/v1\","
        "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"x\"}}";
    static const char empty[] =
        "{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":"
        "\"ExecCredential\",\"status\":{}}";
    auto_cluster struct cluster c = { 0 };
    struct vial_error err = { 0 };

    assert_int_equal(
        read_text(*state,
                  CONFIG("server: 'https://k'",
                         "exec: {apiVersion: client.authentication.k8s.io/v1beta1, "
                         "command: ./plugin, args: [a], env: [{name: A, value: b}]}"),
                  &c, &err),
        0);
    assert_string_equal(c.exec.items[0], scratch_path(*state, "./plugin"));
    assert_string_equal(c.exec.items[1], "a");
    assert_string_equal(c.exec_env.items[0], "A=b");
    assert_int_equal(cluster_take_credential(&c, other, strlen(other), &err), -1);
    assert_int_equal(cluster_take_credential(&c, empty, strlen(empty), &err), -1);
    assert_int_equal(cluster_take_credential(&c, "{", 1, &err), -1);
    assert_string_equal(err.code, "VIAL-CLUSTER-CONFIG");
    assert_int_equal(cluster_take_credential(&c, good, strlen(good), &err), 0);
    assert_string_equal(c.token, "t-1");
    assert_int_equal(c.ends_s, 1769860800);
}

/* What a cluster says. */

static struct pod_status status_of(const char *status)
{
    auto_str struct str text = { 0 };
    auto_json json_t *pod = NULL;
    struct pod_status out;

    str_printf(&text, "{\"metadata\":{\"uid\":\"u\"},\"status\":%s}", status);
    for (char *at = text.data; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    pod = json_loads(text.data, 0, NULL);
    assert_non_null(pod);
    pod_status_read(pod, &out);
    return out;
}

#define STATE(state) "{'containerStatuses':[{'name':'vessel','state':" state "}]}"

static void each_end_of_a_pod_has_a_code_of_its_own(void **state)
{
    static const struct {
        const char *status;
        enum pod_phase phase;
        const char *code;
    } rows[] = {
        { "{}", POD_WAITS, "" },
        { "null", POD_WAITS, "" },
        { STATE("{'waiting':{'reason':'ContainerCreating'}}"), POD_WAITS, "" },
        { STATE("{'running':{}}"), POD_RUNS, "" },
        { "{'conditions':[{'type':'PodScheduled','status':'False','reason':"
          "'Unschedulable','message':'0/1 nodes'}]}",
          POD_WAITS, "VIAL-CLUSTER-ROOM" },
        { STATE("{'waiting':{'reason':'ErrImagePull'}}"), POD_NEVER,
          "VIAL-CLUSTER-IMAGE" },
        { STATE("{'waiting':{'reason':'ImagePullBackOff'}}"), POD_NEVER,
          "VIAL-CLUSTER-IMAGE" },
        { STATE("{'waiting':{'reason':'ErrImageNeverPull'}}"), POD_NEVER,
          "VIAL-CLUSTER-IMAGE" },
        { STATE("{'waiting':{'reason':'CreateContainerError'}}"), POD_NEVER,
          "VIAL-CLUSTER-START" },
        { STATE("{'terminated':{'reason':'StartError','exitCode':128}}"), POD_NEVER,
          "VIAL-CLUSTER-START" },
        { STATE("{'terminated':{'reason':'Error','exitCode':127}}"), POD_NEVER,
          "VIAL-CLUSTER-START" },
        { STATE("{'terminated':{'reason':'Completed','exitCode':0}}"), POD_ENDED, "" },
        { "{'phase':'Failed','reason':'Evicted','message':'low on memory'}", POD_ENDED,
          "VIAL-CLUSTER-EVICTED" },
        { "{'phase':'Failed','reason':'DeadlineExceeded'}", POD_ENDED,
          "VIAL-CLUSTER-DEADLINE" },
        { "{'phase':'Failed','reason':'NodeLost'}", POD_ENDED, "VIAL-CLUSTER-NODE" },
        { "{'phase':'Failed','reason':'OutOfcpu'}", POD_ENDED, "VIAL-CLUSTER-ROOM" },
        { "{'conditions':[{'type':'Ready','status':'False'}],"
          "'containerStatuses':[{'name':'vessel','state':{'running':{}}}]}",
          POD_RUNS, "VIAL-CLUSTER-NODE" },
        { "{'conditions':[{'type':'Ready','status':'False','reason':"
          "'ContainersNotReady'}],"
          "'containerStatuses':[{'name':'vessel','state':{'running':{}}}]}",
          POD_RUNS, "" },
        { "{'conditions':[{'type':'Ready','status':'False','reason':'NodeNotReady'}],"
          "'containerStatuses':[{'name':'vessel','state':{'running':{}}}]}",
          POD_RUNS, "VIAL-CLUSTER-NODE" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct pod_status s = status_of(rows[i].status);

        if (s.phase != rows[i].phase || strcmp(s.why.code, rows[i].code) != 0)
            fail_msg("%s: phase %d, code '%s'", rows[i].status, s.phase, s.why.code);
        assert_true(!s.why.code[0] || s.why.remedy[0]);
    }
}

static void memory_that_ran_out_is_told(void **state)
{
    struct pod_status s =
        status_of(STATE("{'terminated':{'reason':'OOMKilled','exitCode':137}}"));

    (void)state;
    assert_true(s.oom);
    assert_int_equal(s.phase, POD_ENDED);
}

static void each_refusal_has_a_code_of_its_own(void **state)
{
    static const struct {
        int status;
        const char *body, *code;
    } rows[] = {
        { 401, "{\"message\":\"Unauthorized\"}", "VIAL-CLUSTER-ACCESS" },
        { 403, "{\"message\":\"pods is forbidden\"}", "VIAL-CLUSTER-ACCESS" },
        { 403, "{\"message\":\"forbidden: exceeded quota: q, requested: pods=1\"}",
          "VIAL-CLUSTER-QUOTA" },
        { 403, "{\"message\":\"RuntimeClass \\\"x\\\" not found\"}",
          "VIAL-ENGINE-RUNTIME" },
        { 404, "{\"message\":\"not found\"}", "VIAL-CLUSTER-GONE" },
        { 409, "{\"reason\":\"AlreadyExists\"}", "VIAL-NAME-TAKEN" },
        { 409, "{}", "VIAL-NAME-TAKEN" },
        { 409, "{\"reason\":\"Conflict\"}", "VIAL-CLUSTER-API" },
        { 422, "not JSON", "VIAL-CLUSTER-API" },
        { 500, NULL, "VIAL-CLUSTER-API" },
    };
    const struct cluster_call call = { .method = "POST", .about = "do it" };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *body = rows[i].body;
        struct vial_error err = { 0 };

        assert_int_equal(
            cluster_refused(&call, rows[i].status, body, body ? strlen(body) : 0, &err),
            -1);
        assert_string_equal(err.code, rows[i].code);
    }
}

/* Channels. */

/* An empty first message, "abc" of stdout in two frames with a ping in between, stderr,
 * and a long frame of stdout. */
static size_t make_stream(uint8_t *out, char *want)
{
    static const uint8_t first[] = { 0x82, 1,   1,    0x02, 3, 1,   'a',  'b', 0x89,
                                     2,    'h', 'i',  0x80, 1, 'c', 0x82, 3,   2,
                                     'x',  'y', 0x82, 126,  1, 1,   1 };
    size_t len = sizeof(first);

    memcpy(out, first, len);
    memset(out + len, 'z', 256);
    memcpy(want, "abc", 3);
    memset(want + 3, 'z', 256);
    want[259] = '\0';
    return len + 256;
}

static void a_stream_is_the_same_wherever_it_is_cut(void **state)
{
    uint8_t stream[512];
    char want[512];
    size_t len = make_stream(stream, want);

    (void)state;
    for (size_t cut = 0; cut <= len; cut++) {
        uint8_t bytes[512];
        char got[512];
        struct channels c = { 0 };
        ssize_t a, b;

        memcpy(bytes, stream, len);
        a = channels_take(&c, bytes, cut);
        assert_true(a >= 0);
        memcpy(got, bytes, (size_t)a);
        b = channels_take(&c, bytes + cut, len - cut);
        assert_true(b >= 0);
        memcpy(got + a, bytes + cut, (size_t)b);
        got[a + b] = '\0';
        assert_string_equal(got, want);
        assert_true(c.ponged && c.ping_len == 2 && memcmp(c.ping, "hi", 2) == 0);
    }
}

static void frames_against_the_rules_end_the_stream(void **state)
{
    static const uint8_t bad[][10] = {
        { 0x82, 0x83, 0, 0 },                        /* masked */
        { 0xc2, 1, 1 },                              /* an extension */
        { 0x80, 1, 1 },                              /* goes on with nothing */
        { 0x83, 1, 1 },                              /* an opcode of none */
        { 0x8b, 0 },                                 /* the same */
        { 0x89, 126, 0, 126 },                       /* a long ping */
        { 0x09, 1, 1 },                              /* half a ping */
        { 0x82, 127, 0xff, 0xff, 0, 0, 0, 0, 0, 0 }, /* too long for anybody */
        { 0x02, 1, 1, 0x82, 1, 1 },                  /* a message within another */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint8_t bytes[10];
        struct channels c = { 0 };

        memcpy(bytes, bad[i], sizeof(bytes));
        assert_int_equal(channels_take(&c, bytes, sizeof(bytes)), -1);
    }
}

static void what_comes_behind_the_end_is_not_read(void **state)
{
    uint8_t bytes[] = { 0x82, 2, 1, 'a', 0x88, 2, 3, 0xe8, 0x82, 2, 1, 'b' };
    struct channels c = { 0 };

    (void)state;
    assert_int_equal(channels_take(&c, bytes, sizeof(bytes)), 1);
    assert_true(c.closed);
}

static void a_frame_of_ours_has_its_length_and_our_mask(void **state)
{
    static const struct {
        size_t len, head;
    } rows[] = { { 1, 6 }, { 125, 6 }, { 126, 8 }, { 65535, 8 }, { 65536, 14 } };
    static const uint8_t mask[4] = { 1, 2, 3, 4 };
    uint8_t text[] = { 'a', 'b', 'c', 'd', 'e' };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint8_t head[CHANNELS_HEAD];

        assert_int_equal(channels_head(head, 2, rows[i].len, mask), rows[i].head);
        assert_int_equal(head[0], 0x82);
        assert_true(head[1] & 0x80u);
        assert_memory_equal(head + rows[i].head - 4, mask, 4);
    }
    channels_mask(text, sizeof(text), 1, mask);
    assert_int_equal(text[0], 'a' ^ 2);
    assert_int_equal(text[3], 'd' ^ 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(every_plan_becomes_the_pod_that_was_agreed),
        scratch_test(no_request_makes_a_pod_that_is_less_than_restricted),
        scratch_test(a_pod_that_stays_has_as_much_more_time),
        scratch_test(what_no_pod_can_give_is_refused_with_what_to_do),
        scratch_test(a_kubeconfig_says_where_the_cluster_is_and_who_asks),
        scratch_test(the_first_of_several_kubeconfigs_counts),
        scratch_test(what_is_weaker_than_kubectl_or_not_carried_is_refused_by_name),
        scratch_test(without_a_kubeconfig_a_pods_account_counts),
        scratch_test(a_plugins_credential_is_taken_if_it_is_one),
        cmocka_unit_test(each_end_of_a_pod_has_a_code_of_its_own),
        cmocka_unit_test(memory_that_ran_out_is_told),
        cmocka_unit_test(each_refusal_has_a_code_of_its_own),
        cmocka_unit_test(a_stream_is_the_same_wherever_it_is_cut),
        cmocka_unit_test(frames_against_the_rules_end_the_stream),
        cmocka_unit_test(what_comes_behind_the_end_is_not_read),
        cmocka_unit_test(a_frame_of_ours_has_its_length_and_our_mask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
