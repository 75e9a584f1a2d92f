/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/web_page.h"

#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "serve/route.h"

#include "vial/warm.h"

/* Nothing but its own files and this server, and pictures that programs made; nobody
 * may frame it. */
#define POLICY                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "  \
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "      \
    "frame-ancestors 'none'"
/* The terminal is a frame of that page, and writes style sheets. */
#define FRAME "terminal.html"
#define FRAME_POLICY                                                                   \
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "        \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

static const struct page_file *find(const char *name)
{
    for (const struct page_file *f = page_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static void give(struct call *c, const char *name)
{
    const struct page_file *f = find(name);
    struct vial_error err = { 0 };

    if (!f) {
        (void)fail(&err, VIAL_E_ROUTE, "the page has no such file");
        call_error(c, &err);
        return;
    }
    (void)web_set_header(c->web, "Content-Security-Policy",
                         strcmp(name, FRAME) == 0 ? FRAME_POLICY : POLICY);
    (void)web_set_header(c->web, "X-Content-Type-Options", "nosniff");
    (void)web_set_header(c->web, "Referrer-Policy", "no-referrer");
    (void)web_set_header(c->web, "Cross-Origin-Opener-Policy", "same-origin");
    (void)web_set_header(c->web, "Cross-Origin-Resource-Policy", "same-origin");
    (void)web_set_header(c->web, "Cache-Control", "no-cache");
    call_text(c, 200, f->type, (const char *)f->data, f->len);
}

void page_index(struct call *c)
{
    give(c, "index.html");
}

void page_file(struct call *c)
{
    give(c, c->params[0]);
}

void page_recent(struct call *c)
{
    int64_t now_ms = clock_now_ns() / 1000000;
    json_t *told = recent_json(&c->serve->recent, now_ms);
    const char *whose = c->who.scopes & SCOPE_ADMIN ? NULL : c->who.name;

    (void)json_object_set_new(told, "batches",
                              batches_json(&c->serve->batches, whose, now_ms));
    call_json(c, 200, told);
}

/* An engine without pools has none to show. */
void page_pool(struct call *c)
{
    struct vial_error err = { 0 };
    char *json = NULL;

    if (vial_warm_report(c->gen->engine, &json, &err) < 0)
        call_json(c, 200, json_pack("{s:[]}", "shapes"));
    else
        call_given(c, 200, json);
}
