/* SPDX-License-Identifier: Apache-2.0 */

/* What the settings, and the pod that makes it, add to a pod; and that it takes nothing
 * away. */

#include "pod_case.h"

static void check_own_words(json_t *pod)
{
    json_t *metadata = json_object_get(pod, "metadata");
    json_t *labels = json_object_get(metadata, "labels");
    json_t *notes = json_object_get(metadata, "annotations");
    json_t *nodes = json_object_get(json_object_get(pod, "spec"), "nodeSelector");

    assert_string_equal(text_at(labels, "app.kubernetes.io/managed-by"), "vial");
    assert_string_equal(text_at(labels, POD_MANAGED), "true");
    assert_string_equal(text_at(labels, POD_VESSEL), pod_options_usual.vessel_id);
    assert_string_equal(text_at(labels, POD_NETWORK), "none");
    assert_string_equal(text_at(notes, POD_OWNER), pod_options_usual.owner);
    assert_string_equal(text_at(notes, POD_HOST), pod_options_usual.host);
    assert_string_equal(text_at(nodes, "kubernetes.io/os"), "linux");
    assert_string_equal(text_at(nodes, "kubernetes.io/arch"), "amd64");
}

static void no_settings_make_a_pod_that_is_less_than_restricted(void **state)
{
    static const char *const parts[] = {
        "node_selector: {kubernetes.io/hostname: node1, privileged: 'true'}",
        "tolerations: [node-role.kubernetes.io/master, hostPID=true:NoExecute]",
        "pull_secrets: [default-token, hostnetwork]",
        "priority_class: system-node-critical",
        "labels: {hostNetwork: 'true', pod-security.kubernetes.io/enforce: privileged}",
        "annotations: {privileged: 'true', seccomp: unconfined}",
    };
    const size_t count = sizeof(parts) / sizeof(*parts);

    for (unsigned which = 0; which < 1u << count; which++) {
        auto_str struct str yaml = { 0 };
        auto_json json_t *pod = NULL;

        str_puts(&yaml, "kubernetes:\n");
        for (size_t i = 0; i < count; i++)
            if ((which >> i) & 1u)
                str_printf(&yaml, "  %s\n", parts[i]);
        use_settings(*state, yaml.data);
        pod = pod_of_request(*state, "{'language':'python','code':'1'}");
        pod_expect_restricted(pod);
        check_own_words(pod);
    }
}

/* The settings are judged before; a pod is what it is without that, too. */
static void what_vial_says_of_a_pod_stands_above_all(void **state)
{
    static const char *const labels[] = { "vial.managed=no", "vial.vessel=v-1",
                                          "vial.network=bridge",
                                          "app.kubernetes.io/managed-by=me" };
    auto_plan struct plan *plan =
        golden_plan(*state, "{'language':'python','code':'1'}", "kubernetes");
    auto_json json_t *pod = NULL;

    for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
        strv_push(&plan->pod.labels, labels[i]);
    strv_push(&plan->pod.annotations, "vial.owner=me");
    strv_push(&plan->pod.annotations, "vial.host=mine");
    strv_push(&plan->pod.node_selector, "kubernetes.io/os=windows");
    strv_push(&plan->pod.node_selector, "kubernetes.io/arch=arm");
    pod = pod_json(plan, &pod_options_usual);
    pod_expect_restricted(pod);
    check_own_words(pod);
}

static struct vial_error settings_refused(struct scratch *s, const char *yaml)
{
    struct settings_sources from = bare_sources(s);
    struct settings *settings = NULL;
    struct vial_error err = { 0 };
    char config[128];

    (void)snprintf(config, sizeof(config), "%s", scratch_write(s, "pods.yaml", yaml));
    from.config = config;
    if (settings_load(&from, &settings, &err) == 0)
        fail_msg("'%s' was taken", yaml);
    return err;
}

static void what_no_cluster_takes_or_vial_says_itself_is_refused_by_name(void **state)
{
    static const struct {
        const char *yaml, *message;
    } rows[] = {
        { "node_selector: [ssd]",
          "node_selector 'ssd' is not KEY=VALUE, both as Kubernetes has labels" },
        { "node_selector: {disk: 'a b'}",
          "node_selector 'disk=a b' is not KEY=VALUE, both as Kubernetes has labels" },
        { "node_selector: {kubernetes.io/arch: arm}",
          "node_selector 'kubernetes.io/arch=arm' is what vial itself says of its pods" },
        { "node_selector: {gpu: true}", "node_selector 'true' is not a string" },
        { "tolerations: ['gpu:Never']",
          "tolerations 'gpu:Never' is not KEY or KEY=VALUE, with :NoSchedule, "
          ":PreferNoSchedule, :NoExecute or nothing behind it" },
        { "tolerations: ['']",
          "tolerations '' is not KEY or KEY=VALUE, with :NoSchedule, :PreferNoSchedule, "
          ":NoExecute or nothing behind it" },
        { "pull_secrets: [../x]", "pull_secrets '../x' is not the name of a Secret" },
        { "priority_class: A/b",
          "priority_class 'A/b' is not the name of a PriorityClass" },
        { "labels: {vial.managed: 'false'}",
          "labels 'vial.managed=false' is what vial itself says of its pods" },
        { "labels: {app.kubernetes.io/managed-by: me}",
          "labels 'app.kubernetes.io/managed-by=me' is what vial itself says of its "
          "pods" },
        { "annotations: {vial.owner: me}",
          "annotations 'vial.owner=me' is what vial itself says of its pods" },
        { "annotations: [container.apparmor.security.beta.kubernetes.io/vessel=x]",
          "annotations 'container.apparmor.security.beta.kuberne…' is what vial itself "
          "says of its pods" },
        { "annotations: [security.alpha.kubernetes.io/unsafe-sysctls=x]",
          "annotations 'security.alpha.kubernetes.io/unsafe-sysc…' is what vial itself "
          "says of its pods" },
        { "annotations: [a/b/c=d]",
          "annotations 'a/b/c=d' is not KEY=VALUE, plain text with a key as Kubernetes "
          "has them" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        auto_str struct str yaml = { 0 };
        struct vial_error err;

        str_printf(&yaml, "kubernetes: {%s}", rows[i].yaml);
        err = settings_refused(*state, yaml.data);
        assert_string_equal(err.code, "VIAL-VALUE");
        assert_non_null(strstr(err.message, rows[i].message));
        assert_true(err.remedy[0]);
    }
}

/* Not even one that is trusted: where programs run, and by whose secrets, is not a
 * project's to say. */
static void a_project_has_no_word_in_it(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *settings = NULL;
    struct vial_error err = { 0 };

    from.trusting = true;
    (void)scratch_write(*state, "vial.yaml", "kubernetes: {pull_secrets: [theirs]}");
    assert_int_equal(settings_load(&from, &settings, &err), -1);
    assert_string_equal(err.code, "VIAL-POLICY");
    assert_string_equal(err.message, "a project file may not set 'kubernetes'");
}

static void no_request_has_a_word_in_it(void **state)
{
    static const char *const fields_[] = { "kubernetes",    "node_selector",
                                           "tolerations",   "pull_secrets",
                                           "labels",        "annotations",
                                           "priority_class" };

    (void)state;
    for (size_t i = 0; i < sizeof(fields_) / sizeof(*fields_); i++) {
        auto_str struct str text = { 0 };
        struct vial_request *req = NULL;
        struct vial_error err = { 0 };

        str_printf(&text, "{'command':['ls'],'%s':[]}", fields_[i]);
        assert_int_equal(parse_request(text.data, &req, &err), -1);
        assert_string_equal(err.code, "VIAL-FIELD");
    }
}

/* Whoever made it. */

static void a_pod_names_the_pod_that_made_it(void **state)
{
    auto_plan struct plan *plan =
        golden_plan(*state, "{'language':'python','code':'1'}", "kubernetes");
    struct pod_options o = pod_options_usual;
    auto_json json_t *pod = NULL;
    json_t *owners, *owner;

    o.maker = "caller";
    o.maker_uid = "0-1-2";
    pod = pod_json(plan, &o);
    owners = json_object_get(json_object_get(pod, "metadata"), "ownerReferences");
    owner = json_array_get(owners, 0);
    assert_int_equal(json_array_size(owners), 1);
    assert_string_equal(text_at(owner, "kind"), "Pod");
    assert_string_equal(text_at(owner, "name"), "caller");
    assert_string_equal(text_at(owner, "uid"), "0-1-2");
    assert_true(json_is_false(json_object_get(owner, "blockOwnerDeletion")));
    pod_expect_restricted(pod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(no_settings_make_a_pod_that_is_less_than_restricted),
        scratch_test(what_vial_says_of_a_pod_stands_above_all),
        scratch_test(what_no_cluster_takes_or_vial_says_itself_is_refused_by_name),
        scratch_test(a_project_has_no_word_in_it),
        cmocka_unit_test(no_request_has_a_word_in_it),
        scratch_test(a_pod_names_the_pod_that_made_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
