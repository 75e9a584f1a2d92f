/* SPDX-License-Identifier: Apache-2.0 */

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/print.h"
#include "cli/verb.h"

int verb_diff(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    bool json = cli_flag(cli, "json") != NULL;
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };

    if (verb_target(cli, json ? "/workspace" : "/workspace?format=text", &target, err) <
        0)
        return -1;
    if (daemon_call(d, &(struct daemon_ask){ "GET", target.data, NULL, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (json)
        return print_line(said.data);
    return said.len ? print_text(&said) : STATUS_OK;
}

/* With paths only those, the rest stays in the layer. */
int verb_commit(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };
    auto_json json_t *body = json_object();
    auto_json json_t *report = NULL;
    auto_free char *text = NULL;
    auto_str struct str line = { 0 };
    json_t *paths = json_array();

    for (size_t i = 2; cli_operand(cli, i); i++)
        (void)json_array_append_new(paths, json_string(cli_operand(cli, i)));
    if (json_array_size(paths))
        (void)json_object_set(body, "paths", paths);
    json_decref(paths);
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    if (verb_target(cli, "/workspace/commit", &target, err) < 0 ||
        daemon_call(d, &(struct daemon_ask){ "POST", target.data, text, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    report = json_loads(said.data, 0, NULL);
    str_printf(&line, "%lld added, %lld modified, %lld deleted\n",
               (long long)json_integer_value(json_object_get(report, "added")),
               (long long)json_integer_value(json_object_get(report, "modified")),
               (long long)json_integer_value(json_object_get(report, "deleted")));
    return print_text(&line);
}

int verb_discard(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, "/workspace/discard", &target, err) < 0)
        return -1;
    return verb_do(d, "POST", target.data, NULL, err);
}

static int named(struct cli *cli, const struct daemon *d, const char *what,
                 struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, what, &target, err) < 0)
        return -1;
    http_escape(&target, cli_operand(cli, 2));
    return str_ok(&target) ? verb_do(d, "POST", target.data, NULL, err)
                           : fail_memory(err);
}

int verb_checkpoint(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    return named(cli, d, "/workspace/checkpoints/", err);
}

int verb_rollback(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    return named(cli, d, "/workspace/rollback/", err);
}
