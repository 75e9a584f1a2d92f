/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_MODULES_H
#define VIAL_ZYGOTE_MODULES_H

/*
 * The modules that were there before the fork. At its end python takes every
 * module apart, value by value; of those that the program has left as they were,
 * nobody would see it, and all their memory would have to be copied for it. They
 * are put out of its reach instead, all at once. Last come sys and builtins; if
 * nothing of the program's hangs on them either, python need not get that far.
 */

#include <stdbool.h>
#include <stddef.h>

#include "zygote/builtins.h"
#include "zygote/python_api.h"

#define MODULES_FINDERS 8

struct modules {
    struct module *at;
    size_t count;
    struct module *sys, *builtins;
    struct list *finders, *hooks;              /* sys.meta_path and sys.path_hooks */
    const void *finder_types[MODULES_FINDERS]; /* of sys.path_importer_cache */
    void *last; /* a module that nobody knows, or NULL: this python has other dicts */
    struct builtins names;
    bool loose;  /* some may be hidden though the program has changed others */
    void *input; /* sys.__stdin__, as the child got it */
};

/* In the zygote, for ever. LAST is let go when python has taken all others apart; FIRST
 * is what it keeps of builtins, or NULL. */
void modules_note(struct modules *m, const struct api *api, void *last, void *first);
/* In the child, once its streams are its own. */
void modules_begin(struct modules *m, const struct api *api);
/* After the program's last word: takes from sys.modules what is as it was; and
 * BUILTINS, if they are, from python's sight. False: all is as before. */
bool modules_hide(struct modules *m, const struct api *api, bool builtins);
/* Or this, once: they are held no more. */
void modules_release(struct modules *m, const struct api *api);

#endif
