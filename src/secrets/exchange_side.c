/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/first_bytes.h"
#include "secrets/secrets.h"

#define HELLO_MAX (17u << 10) /* its records' headers included */
#define OUT_ALL   ((size_t)2 * OUT_MAX)

/* Its ClientHello is read before its handshake begins, which reads it again. */
bool side_hear(struct side *s)
{
    enum first_offer offer;
    ssize_t n;

    if (s->failed)
        return false;
    if (!s->hello)
        s->hello = malloc(HELLO_MAX);
    n = s->hello ? recv(s->fd, s->hello + s->hello_len, HELLO_MAX - s->hello_len,
                        MSG_DONTWAIT)
                 : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        s->failed = true;
        return true;
    }
    s->hello_len += (size_t)n;
    offer = first_bytes_offer(s->hello, s->hello_len, "h2");
    s->heard = offer != OFFER_MORE;
    s->knows_two = offer == OFFER_YES;
    return true;
}

static ssize_t pull(gnutls_transport_ptr_t from, void *data, size_t len)
{
    struct side *s = from;
    size_t n = s->hello_len - s->hello_at;

    if (!n)
        return recv(s->fd, data, len, 0);
    n = n < len ? n : len;
    memcpy(data, s->hello + s->hello_at, n);
    s->hello_at += n;
    return (ssize_t)n;
}

static int pull_waits(gnutls_transport_ptr_t from, unsigned ms)
{
    const struct side *s = from;

    return s->hello_at < s->hello_len
               ? 1
               : gnutls_system_recv_timeout((gnutls_transport_ptr_t)(intptr_t)s->fd,
                                            ms);
}

void side_read_hello(struct side *s)
{
    gnutls_transport_set_ptr2(s->tls, s, (gnutls_transport_ptr_t)(intptr_t)s->fd);
    gnutls_transport_set_pull_function(s->tls, pull);
    gnutls_transport_set_pull_timeout_function(s->tls, pull_waits);
}

static bool shake(struct side *s)
{
    int rc = gnutls_handshake(s->tls);

    if (rc == GNUTLS_E_SUCCESS) {
        s->ready = true;
        free(s->hello);
        s->hello = NULL;
        s->hello_at = s->hello_len = 0;
        return true;
    }
    if (gnutls_error_is_fatal(rc)) {
        s->failed = true;
        s->error = rc;
        (void)gnutls_alert_send_appropriate(s->tls, rc);
        return true;
    }
    return false;
}

bool side_move_in(struct side *s)
{
    ssize_t n;

    if (s->failed || s->ended)
        return false;
    if (!s->ready)
        return shake(s);
    if (!s->in)
        s->in = malloc(IN_MAX);
    if (!s->in || s->in_len == IN_MAX)
        return false;
    n = gnutls_record_recv(s->tls, s->in + s->in_len, IN_MAX - s->in_len);
    if (n > 0) {
        s->in_len += (size_t)n;
        return true;
    }
    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
        return false;
    if (n < 0 && !gnutls_error_is_fatal((int)n) && n != GNUTLS_E_REHANDSHAKE)
        return true; /* a warning */
    s->ended = true;
    s->cut = n != 0;
    return true;
}

bool side_move_out(struct side *s)
{
    ssize_t n;

    if (s->failed || !s->ready || !s->out_len)
        return false;
    n = gnutls_record_send(s->tls, s->out + s->out_at, s->out_len);
    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
        return false;
    if (n <= 0) {
        s->failed = true;
        return true;
    }
    s->out_at += (size_t)n;
    s->out_len -= (size_t)n;
    if (!s->out_len)
        s->out_at = 0;
    return true;
}

void side_eat(struct side *s, size_t len)
{
    memmove(s->in, s->in + len, s->in_len - len);
    s->in_len -= len;
}

bool side_has_room(const struct side *s)
{
    return s->out_len + OUT_ROOM <= OUT_MAX;
}

/* Whoever asked whether there is room never fails here. What is being sent must stay
 * where it is until the library has it: gnutls_record_send takes the same bytes again.
 */
void side_put(struct side *s, const void *data, size_t len)
{
    if (!s->out)
        s->out = malloc(OUT_ALL);
    if (!s->out || s->out_len + len > OUT_MAX) {
        s->failed = true;
        return;
    }
    if (s->out_at + s->out_len + len > OUT_ALL) {
        memmove(s->out, s->out + s->out_at, s->out_len);
        s->out_at = 0;
    }
    memcpy(s->out + s->out_at + s->out_len, data, len);
    s->out_len += len;
}

short side_waits(const struct side *s)
{
    short events = 0;

    if (s->failed)
        return 0;
    if (!s->ready)
        return gnutls_record_get_direction(s->tls) ? POLLOUT : POLLIN;
    if (!s->ended && s->in_len < IN_MAX)
        events |= POLLIN;
    if (s->out_len)
        events |= POLLOUT;
    return events;
}

void side_done(struct side *s)
{
    if (s->tls)
        gnutls_deinit(s->tls);
    if (s->fd >= 0)
        (void)close(s->fd);
    free(s->hello);
    free(s->in);
    if (s->out)
        gnutls_memset(s->out, 0, OUT_ALL);
    free(s->out);
    *s = (struct side){ .fd = -1 };
}
