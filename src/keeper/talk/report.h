/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_TALK_REPORT_H
#define VIAL_KEEPER_TALK_REPORT_H

/* The keeper's reports of vessels and of this host, in bytes. */

#include "driver/driver.h"
#include "volumes/volume_store.h"
#include "wire/pack.h"

void caps_pack(struct pack *p, const struct caps *caps);
int caps_unpack(struct unpack *u, struct caps *out);

void usage_pack(struct pack *p, const struct vessel_usage *usage);
int usage_unpack(struct unpack *u, struct vessel_usage *out);

/* A vessel but for its descriptors and its jail, which the guest has been told. */
struct vessel_report {
    char id[32];
    char container[80], name[160]; /* as in struct vessel */
    char level[16], limits_by[16];
    char digest[72];
    const char *owners;                  /* static; "" for none */
    char *path, *tmpdir, *workdir, *cwd; /* malloc'ed; or NULL */
    struct strv layers, env, imports, entrypoint, cmd;
    unsigned pool;
    bool has_death, has_event, has_gate; /* which descriptors come with it */
};
void vessel_pack(struct pack *p, const struct vessel *v);
int vessel_unpack(struct unpack *u, struct vessel_report *out);
void vessel_report_done(struct vessel_report *r);

/* A row of the list of volumes. */
void volume_pack(struct pack *p, const struct volume_info *v);
int volume_unpack(struct unpack *u, struct volume_info *out);

#endif
