/* SPDX-License-Identifier: Apache-2.0 */
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "secrets/secrets.h"

#define ROUNDS   16 /* before others have their turn */
#define SHAKE_NS UINT64_C(20000000000)
#define BYE_NS   UINT64_C(1000000000)
#define BYE_MOST (1u << 20) /* bytes of a request that nobody reads any more */

enum asking { ASK_HEAD, ASK_BODY, ASK_DONE };
enum answering { ANSWER_NONE, ANSWER_HEAD, ANSWER_BODY };

struct exchange {
    struct held *held;
    uint32_t id;
    char name[NAME_LEN_MAX + 1];
    struct place to;
    struct side client, server;
    struct scrub scrub;
    struct body asked, answered;
    enum asking asking;
    enum answering answering;
    bool to_head, last; /* of HEAD; no request follows */
    unsigned interim;
    bool closing;  /* once what waits for the client is gone */
    bool said_bye; /* to the client, who may still be asking */
    size_t unread; /* of what it asked since */
    bool over;
    uint64_t max_response, deadline_ns;
    enum gate_verdict verdict;
    bool told; /* the verdict, to the gate */
};

static int side_open(struct side *s, int fd, unsigned flags,
                     gnutls_certificate_credentials_t who)
{
    static const char priority[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    const gnutls_datum_t h1 = { (unsigned char *)(uintptr_t) "http/1.1", 8 };

    if (gnutls_init(&s->tls, flags | GNUTLS_NONBLOCK) < 0)
        return -1;
    gnutls_transport_set_int(s->tls, fd);
    gnutls_handshake_set_timeout(s->tls, 0);
    return gnutls_priority_set_direct(s->tls, priority, NULL) < 0 ||
                   gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, who) < 0 ||
                   gnutls_alpn_set_protocols(
                       s->tls, &h1, 1,
                       flags & GNUTLS_SERVER ? GNUTLS_ALPN_MANDATORY : 0) < 0
               ? -1
               : 0;
}

/* Whom we believe about this host, and how much it may answer. */
static gnutls_certificate_credentials_t believed(struct exchange *e)
{
    gnutls_certificate_credentials_t by = NULL;

    for (size_t i = 0; i < e->held->count; i++) {
        const struct held_secret *h = &e->held->all[i];
        uint64_t one = h->secret.max_response;

        if (!secret_goes_to(&h->secret, e->to.name, e->to.port))
            continue;
        if (!by)
            by = h->believes ? h->believes : e->held->system;
        if (one && (!e->max_response || one < e->max_response))
            e->max_response = one;
    }
    return by;
}

static int open_both(struct exchange *e)
{
    gnutls_certificate_credentials_t leaf = authority_leaf(e->held->authority, e->name);
    gnutls_certificate_credentials_t by = believed(e);

    if (!leaf || !by || side_open(&e->client, e->client.fd, GNUTLS_SERVER, leaf) < 0 ||
        side_open(&e->server, e->server.fd, GNUTLS_CLIENT, by) < 0 ||
        gnutls_server_name_set(e->server.tls, GNUTLS_NAME_DNS, e->name,
                               strlen(e->name)) < 0)
        return -1;
    if (!weaken("secret_certificate"))
        gnutls_session_set_verify_cert(e->server.tls, e->name, 0);
    return 0;
}

struct exchange *exchange_new(struct held *held, const struct secrets_hand *hand,
                              int client_fd, int server_fd)
{
    struct exchange *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->held = held;
    e->scrub.held = held;
    e->id = hand->id;
    memcpy(e->name, hand->name, sizeof e->name);
    e->name[sizeof e->name - 1] = '\0';
    e->to = (struct place){ e->name, hand->port };
    e->client.fd = client_fd;
    e->server.fd = server_fd;
    e->deadline_ns = now_ns() + SHAKE_NS;
    if (open_both(e) == 0)
        return e;
    e->client.fd = e->server.fd = -1; /* the caller's still */
    exchange_free(e);
    return NULL;
}

/* The client is told in HTTP if nothing of an answer has gone to it; else it sees the
 * connection break. */
static void refuse(struct exchange *e, const struct refusal *why)
{
    char text[512];
    int len;

    e->verdict = e->verdict == GATE_OK ? why->verdict : e->verdict;
    if (e->closing || e->answering == ANSWER_BODY || !side_has_room(&e->client)) {
        e->over = true;
        return;
    }
    len = snprintf(text, sizeof text,
                   "HTTP/1.1 %d Refused\r\nContent-Type: text/plain\r\n"
                   "Content-Length: %zu\r\nConnection: close\r\n\r\nvial: %s\n",
                   why->status, strlen(why->why) + 7, why->why);
    side_put(&e->client, text, (size_t)len);
    e->closing = true;
}

static void put_piece(struct side *to, const struct body *b, const void *data,
                      size_t len)
{
    char size[24];

    if (!len)
        return;
    if (b->kind == BODY_CHUNKED)
        side_put(to, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", len));
    side_put(to, data, len);
    if (b->kind == BODY_CHUNKED)
        side_put(to, "\r\n", 2);
}

static void put_end(struct side *to, const struct body *b)
{
    if (b->kind == BODY_CHUNKED)
        side_put(to, "0\r\n\r\n", 5);
}

static bool ask_head(struct exchange *e)
{
    auto_str struct str out = { 0 };
    struct refusal wrong = { 400, "the request's head is not HTTP/1.1", GATE_REQUEST };
    long len = head_end(e->client.in, e->client.in_len);
    struct head h = { 0 };
    bool good;

    if (len == HEAD_MORE)
        return false;
    if (e->server.in_len) { /* it would be taken for the answer to this one */
        refuse(e, &(struct refusal){ 502, "the host answers what nobody asked",
                                     GATE_RESPONSE });
        return true;
    }
    good = len > 0 && head_parse(e->client.in, (size_t)len, &h) &&
           request_head_pass(e->held, e->to, &h, &e->asked, &e->scrub, &out, &wrong);
    if (good) {
        side_put(&e->server, out.data, out.len);
        e->to_head = strncmp(h.first, "HEAD ", 5) == 0;
        e->last = head_lists(&h, "Connection", "close");
        e->asking = ASK_BODY;
        e->answering = ANSWER_HEAD;
        e->interim = 0;
        side_eat(&e->client, (size_t)len);
    }
    if (out.data)
        gnutls_memset(out.data, 0, out.len);
    head_done(&h);
    if (!good)
        refuse(e, &wrong);
    return true;
}

static bool ask_body(struct exchange *e)
{
    size_t used = 0, size = 0;
    enum body_step step =
        body_next(&e->asked, e->client.in, e->client.in_len, &used, &size);

    if (step == BODY_DATA)
        put_piece(&e->server, &e->asked, e->client.in + used - size, size);
    if (used)
        side_eat(&e->client, used);
    if (step == BODY_END) {
        put_end(&e->server, &e->asked);
        e->asking = ASK_DONE;
    }
    if (step == BODY_BAD)
        refuse(e, &(struct refusal){ 400, "the request's body is not as it says",
                                     GATE_REQUEST });
    return step != BODY_MORE || used;
}

static bool ask(struct exchange *e)
{
    if (!e->client.ready || !e->server.ready || e->closing || e->asking == ASK_DONE ||
        !side_has_room(&e->server) || e->server.ended)
        return false;
    if (e->asking == ASK_HEAD)
        return e->client.in_len > 0 && ask_head(e);
    return ask_body(e);
}

/* The next request may come, if both ends want to go on. */
static void answer_over(struct exchange *e)
{
    e->answering = ANSWER_NONE;
    if (e->last || e->asking != ASK_DONE)
        e->closing = true;
    e->asking = ASK_HEAD;
}

static bool answer_head(struct exchange *e)
{
    auto_str struct str out = { 0 };
    struct refusal wrong = { 502, "the host's answer is not HTTP/1.1", GATE_RESPONSE };
    long len = head_end(e->server.in, e->server.in_len);
    struct response r = { 0 };
    struct head h = { 0 };
    bool good;

    if (len == HEAD_MORE)
        return false;
    good = len > 0 && head_parse(e->server.in, (size_t)len, &h) &&
           response_head_pass(&h, e->to_head, e->max_response, &e->answered, &e->scrub,
                              &r, &out, &wrong) &&
           (r.status >= 200 || e->interim++ < INTERIM_MAX);
    head_done(&h);
    if (!good) {
        refuse(e, &wrong);
        return true;
    }
    side_eat(&e->server, (size_t)len);
    side_put(&e->client, out.data, out.len);
    e->last = e->last || r.closes;
    if (r.status >= 200)
        e->answering = ANSWER_BODY;
    return true;
}

static void put_scrubbed(struct exchange *e, const void *data, size_t len, bool end)
{
    auto_str struct str out = { 0 };

    if (scrub_add(&e->scrub, data, len, end, &out) < 0)
        e->over = true;
    else
        put_piece(&e->client, &e->answered, out.data, out.len);
}

static bool answer_body(struct exchange *e)
{
    size_t used = 0, size = 0;
    enum body_step step =
        body_next(&e->answered, e->server.in, e->server.in_len, &used, &size);

    if (step == BODY_MORE && !used && e->server.ended &&
        e->answered.kind == BODY_TO_END && !e->server.cut)
        step = BODY_END;
    if (step == BODY_DATA)
        put_scrubbed(e, e->server.in + used - size, size, false);
    if (used)
        side_eat(&e->server, used);
    if (step == BODY_END) {
        put_scrubbed(e, NULL, 0, true);
        put_end(&e->client, &e->answered);
        answer_over(e);
    }
    if (step == BODY_BAD)
        refuse(e, &(struct refusal){ 502, "", GATE_RESPONSE });
    return step != BODY_MORE || used;
}

static bool answer(struct exchange *e)
{
    if (e->closing || e->answering == ANSWER_NONE || !side_has_room(&e->client))
        return false;
    if (e->answering == ANSWER_HEAD)
        return e->server.in_len > 0 && answer_head(e);
    return answer_body(e);
}

/* Why a certificate is not believed, in the words of the library. */
static void refuse_server(struct exchange *e)
{
    bool untrusted = e->server.error == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
    unsigned status =
        untrusted ? gnutls_session_get_verify_cert_status(e->server.tls) : 0;
    const char *why = "the host does not speak TLS with us";

    if (status & GNUTLS_CERT_UNEXPECTED_OWNER)
        why = "the host's certificate is for another name";
    else if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED))
        why = "the host's certificate is not valid now";
    else if (untrusted)
        why = "the host's certificate is from nobody that is trusted";
    refuse(e,
           &(struct refusal){ 502, why, untrusted ? GATE_CERTIFICATE : GATE_RESPONSE });
}

/* Nobody is left to hear or to answer. */
static bool is_lost(const struct exchange *e)
{
    if (e->client.failed)
        return true;
    if (e->closing)
        return !e->client.out_len && (e->client.ended || e->unread > BYE_MOST);
    if (e->server.ready && e->server.failed)
        return true;
    if (e->client.ended && e->asking != ASK_DONE && !e->server.out_len)
        return e->server.ready || e->server.failed;
    return e->server.ended && !e->client.out_len;
}

/* Who closes while the client's request is on its way has the answer thrown away. So
 * what still comes is read, until the client has heard the end. */
static void say_bye(struct exchange *e)
{
    (void)gnutls_bye(e->client.tls, GNUTLS_SHUT_WR);
    e->said_bye = true;
    e->deadline_ns = now_ns() + BYE_NS;
}

static bool move(struct exchange *e)
{
    bool moved = side_move_in(&e->client);

    if (e->closing) {
        e->unread += e->client.in_len;
        e->client.in_len = 0;
    }
    if (e->client.error == GNUTLS_E_NO_APPLICATION_PROTOCOL)
        e->verdict = GATE_REQUEST; /* HTTP/2 alone; it has been told */
    moved = side_move_in(&e->server) || moved;
    if (e->server.failed && !e->server.ready && !e->closing && e->client.ready)
        refuse_server(e);
    moved = ask(e) || moved;
    moved = side_move_out(&e->server) || moved;
    moved = answer(e) || moved;
    return side_move_out(&e->client) || moved;
}

bool exchange_turn(struct exchange *e, bool *more)
{
    bool moved = true;

    for (int i = 0; i < ROUNDS && moved && !e->over; i++)
        moved = move(e);
    if (e->client.ready && e->server.ready && !e->said_bye)
        e->deadline_ns = UINT64_MAX;
    if (e->deadline_ns <= now_ns()) {
        if (!e->said_bye)
            e->verdict = GATE_TIMEOUT;
        e->over = true;
    }
    if (e->closing && !e->said_bye && e->client.ready && !e->client.out_len)
        say_bye(e);
    if (!e->over && (!moved || e->unread > BYE_MOST) && is_lost(e))
        e->over = true;
    *more = *more || moved;
    return !e->over;
}

void exchange_waits(const struct exchange *e, int fds[2], short events[2])
{
    events[0] = side_waits(&e->client);
    events[1] = e->closing ? 0 : side_waits(&e->server);
    fds[0] = events[0] ? e->client.fd : -1;
    fds[1] = events[1] ? e->server.fd : -1;
}

uint64_t exchange_deadline_ns(const struct exchange *e)
{
    return e->deadline_ns;
}

enum gate_verdict exchange_verdict(struct exchange *e, uint32_t *id)
{
    enum gate_verdict verdict = e->told ? GATE_OK : e->verdict;

    *id = e->id;
    e->told = e->told || verdict != GATE_OK;
    return verdict;
}

void exchange_free(struct exchange *e)
{
    side_done(&e->client);
    side_done(&e->server);
    scrub_done(&e->scrub);
    free(e);
}
