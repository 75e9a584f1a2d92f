/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_BUILTINS_H
#define VIAL_ZYGOTE_BUILTINS_H

/*
 * At its end, python makes the names of builtins what they were when it began: it
 * copies all of them, clears them, and takes the first ones from a dict that it kept.
 * That counts references to nearly all its types, and so writes to half the memory
 * that a short program writes to. If the program has left builtins alone, python is
 * shown two dicts with next to nothing in them, and gets the real ones right after:
 *
 *   a module that is let go last of all      -> they are exchanged
 *   the one thing in the copy is let go of   -> the first names are in place
 *
 * Nothing of the program can run in between.
 */

#include "zygote/python_api.h"

#define BUILTINS_OTHERS 8

/* Zero-initialise; must stay where it is. */
struct builtins {
    const struct api *api;
    void *now, *first;             /* python's: the names, and those it began with */
    void *sign;                    /* the module; NULL: python is left to itself */
    void *stand_in, *none;         /* what python is shown instead */
    void *others[BUILTINS_OTHERS]; /* stand for modules, and will never end */
};

/* In the zygote, for ever. FIRST: the dict that python kept, or none. */
void builtins_note(struct builtins *b, const struct api *api, void *first);
/* In the child, when MODULES is all that python will look at, and builtins are as they
 * were. */
void builtins_hide(struct builtins *b, void *modules);

#endif
