/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/print.h"

#define NOTHING "nothing"

struct probe {
    const char *name, *claim;
    const char *field, *value; /* a request field to set, or NULL */
    const char *script;
    const char *judge;
};

static const struct probe probes[] = {
#define PROBE(name, claim, field, value, script, judge)                                \
    { #name, claim, field, value, script, judge },
#include "cli/probes.def"
#undef PROBE
};

static inline void auto_result_(struct vial_result **result)
{
    vial_result_free(*result);
}
#define auto_result __attribute__((cleanup(auto_result_)))

/* IMAGE: the vessel's root is an image's, whose files are not the host's. */
static int run_probe(struct vial_engine *engine, const struct cli *cli,
                     const struct probe *p, bool image, struct vial_result **out,
                     struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;
    auto_str struct str code = { 0 };
    const char *driver = cli_flag(cli, "driver");

    str_printf(&code, "IMAGE=%s; %s", image ? "1" : "", p->script);
    if (!str_ok(&code))
        return fail_memory(err);
    if (vial_request_new(&req, err) < 0 ||
        vial_request_set(req, "language", "sh", err) < 0 ||
        vial_request_set(req, "code", code.data, err) < 0 ||
        vial_request_set(req, "timeout", "20s", err) < 0 ||
        (driver && vial_request_set(req, "driver", driver, err) < 0) ||
        (p->field && vial_request_set(req, p->field, p->value, err) < 0))
        return -1;
    return vial_run(engine, req, NULL, out, err);
}

static bool obtained_something(const struct vial_result *r)
{
    const char *text = r->out.data ? r->out.data : "";

    return r->verdict != VIAL_OK || strncmp(text, "got ", 4) == 0 ||
           strstr(text, "\ngot ");
}

/* Without a cgroup there is no event: a limit shows only in what the program
 * could not do. */
static bool by_rlimit(const struct probe *p, const struct vial_result *r)
{
    return strncmp(r->limits_by, "cgroup", 6) != 0 &&
           (strcmp(p->judge, "oom") == 0 || strcmp(p->judge, "limit:pids") == 0);
}

static bool held(const struct probe *p, const struct vial_result *r)
{
    unsigned wanted = 0;

    if (strcmp(p->judge, NOTHING) == 0)
        return !obtained_something(r);
    if (by_rlimit(p, r)) /* the program was told; nobody else was */
        return r->verdict != VIAL_OK;
    if (strncmp(p->judge, "limit:", 6) != 0)
        return strcmp(vial_verdict_name(r->verdict), p->judge) == 0;
    wanted = strcmp(p->judge + 6, "pids") == 0 ? VIAL_LIMIT_PIDS : VIAL_LIMIT_DISK;
    return (r->limits_hit & wanted) != 0;
}

/* Says in a few words what the attacker got. */
static void describe(const struct probe *p, const struct vial_result *r,
                     struct str *out)
{
    const char *text = r->out.data ? r->out.data : "";

    if (r->error.code[0])
        str_puts(out, r->error.message);
    else if (strcmp(p->judge, NOTHING) != 0)
        str_printf(out, "verdict %s, expected %s", vial_verdict_name(r->verdict),
                   p->judge);
    else
        str_printf(out, "verdict %s: %.*s", vial_verdict_name(r->verdict),
                   (int)strcspn(text, "\n"), text);
}

/* The probes are real attacks. Where nothing holds them they would hit the host. */
static int check_walls(struct vial_engine *engine, const struct cli *cli, bool *image,
                       struct vial_error *err)
{
    static const struct probe harmless = { .script = ":" };
    auto_result struct vial_result *r = NULL;

    if (run_probe(engine, cli, &harmless, false, &r, err) < 0)
        return -1;
    if (r->error.code[0]) {
        *err = r->error;
        return -1;
    }
    *image = strcmp(r->level, "container") == 0;
    if (strcmp(r->level, "none") != 0)
        return 0;
    (void)fail(err, VIAL_E_ISOLATION,
               "driver '%s' isolates nothing: there is nothing to "
               "verify, and the probes would hit this host",
               r->driver);
    return fail_remedy(err, "see 'vial doctor' for a driver that isolates");
}

static int verify_one(struct vial_engine *engine, const struct cli *cli,
                      const struct probe *p, bool image, json_t *rows,
                      struct vial_error *err)
{
    auto_result struct vial_result *r = NULL;
    auto_str struct str why = { 0 };
    auto_str struct str line = { 0 };
    bool good = false;

    if (run_probe(engine, cli, p, image, &r, err) < 0)
        return -1;
    good = held(p, r);
    if (!good)
        describe(p, r, &why);
    (void)json_array_append_new(rows, json_pack("{ss ss sb ss}", "probe", p->name,
                                                "claim", p->claim, "held", good, "got",
                                                why.data ? why.data : ""));
    if (!cli_flag(cli, "json")) {
        str_printf(&line, "%-7s %-12s %s%s%s\n", good ? "held" : "BREACH", p->name,
                   p->claim, good ? "" : ": ", why.data ? why.data : "");
        (void)print_text(&line);
    }
    return good ? 1 : 0;
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    struct vial_error err = { 0 };
    json_t *rows = json_array();
    size_t good = 0;
    bool image = false;
    size_t count = sizeof(probes) / sizeof(probes[0]);

    if (cli_engine(cli, &engine, &err) < 0 ||
        check_walls(engine, cli, &image, &err) < 0) {
        json_decref(rows);
        return cli_fail(cli, &err);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = verify_one(engine, cli, &probes[i], image, rows, &err);

        if (rc < 0) {
            json_decref(rows);
            return cli_fail(cli, &err);
        }
        good += (size_t)rc;
    }
    if (cli_flag(cli, "json"))
        (void)print_json(json_pack("{sb so}", "held", good == count, "probes", rows));
    else
        json_decref(rows);
    return good == count ? STATUS_OK : STATUS_UNFIT;
}

static const struct flag flags[] = {
    { "driver", "NAME", "The driver whose vessels are probed." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_verify;
const struct command command_verify = {
    .name = "verify",
    .operands = "",
    .summary = "open vessels and try to break out of them",
    .text =
        "Runs one live probe after the other, each in a vessel of its own, and says\n"
        "what held. Exit status 0: all of it; 1: something did not.",
    .examples = "vial verify\n"
                "vial verify --driver native --json",
    .flags = flags,
    .run = run,
};
