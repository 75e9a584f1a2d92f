/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "base/sys.h"
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/print.h"
#include "settings/blocks.h"

#define TOKEN_BYTES 32

#define USUAL_SCOPES "read,run,session"

static const char *const known_scopes[] = {
#define ROW(name, scope) name,
    SERVE_SCOPES(ROW)
#undef ROW
        NULL
};

/* "read,run" as a list. */
static int read_scopes(const struct cli *cli, json_t **out, struct vial_error *err)
{
    const char *given = cli_flag(cli, "scopes");
    auto_json json_t *list = json_array();

    for (const char *at = given ? given : USUAL_SCOPES; at;) {
        const char *end = strchrnul(at, ',');
        auto_free char *name = strndup(at, (size_t)(end - at));
        size_t i = 0;

        while (name && known_scopes[i] && strcmp(known_scopes[i], name) != 0)
            i++;
        if (!name)
            return fail_memory(err);
        if (!known_scopes[i]) {
            (void)fail(err, VIAL_E_VALUE, "there is no scope '%s'", name);
            return fail_remedy(err, "some of read, run, session, image, admin; or all");
        }
        (void)json_array_append_new(list, json_string(name));
        at = *end ? end + 1 : NULL;
    }
    *out = ptr_take(&list);
    return 0;
}

/* The token is shown once, and kept nowhere: the file has its hash. */
static int new_token(const struct cli *cli, const char *name)
{
    unsigned char secret[TOKEN_BYTES];
    auto_str struct str token = { 0 };
    auto_str struct str text = { 0 };
    struct vial_error err = { 0 };
    auto_json json_t *scopes = NULL;
    struct sha256 hash;
    char hex[65];
    size_t len = strlen(name);

    if (read_scopes(cli, &scopes, &err) < 0)
        return cli_fail(cli, &err);
    if (len == 0 || len > 63 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789-_.") != len) {
        (void)fail(&err, VIAL_E_VALUE, "'%s' is not a name of letters and digits",
                   name);
        return cli_fail(cli, &err);
    }
    if (sys_random(secret, sizeof(secret)) < 0) {
        (void)fail(&err, VIAL_E_SYSTEM, "no random bytes");
        return cli_fail(cli, &err);
    }
    str_puts(&token, cli_flag(cli, "e2b") ? "e2b_" : "vial_");
    for (size_t i = 0; i < sizeof(secret); i++)
        str_printf(&token, "%02x", secret[i]);
    sha256_init(&hash);
    sha256_add(&hash, token.data, token.len);
    sha256_text(&hash, hex);
    if (cli_flag(cli, "json"))
        return print_json(json_pack("{s:s, s:s, s:O, s:s}", "name", name, "sha256", hex,
                                    "scopes", scopes, "token",
                                    str_ok(&token) ? token.data : ""));
    say("the token, shown this once: %s", token.data);
    str_printf(&text, "- name: %s\n  sha256: %s\n  scopes: [", name, hex);
    for (size_t i = 0; i < json_array_size(scopes); i++)
        str_printf(&text, "%s%s", i ? ", " : "",
                   json_string_value(json_array_get(scopes, i)));
    str_puts(&text, "]\n");
    return print_text(&text);
}

/* The flags that viald knows, as they came. */
static int collect(const struct cli *cli, const char *program, struct strv *argv,
                   struct vial_error *err)
{
    strv_push(argv, program);
    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct given *g = &cli->options.given[i];

        if (strcmp(g->flag->name, "json") == 0) {
            strv_push(argv, "--log=json");
            continue;
        }
        strv_printf(argv, "--%s", g->flag->name);
        if (g->flag->metavar)
            strv_push(argv, g->value);
    }
    if (cli_flag(cli, "preset") && !options_get(&cli->options, "preset"))
        strv_printf(argv, "--preset=%s", cli_flag(cli, "preset"));
    if (cli_flag(cli, "config") && !options_get(&cli->options, "config"))
        strv_printf(argv, "--config=%s", cli_flag(cli, "config"));
    return strv_ok(argv) ? 0 : fail_memory(err);
}

static int run(struct cli *cli)
{
    const char *name = cli_flag(cli, "new-token");
    auto_free char *program = daemon_program();
    auto_strv struct strv argv = { 0 };
    struct vial_error err = { 0 };

    if (name)
        return new_token(cli, name);
    if (cli_flag(cli, "scopes") || cli_flag(cli, "e2b")) {
        (void)fail(&err, VIAL_E_USAGE, "'--%s' is for a new token",
                   cli_flag(cli, "scopes") ? "scopes" : "e2b");
        (void)fail_remedy(&err, "vial serve --new-token NAME --scopes LIST");
        return cli_fail(cli, &err);
    }
    if (!program)
        (void)fail_memory(&err);
    else if (collect(cli, program, &argv, &err) == 0) {
        (void)execv(program, argv.items);
        (void)fail_sys(&err, "start '%s'", program);
        (void)fail_as(&err, VIAL_E_DAEMON);
        (void)fail_remedy(&err, "install the daemon: it is a program of its own");
    }
    return cli_fail(cli, &err);
}

static const struct flag flags[] = {
    { "listen", "ADDRESS", "unix:PATH or tcp:HOST:PORT; may be given several times." },
    { "token-file", "FILE", "The hashed tokens of callers over TCP." },
    { "tls-cert", "FILE", "The server's certificate chain, as PEM." },
    { "tls-key", "FILE", "Its key, as PEM." },
    { "keeper", "WHEN",
      "A process apart opens vessels: on, off, or auto (when root starts it)." },
    { "warm", "LANG",
      "Let interpreters of it wait for code; may be given several times. auto: of what "
      "is asked for often; none." },
    { "sessions-at", "ADDRESS",
      "Another daemon of this host has the sessions, so that they outlive this one: "
      "unix:PATH." },
    { "sessions-for", "USER",
      "This daemon has the sessions for that user's daemons; may be given several "
      "times." },
    { "node", "NAME", "What this daemon is called among several behind one proxy." },
    { "log", "FORM", "Log lines as logfmt or json, or none." },
    { "idle-exit", "DURATION",
      "End when nobody asks for so long and no session is open." },
    { "new-token", "NAME",
      "Make a token, print its entry for the token file, and end." },
    { "scopes", "LIST",
      "What the new token may do: some of read, run, session, image, admin, or all." },
    { "e2b", NULL, "Make the new token in the form of a key of E2B's." },
    { "openapi", NULL, "Print the OpenAPI document, and end." },
    { "json", NULL,
      "Log lines as JSON; a new token too, with the token itself in it." },
    { 0 },
};

extern const struct command command_serve;
const struct command command_serve = {
    .name = "serve",
    .summary = "serve HTTP: runs, sessions and batches for many callers",
    .text =
        "Listens on $XDG_RUNTIME_DIR/vial/vial.sock, or /run/vial/vial.sock for root,\n"
        "unless told otherwise. Over a unix socket callers are known by their user;\n"
        "over TCP they need a token, and on an address that others can reach TLS as\n"
        "well. More settings are below the key 'serve' of a settings file. SIGHUP reads\n"
        "them again; SIGTERM lets runs come to their end first.",
    .examples = "vial serve\n"
                "vial serve --listen unix:/tmp/v/vial.sock\n"
                "vial serve --warm python --warm node\n"
                "vial serve --new-token ci --scopes read,run >> tokens.yaml\n"
                "vial serve --listen tcp:127.0.0.1:8080 --token-file tokens.yaml",
    .flags = flags,
    .run = run,
};
