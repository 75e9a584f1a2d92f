/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pull.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/print.h"

/* On a terminal one line that is overwritten; elsewhere a line for each change of
 * a layer's status, or an object for each event. */
int pull_show(void *context, const char *layer, const char *status,
              unsigned long long current, unsigned long long total)
{
    struct pull_show *s = context;
    char line[160];

    if (s->quiet)
        return 0;
    if (s->as_json) {
        auto_json json_t *event =
            json_pack("{s:s, s:s, s:I, s:I}", "layer", layer, "status", status,
                      "current", (json_int_t)current, "total", (json_int_t)total);
        auto_free char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;

        if (text)
            (void)fprintf(stderr, "%s\n", text);
        return 0;
    }
    (void)snprintf(line, sizeof(line), "%.110s%s%.40s", status, layer[0] ? " " : "",
                   layer);
    if (s->on_terminal && total > 0)
        (void)fprintf(stderr, "\r\033[K%s %llu%%", line,
                      current >= total ? 100ull : current * 100 / total);
    else if (s->on_terminal)
        (void)fprintf(stderr, "\r\033[K%s", line);
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
