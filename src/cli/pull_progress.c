/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pull_progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "cli/print.h"

/* The words are the engine's, which has them from a registry. */
static void show_words(const char *before, const char *words, const char *after)
{
    struct text_safe state = { 0 };

    (void)io_write_all(STDERR_FILENO, before, strlen(before));
    (void)print_bytes(STDERR_FILENO, &state, words, strlen(words));
    (void)print_bytes(STDERR_FILENO, &state, NULL, 0);
    (void)io_write_all(STDERR_FILENO, after, strlen(after));
}

/* On a terminal one line that is overwritten; elsewhere a line for each change of
 * a layer's status, or an object for each event. */
/* Neither product nor quotient leaves its type, whatever a registry says. */
static unsigned percent(unsigned long long part, unsigned long long of)
{
    return (unsigned)(100.0 * (double)part / (double)of);
}

int pull_show(void *context, const char *layer, const char *status,
              unsigned long long current, unsigned long long total)
{
    struct pull_show *s = context;
    char line[160];
    char share[16] = "";

    if (s->quiet)
        return 0;
    if (s->as_json) {
        auto_json json_t *event =
            json_pack("{s:s, s:s, s:I, s:I}", "layer", layer, "status", status,
                      "current", (json_int_t)current, "total", (json_int_t)total);
        auto_free char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;

        if (text)
            show_words("", text, "\n");
        return 0;
    }
    (void)snprintf(line, sizeof(line), "%.110s%s%.40s", status, layer[0] ? " " : "",
                   layer);
    if (total > 0)
        (void)snprintf(share, sizeof(share), " %u%%",
                       current >= total ? 100 : percent(current, total));
    if (s->on_terminal)
        show_words("\r\033[K", line, share);
    else if (strcmp(line, s->last) != 0)
        say("%s", line);
    (void)snprintf(s->last, sizeof(s->last), "%s", line);
    return 0;
}

struct pull_show pull_show_begin(const struct cli *cli)
{
    return (struct pull_show){ .as_json = cli_flag(cli, "json") != NULL,
                               .on_terminal = isatty(STDERR_FILENO),
                               .quiet = cli_flag(cli, "quiet") != NULL };
}

void pull_show_end(const struct pull_show *s)
{
    if (s->on_terminal && s->last[0])
        (void)fprintf(stderr, "\r\033[K");
}
