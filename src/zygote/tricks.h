/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_TRICKS_H
#define VIAL_ZYGOTE_TRICKS_H

/*
 * What makes a child cheap, and nothing else depends on. Each stands here because it
 * was measured (ADR 54). VIAL_ZYGOTE_WITHOUT, in the environment of
 * whoever starts the zygote, names those that are not used. Those of a program's end
 * are only used if a rehearsal with them ends as one without (rehearse.c); if a zygote
 * does not come up with the others, the driver starts one without any.
 */

/* clang-format off */
#define TRICKS                                                                         \
    TRICK(freeze,   FREEZE)   /* the collector leaves alone what was there before */   \
    TRICK(holes,    HOLES)    /* what a child allocates lies together */               \
    TRICK(pages,    PAGES)    /* a child touches what it will need while it waits */   \
    TRICK(exit,     EXIT)     /* nobody sees libraries give their memory back */       \
    TRICK(release,  RELEASE)  /* nor python */                                         \
    TRICK(modules,  MODULES)  /* those a program left alone are not taken apart */     \
    TRICK(builtins, BUILTINS) /* nor are builtins restored */                          \
    TRICK(farewell, FAREWELL) /* an end is told before the kernel has cleaned up */
/* clang-format on */

enum {
#define TRICK(name, NAME) TRICK_BIT_##NAME,
    TRICKS
#undef TRICK
        TRICKS_COUNT
};

enum {
#define TRICK(name, NAME) TRICK_##NAME = 1 << TRICK_BIT_##NAME,
    TRICKS
#undef TRICK
        TRICKS_ALL = (1 << TRICKS_COUNT) - 1,
    TRICKS_OF_END = TRICK_EXIT | TRICK_RELEASE | TRICK_MODULES | TRICK_BUILTINS
};

#endif
