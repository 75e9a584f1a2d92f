/* SPDX-License-Identifier: Apache-2.0 */

/*
 * vial-image JOB: brings images into a store, and out of it, for vial, which is static
 * and has no library that reads what strangers made.
 *
 *   JOB            a JSON object (struct job): what to do
 *   descriptor 0   what is imported
 *   descriptor 1   what is exported
 *   descriptor 3   reports, one JSON object a line: "status" of a "layer"; last
 * "result" or "error"
 *   descriptor 4   the layer that a snapshot is made of
 *
 * It ends when it is told to, or when who started it dies, and then leaves nothing.
 */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "images/fetch/own_range.h"
#include "images/fetch/verbs.h"

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && *text ? text : NULL;
}

static int64_t number_at(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* As images call it. */
static const char *architecture(void)
{
    static const char *const names[][2] = {
        { "x86_64", "amd64" },    { "aarch64", "arm64" },   { "armv7l", "arm" },
        { "i686", "386" },        { "ppc64le", "ppc64le" }, { "s390x", "s390x" },
        { "riscv64", "riscv64" },
    };
    struct utsname host;

    if (uname(&host) < 0)
        return "amd64";
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(host.machine, names[i][0]) == 0)
            return names[i][1];
    return "unknown";
}

static int read_job(const char *text, struct job *out, struct vial_error *err)
{
    json_t *j = NULL;

    if (json_parse(text, strlen(text), "the job", &j, err) < 0)
        return -1;
    *out = (struct job){
        .json = j,
        .verb = text_at(j, "verb"),
        .store = text_at(j, "store"),
        .reference = text_at(j, "reference"),
        .registry = text_at(j, "registry"),
        .ca = getenv("SSL_CERT_FILE"), /* NOLINT(concurrency-mt-unsafe) */
        .home = text_at(j, "home"),
        .os = "linux",
        .arch = text_at(j, "arch"),
        .path = text_at(j, "path"),
        .base = text_at(j, "base"),
        .config = json_object_get(j, "config"),
        .first_id = number_at(j, "first_id"),
        .ranged = json_is_true(json_object_get(j, "ranged")),
        .mirrors = json_object_get(j, "mirrors"),
        .plain = json_object_get(j, "plain"),
        .max_bytes = number_at(j, "max_bytes"),
        .max_files = number_at(j, "max_files"),
        .retry_ms = number_at(j, "retry_ms"),
        .retries = (int)number_at(j, "retries"),
    };
    out->ca = out->ca && out->ca[0] == '/' ? out->ca : NULL;
    out->arch = out->arch ? out->arch : architecture();
    out->reference = out->reference ? out->reference : "";
    if (out->verb && out->store && out->store[0] == '/')
        return 0;
    return fail(err, VIAL_E_USAGE, "vial-image is started by vial");
}

static void report(json_t *object)
{
    auto_json json_t *owned = object;
    auto_free char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    auto_str struct str line = { 0 };

    str_printf(&line, "%s\n", text ? text : "");
    if (str_ok(&line) && owned)
        (void)io_write_all(REPORT_FD, line.data, line.len);
}

static int do_job(const struct job *job, json_t **out, struct vial_error *err)
{
    static const struct {
        const char *name;
        int (*run)(const struct job *job, json_t **out, struct vial_error *err);
    } verbs[] = { { "pull", verb_pull },           { "import", verb_import },
                  { "export", verb_export },       { "snapshot", verb_snapshot },
                  { "configure", verb_configure }, { "verify", verb_verify },
                  { "sweep", verb_sweep } };

    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
        if (strcmp(verbs[i].name, job->verb) == 0)
            return verbs[i].run(job, out, err);
    return fail(err, VIAL_E_USAGE, "vial-image cannot '%s'", job->verb);
}

int main(int argc, char **argv)
{
    struct vial_error err = { 0 };
    struct job job = { 0 };
    json_t *out = NULL;
    sigset_t stop;
    int rc;

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTERM);
    (void)sigaddset(&stop, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL); /* work_run reads them */
    (void)umask(077);
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives are UTF-8 */
    rc = argc == 2 ? read_job(argv[1], &job, &err)
                   : fail(&err, VIAL_E_USAGE, "vial-image is started by vial");
    rc = rc < 0 ? rc : own_range_enter(job.store, &err);
    rc = rc < 0 ? rc : do_job(&job, &out, &err);
    if (rc == 0)
        report(json_pack("{s:o}", "result", out ? out : json_null()));
    else
        report(json_pack("{s:{s:s, s:s, s:s, s:s}}", "error", "code", err.code,
                         "message", err.message, "cause", err.cause, "remedy",
                         err.remedy));
    json_decref(job.json);
    return rc < 0;
}
