/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_CONTROL_H
#define VIAL_E2B_CONTROL_H

/* The control API: control.c has its table of routes. */

#include "e2b/control_network.h"
#include "e2b/http_ask.h"
#include "e2b/saved.h"

/* What a sandbox is to be. All of it is borrowed. */
struct wish {
    const char *template_name;
    const char *image;         /* that it is opened of, or "" */
    const struct saved *saved; /* which the caller made; NULL: the operator named it */
    bool fork;                 /* IMAGE is its own and goes with it */
    int64_t milli_cpus, memory_mb; /* 0: as usual */
    json_t *metadata, *env;        /* or NULL */
    json_t *mounts;                /* `volumeMounts`, as they came, or NULL */
    json_t *volumes;               /* what a request says for them, or NULL */
    int64_t seconds;
    bool open; /* without a token */
    bool auto_pause, auto_resume;
    struct network_wish network;
};

/* control_create.c */
void control_create(struct ask *a);
/* Opens one. NULL, with ERR filled; A->retry_s may be set. The caller is a user of it.
 */
struct box *control_open(struct ask *a, const struct wish *w, struct vial_error *err);
/* The same, and nobody else finds it: given back with control_close_apart. */
struct box *control_open_apart(struct ask *a, const struct wish *w,
                               struct vial_error *err);
void control_close_apart(struct box *box);
/* Finds what W's template name means; SAVED has what W borrows. */
int control_find_template(struct ask *a, struct wish *w, struct saved_list *saved,
                          struct vial_error *err);
/* control_volumes.c */
void control_volume_create(struct ask *a);
void control_volume_get(struct ask *a);
void control_volume_delete(struct ask *a);
void control_volumes(struct ask *a);
/* What W's mounts come to; *OUT has what W borrows. */
int control_mounts(struct ask *a, struct wish *w, json_t **out, struct vial_error *err);
/* What SDKs are to make names of; NULL: what they were told. */
const char *control_domain(const struct ask *a);

/* Whether sandboxes of images can be written to, and so be saved. */
bool control_may_write(const struct settings *settings);

/* control_saved.c: snapshots and forks. */
/* Says ERR: what this server cannot do at all is 501; 400 is for what was asked
 * wrongly.
 */
void control_refuse(struct ask *a, const struct vial_error *err);
/* Makes IMAGE of BOX's files. Reading a root is work like a run, and waits for its turn
 * like one. */
int control_save(struct ask *a, struct box *box, const char *image,
                 struct vial_error *err);
void control_snapshot(struct ask *a);
void control_fork(struct ask *a);
void control_snapshots(struct ask *a);

/* control_templates.c */
void control_template_alias(struct ask *a);
void control_template_delete(struct ask *a);
void control_template_tags(struct ask *a);
void control_templates(struct ask *a);
/* Whether NAME is one of the operator's. */
bool control_is_operators(const struct ask *a, const char *name);

/* control_builds.c */
void control_build_request(struct ask *a);
void control_build_files(struct ask *a);
void control_build_start(struct ask *a);
void control_build_status(struct ask *a);
/* control_tags.c */
void control_tags_assign(struct ask *a);
void control_tags_remove(struct ask *a);
/* Those of the caller's that no name leads to any more make room. */
int control_remove_replaced(struct ask *a, struct vial_error *err);
json_t *control_texts(const struct strv *list);
/* A member of a body: a list of tags, added to OUT. */
int control_read_tags(struct strv *out, const json_t *value, struct vial_error *err);

/* control_upload.c: a file that a build copies comes, by an address of its own. */
void control_upload(struct ask *a);

/* control_metrics.c */
void control_metrics(struct ask *a);
void control_all_metrics(struct ask *a);

/* The sandbox that the path names, if it is the caller's; else that is said. */
struct box *control_own(struct ask *a);

/* control_network_update.c */
void control_update_network(struct ask *a);
/* A box's network as it is now. */
struct control_egress {
    json_t *network; /* as a client gives it, or NULL */
    bool closed, online;
};
struct control_egress control_egress(struct box *box);

static inline void auto_control_egress_(struct control_egress *e)
{
    json_decref(e->network);
}
#define auto_control_egress __attribute__((cleanup(auto_control_egress_)))

/* control_list.c */
void control_list(struct ask *a);

/* What answers say of a sandbox. NULL: no memory. */
json_t *control_sandbox(const struct ask *a, const struct box *box);
json_t *control_listed(const struct box *box);
json_t *control_detail(const struct ask *a, struct box *box);

/* template.c: whether there is a template of that name ("name" or "name:default"), and
 * the image it stands for, or "". */
bool template_find(const struct settings *settings, const char *name,
                   const char **image);

#define CONTROL_ENVD    "0.6.13" /* the version that SDKs are told */
#define CONTROL_USUAL_S 300      /* a lease that nobody asked for */

/* Milliseconds since 1970 as RFC 3339 has it. */
#define CONTROL_STAMP 32
void control_stamp(int64_t ms, char out[CONTROL_STAMP]);
int64_t control_now_ms(void);

/* SECONDS from VALUE, or what is wrong with it. */
int control_seconds(json_t *value, int64_t least, int64_t *out, struct vial_error *err);

#endif
