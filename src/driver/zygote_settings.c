/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/zygote_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "zygote/shortcuts.h"

#define HARNESS_MAX (64u << 10)

static unsigned shortcut_named(const char *name, size_t len)
{
    static const char *const names[] = {
#define SHORTCUT(name, NAME) #name,
        SHORTCUTS
#undef SHORTCUT
    };

    for (unsigned i = 0; i < SHORTCUTS_COUNT; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return 1u << i;
    return len == strlen("all") && memcmp(name, "all", len) == 0 ? SHORTCUTS_ALL : 0;
}

int zygote_choose_shortcuts(unsigned *shortcuts, struct vial_error *err)
{
    const char *at = getenv("VIAL_ZYGOTE_WITHOUT"); /* NOLINT(concurrency-mt-unsafe) */

    while (at && *at) {
        size_t len = strcspn(at, ",");
        unsigned named = shortcut_named(at, len);

        if (len && !named)
            return fail(err, VIAL_E_VALUE,
                        "VIAL_ZYGOTE_WITHOUT: there is no shortcut '%.*s'",
                        len < 64 ? (int)len : 64, at);
        *shortcuts &= ~named;
        at += len + (at[len] == ',');
    }
    return 0;
}

int zygote_settings(const char *share_dir, const char *const *imports,
                    const char *shortcuts, struct str *out, struct vial_error *err)
{
    auto_free char *path = path_join(share_dir, "runtimes/zygote.py");
    struct blob harness = { 0 };

    if (!path)
        return fail_memory(err);
    if (io_read_file(path, HARNESS_MAX, &harness, err) < 0)
        return -1;
    str_add(out, harness.data, harness.len);
    str_putc(out, '\0');
    for (size_t i = 0; imports && imports[i]; i++)
        str_printf(out, "%s ", imports[i]);
    str_putc(out, '\0');
    str_puts(out, shortcuts);
    str_putc(out, '\0');
    blob_done(&harness);
    return str_ok(out) ? 0 : fail_memory(err);
}

int zygote_settings_in_vessel(const char *share_dir, const char *const *imports,
                              const char *held, struct str *out, struct vial_error *err)
{
    unsigned shortcuts =
        SHORTCUTS_ALL & ~(SHORTCUT_HOLES | SHORTCUT_PAGES | SHORTCUT_EARLY_EXIT);
    char digits[16];

    if (zygote_choose_shortcuts(&shortcuts, err) < 0)
        return -1;
    (void)snprintf(digits, sizeof digits, "%u", shortcuts);
    return zygote_settings(share_dir, imports, *held ? held : digits, out, err);
}
