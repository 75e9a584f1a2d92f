/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SECRETS_SECRETS_H
#define VIAL_SECRETS_SECRETS_H

/* clang-format off */
/*
 * vial-secrets: what a vessel's gate hands connections to whose requests get a secret
 * (model/secret.h). It ends the client's TLS with an authority made for this vessel
 * alone, and speaks TLS with the host, which the gate has connected it to. It can neither
 * connect nor open anything itself, and is the only process that has a secret's value.
 *
 *   descriptor 3: whoever opened the vessel: the secrets; gets the authority's certificate
 *   descriptor 4: the gate: connections, in pairs of descriptors (wire/gate_message.h)
 *
 * Files are named after what they own:
 *
 *   vial_secrets    start, the loop, the end
 *   authority       the vessel's own, and a certificate for each name; whom we believe
 *   exchange        a connection's life, and the protocol that both ends agree on
 *   exchange_side   one of its two ends: TLS and what waits to be read or written
 *   http1           HTTP/1.1: request by request
 *   http2           HTTP/2: sessions with both ends, and how much each may say
 *   http2_stream    a request and its answer, beside others
 *   http2_head      its heads, written as those of HTTP/1.1, and back
 *   http2_missing   in the place of http2 and http2_stream, where their library is missing
 *   http_head       a message's head, strictly
 *   http_body       where a message's body ends, strictly
 *   request_head    what is judged and changed in a request, of either protocol
 *   response_head   and in an answer
 *   scrub           values that a server sends back
 */
/* clang-format on */

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/secret.h"
#include "wire/gate_message.h"
#include "wire/weaken.h"

#define HEAD_MAX     (32u << 10) /* bytes of a message's head */
#define HEAD_NEW_MAX (64u << 10) /* once values are in it */
#define HEAD_FIELDS  128
#define IN_MAX       (48u << 10)
#define OUT_MAX      (128u << 10)
#define OUT_ROOM     (HEAD_NEW_MAX + 1024) /* that there must be for one step */
#define PIECE        (16u << 10)
#define VALUE_MAX    4096
#define VALUE_MIN    8
#define INTERIM_MAX  16 /* answers before the answer */

struct pattern {
    char *value, *instead; /* of one length */
    size_t len;
};

/* A secret and its value. */
struct held_secret {
    struct secret secret;
    char *value;
    struct pattern pattern;
    gnutls_certificate_credentials_t believes; /* or NULL: as the system does */
};

struct authority;

struct held {
    struct held_secret all[SECRET_MOST];
    size_t count;
    gnutls_certificate_credentials_t system; /* or NULL: nobody needs it */
    struct authority *authority;
};

/* authority.c */
struct authority *authority_new(struct str *pem); /* NULL: it cannot be made */
/* What the client is shown; lives as long as the authority. NULL: no more can be. */
gnutls_certificate_credentials_t authority_leaf(struct authority *a, const char *name);
int authority_believe(struct held *held, struct str *wrong);

/* http_head.c */
struct head_field {
    const char *name, *value; /* NUL-terminated both */
    size_t name_len, value_len;
};
struct head {
    char *text, *first; /* the first line */
    struct head_field fields[HEAD_FIELDS];
    size_t count;
};
enum { HEAD_MORE = 0, HEAD_BAD = -1 };
/* The length of the head that DATA begins with, or HEAD_MORE, HEAD_BAD. */
long head_end(const uint8_t *data, size_t len);
bool head_parse(const uint8_t *data, size_t len, struct head *out);
void head_done(struct head *h);
bool head_is(const struct head_field *f, const char *name);
bool head_is_value(const char *text, size_t len); /* it may stand behind a name */
/* The one field NAME; *TWICE: there are several. */
const struct head_field *head_find(const struct head *h, const char *name, bool *twice);
/* Whether the comma-separated list of any field NAME has WORD. */
bool head_lists(const struct head *h, const char *name, const char *word);
/* Of one connection only, and not passed on; or named so by Connection. */
bool head_is_hop(const struct head *h, const struct head_field *f);

/* http_body.c */
enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_TO_END };
enum body_step { BODY_MORE, BODY_DATA, BODY_END, BODY_BAD };
struct body {
    enum body_kind kind;
    uint64_t left;  /* of the length, or of this chunk */
    uint64_t total; /* so far */
    uint64_t most;  /* 0: any */
    int state;      /* of chunks */
};
/* What H says of its body; false: two things, or nonsense. */
bool body_of(const struct head *h, struct body *out);
/* The next step through LEN bytes: *USED of them are done; with BODY_DATA the last
 * *SIZE of these are the body's. */
enum body_step body_next(struct body *b, const uint8_t *data, size_t len, size_t *used,
                         size_t *size);
/* Counts LEN bytes that came where the end is said otherwise; false: they must not. */
bool body_count(struct body *b, size_t len);

/* scrub.c: each value becomes something of the same length. */
struct scrub {
    const struct held *held;
    struct pattern own[8]; /* of this connection */
    size_t own_count;
    uint8_t *data; /* what waits for more */
    uint8_t *told; /* the same, without values */
    size_t len, cap;
};
/* What can go is in OUT (appended); END: all of it. -1 without memory. */
int scrub_add(struct scrub *s, const void *data, size_t len, bool end, struct str *out);
bool scrub_finds(const struct scrub *s, const char *text, size_t len);
bool scrub_learn(struct scrub *s, const char *value, size_t len);
void scrub_done(struct scrub *s);
bool pattern_make(struct pattern *p, const char *value, size_t len,
                  const char *placeholder);

/* What is wrong with a message, for its client. */
struct refusal {
    int status;
    const char *why;
    enum gate_verdict verdict;
};

struct place { /* that a connection leads to */
    const char *name;
    uint16_t port;
};

/* request_head.c: judges H and appends it as it goes to the host. */
bool request_head_pass(const struct held *held, struct place to, const struct head *h,
                       struct body *body, struct scrub *scrub, struct str *out,
                       struct refusal *wrong);

/* response_head.c */
struct response {
    int status;
    bool closes;
};
bool response_head_pass(const struct head *h, bool to_head, uint64_t most,
                        struct body *body, struct scrub *scrub, struct response *r,
                        struct str *out, struct refusal *wrong);

/* http2_head.c: a head as it is told, field by field. It becomes one of HTTP/1.1, so
 * that the same code judges both; what that lets pass becomes pairs again. */
enum pseudo {
    PSEUDO_METHOD,
    PSEUDO_PATH,
    PSEUDO_AUTHORITY,
    PSEUDO_SCHEME,
    PSEUDO_STATUS,
    PSEUDO_COUNT
};
struct told_head {
    struct str pseudo[PSEUDO_COUNT], fields;
    size_t count, size;
    bool has_length, wants_trailers, bad, large;
};
void told_head_add(struct told_head *t, const void *name, size_t name_len,
                   const void *value, size_t len);
void told_head_clear(struct told_head *t);
/* ENDS: no body follows. */
bool told_head_request(struct told_head *t, bool ends, struct str *out,
                       struct refusal *wrong);
bool told_head_answer(struct told_head *t, bool ends, struct str *out);
bool told_head_trailers(struct told_head *t, struct str *out);

#define PAIRS_MOST (HEAD_FIELDS + 8)
struct pair {
    const char *name, *value; /* of the head that it is made of */
    bool secret;              /* to be in no table of the compression's */
};
struct pairs {
    struct pair all[PAIRS_MOST];
    size_t count;
    bool full;
};
void pairs_add(struct pairs *p, const char *name, const char *value, bool secret);
/* These change H. */
bool pairs_of_request(struct head *h, const struct scrub *scrub, bool wants_trailers,
                      struct pairs *out);
bool pairs_of_answer(struct head *h, struct pairs *out);
bool pairs_of_trailers(struct head *h, struct pairs *out);

/* exchange_side.c */
struct side {
    int fd;
    gnutls_session_t tls;
    bool heard;     /* its ClientHello is there */
    bool knows_two; /* which offers HTTP/2 */
    bool ready;     /* its handshake is over */
    bool ended;     /* it has no more to say */
    bool cut;       /* and did not say so */
    bool failed;
    int error; /* of its handshake */
    uint8_t *hello, *in, *out;
    size_t hello_at, hello_len, in_len, out_at, out_len;
};
bool side_hear(struct side *s);       /* true: something came */
bool side_move_in(struct side *s);    /* the same */
bool side_move_out(struct side *s);   /* true: something went */
void side_read_hello(struct side *s); /* its handshake begins with what was heard */
void side_eat(struct side *s, size_t len);
void side_put(struct side *s, const void *data, size_t len);
bool side_has_room(const struct side *s);
short side_waits(const struct side *s); /* POLLIN, POLLOUT */
void side_done(struct side *s);

enum asking { ASK_HEAD, ASK_BODY, ASK_DONE };
enum answering { ANSWER_NONE, ANSWER_HEAD, ANSWER_BODY };
struct http1 {
    struct scrub scrub;
    struct body asked, answered;
    enum asking asking;
    enum answering answering;
    bool to_head, last; /* of HEAD; no request follows */
    unsigned interim;
};
struct http2;
enum agreeing { HEAR_CLIENT, ASK_HOST, AGREED };

struct exchange {
    struct held *held;
    uint32_t id;
    char name[NAME_LEN_MAX + 1];
    struct place to;
    struct side client, server;
    enum agreeing agreeing;
    struct http1 one;
    struct http2 *two; /* or NULL: both ends speak HTTP/1.1 */
    bool begun;        /* which of them is known */
    bool closing;      /* once what waits for the client is gone */
    bool said_bye;     /* to the client, who may still be asking */
    size_t unread;     /* of what it asked since */
    bool over;
    uint64_t max_response, deadline_ns;
    enum gate_verdict verdict;
    bool told; /* the verdict, to the gate */
};

/* exchange.c */
struct exchange *exchange_new(struct held *held, const struct secrets_hand *hand,
                              int client_fd, int server_fd);
/* False: it is over. *MORE: it could go on at once. */
bool exchange_turn(struct exchange *e, bool *more);
void exchange_waits(const struct exchange *e, int fds[2], short events[2]);
uint64_t exchange_deadline_ns(const struct exchange *e);
/* What the gate is to be told now; GATE_OK: nothing. */
enum gate_verdict exchange_verdict(struct exchange *e, uint32_t *id);
/* The first verdict stays. */
void exchange_blame(struct exchange *e, enum gate_verdict verdict);
void exchange_free(struct exchange *e);

/* http1.c */
bool http1_ask(struct exchange *e);
bool http1_answer(struct exchange *e);
void http1_refuse(struct exchange *e, const struct refusal *why);
bool http1_is_lost(const struct exchange *e);

/* http2.c, or http2_missing.c */
extern const bool http2_there;
struct http2 *http2_new(struct exchange *e);
bool http2_move(struct http2 *h);
/* The host cannot be asked: WHY is said to each request. */
void http2_refuse(struct http2 *h, const struct refusal *why);
void http2_free(struct http2 *h);

uint64_t now_ns(void);

#endif
