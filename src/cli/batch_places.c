/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch_places.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "batch/patience.h"

#define PLACES_MOST 64u
#define DOWN_NS     INT64_C(5000000000) /* so long one that hung up is passed over */
#define GONE_TIMES                                                                     \
    12u /* of patience, of 5 s in the end, until it will not come back                 \
         */
#define SECOND_NS INT64_C(1000000000)

struct batch_place {
    struct daemon daemon;
    _Atomic int64_t away_until_ns; /* it did not answer, or is busy */
    atomic_bool answered;          /* before, so that it may come back */
};

/* The next one that may have room; if none has, that which may have some first. */
static struct batch_place *next_place(struct batch_places *p)
{
    size_t first = atomic_fetch_add(&p->turn, 1);
    struct batch_place *best = NULL;
    int64_t best_ns = 0;
    int64_t now = clock_now_ns();

    for (size_t i = 0; i < p->count; i++) {
        struct batch_place *place = &p->list[(first + i) % p->count];
        int64_t away_ns = atomic_load(&place->away_until_ns);

        if (away_ns <= now)
            return place;
        if (!best || away_ns < best_ns) {
            best = place;
            best_ns = away_ns;
        }
    }
    return best;
}

static bool one_is_free(struct batch_places *p)
{
    int64_t now = clock_now_ns();

    for (size_t i = 0; i < p->count; i++)
        if (atomic_load(&p->list[i].away_until_ns) <= now)
            return true;
    return false;
}

static void pass_over(struct batch_place *place, int64_t ns)
{
    atomic_store(&place->away_until_ns, clock_now_ns() + ns);
}

/* In the codes of whoever asks an engine over HTTP. */
static bool is_unreached(const struct vial_error *err)
{
    return fail_is(err, VIAL_E_ENGINE_MISSING) || fail_is(err, VIAL_E_ENGINE_DOWN) ||
           fail_is(err, VIAL_E_ENGINE_ACCESS) || fail_is(err, VIAL_E_ENGINE_TIMEOUT);
}

static int say_unreached(const struct daemon *d, struct vial_error *err)
{
    (void)fail(err, VIAL_E_DAEMON, "no daemon answers at '%s'", daemon_name(d));
    return fail_remedy(err, "start one: vial serve --listen %s%s",
                       d->socket[0] ? "unix:" : "tcp:", daemon_name(d));
}

/* Its words are those for a container engine. */
static int say_untrusted(struct vial_error *err)
{
    (void)fail_as(err, VIAL_E_DAEMON);
    return fail_remedy(err,
                       "name the authority of the daemon's certificate by --ca-file "
                       "FILE, and the daemon by the host that it is made for");
}

/* No answer of a daemon's own says so: who stands before it may, in words of theirs. */
static bool is_turned_away(const struct daemon_said *said, const struct vial_error *err)
{
    return patience_turned_away(-1, NULL, err) ||
           (fail_is(err, VIAL_E_DAEMON) &&
            (said->status == 429 || said->status == 503));
}

/* What one of them is asked to do: a run, or many. */
struct errand {
    const struct vial_request *req;
    const struct vial_watch *watch;
    struct vial_result **out;
    const struct grade_many *many; /* instead of all that, but for WATCH; or NULL */
};

/* A daemon that can run nothing now says it of the run, whose fault that is not. */
static int ask(const struct remote_at *at, const struct errand *e,
               struct vial_error *err)
{
    int status;

    if (e->many)
        return remote_run_many(at, e->many, err);
    if (remote_run_at(at, e->req, e->watch, e->out, err) < 0)
        return -1;
    status = at->said->status;
    if ((*e->out)->verdict != VIAL_DENIED ||
        (status != 429 && status != 503 && status != 504))
        return 0;
    *err = (*e->out)->error;
    vial_result_free(ptr_take(e->out));
    return -1;
}

/* It did not like the request itself, and would not the next time. */
static bool is_refused(const struct daemon_said *said, const struct vial_error *err)
{
    bool asked_wrongly = said->status == 400 || said->status == 403 ||
                         said->status == 413 || said->status == 422;

    if (said->status == 0) /* it was never sent */
        return fail_is(err, VIAL_E_VALUE);
    return asked_wrongly && !fail_is(err, VIAL_E_DAEMON) &&
           !fail_is(err, VIAL_E_SCOPE) && !fail_is(err, VIAL_E_HOST);
}

/* What a try comes to that had no result. */
static int conclude(struct batch_place *place, const struct daemon_said *said,
                    struct vial_result **out, struct vial_error *err)
{
    if (is_refused(said, err)) {
        *out = remote_denied(err);
        return *out ? 0 : fail_memory(err);
    }
    if (said->status == 0 && fail_is(err, VIAL_E_ENGINE_TLS))
        return say_untrusted(err);
    if (said->status >= 500 || (said->status == 0 && is_unreached(err)))
        pass_over(place, DOWN_NS);
    return said->status == 0 && is_unreached(err) ? say_unreached(&place->daemon, err)
                                                  : -1;
}

/* The row has not begun there, and may at another time: the daemon is busy, or is being
 * started anew. */
static bool is_put_off(const struct batch_place *place, const struct daemon_said *said,
                       const struct patience *patience, const struct vial_error *err)
{
    if (is_turned_away(said, err))
        return true;
    return !said->reached && is_unreached(err) && atomic_load(&place->answered) &&
           patience->times < GONE_TIMES;
}

/* As long as it asks for; one that is gone, for a while. */
static void put_off(struct batch_place *place, const struct daemon_said *said)
{
    unsigned most = PATIENCE_RETRY_MOST_S;

    pass_over(place, said->reached
                         ? SECOND_NS * (said->retry_s < most ? said->retry_s : most)
                         : DOWN_NS);
}

/* With PLACE and SAID where it came to an end. */
static int run_errand(struct batch_places *p, const struct errand *e,
                      struct batch_place **where, struct daemon_said *said,
                      struct vial_error *err)
{
    struct patience patience = { .waiting = &p->waiting };
    size_t asked = 0;

    for (;;) {
        struct batch_place *place = next_place(p);
        const struct remote_at at = { &place->daemon, p->name, said };

        *where = place;
        *said = (struct daemon_said){ 0 };
        fail_clear(err);
        if (ask(&at, e, err) == 0) {
            atomic_store(&place->answered, true);
            atomic_store(&place->away_until_ns, 0);
            return 0;
        }
        if (!is_put_off(place, said, &patience, err))
            return -1;
        put_off(place, said);
        asked++;
        if (asked % p->count != 0 && one_is_free(p))
            continue;
        if (!patience_wait(&patience, said->retry_s, e->watch->cancel_fd))
            return -1;
    }
}

int batch_places_run(struct batch_places *p, const struct vial_request *req,
                     const struct vial_watch *watch, struct vial_result **out,
                     struct vial_error *err)
{
    const struct errand e = { .req = req, .watch = watch, .out = out };
    struct batch_place *place;
    struct daemon_said said;

    return run_errand(p, &e, &place, &said, err) == 0
               ? 0
               : conclude(place, &said, out, err);
}

/* A daemon that breaks off is passed over by what remains to be run. */
void batch_places_run_many(struct batch_places *p, const struct grade_many *many)
{
    const struct errand e = { .watch = many->watch, .many = many };
    struct batch_place *place;
    struct daemon_said said;
    struct vial_error err = { 0 };

    if (run_errand(p, &e, &place, &said, &err) < 0 && said.status == 0 &&
        is_unreached(&err))
        pass_over(place, DOWN_NS);
}

const char *batch_places_name(const struct batch_places *p, size_t which)
{
    return daemon_name(&p->list[which].daemon);
}

int batch_places_ask(const struct batch_places *p, const char *target, const char *body,
                     int cancel_fd, json_t **out)
{
    const struct daemon_ask ask = { body ? "POST" : "GET", target, body, NULL,
                                    cancel_fd };

    *out = NULL;
    for (size_t i = 0; i < p->count && !*out; i++) {
        struct vial_error ignored = { 0 };
        auto_str struct str said = { 0 };

        if (daemon_call(&p->list[i].daemon, &ask, &said, &ignored) == 0)
            *out = json_loadb(said.data ? said.data : "", said.len, 0, NULL);
    }
    return *out ? 0 : -1;
}

int batch_places_plan(const struct batch_places *p, const struct vial_request *req,
                      int cancel_fd, json_t **out)
{
    struct vial_error ignored = { 0 };
    auto_json json_t *body = NULL;
    auto_free char *text = NULL;

    if (daemon_request(req, -1, &body, &ignored) < 0)
        return -1;
    text = json_dumps(body, JSON_COMPACT);
    return text ? batch_places_ask(p, "/v1/plan", text, cancel_fd, out) : -1;
}

static void name_batch(struct batch_places *p, const struct cli *cli)
{
    const char *given = cli_flag(cli, "name");
    const char *path = cli_operand(cli, 0);
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name = given ? given : slash && slash[1] ? slash + 1 : path;
    size_t len = 0;

    for (; name && name[len] && len + 1 < sizeof(p->name); len++)
        p->name[len] = isalnum((unsigned char)name[len]) || strchr("._", name[len])
                           ? name[len]
                           : '-';
    if (len == 0)
        (void)snprintf(p->name, sizeof(p->name), "batch-%d", (int)getpid());
}

/* A token that is wrong is wrong for all rows. Whether it may run programs, the first
 * row tells. */
static int try_token(const struct daemon *d, struct vial_error *err)
{
    const struct daemon_ask ask = { "GET", "/v1/version", NULL, NULL, -1 };
    struct vial_error said = { 0 };

    if (daemon_call(d, &ask, NULL, &said) == 0)
        return 0;
    if (fail_is(&said, VIAL_E_ENGINE_TLS)) {
        *err = said;
        return say_untrusted(err);
    }
    if (!fail_is(&said, VIAL_E_AUTH))
        return 0;
    (void)fail(err, VIAL_E_AUTH, "the daemon at '%s' does not know %s", daemon_name(d),
               d->token ? "this token" : "who asks");
    return fail_remedy(err, "set VIAL_TOKEN to a token of its, or name a file that has "
                            "one by --token-file");
}

/* A URL, or the path of a socket. */
static int add(struct batch_places *p, const struct cli *cli, const char *word,
               bool is_path, struct vial_error *err)
{
    struct daemon *d = &p->list[p->count].daemon;

    if (p->count == PLACES_MOST)
        return fail(err, VIAL_E_VALUE, "more than %u daemons are named", PLACES_MOST);
    if (is_path && strlen(word) >= sizeof(d->socket))
        return fail(err, VIAL_E_VALUE, "--socket '%.64s' is too long", word);
    if (is_path)
        (void)snprintf(d->socket, sizeof(d->socket), "%s", word);
    else if (daemon_at(word, p->token, cli_flag(cli, "ca-file"), d, err) < 0)
        return -1;
    p->count++;
    return is_path ? 0 : try_token(d, err);
}

/* "A,B": each of them has a share of the rows. */
static int add_all(struct batch_places *p, const struct cli *cli,
                   const struct given *given, struct vial_error *err)
{
    bool is_path = strcmp(given->flag->name, "socket") == 0;
    auto_free char *text = strdup(given->value);
    char *rest = NULL;

    if (!text)
        return fail_memory(err);
    for (char *word = strtok_r(text, ",", &rest); word;
         word = strtok_r(NULL, ",", &rest))
        if (add(p, cli, word, is_path, err) < 0)
            return -1;
    return 0;
}

static bool names_daemons(const struct given *g)
{
    return g->flag && (strcmp(g->flag->name, "socket") == 0 ||
                       (strcmp(g->flag->name, "daemon") == 0 && g->value[0]));
}

int batch_places_find(struct batch_places *p, const struct cli *cli,
                      struct vial_error *err)
{
    bool named = false;

    name_batch(p, cli);
    p->list = calloc(PLACES_MOST, sizeof(*p->list));
    if (!p->list)
        return fail_memory(err);
    if (daemon_token(cli_flag(cli, "token-file"), &p->token, err) < 0)
        return -1;
    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct given *g = &cli->options.given[i];

        named = named || names_daemons(g);
        if (names_daemons(g) && add_all(p, cli, g, err) < 0)
            return -1;
    }
    if (!named && daemon_find(cli, false, &p->list[p->count++].daemon, err) < 0)
        return -1;
    return p->count ? 0 : fail(err, VIAL_E_VALUE, "--socket names no socket");
}

void batch_places_done(struct batch_places *p)
{
    free(p->list);
    free(p->token);
    p->list = NULL;
    p->token = NULL;
}
