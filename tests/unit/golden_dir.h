/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_GOLDEN_DIR_H
#define VIAL_TESTS_GOLDEN_DIR_H

/*
 * Plans as what somebody is asked for. Each file of a folder of tests/golden holds a
 * request, perhaps settings, and, under KEY, what becomes of it; UPDATE_GOLDEN=1 writes
 * them anew.
 */

#include <dirent.h>

#include "base/auto.h"
#include "model_case.h"

/* What REQUEST, as JSON text, becomes; it must become something. */
typedef json_t *golden_make(struct scratch *s, const char *request);

static inline const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */
}

static inline void golden_compare(const char *path, const char *key, json_t *golden,
                                  json_t *came)
{
    auto_free char *got = json_dumps(came, JSON_INDENT(2));
    auto_free char *want = json_dumps(json_object_get(golden, key), JSON_INDENT(2));

    if (variable("UPDATE_GOLDEN")) {
        (void)json_object_set(golden, key, came);
        assert_int_equal(json_dump_file(golden, path, JSON_INDENT(2)), 0);
        return;
    }
    if (!want || strcmp(got, want) != 0)
        fail_msg("%s: the %s is\n%s\nnot\n%s", path, key, got, want ? want : "");
}

static inline int golden_is_file(const struct dirent *entry)
{
    return strstr(entry->d_name, ".json") != NULL;
}

static inline void golden_file(struct scratch *s, const char *path, const char *key,
                               golden_make *make)
{
    auto_json json_t *golden = json_load_file(path, 0, NULL);
    auto_free char *request = json_dumps(json_object_get(golden, "request"), 0);
    auto_free char *settings = json_dumps(json_object_get(golden, "settings"), 0);
    auto_json json_t *came = NULL;

    assert_non_null(request);
    use_settings(s, settings ? settings : "");
    came = make(s, request);
    golden_compare(path, key, golden, came);
}

static inline void golden_dir(struct scratch *s, const char *folder, const char *key,
                              golden_make *make)
{
    struct dirent **entries = NULL;
    char dir[4096];
    int count;

    assert_non_null(variable("VIAL_TEST_SOURCE"));
    (void)snprintf(dir, sizeof(dir), "%s/tests/golden/%s", variable("VIAL_TEST_SOURCE"),
                   folder);
    count = scandir(dir, &entries, golden_is_file, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        char path[4400];

        (void)snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
        golden_file(s, path, key, make);
        free(entries[i]);
    }
    free(entries);
}

/* The plan that DRIVER gets of REQUEST, which must be one. */
static inline struct plan *golden_plan(struct scratch *s, const char *request,
                                       const char *driver)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    struct plan *plan = NULL;

    if (!s->settings)
        use_settings(s, "");
    if (parse_request(request, &req, &err) < 0 ||
        plan_request(s->settings, req, driver, &plan, &err) < 0)
        fail_msg("%s: %s: %s", request, err.code, err.message);
    vial_request_free(req);
    (void)snprintf(plan->id, sizeof(plan->id), "r-0");
    return plan;
}

/* Fails at a member of OBJECT that is none of ALLOWED. */
static inline void expect_keys(json_t *object, const char *const *allowed)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(object, key, value)
    {
        bool known = false;

        for (size_t i = 0; allowed[i]; i++)
            known = known || strcmp(allowed[i], key) == 0;
        if (!known)
            fail_msg("'%s' has no business there", key);
    }
}

static inline const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

#endif
