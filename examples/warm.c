/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps interpreters waiting, and runs a program in each of some: every one is
 * pristine, none is used twice. cc warm.c $(pkg-config --cflags --libs vial) */

#include <stdio.h>
#include <stdlib.h>
#include <vial/vial.h>

static const char *const languages[] = { "python", NULL };
static const char *const imports[] = { "json", NULL }; /* or numpy, pandas … */

static int run(struct vial_engine *engine, struct vial_request *req,
               struct vial_error *err)
{
    struct vial_result *result = NULL;

    if (vial_run(engine, req, NULL, &result, err) < 0)
        return -1;
    printf("%s, %s, %.1f ms: %s", vial_verdict_name(result->verdict), result->start,
           result->duration_ms, result->out.data);
    vial_result_free(result);
    return 0;
}

int main(void)
{
    const struct vial_warm_options warm = { .languages = languages,
                                            .imports = imports };
    struct vial_engine *engine = NULL;
    struct vial_request *req = NULL;
    struct vial_error err;
    char *report = NULL;
    int rc = 0;

    if (vial_engine_open(NULL, &engine, &err) < 0 ||
        vial_engine_warm(engine, &warm, &err) < 0 || vial_request_new(&req, &err) < 0 ||
        vial_request_set(req, "language", "python", &err) < 0 ||
        vial_request_set(req, "code", "print(2+2)", &err) < 0 ||
        vial_warm_ready(engine, req, 2, 60000, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    for (int i = 0; rc == 0 && i < 5; i++)
        rc = run(engine, req, &err);
    if (rc == 0 && vial_warm_report(engine, &report, &err) == 0)
        puts(report);
    free(report);
    vial_request_free(req);
    vial_engine_close(engine);
    return rc == 0 ? 0 : 1;
}
