/* SPDX-License-Identifier: Apache-2.0 */
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "secrets/secrets.h"

#define LEAVES_MAX 64
#define AGE_S      (365l * 24 * 3600)
#define EARLIER_S  3600 /* clocks differ */
#define SERIAL     16

struct leaf {
    char name[NAME_LEN_MAX + 1];
    gnutls_certificate_credentials_t shown;
};

struct authority {
    gnutls_x509_privkey_t key, leaf_key;
    gnutls_x509_crt_t certificate;
    struct leaf leaves[LEAVES_MAX];
    size_t count;
};

static int make_key(gnutls_x509_privkey_t *out)
{
    return gnutls_x509_privkey_init(out) < 0 ||
                   gnutls_x509_privkey_generate(
                       *out, GNUTLS_PK_ECDSA,
                       GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) < 0
               ? -1
               : 0;
}

/* What both kinds have: a number, an age, a key and its name. */
static int begin(gnutls_x509_crt_t c, const char *name, gnutls_x509_privkey_t key)
{
    unsigned char serial[SERIAL], id[64];
    size_t id_len = sizeof id;
    time_t now = time(NULL);

    if (gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial) < 0)
        return -1;
    serial[0] &= 0x7f;
    serial[0] |= 1;
    return gnutls_x509_crt_set_version(c, 3) < 0 ||
                   gnutls_x509_crt_set_serial(c, serial, sizeof serial) < 0 ||
                   gnutls_x509_crt_set_activation_time(c, now - EARLIER_S) < 0 ||
                   gnutls_x509_crt_set_expiration_time(c, now + AGE_S) < 0 ||
                   gnutls_x509_crt_set_dn_by_oid(c, GNUTLS_OID_X520_COMMON_NAME, 0,
                                                 name, (unsigned)strlen(name)) < 0 ||
                   gnutls_x509_crt_set_key(c, key) < 0 ||
                   gnutls_x509_crt_get_key_id(c, 0, id, &id_len) < 0 ||
                   gnutls_x509_crt_set_subject_key_id(c, id, id_len) < 0
               ? -1
               : 0;
}

static int sign(const struct authority *a, gnutls_x509_crt_t c)
{
    unsigned char id[64];
    size_t len = sizeof id;

    return gnutls_x509_crt_get_subject_key_id(a->certificate, id, &len, NULL) < 0 ||
                   gnutls_x509_crt_set_authority_key_id(c, id, len) < 0 ||
                   gnutls_x509_crt_sign2(c, a->certificate, a->key, GNUTLS_DIG_SHA256,
                                         0) < 0
               ? -1
               : 0;
}

struct authority *authority_new(struct str *pem)
{
    struct authority *a = calloc(1, sizeof *a);
    gnutls_datum_t text = { 0 };

    if (!a || make_key(&a->key) < 0 || make_key(&a->leaf_key) < 0 ||
        gnutls_x509_crt_init(&a->certificate) < 0 ||
        begin(a->certificate, "vial: this vessel alone", a->key) < 0 ||
        gnutls_x509_crt_set_basic_constraints(a->certificate, 1, 0) < 0 ||
        gnutls_x509_crt_set_key_usage(a->certificate, GNUTLS_KEY_KEY_CERT_SIGN) < 0 ||
        sign(a, a->certificate) < 0 ||
        gnutls_x509_crt_export2(a->certificate, GNUTLS_X509_FMT_PEM, &text) < 0)
        return NULL; /* and the program ends */
    str_add(pem, text.data, text.size);
    gnutls_free(text.data);
    return str_ok(pem) ? a : NULL;
}

static int make_leaf(const struct authority *a, const char *name,
                     gnutls_certificate_credentials_t *out)
{
    gnutls_x509_crt_t c = NULL;
    int rc = -1;

    if (gnutls_x509_crt_init(&c) < 0)
        return -1;
    /* A name may be too long for a common name; the other place is what counts. */
    if (begin(c, "vial", a->leaf_key) == 0 &&
        gnutls_x509_crt_set_subject_alt_name(c, GNUTLS_SAN_DNSNAME, name,
                                             (unsigned)strlen(name),
                                             GNUTLS_FSAN_SET) == 0 &&
        gnutls_x509_crt_set_basic_constraints(c, 0, -1) == 0 &&
        gnutls_x509_crt_set_key_usage(c, GNUTLS_KEY_DIGITAL_SIGNATURE) == 0 &&
        gnutls_x509_crt_set_key_purpose_oid(c, GNUTLS_KP_TLS_WWW_SERVER, 0) == 0 &&
        sign(a, c) == 0 && gnutls_certificate_allocate_credentials(out) == 0)
        rc = gnutls_certificate_set_x509_key(*out, &c, 1, a->leaf_key);
    gnutls_x509_crt_deinit(c);
    return rc < 0 ? -1 : 0;
}

gnutls_certificate_credentials_t authority_leaf(struct authority *a, const char *name)
{
    struct leaf *leaf = &a->leaves[a->count];

    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->leaves[i].name, name) == 0)
            return a->leaves[i].shown;
    if (a->count == LEAVES_MAX || make_leaf(a, name, &leaf->shown) < 0)
        return NULL;
    memcpy(leaf->name, name, strlen(name) + 1);
    a->count++;
    return leaf->shown;
}

int authority_believe(struct held *held, struct str *wrong)
{
    for (size_t i = 0; i < held->count; i++) {
        struct held_secret *h = &held->all[i];
        gnutls_certificate_credentials_t *to =
            h->secret.ca ? &h->believes : &held->system;

        if (*to)
            continue;
        if (gnutls_certificate_allocate_credentials(to) < 0)
            return -1;
        if (h->secret.ca && gnutls_certificate_set_x509_trust_file(
                                *to, h->secret.ca, GNUTLS_X509_FMT_PEM) <= 0) {
            str_printf(wrong, "'%s' has no certificates that can be read",
                       h->secret.ca);
            return -1;
        }
        if (!h->secret.ca && gnutls_certificate_set_x509_system_trust(*to) <= 0) {
            str_puts(wrong, "this host has no certificates (ca-certificates)");
            return -1;
        }
    }
    return 0;
}
