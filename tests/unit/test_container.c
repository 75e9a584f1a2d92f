/* SPDX-License-Identifier: Apache-2.0 */

/* Plans as containers: what the engine is asked for. */

#include "base/auto.h"
#include "driver/docker/container.h"
#include "driver/docker/oci.h"
#include "driver/native/profile.h"
#include "golden_dir.h"

static const struct container_options options = { .vessel_id = "v-0123456789abcdef",
                                                  .owner = "vial-1-2-3-v-0",
                                                  .guest_path = "/usr/lib/vial/guest",
                                                  .seccomp = "{}",
                                                  .uid = 1000,
                                                  .gid = 1000 };

static json_t *container_of(struct scratch *s, const char *request)
{
    auto_plan struct plan *plan = golden_plan(s, request, "docker");
    json_t *out = container_json(plan, &options);

    assert_non_null(out);
    return out;
}

static void every_plan_becomes_the_container_that_was_agreed(void **state)
{
    golden_dir(*state, "containers", "container", container_of);
}

static bool needs_network(const char *part)
{
    return strncmp(part, "'network_name'", 14) == 0 || strncmp(part, "'dns'", 5) == 0 ||
           strncmp(part, "'ports'", 7) == 0;
}

/* A request at random; the same ones in every run. */
static void add_random(struct str *out, unsigned *seed, const char *mount)
{
    static const char *const parts[] = {
        "'memory':'64m'",
        "'cpus':0.5",
        "'pids':7",
        "'network':'bridge'",
        "'network':'none'",
        "'file_size':'1m'",
        "'session':'../../etc --privileged'",
        "'task':'host'",
        "'env':{'A':'host','Privileged':'true'}",
        "'disk':'1m'",
        "'open_files':64",
        "'seccomp':'default'",
        "'cwd':'/root'",
        "'image':'host/privileged:latest'",
        "'args':['--privileged']",
        "'network_name':'backend'",
        "'dns':['10.0.0.1']",
        "'ports':['8000:80','127.0.0.2:53:53/udp']",
        "'caches':['pip','host:/var/run2']",
        "'runtime':'runsc'",
        "'prefix':'host'",
    };

    str_puts(out, "{'language':'python','code':'host'");
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        *seed = *seed * 1103515245u + 12345u;
        /* Both networks at once would be no JSON. */
        if (((*seed >> 16) & 1u) == 0 || (i == 4 && strstr(out->data, "bridge")) ||
            (needs_network(parts[i]) && !strstr(out->data, "bridge")))
            continue;
        str_printf(out, ",%s", parts[i]);
    }
    *seed = *seed * 1103515245u + 12345u;
    if ((*seed >> 16) & 1u)
        str_printf(out, ",'mounts':['%s:/data:rw']", mount);
    str_putc(out, '}');
}

static void expect_mounts(json_t *mounts, const char *given)
{
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        json_t *m = json_array_get(mounts, i);
        json_t *how = json_object_get(m, "BindOptions");

        if (strcmp(text_at(m, "Type"), "volume") == 0) {
            assert_non_null(strstr(text_at(m, "Source"), "-cache-"));
            assert_null(strchr(text_at(m, "Source"), '/'));
            continue;
        }
        assert_string_equal(text_at(m, "Type"), "bind");
        assert_string_equal(text_at(how, "Propagation"), "rprivate");
        if (strcmp(text_at(m, "Source"), given) != 0) {
            assert_string_equal(text_at(m, "Source"), options.guest_path);
            assert_true(json_is_true(json_object_get(m, "ReadOnly")));
        }
    }
}

static void expect_bindings(json_t *bindings)
{
    const char *key = NULL;
    json_t *list = NULL;

    json_object_foreach(bindings, key, list)
    {
        for (size_t i = 0; i < json_array_size(list); i++)
            assert_memory_equal(text_at(json_array_get(list, i), "HostIp"), "127.", 4);
    }
}

static void expect_closed(json_t *container, const char *mount)
{
    static const char *const tops[] = { "Image",
                                        "Hostname",
                                        "User",
                                        "Entrypoint",
                                        "Cmd",
                                        "WorkingDir",
                                        "OpenStdin",
                                        "StdinOnce",
                                        "AttachStdin",
                                        "AttachStdout",
                                        "AttachStderr",
                                        "Tty",
                                        "NetworkDisabled",
                                        "Healthcheck",
                                        "Labels",
                                        "HostConfig",
                                        "ExposedPorts",
                                        "StopTimeout",
                                        NULL };
    static const char *const hosts[] = {
        "AutoRemove",  "Privileged",    "ReadonlyRootfs",  "CapDrop",
        "SecurityOpt", "NetworkMode",   "IpcMode",         "CgroupnsMode",
        "Mounts",      "Tmpfs",         "ShmSize",         "Ulimits",
        "LogConfig",   "RestartPolicy", "PublishAllPorts", "OomKillDisable",
        "MaskedPaths", "Memory",        "MemorySwap",      "PidsLimit",
        "NanoCpus",    "Dns",           "PortBindings",    "Runtime",
        NULL
    };
    json_t *host = json_object_get(container, "HostConfig");
    const char *network = text_at(host, "NetworkMode");

    expect_keys(container, tops);
    expect_keys(host, hosts);
    assert_true(json_is_false(json_object_get(host, "Privileged")));
    assert_true(json_is_true(json_object_get(host, "ReadonlyRootfs")));
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(host, "CapDrop"), 0)), "ALL");
    assert_true(strcmp(network, "none") == 0 || strcmp(network, "bridge") == 0 ||
                strcmp(network, "backend") == 0);
    if (strcmp(network, "none") == 0) {
        assert_null(json_object_get(host, "Dns"));
        assert_null(json_object_get(host, "PortBindings"));
        assert_null(json_object_get(container, "ExposedPorts"));
    }
    expect_bindings(json_object_get(host, "PortBindings"));
    assert_string_equal(text_at(host, "IpcMode"), "private");
    assert_string_equal(text_at(host, "CgroupnsMode"), "private");
    assert_string_equal(text_at(container, "User"), "1000:1000");
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(host, "SecurityOpt"), 0)),
        "no-new-privileges");
    assert_true(json_equal(json_object_get(host, "Memory"),
                           json_object_get(host, "MemorySwap")));
    expect_mounts(json_object_get(host, "Mounts"), mount);
}

/* DK-01; covers: NFR-020-25 NFR-020-26 NFR-020-27 NFR-020-28 NFR-020-30 FR-020-66 */
static void no_request_opens_a_container_to_the_host(void **state)
{
    struct scratch *s = *state;
    char mount[4200];
    unsigned seed = 20;

    (void)snprintf(mount, sizeof(mount), "%s", scratch_dir(s, "shown"));
    for (int i = 0; i < 300; i++) {
        auto_str struct str request = { 0 };
        auto_json json_t *container = NULL;

        add_random(&request, &seed, mount);
        container = container_of(s, request.data);
        expect_closed(container, mount);
    }
}

/* The last of a container's mounts, and what the guest is told. */
static void expect_line(struct scratch *s, enum guest_entry place, bool shown)
{
    struct container_options o = options;
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    auto_plan struct plan *plan = NULL;
    auto_json json_t *out = NULL;
    auto_free char *text = NULL;

    o.place = place;
    o.guest_socket_dir = "/tmp/vial-7/p-1/tmp";
    use_settings(s, "");
    assert_int_equal(parse_request("{\"command\": [\"x\"]}", &req, &err), 0);
    assert_int_equal(plan_request(s->settings, req, "docker", &plan, &err), 0);
    vial_request_free(req);
    out = container_json(plan, &o);
    text = json_dumps(out, JSON_COMPACT);
    assert_int_equal(strstr(text,
                            "\"Source\":\"/tmp/vial-7/p-1/tmp\","
                            "\"Target\":\"/.vial-line\",\"ReadOnly\":true") != NULL,
                     shown);
    assert_int_equal(strstr(text, "\"Cmd\":[\"--line\",\"/.vial-line/line\"]") != NULL,
                     shown);
}

static void the_line_is_shown_where_the_guest_is_and_read_only(void **state)
{
    expect_line(*state, ENTRY_BIND, true);
    expect_line(*state, ENTRY_COPY, false);
    expect_line(*state, ENTRY_EXEC, false);
}

static void expect_name(const char *session, const char *task, bool unique,
                        const char *name)
{
    char a[200], b[200];
    struct plan plan = { .label_session = session ? a : NULL,
                         .label_task = task ? b : NULL };
    auto_str struct str out = { 0 };

    (void)snprintf(a, sizeof(a), "%s", session ? session : "");
    (void)snprintf(b, sizeof(b), "%s", task ? task : "");
    container_name(&out, &plan, "v-00ff", unique);
    assert_string_equal(out.data, name);
}

static void expect_prefixed(const char *prefix, const char *name)
{
    char a[] = "s1", b[] = "t1", c[32];
    struct plan plan = { .label_session = a,
                         .label_task = b,
                         .container = { .prefix = c } };
    auto_str struct str out = { 0 };

    (void)snprintf(c, sizeof(c), "%s", prefix);
    container_name(&out, &plan, "v-00ff", false);
    assert_string_equal(out.data, name);
}

/* covers: FR-020-31 NFR-020-38 */
static void a_name_is_made_of_the_labels(void **state)
{
    (void)state;
    expect_name("s1", "t1", false, "vial-s1-t1");
    expect_name("s1", "t1", true, "vial-s1-t1-00ff");
    expect_name("s1", NULL, false, "vial-s1");
    expect_name(NULL, NULL, false, "vial-00ff");
    expect_prefixed("acode", "acode-s1-t1");
    expect_name("../a b", "\xc3\xa9?x=1&y", false, "vial-.._a_b-___x_1_y");
}

static json_t *rule_of(json_t *oci, const char *call, const char *action)
{
    json_t *rules = json_object_get(oci, "syscalls");

    for (size_t i = 0; i < json_array_size(rules); i++) {
        json_t *rule = json_array_get(rules, i);
        json_t *names = json_object_get(rule, "names");

        if (strcmp(json_string_value(json_array_get(names, 0)), call) == 0 &&
            strcmp(text_at(rule, "action"), action) == 0)
            return rule;
    }
    return NULL;
}

/* covers: NFR-020-28 */
static void the_profile_keeps_its_meaning_in_the_engines_form(void **state)
{
    char dir[4200];
    auto_json json_t *profile = NULL;
    auto_json json_t *oci = NULL;
    json_t *arg = NULL;

    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s/seccomp", variable("VIAL_TEST_SOURCE"));
    assert_int_equal(profile_read(dir, "default", &profile, NULL), 0);
    oci = oci_profile(profile, (struct oci_options){ 0 }, NULL);
    assert_non_null(oci);
    assert_string_equal(text_at(oci, "defaultAction"), "SCMP_ACT_ERRNO");
    assert_non_null(rule_of(oci, "read", "SCMP_ACT_ALLOW"));
    assert_non_null(rule_of(oci, "mount", "SCMP_ACT_ERRNO"));
    assert_null(rule_of(oci, "mount", "SCMP_ACT_ALLOW"));
    assert_null(rule_of(oci, "init_module", "SCMP_ACT_ALLOW"));
    /* No bit of a new namespace. */
    arg = json_array_get(
        json_object_get(rule_of(oci, "clone", "SCMP_ACT_ALLOW"), "args"), 0);
    assert_int_equal(json_integer_value(json_object_get(arg, "value")), 0x7e028000);
    assert_int_equal(json_integer_value(json_object_get(arg, "valueTwo")), 0);
    /* The guest's own. */
    assert_non_null(rule_of(oci, "openat2", "SCMP_ACT_ALLOW"));
    assert_null(rule_of(oci, "openat2", "SCMP_ACT_ERRNO"));
}

static void a_rule_that_makes_no_sense_is_refused(void **state)
{
    static const char *const bad[] = {
        "[{'call':'x','action':'EWHAT'}]",
        "[{'call':'x','action':'allow','args':['7=1']}]",
        "[{'call':'x','action':'allow','args':['0<1']}]",
        "[{'call':'x','action':'allow','args':[3]}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[200];
        auto_json json_t *profile = NULL;
        struct vial_error err = { 0 };

        (void)snprintf(text, sizeof(text), "{'default':'ENOSYS','rules':%s}", bad[i]);
        for (char *at = text; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        profile = json_loads(text, 0, NULL);
        assert_non_null(profile);
        assert_null(oci_profile(profile, (struct oci_options){ 0 }, &err));
        assert_string_equal(err.code, "VIAL-VALUE");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(every_plan_becomes_the_container_that_was_agreed),
        scratch_test(no_request_opens_a_container_to_the_host),
        scratch_test(the_line_is_shown_where_the_guest_is_and_read_only),
        cmocka_unit_test(a_name_is_made_of_the_labels),
        cmocka_unit_test(the_profile_keeps_its_meaning_in_the_engines_form),
        cmocka_unit_test(a_rule_that_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
