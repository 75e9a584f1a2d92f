/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_IMAGE_TRANSFER_H
#define VIAL_IMAGES_FETCH_IMAGE_TRANSFER_H

/*
 * One GET from a registry, with what may come between: a challenge, a redirect, a pause
 * and another try, from where the last one broke off.
 *
 *   init -> { start -> (curl performs) -> judge }* -> done
 *
 * Credentials and tokens go to the registry's own origin alone. A redirect may lead to
 * plain HTTP, or to a private address, only if the registry itself is asked like that.
 */

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "images/fetch/credentials.h"
#include "images/fetch/digest.h"
#include "images/fetch/image_work.h"

/* A registry, or a mirror of it. */
struct endpoint {
    char base[320]; /* "https://HOST" */
    char host[256]; /* with its port, if it has one */
    char repository[512];
    bool plain;    /* by HTTP */
    bool local;    /* it has a private address, as its last answer showed */
    bool answered; /* it has, in this protocol; 400 is what TLS says to who does not */
    bool proxied;  /* a proxy resolves names, and we do not see addresses */
    struct credentials who;
    const char *ca;      /* a file of authorities, or NULL: the system's; borrowed */
    char *authorization; /* a whole header line, or NULL */
};

enum step { STEP_DONE, STEP_AGAIN, STEP_PAUSE, STEP_FAIL };
enum trouble { TROUBLE_NONE, TROUBLE_LARGE, TROUBLE_ADDRESS, TROUBLE_WRITE };

struct transfer {
    struct endpoint *to;
    const struct job *job;
    const char *what; /* for messages: "its manifest" */
    char *url;        /* where it is now; owned */
    bool foreign;     /* that is not the registry's own origin */
    bool anonymous;   /* credentials do not go there in any case */
    CURL *easy;
    struct curl_slist *headers;
    char *post;         /* a form, or NULL; owned */
    const char *secret; /* a header line for the first place alone, or NULL */
    bool fresh;         /* no byte of this answer has come yet */

    int fd;            /* where the bytes go; -1: to body */
    struct str body;   /* or what an error said */
    int64_t max, got;  /* bytes at most, and so far */
    struct digest sum; /* of those */

    struct str challenge; /* WWW-Authenticate */
    enum trouble trouble;
    char said[CURL_ERROR_SIZE];
    unsigned redirects, challenges;
    int tries;
    int64_t pause_ms; /* before the next try */
};

int transfer_init(struct transfer *t, struct endpoint *to, const struct job *job,
                  const char *url, struct vial_error *err);
/* Makes t->easy for the next GET. ACCEPT: a header line, or NULL. */
int transfer_start(struct transfer *t, const char *accept, struct vial_error *err);
/* What came of it, and what to do now. Frees t->easy. */
enum step transfer_judge(struct transfer *t, CURLcode code, struct vial_error *err);
void transfer_done(struct transfer *t);

/* All of it, waiting in between. */
int transfer_get(struct transfer *t, const char *accept, struct vial_error *err);

/* Answers T's challenge: gets a token for its endpoint, or says who we are. */
int challenge_answer(struct transfer *t, struct vial_error *err);

#endif
