/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/flags.h"

#include <getopt.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/unit.h"

static const struct option known[] = {
    { "listen", required_argument, NULL, 'l' },
    { "token-file", required_argument, NULL, 't' },
    { "tls-cert", required_argument, NULL, 'c' },
    { "tls-key", required_argument, NULL, 'k' },
    { "log", required_argument, NULL, 'o' },
    { "config", required_argument, NULL, 'f' },
    { "preset", required_argument, NULL, 'p' },
    { "idle-exit", required_argument, NULL, 'i' },
    { "node", required_argument, NULL, 'n' },
    { "keeper", required_argument, NULL, 'K' },
    { "warm", required_argument, NULL, 'w' },
    { "sessions-at", required_argument, NULL, 'a' },
    { "sessions-for", required_argument, NULL, 's' },
    { "openapi", no_argument, NULL, 'O' },
    { 0 },
};

static int add_to(json_t *flags, const char *setting, const char *value)
{
    json_t *list = json_object_get(flags, setting);

    if (!list) {
        list = json_array();
        (void)json_object_set_new(flags, setting, list);
    }
    return json_array_append_new(list, json_string(value));
}

static const char *setting_of(int letter)
{
    return letter == 't'   ? "tokens"
           : letter == 'c' ? "tls_cert"
           : letter == 'k' ? "tls_key"
           : letter == 'K' ? "keeper"
           : letter == 'n' ? "node"
           : letter == 'a' ? "sessions_at"
                           : "log";
}

static int take(struct flags *f, int letter, const char *value, struct vial_error *err)
{
    switch (letter) {
    case 'l':
    case 'w':
    case 's':
        return add_to(f->sources.flags,
                      letter == 'l'   ? "listen"
                      : letter == 'w' ? "warm"
                                      : "sessions_for",
                      value) == 0
                   ? 0
                   : fail_memory(err);
    case 'f':
        f->sources.config = value;
        return 0;
    case 'p':
        f->sources.preset = value;
        return 0;
    case 'O':
        f->openapi = true;
        return 0;
    case 'i':
        if (unit_parse_ms(value, &f->idle_exit_ms) == 0)
            return 0;
        return fail(err, VIAL_E_VALUE, "idle-exit '%s' is not a duration", value);
    default:
        return json_object_set_new(f->sources.flags, setting_of(letter),
                                   json_string(value)) == 0
                   ? 0
                   : fail(err, VIAL_E_VALUE, "a flag's value is not UTF-8");
    }
}

int flags_read(struct flags *f, int argc, char **argv, struct vial_error *err)
{
    int letter;

    *f = (struct flags){ .sources = { .flags = json_object(), .own = geteuid() } };
    if (!f->sources.flags)
        return fail_memory(err);
    opterr = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): before the first thread */
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (letter == '?' || letter == ':') {
            (void)fail(err, VIAL_E_USAGE, "unknown flag '%s'", argv[optind - 1]);
            return fail_remedy(err, "see 'vial serve --help'");
        }
        if (take(f, letter, optarg, err) < 0)
            return -1;
    }
    if (optind < argc)
        return fail(err, VIAL_E_USAGE, "unexpected argument '%s'", argv[optind]);
    return 0;
}

void flags_done(struct flags *f)
{
    json_decref(f->sources.flags);
}
