/* SPDX-License-Identifier: Apache-2.0 */

/* A session: a file goes in, a command and a Python that remembers use it.
 *   cc session.c $(pkg-config --cflags --libs vial) -o session && ./session */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vial/vial.h>

static int run_line(struct vial_session *session, const char *line,
                    struct vial_error *err)
{
    struct vial_exec_options options = { .shell = line, .timeout_ms = 5000 };
    struct vial_exec_status status;
    struct vial_chunk chunk = { 0 };
    struct vial_exec *exec;
    char buf[4096];

    if (vial_session_exec(session, &options, &exec, err) < 0)
        return -1;
    while (!chunk.end) {
        if (vial_exec_read(exec, 1, chunk.offset + chunk.len, buf, sizeof buf, -1,
                           &chunk, err) < 0)
            return -1;
        (void)fwrite(buf, 1, chunk.len, stdout);
    }
    vial_exec_wait(exec, -1, &status);
    (void)printf("%s\n", vial_verdict_name(status.verdict));
    vial_exec_free(exec);
    return 0;
}

static int run_cell(struct vial_context *python, const char *code,
                    struct vial_error *err)
{
    char *json;

    if (vial_context_run(python, code, strlen(code), 0, &json, err) < 0)
        return -1;
    (void)printf("%s\n", json);
    free(json);
    return 0;
}

int main(void)
{
    struct vial_engine *engine = NULL;
    struct vial_request *request = NULL;
    struct vial_session *session = NULL;
    struct vial_context *python = NULL;
    struct vial_error err;
    int rc = 0;

    if (vial_engine_open(NULL, &engine, &err) < 0 ||
        vial_request_new(&request, &err) < 0 ||
        vial_session_open(engine, request, NULL, &session, &err) < 0 ||
        vial_session_put(session, "data.csv", "1\n2\n3\n", 6, 0, &err) < 0 ||
        run_line(session, "wc -l < data.csv", &err) < 0 ||
        vial_context_open(session, "python", &python, &err) < 0 ||
        run_cell(python, "rows = [int(x) for x in open('data.csv')]", &err) < 0 ||
        run_cell(python, "sum(rows)", &err) < 0) {
        (void)fprintf(stderr, "%s: %s\n", err.code, err.message);
        rc = 1;
    }
    vial_context_close(python);
    vial_session_free(session);
    vial_request_free(request);
    vial_engine_close(engine);
    return rc;
}
