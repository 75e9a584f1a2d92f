/* SPDX-License-Identifier: Apache-2.0 */

/*
 * acode's ISandbox, as a reader of its document would use it through the public header:
 * is it available, run a command under a policy with a token that cancels it, look at
 * the result, list containers, clean up.
 *
 *   isandbox DIR    one line for each thing that happened
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vial/vessels.h>
#include <vial/vial.h>

static void die(const struct vial_error *err)
{
    (void)fprintf(stderr, "%s: %s\n", err->code, err->message);
    exit(1);
}

/* RunAsync(Command, SandboxPolicy, CancellationToken) */
static struct vial_result *run_async(struct vial_engine *engine, const char *command,
                                     const char *policy, const struct vial_watch *token)
{
    char json[1024];
    struct vial_request *req = NULL;
    struct vial_result *result = NULL;
    struct vial_error err = { 0 };

    (void)snprintf(json, sizeof(json), "{\"command\": [\"sh\", \"-c\", \"%s\"], %s}",
                   command, policy);
    if (vial_request_parse(json, strlen(json), &req, &err) < 0 ||
        vial_run(engine, req, token, &result, &err) < 0)
        die(&err);
    vial_request_free(req);
    return result;
}

/* Cancels once the command has said that it is up. */
static int cancel_when_up(void *context, int stream, const void *data, size_t len)
{
    int *pipe_fd = context;

    (void)stream;
    if (len >= 2 && memcmp(data, "up", 2) == 0 && *pipe_fd >= 0) {
        (void)close(*pipe_fd);
        *pipe_fd = -1;
    }
    return 0;
}

static void show_result(struct vial_engine *engine, const char *workspace)
{
    char policy[512];
    struct vial_result *r;

    (void)snprintf(policy, sizeof(policy),
                   "\"memory\": \"128m\", \"network\": \"none\", \"timeout\": \"60s\", "
                   "\"workspace\": \"%s\"",
                   workspace);
    r = run_async(engine, "cat in.txt; echo oops >&2; exit 3", policy, NULL);
    (void)printf("stdout=%sstderr=%sexit=%d driver=%s container=%d duration=%d\n",
                 r->out.data, r->err.data, r->exit_code, r->driver,
                 r->vessel_id[0] != '\0', r->duration_ms > 0);
    vial_result_free(r);
    r = run_async(engine, "true", "\"memory\": \"1000g\"", NULL);
    (void)printf("refused=%s code=%s\n", vial_verdict_name(r->verdict), r->preset_code);
    vial_result_free(r);
}

static void show_cancel(struct vial_engine *engine)
{
    int ends[2];
    struct vial_watch token = { .stdin_fd = -1, .output = cancel_when_up };
    struct vial_result *r;

    if (pipe(ends) < 0)
        exit(1);
    token.cancel_fd = ends[0];
    token.context = &ends[1];
    r = run_async(engine, "echo up; sleep 600", "\"timeout\": \"700s\"", &token);
    (void)printf("cancelled=%s\n", vial_verdict_name(r->verdict));
    vial_result_free(r);
    (void)close(ends[0]);
}

int main(int argc, char **argv)
{
    const struct vial_engine_options options = { .preset = "acode" };
    struct vial_engine *engine = NULL;
    struct vial_error err = { 0 };
    unsigned removed = 0;
    char *text = NULL;

    if (argc < 2 || vial_engine_open(&options, &engine, &err) < 0 ||
        vial_doctor(engine, &text, &err) < 0)
        die(&err);
    (void)printf("available=%d\n", strstr(text, "\"ready\":true") != NULL);
    free(text);
    show_result(engine, argv[1]);
    show_cancel(engine);
    if (vial_vessels(engine, &text, &err) < 0 ||
        vial_cleanup(engine, &removed, &err) < 0)
        die(&err);
    (void)printf("containers=%s\n", text);
    free(text);
    vial_engine_close(engine);
    return 0;
}
