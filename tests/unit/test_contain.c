/* SPDX-License-Identifier: Apache-2.0 */

/* What only container engines have, as requests ask for it and policies judge it. */

#include "model_case.h"
#include "plan/gate_rules.h"

static int plan_docker(struct scratch *s, const char *json, struct plan **out,
                       struct vial_error *err)
{
    struct vial_request *req = NULL;
    int rc;

    if (!s->settings)
        use_settings(s, "");
    if (parse_request(json, &req, err) < 0)
        return -1;
    rc = plan_request(s->settings, req, "docker", out, err);
    vial_request_free(req);
    return rc;
}

#define LS  "{'command':['ls'],"
#define NET LS "'network':'bridge',"

static struct plan *planned(struct scratch *s, const char *json)
{
    struct vial_error err = { 0 };
    struct plan *plan = NULL;

    if (plan_docker(s, json, &plan, &err) < 0)
        fail_msg("%s: %s: %s", json, err.code, err.message);
    return plan;
}

static void expect_refused(struct scratch *s, const char *json, const char *code)
{
    struct vial_error err = { 0 };
    struct plan *plan = NULL;

    if (plan_docker(s, json, &plan, &err) == 0)
        fail_msg("not refused: %s", json);
    if (strcmp(err.code, code) != 0)
        fail_msg("%s: %s: %s", json, err.code, err.message);
}

/* covers: FR-020-77 */
static void ports_lie_on_loopback_unless_an_address_is_given(void **state)
{
    auto_plan struct plan *plan = NULL;
    const struct plan_port *p = NULL;

    use_settings(*state, "policy: { publish: ['127.*', '0.0.0.0:80*', '::1:9'] }");
    plan = planned(*state, NET "'ports':['8000:80','0.0.0.0:8080:443/udp','[::1]:9:9',"
                               "'0:5']}");
    p = plan->container.ports;
    assert_int_equal(plan->container.port_count, 4);
    assert_string_equal(p[0].address, "127.0.0.1");
    assert_int_equal(p[0].host, 8000);
    assert_int_equal(p[0].inside, 80);
    assert_false(p[0].udp);
    assert_string_equal(p[1].address, "0.0.0.0");
    assert_true(p[1].udp);
    assert_string_equal(p[2].address, "::1");
    assert_int_equal(p[3].host, 0);
}

static void a_port_that_makes_no_sense_is_refused(void **state)
{
    static const char *const bad[] = {
        "",           "80",    "x:80",           "80:0",         "80:65536",
        "80:80/sctp", "1:2:3", "[::1:80:80",     "127.0.0.1:80", "80:80/udp/",
        "80:",        ":80",   "999.1.1.1:80:80"
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char json[200];

        (void)snprintf(json, sizeof(json), NET "'ports':['%s']}", bad[i]);
        expect_refused(*state, json, "VIAL-VALUE");
    }
}

static void without_a_word_of_the_policy_nothing_is_published_to_others(void **state)
{
    expect_refused(*state, NET "'ports':['0.0.0.0:8000:80']}", "VIAL-POLICY");
    expect_refused(*state, NET "'ports':['10.0.0.1:8000:80']}", "VIAL-POLICY");
    plan_free(planned(*state, NET "'ports':['8000:80']}"));
}

/* covers: FR-020-73 FR-020-71 */
static void name_servers_are_addresses_that_the_policy_allows(void **state)
{
    auto_plan struct plan *plan = NULL;

    use_settings(*state, "policy: { dns: ['10.*', '::1'] }");
    plan = planned(*state, NET "'dns':['10.1.2.3','::1']}");
    assert_int_equal(plan->container.dns.count, 2);
    expect_refused(*state, NET "'dns':['8.8.8.8']}", "VIAL-POLICY");
    expect_refused(*state, NET "'dns':['dns.example']}", "VIAL-VALUE");
    expect_refused(*state, NET "'dns':['10.1.2.3 options']}", "VIAL-VALUE");
}

/* covers: FR-020-75 NFR-020-30 */
static void no_name_of_a_network_means_the_host(void **state)
{
    static const char *const bad[] = { "host",    "HOST",      "none",
                                       "default", "container", "container:abc",
                                       "a b",     "-x",        "ns:/proc/1/ns",
                                       "../x" };
    auto_plan struct plan *plan = planned(*state, NET "'network_name':'backend'}");

    assert_string_equal(plan->container.network_name, "backend");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char json[200];

        (void)snprintf(json, sizeof(json), NET "'network_name':'%s'}", bad[i]);
        expect_refused(*state, json, "VIAL-VALUE");
    }
}

/* covers: FR-020-76 FR-020-69 FR-020-70 */
static void the_operator_decides_which_networks_are_joined(void **state)
{
    use_settings(*state, "policy: { network_names: [backend] }");
    plan_free(planned(*state, NET "'network_name':'backend'}"));
    expect_refused(*state, NET "'network_name':'other'}", "VIAL-POLICY");
    use_settings(*state, "policy: { networks: [none] }");
    expect_refused(*state, NET "'network_name':'backend'}", "VIAL-POLICY");
}

/* A keeper judges what a front has planned, which may be anybody's by then. */
static void a_keeper_opens_no_gate_that_the_policy_does_not_give(void **state)
{
    struct scratch *s = *state;
    char name[] = "docker";
    const struct plan plan = { .driver = name, .network = NETWORK_GATE };
    struct vial_error err = { 0 };

    use_settings(s, "");
    assert_int_equal(gate_judge(&plan, s->settings, &err), -1);
    assert_string_equal(err.code, "VIAL-POLICY");
    assert_string_equal(err.message, "the policy gives no gate");
    use_settings(s, "policy: { networks: [gate] }");
    assert_int_equal(gate_judge(&plan, s->settings, &err), 0);
    use_settings(s, "policy: { allow: [a.test] }");
    assert_int_equal(gate_judge(&plan, s->settings, &err), 0);
}

static void what_needs_a_network_is_refused_without_one(void **state)
{
    expect_refused(*state, LS "'ports':['8000:80']}", "VIAL-VALUE");
    expect_refused(*state, LS "'dns':['10.0.0.1']}", "VIAL-VALUE");
    expect_refused(*state, LS "'network_name':'backend'}", "VIAL-VALUE");
}

static void settings_for_networks_wait_for_a_request_with_one(void **state)
{
    auto_plan struct plan *off = NULL;
    auto_plan struct plan *on = NULL;

    use_settings(*state, "defaults: { dns: [10.0.0.1], network_name: backend }");
    off = planned(*state, "{'command':['ls']}");
    assert_int_equal(off->container.dns.count, 0);
    assert_null(off->container.network_name);
    on = planned(*state, "{'command':['ls'],'network':'bridge'}");
    assert_int_equal(on->container.dns.count, 1);
    assert_string_equal(on->container.network_name, "backend");
}

/* covers: FR-020-44 FR-020-45 */
static void a_cache_is_a_volume_with_the_prefix_in_its_name(void **state)
{
    auto_plan struct plan *plan = NULL;
    const struct plan_cache *c = NULL;

    use_settings(*state, "defaults: { prefix: acode }");
    plan = planned(*state, LS "'caches':['pip','nuget:/opt/nuget']}");
    c = plan->container.caches;
    assert_string_equal(plan->container.prefix, "acode");
    assert_string_equal(c[0].volume, "acode-cache-pip");
    assert_string_equal(c[0].target, "/cache/pip");
    assert_string_equal(c[1].volume, "acode-cache-nuget");
    assert_string_equal(c[1].target, "/opt/nuget");
    assert_true(strv_has(&plan->env, "PIP_CACHE_DIR=/cache/pip"));
    assert_true(strv_has(&plan->env, "NUGET_PACKAGES=/opt/nuget"));
}

static void a_cache_can_be_nowhere_that_the_vessel_needs(void **state)
{
    static const char *const bad[] = { "a:/proc", "a:/usr/lib",    "a:/work/x",
                                       "a:/tmp",  "a:/.vial-init", "a:/x/../etc",
                                       "a:/" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char json[200];

        (void)snprintf(json, sizeof(json), LS "'caches':['%s']}", bad[i]);
        expect_refused(*state, json, "VIAL-MOUNT");
    }
    expect_refused(*state, LS "'caches':['a:/x','b:/x/y']}", "VIAL-MOUNT");
    expect_refused(*state, LS "'caches':['../a']}", "VIAL-VALUE");
    expect_refused(*state, LS "'caches':['a:b']}", "VIAL-VALUE");
    expect_refused(*state, LS "'caches':['/etc:/x']}", "VIAL-VALUE");
}

static void the_operator_decides_which_caches_there_are(void **state)
{
    use_settings(*state, "policy: { caches: ['pip*'] }");
    plan_free(planned(*state, LS "'caches':['pip3']}"));
    expect_refused(*state, LS "'caches':['npm']}", "VIAL-POLICY");
}

static void an_operator_who_lists_runtimes_means_everybody(void **state)
{
    auto_plan struct plan *plan = NULL;

    use_settings(*state, "policy: { runtimes: [runsc] }");
    plan = planned(*state, LS "'runtime':'runsc'}");
    assert_string_equal(plan->container.runtime, "runsc");
    expect_refused(*state, LS "'runtime':'runc'}", "VIAL-POLICY");
    expect_refused(*state, "{'command':['ls']}", "VIAL-POLICY");
    expect_refused(*state, LS "'runtime':'/usr/bin/evil'}", "VIAL-VALUE");
}

static void a_prefix_is_short_and_plain(void **state)
{
    static const char *const bad[] = { "Acode", "a b", "-a", "a-", "a/b", "a:b" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char json[200];

        (void)snprintf(json, sizeof(json), LS "'prefix':'%s'}", bad[i]);
        expect_refused(*state, json, "VIAL-VALUE");
    }
}

static void native_refuses_what_only_engines_have(void **state)
{
    static const char *const asked[] = { "'runtime':'runsc'", "'caches':['pip']",
                                         "'dns':['10.0.0.1']",
                                         "'network_name':'backend'" };

    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        char json[200];
        struct vial_error err;

        (void)snprintf(json, sizeof(json), LS "%s}", asked[i]);
        err = refused(*state, json);
        assert_string_equal(err.code, "VIAL-UNSUPPORTED");
        assert_string_equal(err.remedy, "use '--driver docker', or leave it out");
    }
}

static void native_publishes_no_port_without_a_gate(void **state)
{
    struct vial_error err = refused(*state, LS "'ports':['8000:80']}");

    assert_string_equal(err.code, "VIAL-UNSUPPORTED");
    assert_string_equal(err.remedy, "add '--network gate', or leave out ports");
    plan_free(plan_of(*state, LS "'network':'gate','ports':['8000:80']}"));
    err = refused(*state, LS "'network':'gate','ports':['0:80']}");
    assert_string_equal(err.message, "a gate publishes no port that is any");
}

static void a_runtime_among_the_settings_is_not_given_up_for_native(void **state)
{
    use_settings(*state,
                 "defaults: { runtime: runsc, caches: [pip], dns: [10.0.0.1] }");
    assert_string_equal(refused(*state, "{'command':['ls']}").code, "VIAL-UNSUPPORTED");
    use_settings(*state, "defaults: { caches: [pip], dns: [10.0.0.1] }");
    plan_free(plan_of(*state, "{'command':['ls']}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(ports_lie_on_loopback_unless_an_address_is_given),
        scratch_test(a_port_that_makes_no_sense_is_refused),
        scratch_test(without_a_word_of_the_policy_nothing_is_published_to_others),
        scratch_test(name_servers_are_addresses_that_the_policy_allows),
        scratch_test(no_name_of_a_network_means_the_host),
        scratch_test(the_operator_decides_which_networks_are_joined),
        scratch_test(a_keeper_opens_no_gate_that_the_policy_does_not_give),
        scratch_test(what_needs_a_network_is_refused_without_one),
        scratch_test(settings_for_networks_wait_for_a_request_with_one),
        scratch_test(a_cache_is_a_volume_with_the_prefix_in_its_name),
        scratch_test(a_cache_can_be_nowhere_that_the_vessel_needs),
        scratch_test(the_operator_decides_which_caches_there_are),
        scratch_test(an_operator_who_lists_runtimes_means_everybody),
        scratch_test(a_prefix_is_short_and_plain),
        scratch_test(native_refuses_what_only_engines_have),
        scratch_test(native_publishes_no_port_without_a_gate),
        scratch_test(a_runtime_among_the_settings_is_not_given_up_for_native),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
