/* SPDX-License-Identifier: Apache-2.0 */

/*
 * vial-tls MODE HOST PORT CERTS TIMEOUT_MS: a connection to a container engine, made
 * for vial, which is static and has neither TLS nor a resolver.
 *
 *   descriptor 3   a socket pair's end: what comes goes to the engine, and back
 *   descriptor 4   a pipe: one line that says how it went, "ok" or "KIND text"
 *
 *   descriptor 5   and on, MODE given: files of an authority, a certificate, its key
 *
 * MODE tls checks the engine's certificate against ca.pem in CERTS, for HOST, and
 * shows cert.pem with key.pem; anonymous checks it against the file CERTS, or if that
 * is "" against the host's authorities, and shows none; given does so with what the
 * descriptors have, for the name CERTS, and an empty one has nothing; plain only
 * connects. There is no TLS that does not check. Once it has reported, it goes on in a
 * child and ends with either side.
 *
 * vial-tls calls RULE...: makes such connections for the daemon, one for each message
 * (call_out.h), to where the rules let it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/confine.h"
#include "http/call_out.h"
#include "http/out_rules.h"

#define STREAM_FD 3
#define REPORT_FD 4
#define GIVEN_FD  5
#define GIVEN_MAX (1u << 20) /* bytes of one file */
#define PIECE     (16u << 10)
#define PRIORITY  "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct line {
    int net_fd;
    gnutls_session_t tls;          /* NULL: plain */
    int64_t end_ns;                /* of connecting */
    const struct out_rules *rules; /* NULL: it may go anywhere */
    gnutls_typed_vdata_st
        must[2];      /* what its certificate has to be: GnuTLS looks later */
    bool for_servers; /* the other side's certificate has to be meant for servers */
};

/* One direction. */
struct lane {
    char data[PIECE];
    size_t begin, end;
    bool ended, over, moved;
};

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format,
                                                                    ...)
{
    char text[240];
    va_list args;
    size_t len;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text) - 1, format, args);
    va_end(args);
    len = strcspn(text, "\n");
    text[len++] = '\n';
    if (write(REPORT_FD, text, len) < 0)
        _exit(2);
    _exit(1);
}

static int left_ms(const struct line *l)
{
    int64_t ms = (l->end_ns - clock_now_ns()) / 1000000;

    return ms > 0 ? (int)ms : 0;
}

static void wait_for(const struct line *l, short events)
{
    struct pollfd p = { .fd = l->net_fd, .events = events };

    if (poll(&p, 1, left_ms(l)) == 0)
        give_up("late no answer in time");
}

static int try_address(const struct line *l, const struct addrinfo *a)
{
    int error = 0;
    socklen_t len = sizeof(error);
    const int on = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return fd;
    if (errno == EINPROGRESS) {
        if (poll(&p, 1, left_ms(l)) <= 0)
            error = ETIMEDOUT;
        else
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error == 0)
            return fd;
        errno = error;
    }
    error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

/* Whether FD, which has begun to connect to A, leads to this very host: both ends have
 * one address then. */
static bool leads_home(int fd, const struct address *a)
{
    struct sockaddr_storage ours = { 0 };
    socklen_t len = sizeof(ours);

    return getsockname(fd, (struct sockaddr *)&ours, &len) < 0 ||
           address_is_of(a, &ours);
}

/* The very address that was judged is connected to: a name that changes its answer in
 * between gains nothing. */
static int try_judged(const struct line *l, const struct addrinfo *to, uint16_t port)
{
    struct address a;
    int fd;

    if (!address_read(to->ai_addr, &a) || !out_rules_have_address(l->rules, &a, port)) {
        errno = EACCES;
        return -1;
    }
    fd = try_address(l, to);
    if (fd < 0 || out_rules_name_address(l->rules, &a, port) || !leads_home(fd, &a))
        return fd;
    (void)close(fd);
    errno = EACCES;
    return -1;
}

static void say_unconnected(void)
{
    if (errno == EACCES)
        give_up("deny its address is neither public nor named");
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    give_up("%s %s", errno == ETIMEDOUT ? "late" : "down", strerror(errno));
}

static void connect_to(struct line *l, const char *host, const char *port)
{
    const struct addrinfo want = { .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(host, port, &want, &found);

    if (rc != 0)
        give_up("name %s", gai_strerror(rc));
    for (const struct addrinfo *a = found; a && l->net_fd < 0; a = a->ai_next)
        l->net_fd = l->rules ? try_judged(l, a, (uint16_t)strtoul(port, NULL, 10))
                             : try_address(l, a);
    if (l->net_fd < 0)
        say_unconnected();
    freeaddrinfo(found);
}

static const char *path_of(char *out, size_t size, const char *dir, const char *name)
{
    (void)snprintf(out, size, "%s/%s", dir, name);
    return out;
}

static gnutls_certificate_credentials_t read_certs(const char *dir)
{
    gnutls_certificate_credentials_t certs = NULL;
    char ca[1100], cert[1100], key[1100];
    int rc;

    if (gnutls_certificate_allocate_credentials(&certs) < 0)
        give_up("file no memory");
    rc = gnutls_certificate_set_x509_trust_file(
        certs, path_of(ca, sizeof(ca), dir, "ca.pem"), GNUTLS_X509_FMT_PEM);
    if (rc <= 0)
        give_up("file %s: %s", ca, rc < 0 ? gnutls_strerror(rc) : "no certificate");
    rc = gnutls_certificate_set_x509_key_file(
        certs, path_of(cert, sizeof(cert), dir, "cert.pem"),
        path_of(key, sizeof(key), dir, "key.pem"), GNUTLS_X509_FMT_PEM);
    if (rc < 0)
        give_up("file %s, %s: %s", cert, key, gnutls_strerror(rc));
    return certs;
}

static gnutls_certificate_credentials_t read_authorities(const char *file)
{
    gnutls_certificate_credentials_t certs = NULL;
    int rc;

    if (gnutls_certificate_allocate_credentials(&certs) < 0)
        give_up("file no memory");
    rc = *file
             ? gnutls_certificate_set_x509_trust_file(certs, file, GNUTLS_X509_FMT_PEM)
             : gnutls_certificate_set_x509_system_trust(certs);
    if (rc <= 0)
        give_up("file %s: %s", *file ? file : "the host's authorities",
                rc < 0 ? gnutls_strerror(rc) : "no certificate");
    return certs;
}

/* The whole file, or nothing of it if it is empty. */
static gnutls_datum_t read_given(int fd)
{
    gnutls_datum_t out = { .data = malloc(GIVEN_MAX) };
    ssize_t n = out.data ? pread(fd, out.data, GIVEN_MAX, 0) : -1;

    if (n < 0 || n == GIVEN_MAX)
        give_up("file a certificate or key that was given cannot be read");
    out.size = (unsigned)n;
    return out;
}

static gnutls_certificate_credentials_t take_given(void)
{
    gnutls_certificate_credentials_t certs = NULL;
    gnutls_datum_t ca = read_given(GIVEN_FD);
    gnutls_datum_t cert = read_given(GIVEN_FD + 1);
    gnutls_datum_t key = read_given(GIVEN_FD + 2);
    int rc;

    if (gnutls_certificate_allocate_credentials(&certs) < 0)
        give_up("file no memory");
    rc = ca.size
             ? gnutls_certificate_set_x509_trust_mem(certs, &ca, GNUTLS_X509_FMT_PEM)
             : gnutls_certificate_set_x509_system_trust(certs);
    if (rc <= 0)
        give_up("file the authority: %s",
                rc < 0 ? gnutls_strerror(rc) : "no certificate");
    rc = cert.size ? gnutls_certificate_set_x509_key_mem(certs, &cert, &key,
                                                         GNUTLS_X509_FMT_PEM)
                   : 0;
    if (rc < 0)
        give_up("file the client's certificate and key: %s", gnutls_strerror(rc));
    return certs;
}

static void say_untrusted(gnutls_session_t tls)
{
    unsigned status = gnutls_session_get_verify_cert_status(tls);
    gnutls_datum_t text = { 0 };

    if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text,
                                                     0) < 0)
        give_up("cert the engine's certificate is not trusted");
    give_up("cert %s", (const char *)text.data);
}

static bool is_refusal(gnutls_session_t tls, int rc)
{
    gnutls_alert_description_t why = gnutls_alert_get(tls);

    return rc == GNUTLS_E_FATAL_ALERT_RECEIVED &&
           (why == GNUTLS_A_BAD_CERTIFICATE || why == GNUTLS_A_CERTIFICATE_REQUIRED ||
            why == GNUTLS_A_CERTIFICATE_UNKNOWN ||
            why == GNUTLS_A_CERTIFICATE_EXPIRED || why == GNUTLS_A_UNKNOWN_CA ||
            why == GNUTLS_A_ACCESS_DENIED);
}

static void say_failed(gnutls_session_t tls, int rc)
{
    if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR ||
        rc == GNUTLS_E_CERTIFICATE_ERROR)
        say_untrusted(tls);
    if (is_refusal(tls, rc))
        give_up("self the engine refuses our certificate: %s",
                gnutls_alert_get_name(gnutls_alert_get(tls)));
    give_up("talk %s", gnutls_strerror(rc));
}

static void start_tls(struct line *l, const char *host,
                      gnutls_certificate_credentials_t own)
{
    static const char purpose[] = GNUTLS_KP_TLS_WWW_SERVER;
    int rc = gnutls_init(&l->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    unsigned char number[16];

    l->must[0] = (gnutls_typed_vdata_st){ .type = GNUTLS_DT_DNS_HOSTNAME,
                                          .data = (unsigned char *)(uintptr_t)host };
    l->must[1] = (gnutls_typed_vdata_st){ .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                          .data = (unsigned char *)(uintptr_t)purpose };
    if (rc < 0 || gnutls_priority_set_direct(l->tls, PRIORITY, NULL) < 0 ||
        gnutls_credentials_set(l->tls, GNUTLS_CRD_CERTIFICATE, own) < 0)
        give_up("talk %s", gnutls_strerror(rc));
    /* A number is no name to ask for. */
    if (inet_pton(AF_INET, host, number) != 1 && inet_pton(AF_INET6, host, number) != 1)
        (void)gnutls_server_name_set(l->tls, GNUTLS_NAME_DNS, host, strlen(host));
    gnutls_session_set_verify_cert2(l->tls, l->must, l->for_servers ? 2 : 1, 0);
    gnutls_transport_set_int(l->tls, l->net_fd);
    while ((rc = gnutls_handshake(l->tls)) < 0) {
        if (rc != GNUTLS_E_AGAIN && gnutls_error_is_fatal(rc))
            say_failed(l->tls, rc);
        if (rc == GNUTLS_E_AGAIN)
            wait_for(l, gnutls_record_get_direction(l->tls) ? POLLOUT : POLLIN);
    }
}

/* -1 with EAGAIN when there is nothing yet. */
static ssize_t net_read(const struct line *l, void *data, size_t len)
{
    ssize_t n =
        l->tls ? gnutls_record_recv(l->tls, data, len) : recv(l->net_fd, data, len, 0);

    if (!l->tls || n >= 0)
        return n;
    errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
    return -1;
}

static ssize_t net_write(const struct line *l, const void *data, size_t len)
{
    ssize_t n = l->tls ? gnutls_record_send(l->tls, data, len)
                       : send(l->net_fd, data, len, MSG_NOSIGNAL);

    if (!l->tls || n >= 0)
        return n;
    errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
    return -1;
}

static void net_end(const struct line *l)
{
    if (l->tls)
        (void)gnutls_bye(l->tls, GNUTLS_SHUT_WR);
    (void)shutdown(l->net_fd, SHUT_WR);
}

/* In TLS 1.3 the engine judges our certificate only after we have thought that all
 * is well, when the report is written. Its refusal comes in the answer's place. */
static bool put_refusal(const struct line *l, struct lane *in)
{
    const char *why = l->tls ? gnutls_alert_get_name(gnutls_alert_get(l->tls)) : NULL;
    char body[160];
    int n;

    if (in->moved || !why || !is_refusal(l->tls, GNUTLS_E_FATAL_ALERT_RECEIVED))
        return false;
    n = snprintf(body, sizeof(body), "{\"message\":\"%s\"}", why);
    in->end = (size_t)snprintf(in->data, sizeof(in->data),
                               "HTTP/1.1 495 Refused\r\nContent-Length: %d\r\n\r\n%s",
                               n, body);
    return true;
}

static void took(struct lane *lane, ssize_t n)
{
    if (n > 0)
        lane->begin = 0, lane->end = (size_t)n, lane->moved = true;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        lane->ended = true;
}

static void gave(struct lane *lane, ssize_t n)
{
    if (n >= 0)
        lane->begin += (size_t)n;
    else if (errno != EAGAIN && errno != EINTR)
        lane->begin = lane->end = 0, lane->ended = true;
}

static bool is_full(const struct lane *lane)
{
    return lane->end > lane->begin;
}

static bool reads(const struct lane *lane)
{
    return !is_full(lane) && !lane->ended;
}

static void move_out(const struct line *l, struct lane *out)
{
    if (reads(out))
        took(out, recv(STREAM_FD, out->data, sizeof(out->data), MSG_DONTWAIT));
    if (is_full(out))
        gave(out, net_write(l, out->data + out->begin, out->end - out->begin));
    if (out->ended && !is_full(out) && !out->over) {
        out->over = true;
        net_end(l);
    }
}

static void move_in(const struct line *l, struct lane *in)
{
    if (reads(in))
        took(in, net_read(l, in->data, sizeof(in->data)));
    if (in->ended && !in->over && put_refusal(l, in))
        in->moved = true;
    if (is_full(in))
        gave(in, send(STREAM_FD, in->data + in->begin, in->end - in->begin,
                      MSG_NOSIGNAL | MSG_DONTWAIT));
    if (in->ended && !is_full(in))
        in->over = true;
}

/* Until the engine has said its last. When vial is gone for good, writing to it
 * fails, or there is nothing left to wait for. */
static void relay(const struct line *l, struct lane *out, struct lane *in)
{
    while (!in->over) {
        bool pending = l->tls && gnutls_record_check_pending(l->tls) > 0 && reads(in);
        struct pollfd fds[2] = {
            { .fd = l->net_fd,
              .events =
                  (short)((reads(in) ? POLLIN : 0) | (is_full(out) ? POLLOUT : 0)) },
            { .fd = STREAM_FD,
              .events =
                  (short)((reads(out) ? POLLIN : 0) | (is_full(in) ? POLLOUT : 0)) },
        };

        if (poll(fds, 2, pending ? 0 : -1) < 0 && errno != EINTR)
            return;
        /* Both directions of a socket pair closed: nobody is there any more. */
        if ((fds[1].revents & (POLLHUP | POLLERR)) && !is_full(in) && out->over)
            return;
        move_out(l, out);
        move_in(l, in);
    }
}

/* From here on it can speak with the other side, and do nothing else. */
static void confine(void)
{
    const struct confinement to = { .descriptors = 16,
                                    .calls = confine_tls_calls,
                                    .count = confine_tls_call_count };

    if (confine_to(&to) < 0)
        give_up("talk rights cannot be given up");
}

static void report_good(void)
{
    if (write(REPORT_FD, "ok\n", 3) != 3)
        _exit(2);
    (void)close(REPORT_FD);
}

int call_out_make(const struct call_out_message *m, const struct out_rules *rules)
{
    struct line l = { .net_fd = -1,
                      .end_ns = clock_now_ns() + (int64_t)m->timeout_ms * 1000000,
                      .rules = rules };
    struct lane *lanes = calloc(2, sizeof(*lanes));
    gnutls_certificate_credentials_t own = NULL;
    uint16_t port = (uint16_t)strtoul(m->port, NULL, 10);

    if (!lanes || !out_rules_have_host(rules, m->host, port))
        give_up("deny it is not named");
    if (m->tls)
        own = read_authorities("");
    connect_to(&l, m->host, m->port);
    confine();
    if (m->tls)
        start_tls(&l, m->host, own);
    report_good();
    relay(&l, &lanes[0], &lanes[1]);
    (void)shutdown(STREAM_FD, SHUT_RDWR);
    return 0;
}

int main(int argc, char **argv)
{
    struct line l = { .net_fd = -1 };
    struct lane *lanes = calloc(2, sizeof(*lanes)); /* out, in; until the end */

    if (argc > 2 && strcmp(argv[1], "calls") == 0)
        return call_out_serve(argv + 2);
    if (argc != 6 || !lanes)
        return 2;
    l.end_ns = clock_now_ns() + strtoll(argv[5], NULL, 10) * 1000000;
    connect_to(&l, argv[2], argv[3]);
    if (strcmp(argv[1], "anonymous") == 0)
        start_tls(&l, argv[2], read_authorities(argv[4]));
    else if ((l.for_servers = strcmp(argv[1], "given") == 0))
        start_tls(&l, argv[4], take_given());
    else if (strcmp(argv[1], "plain") != 0)
        start_tls(&l, argv[2], read_certs(argv[4]));
    if (fork() != 0) {
        const ssize_t n = write(REPORT_FD, "ok\n", 3);

        _exit(n == 3 ? 0 : 2);
    }
    (void)close(REPORT_FD);
    relay(&l, &lanes[0], &lanes[1]);
    (void)shutdown(STREAM_FD, SHUT_RDWR);
    return 0;
}
