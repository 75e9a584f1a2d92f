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

static int side_open(struct side *s, int fd, unsigned flags,
                     gnutls_certificate_credentials_t who)
{
    static const char priority[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

    if (gnutls_init(&s->tls, flags | GNUTLS_NONBLOCK) < 0)
        return -1;
    gnutls_transport_set_int(s->tls, fd);
    gnutls_handshake_set_timeout(s->tls, 0);
    return gnutls_priority_set_direct(s->tls, priority, NULL) < 0 ||
                   gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, who) < 0
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
    side_read_hello(&e->client);
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
    e->one.scrub.held = held;
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
    const struct refusal wrong = { 502, why,
                                   untrusted ? GATE_CERTIFICATE : GATE_RESPONSE };
    if (e->two)
        http2_refuse(e->two, &wrong);
    else
        http1_refuse(e, &wrong);
}

static bool is_lost(const struct exchange *e)
{
    if (e->client.failed)
        return true;
    if (e->closing)
        return !e->client.out_len && (e->client.ended || e->unread > BYE_MOST);
    return e->two ? e->client.ended : http1_is_lost(e);
}

/* Who closes while the client's request is on its way has the answer thrown away. So
 * what still comes is read, until the client has heard the end. */
static void say_bye(struct exchange *e)
{
    (void)gnutls_bye(e->client.tls, GNUTLS_SHUT_WR);
    e->said_bye = true;
    e->deadline_ns = now_ns() + BYE_NS;
}

static bool offer(struct side *s, bool two, bool one, unsigned flags)
{
    gnutls_datum_t both[2];
    unsigned count = 0;

    if (two)
        both[count++] = (gnutls_datum_t){ (unsigned char *)(uintptr_t) "h2", 2 };
    if (one)
        both[count++] = (gnutls_datum_t){ (unsigned char *)(uintptr_t) "http/1.1", 8 };
    return gnutls_alpn_set_protocols(s->tls, both, count, flags) == 0;
}

static bool speaks_two(const struct side *s)
{
    gnutls_datum_t picked = { 0 };

    return gnutls_alpn_get_selected_protocol(s->tls, &picked) == 0 &&
           picked.size == 2 && memcmp(picked.data, "h2", 2) == 0;
}

/* Both ends speak the same protocol: the one that the host picks out of those that the
 * client knows. So the client is heard first, and answered last. */
static bool agree(struct exchange *e)
{
    bool host_there = e->server.ready || e->server.failed;
    bool moved = false;

    if (e->agreeing == HEAR_CLIENT) {
        moved = side_hear(&e->client);
        if (!e->client.heard)
            return moved;
        e->client.knows_two = e->client.knows_two && http2_there;
        e->agreeing = ASK_HOST;
        e->over = !offer(&e->server, e->client.knows_two, true, 0);
        return true;
    }
    if (e->agreeing == ASK_HOST && host_there) {
        bool two = e->server.ready ? speaks_two(&e->server) : e->client.knows_two;

        e->agreeing = AGREED; /* who cannot be asked has no wish */
        e->over =
            !offer(&e->client, two, !e->server.ready || !two, GNUTLS_ALPN_MANDATORY);
        return true;
    }
    return false;
}

static void begin(struct exchange *e)
{
    e->begun = true;
    if (e->server.ready && speaks_two(&e->server) != speaks_two(&e->client)) {
        e->verdict = GATE_REQUEST; /* its second hello was another than the first */
        e->over = true;
    } else if (speaks_two(&e->client)) {
        e->two = http2_new(e);
        e->over = !e->two;
    }
    if (!e->over && !e->server.ready)
        refuse_server(e);
}

static bool move_sides_in(struct exchange *e)
{
    bool moved = agree(e);

    if (e->agreeing == AGREED)
        moved = side_move_in(&e->client) || moved;
    if (e->agreeing != HEAR_CLIENT)
        moved = side_move_in(&e->server) || moved;
    if (e->client.error == GNUTLS_E_NO_APPLICATION_PROTOCOL)
        e->verdict = GATE_REQUEST; /* HTTP/2 alone; it has been told */
    if (e->closing) {
        e->unread += e->client.in_len;
        e->client.in_len = 0;
    }
    return moved;
}

static bool move(struct exchange *e)
{
    bool moved = move_sides_in(e);

    if (e->client.ready && !e->begun)
        begin(e);
    moved = (e->two ? http2_move(e->two) : http1_ask(e)) || moved;
    moved = side_move_out(&e->server) || moved;
    moved = (!e->two && http1_answer(e)) || moved;
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
    events[0] = (short)(e->agreeing == ASK_HOST ? 0 : side_waits(&e->client));
    events[1] =
        (short)(e->closing || e->agreeing == HEAR_CLIENT ? 0 : side_waits(&e->server));
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

void exchange_blame(struct exchange *e, enum gate_verdict verdict)
{
    if (e->verdict == GATE_OK)
        e->verdict = verdict;
}

void exchange_free(struct exchange *e)
{
    http2_free(e->two);
    side_done(&e->client);
    side_done(&e->server);
    scrub_done(&e->one.scrub);
    free(e);
}
