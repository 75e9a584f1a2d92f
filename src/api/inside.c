/* SPDX-License-Identifier: Apache-2.0 */
#include "api/inside.h"

#include "engine/session/compile_once.h"

int inside_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err)
{
    return engine_open(options, settings, out, err);
}

const struct settings *inside_settings(const struct vial_engine *engine)
{
    return engine->settings;
}

bool inside_compiles(struct vial_engine *engine, const struct vial_request *req)
{
    return compile_fits(engine, req);
}

int inside_compile(struct vial_engine *engine, const struct vial_request *req,
                   const struct vial_session_options *options,
                   struct vial_request **out, double *cpu_ms, struct vial_error *err)
{
    return compile_once(engine, req, options, out, cpu_ms, err);
}
