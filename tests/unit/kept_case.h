/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_KEPT_CASE_H
#define VIAL_TESTS_KEPT_CASE_H

/* A keeper for the test: vessels of engines opened afterwards are opened by it. */

#include <fcntl.h>

#include "check.h"
#include "keeper/client/client.h"
#include "keeper/front/start_keeper.h"

/* POLICY: a settings file, or NULL for none at all. */
static inline void kept_start_with(const char *policy, unsigned vessels, bool docker)
{
    const struct settings_sources from = { .config = policy ? policy : "/dev/null",
                                           .project_dir = "/",
                                           .share_dir = getenv("VIAL_SHARE") };
    struct settings *settings = NULL;
    struct vial_error err = { 0 };

    if (settings_load(&from, &settings, &err) < 0)
        fail_msg("settings: %s: %s", err.code, err.message);
    const struct keeper_options options = { .settings = settings,
                                            .vessels = vessels,
                                            .first_only = !docker };
    if (keeper_start(&options, &err) < 0)
        fail_msg("keeper: %s: %s (%s)", err.code, err.message, err.cause);
    settings_free(settings);
}

static inline void kept_start(const char *policy, unsigned vessels)
{
    kept_start_with(policy, vessels, false);
}

static inline bool kept_is_on(void)
{
    return fcntl(KEPT_FD_native, F_GETFD) >= 0;
}

/* The driver that a test's argument means: "kept" is native behind a keeper. */
static inline const char *kept_driver(const char *name)
{
    bool docker = strcmp(name, "kept-docker") == 0;

    if (!docker && strcmp(name, "kept") != 0)
        return name;
    kept_start_with(NULL, 0, docker);
    return docker ? "docker" : "native";
}

#endif
