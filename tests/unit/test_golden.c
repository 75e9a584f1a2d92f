/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each file of tests/golden holds a request and the plan it becomes (or the error
 * it is refused with), under settings of its own if it has any:
 *
 *   {"request": {…}, "driver": "native", "settings": {…}, "plan": {…} | "error": {…}}
 *
 * "@dir@" stands for a directory of the test's own, where settings.yaml lies.
 * UPDATE_GOLDEN=1 writes what comes out into the files; read the diff.
 */
#include <dirent.h>

#include "base/auto.h"
#include "model/result.h"
#include "model_case.h"

static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */
}

/* JSON with each FROM replaced by TO. Takes JSON. */
static json_t *swap(json_t *json, const char *from, const char *to)
{
    auto_free char *text = json_dumps(json, JSON_ENCODE_ANY);
    auto_str struct str out = { 0 };
    const char *rest = text;
    const char *at;

    json_decref(json);
    assert_non_null(text);
    while ((at = strstr(rest, from))) {
        str_add(&out, rest, (size_t)(at - rest));
        str_puts(&out, to);
        rest = at + strlen(from);
    }
    str_puts(&out, rest);
    assert_true(str_ok(&out));
    return json_loads(out.data, JSON_DECODE_ANY, NULL);
}

/* Settings are JSON here, which is YAML. */
static void load_settings(struct scratch *s, const json_t *settings)
{
    auto_free char *text = settings ? json_dumps(settings, 0) : strdup("{}");

    assert_non_null(text);
    use_settings(s, text);
}

static json_t *outcome(struct scratch *s, const json_t *golden, const char **key)
{
    json_t *given = json_deep_copy(json_object_get(golden, "request"));
    auto_json json_t *request = swap(given, "@dir@", s->dir);
    const char *driver = json_string_value(json_object_get(golden, "driver"));
    auto_free char *text = json_dumps(request, 0);
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    auto_plan struct plan *plan = NULL;
    int rc;

    assert_non_null(text);
    load_settings(s, json_object_get(golden, "settings"));
    rc = vial_request_parse(text, strlen(text), &req, &err);
    if (rc == 0) {
        rc = plan_request(s->settings, req, driver ? driver : "native", &plan, &err);
        vial_request_free(req);
    }
    *key = rc == 0 ? "plan" : "error";
    if (rc < 0)
        return swap(error_json(&err), s->dir, "@dir@");
    (void)snprintf(plan->id, sizeof(plan->id), "r-0");
    return swap(plan_json(plan), s->dir, "@dir@");
}

static void write_golden(const char *path, const json_t *golden)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(json_dumpf(golden, file, JSON_INDENT(2)), 0);
    assert_true(fputc('\n', file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void compare(const char *path, json_t *golden, json_t *came, const char *key)
{
    auto_free char *got = json_dumps(came, JSON_INDENT(2));
    auto_free char *want = NULL;
    const json_t *expected = json_object_get(golden, key);

    if (variable("UPDATE_GOLDEN")) {
        (void)json_object_del(golden, "plan");
        (void)json_object_del(golden, "error");
        (void)json_object_set(golden, key, came);
        write_golden(path, golden);
        return;
    }
    want = expected ? json_dumps(expected, JSON_INDENT(2)) : strdup("nothing");
    assert_non_null(want);
    if (strcmp(got, want) != 0)
        fail_msg("%s: the %s is\n%s\nnot\n%s", path, key, got, want);
}

static void check_file(struct scratch *s, const char *path)
{
    json_error_t error;
    auto_json json_t *golden = json_load_file(path, 0, &error);
    auto_json json_t *came = NULL;
    const char *key = NULL;

    if (!golden)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    came = outcome(s, golden, &key);
    compare(path, golden, came, key);
}

static int is_golden(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && strcmp(dot, ".json") == 0;
}

static void every_request_becomes_the_plan_that_was_agreed(void **state)
{
    struct dirent **entries = NULL;
    char dir[4096];
    int count;

    assert_non_null(variable("VIAL_TEST_SOURCE"));
    (void)snprintf(dir, sizeof(dir), "%s/tests/golden", variable("VIAL_TEST_SOURCE"));
    count = scandir(dir, &entries, is_golden, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        char path[4400];

        (void)snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
        check_file(*state, path);
        free(entries[i]);
    }
    free(entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(every_request_becomes_the_plan_that_was_agreed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
