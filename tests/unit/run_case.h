/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_RUN_CASE_H
#define VIAL_TESTS_RUN_CASE_H

/* Runs one request, given as JSON with ' for ", through the public API. */

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "kept_case.h"

#include "vial/vial.h"

/* With the settings file CONFIG, or an empty one: never the user's own. */
static inline struct vial_engine *case_engine(const char *config)
{
    char empty[] = "/tmp/vial-test-XXXXXX";
    int fd = mkstemp(empty);
    const struct vial_engine_options options = { .config = config ? config : empty,
                                                 .project_dir = "/",
                                                 .kept = kept_is_on() };
    struct vial_engine *e = NULL;
    struct vial_error err = { 0 };

    if (vial_engine_open(&options, &e, &err) < 0)
        fail_msg("open: %s: %s (%s)", err.code, err.message, err.cause);
    (void)close(fd);
    (void)unlink(empty);
    return e;
}

static inline void case_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* With a language table of its own, and SETTINGS besides. */
static inline struct vial_engine *case_engine_with(const char *table,
                                                   const char *settings)
{
    char dir[] = "/tmp/vial-test-XXXXXX";
    char languages[64], config[64], text[256];
    struct vial_engine *e;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(languages, sizeof languages, "%s/languages.yaml", dir);
    (void)snprintf(config, sizeof config, "%s/vial.yaml", dir);
    (void)snprintf(text, sizeof text, "languages: %s\n%s", languages, settings);
    case_write(languages, table);
    case_write(config, text);
    e = case_engine(config);
    (void)unlink(languages);
    (void)unlink(config);
    (void)rmdir(dir);
    return e;
}

static inline struct vial_request *case_request(const char *text)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    char *json = strdup(text);

    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    if (vial_request_parse(json, strlen(json), &req, &err) < 0)
        fail_msg("%s: %s: %s (%s)", json, err.code, err.message, err.cause);
    free(json);
    return req;
}

static inline void case_set(struct vial_request *req, const char *field,
                            const char *value)
{
    struct vial_error err = { 0 };

    if (vial_request_set(req, field, value, &err) < 0)
        fail_msg("set %s: %s: %s", field, err.code, err.message);
}

/* Takes REQ. */
static inline struct vial_result *case_run(struct vial_engine *e,
                                           struct vial_request *req,
                                           const struct vial_watch *watch)
{
    struct vial_result *result = NULL;

    assert_int_equal(vial_run(e, req, watch, &result, NULL), 0);
    vial_request_free(req);
    return result;
}

static inline void case_verdict(const struct vial_result *result,
                                enum vial_verdict want)
{
    if (result->verdict != want)
        fail_msg("verdict is %s, not %s (%s %s %s; out '%s', err '%s')",
                 vial_verdict_name(result->verdict), vial_verdict_name(want),
                 result->error.code, result->error.message, result->error.cause,
                 result->out.data ? result->out.data : "",
                 result->err.data ? result->err.data : "");
}

#endif
