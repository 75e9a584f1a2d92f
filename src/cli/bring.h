/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BRING_H
#define VIAL_CLI_BRING_H

/*
 * Writes the files that a run brought back. The caller's directory is the
 * caller's own, but the content is hostile: it replaces a regular file or makes
 * one, never more, and never through a symbolic link.
 */

#include "cli/cli.h"

/* A file that the run did not make is reported and no failure. STATUS_OK, or
 * STATUS_VIAL when one could not be written. */
int bring_files(const struct cli *cli, const struct vial_result *result);

#endif
