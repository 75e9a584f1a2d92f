/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_MODEL_CASE_H
#define VIAL_TESTS_MODEL_CASE_H

/* What the tests of src/model share: a scratch directory, settings without any
 * file or variable of this host, and plans made from JSON. */

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "check.h"
#include "plan/build.h"

struct scratch {
    char dir[64];
    char path[4096]; /* of the last scratch_path */
    struct settings *settings;
};

static inline const char *scratch_path(struct scratch *s, const char *name)
{
    (void)snprintf(s->path, sizeof(s->path), "%s/%s", s->dir, name);
    return s->path;
}

static inline const char *scratch_write(struct scratch *s, const char *name,
                                        const char *text)
{
    FILE *file = fopen(scratch_path(s, name), "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return s->path;
}

static inline const char *scratch_dir(struct scratch *s, const char *name)
{
    assert_int_equal(mkdir(scratch_path(s, name), 0700), 0);
    return s->path;
}

/* NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread */
static inline const char *share_dir(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *dir = getenv("VIAL_SHARE");

    return dir ? dir : ".";
}

/* Nothing of this host but the built-in data. */
static inline struct settings_sources bare_sources(const struct scratch *s)
{
    return (struct settings_sources){ .config = "/dev/null",
                                      .project_dir = s->dir,
                                      .share_dir = share_dir() };
}

static inline int scratch_make(void **state)
{
    struct scratch *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/vial-test-model-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    *state = s;
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *st, int type,
                               struct FTW *walk)
{
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline int scratch_drop(void **state)
{
    struct scratch *s = *state;

    settings_free(s->settings);
    (void)nftw(s->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(s);
    return 0;
}

/* Settings with POLICY_AND_DEFAULTS (YAML text) as the only file. */
static inline void use_settings(struct scratch *s, const char *yaml)
{
    char config[128];
    struct settings_sources from = bare_sources(s);
    struct vial_error err = { 0 };

    (void)snprintf(config, sizeof(config), "%s", scratch_write(s, "config.yaml", yaml));
    from.config = config;
    settings_free(s->settings);
    s->settings = NULL;
    if (settings_load(&from, &s->settings, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
}

/* As the engine does it: defaults, policy, plan. */
static inline int plan_request(const struct settings *settings,
                               const struct vial_request *req, const char *driver,
                               struct plan **out, struct vial_error *err)
{
    auto_request struct vial_request full = { 0 };
    bool contains = strcmp(driver, "docker") == 0 || strcmp(driver, "kubernetes") == 0;
    struct plan_driver maker = { driver, contains };

    if (request_fill(&full, req, err) < 0 ||
        request_fill(&full, &settings->defaults, err) < 0 ||
        policy_check(&settings->policy, &full, err) < 0)
        return -1;
    return plan_build(&full, settings, &maker, out, err);
}

/* JSON with ' for ". */
static inline int parse_request(const char *text, struct vial_request **out,
                                struct vial_error *err)
{
    char *json = strdup(text);
    int rc;

    assert_non_null(json);
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    rc = vial_request_parse(json, strlen(json), out, err);
    free(json);
    return rc;
}

static inline int plan_text(struct scratch *s, const char *json, struct plan **out,
                            struct vial_error *err)
{
    struct vial_request *req;
    int rc;

    if (!s->settings)
        use_settings(s, "");
    if (parse_request(json, &req, err) < 0)
        return -1;
    rc = plan_request(s->settings, req, "native", out, err);
    vial_request_free(req);
    return rc;
}

/* A plan that must come to be. */
static inline struct plan *plan_of(struct scratch *s, const char *json)
{
    struct vial_error err = { 0 };
    struct plan *plan = NULL;

    if (plan_text(s, json, &plan, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    return plan;
}

/* A plan that must be refused. */
static inline struct vial_error refused(struct scratch *s, const char *json)
{
    struct vial_error err = { 0 };
    struct plan *plan = NULL;

    if (plan_text(s, json, &plan, &err) == 0) {
        plan_free(plan);
        fail_msg("not refused: %s", json);
    }
    return err;
}

static inline void assert_refused(struct scratch *s, const char *json, const char *code,
                                  const char *message)
{
    struct vial_error err = refused(s, json);

    assert_string_equal(err.message, message);
    assert_string_equal(err.code, code);
}

#define scratch_test(name)                                                             \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_drop)

#endif
