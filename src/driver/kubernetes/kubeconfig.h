/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_KUBECONFIG_H
#define VIAL_DRIVER_KUBERNETES_KUBECONFIG_H

/*
 * Which cluster is used, and as whom: what kubectl's files say, or what Kubernetes puts
 * into a pod of a ServiceAccount. Nothing is asked of the cluster here.
 *
 * What would be weaker than kubectl's own rules, or is not carried yet, is refused by
 * its name: a certificate that is not checked, a password, a proxy, impersonation.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/error.h"

#define CLUSTER_FILES_MAX  8
#define CLUSTER_SECRET_MAX (1u << 16) /* bytes of a token, a certificate, a key */

/* All may be NULL. */
struct cluster_source {
    const char *kubeconfig; /* KUBECONFIG: paths with ':' between */
    const char *home;
    const char *context;     /* instead of current-context */
    const char *namespace;   /* instead of the context's */
    const char *account_dir; /* of the ServiceAccount, if this is a pod */
    const char *host, *port; /* of the API server, as a pod is told */
};

/* Zero-initialised is empty. */
struct cluster {
    char host[256], port[8];
    char prefix[256]; /* of every path; "" or "/a/b" */
    char name[256];   /* that the server's certificate must have */
    char namespace[64];
    bool at_home;   /* which is that of the pod that we are in, and we its account */
    bool tls;       /* else it is this very host's */
    struct blob ca; /* PEM; empty: the host's authorities */
    struct blob cert, key;      /* PEM; empty: none */
    char *cert_file, *key_file; /* where these were read, or NULL */
    char *token;                /* NULL: none */
    char *token_file;           /* where it was read, or NULL */
    struct strv exec;     /* a program that gives the credentials, and its arguments */
    struct strv exec_env; /* "K=V" for it */
    char *exec_version;   /* the API version that it speaks */
    int64_t ends_s;       /* when what it gave ends, by the clock; 0: it did not say */
};
void cluster_done(struct cluster *c);
#define auto_cluster __attribute__((cleanup(cluster_done)))

/* OUT is empty before, and the caller's to release whatever this returns.
 * VIAL-CLUSTER-CONFIG where there is no cluster, or its files are not right;
 * VIAL-UNSUPPORTED where they want what is not carried. */
int cluster_read(struct cluster *out, const struct cluster_source *from,
                 struct vial_error *err);

/* C's token anew, from its file. */
int cluster_read_token(struct cluster *c, struct vial_error *err);

/* C's certificate and key anew, if both lie in files. 1: they are others now. */
int cluster_read_certificate(struct cluster *c, struct vial_error *err);

/* "2026-01-31T12:00:00Z", as clusters write times, in seconds; 0: it is no time. */
int64_t cluster_time(const char *text);

/* "https://HOST[:PORT][/PATH]" into OUT. */
int cluster_read_server(struct cluster *out, const char *text, struct vial_error *err);

/* What the program printed, an ExecCredential, into OUT. */
int cluster_take_credential(struct cluster *out, const char *text, size_t len,
                            struct vial_error *err);

#endif
