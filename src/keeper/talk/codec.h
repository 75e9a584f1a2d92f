/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_TALK_CODEC_H
#define VIAL_KEEPER_TALK_CODEC_H

/*
 * The part of a plan that opening a vessel takes, in bytes: driver, limits, mounts,
 * root, profile, names. What runs in it (argv, environment, code, files, stdin) goes
 * to the guest over its stream and never reaches the keeper.
 *
 * The reader is the keeper's: every length and number is bounded before anything is
 * made of it, and what it does not know it refuses.
 */

#include "model/plan.h"
#include "wire/pack.h"

#include "vial/error.h"

/* The sizes of struct plan and struct plan_mount when this was written. A test compares
 * them: if you add a member, decide here whether it travels. */
#define PLAN_SIZE       1248
#define PLAN_MOUNT_SIZE 72

#define CODEC_MOUNTS  32
#define CODEC_REQUIRE 64
#define CODEC_PORTS   64
#define CODEC_CACHES  32
#define CODEC_DNS     16
#define CODEC_RULES   1024 /* of each list of a gate */

void plan_pack(struct pack *p, const struct plan *plan);
int plan_unpack(struct unpack *u, struct plan **out, struct vial_error *err);

/* At most MAX texts of at most LEN bytes; else U is bad. */
void list_unpack(struct unpack *u, size_t max, size_t len, struct strv *out);

/* Limits alone; those that a plan must have are not 0. */
void limits_pack(struct pack *p, const struct limits *limits);
int limits_unpack(struct unpack *u, struct limits *out); /* 0 or -1 */

#endif
