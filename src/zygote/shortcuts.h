/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_SHORTCUTS_H
#define VIAL_ZYGOTE_SHORTCUTS_H

/*
 * Shortcuts make a child cheap, and nothing else depends on them. Each stands here
 * because it was measured (ADR 54). VIAL_ZYGOTE_WITHOUT, in the environment of whoever
 * starts the zygote, names those that are not used. Those of a program's end
 * are only used if a rehearsal with them ends as one without (rehearse.c); if a zygote
 * does not come up with the others, the driver starts one without any.
 */

/* clang-format off */
#define SHORTCUTS                                                                      \
    SHORTCUT(freeze,     FREEZE)     /* the collector leaves what is old alone */      \
    SHORTCUT(holes,      HOLES)      /* what a child allocates lies together */        \
    SHORTCUT(pages,      PAGES)      /* a child touches its pages while it waits */    \
    SHORTCUT(exit,       EXIT)       /* libraries do not give their memory back */     \
    SHORTCUT(release,    RELEASE)    /* nor does python */                             \
    SHORTCUT(modules,    MODULES)    /* those left alone are not taken apart */        \
    SHORTCUT(builtins,   BUILTINS)   /* nor are builtins restored */                   \
    SHORTCUT(early_exit, EARLY_EXIT) /* told before the kernel has cleaned up */
/* clang-format on */

enum {
#define SHORTCUT(name, NAME) SHORTCUT_BIT_##NAME,
    SHORTCUTS
#undef SHORTCUT
        SHORTCUTS_COUNT
};

enum {
#define SHORTCUT(name, NAME) SHORTCUT_##NAME = 1 << SHORTCUT_BIT_##NAME,
    SHORTCUTS
#undef SHORTCUT
        SHORTCUTS_ALL = (1 << SHORTCUTS_COUNT) - 1,
    SHORTCUTS_OF_END =
        SHORTCUT_EXIT | SHORTCUT_RELEASE | SHORTCUT_MODULES | SHORTCUT_BUILTINS
};

#endif
