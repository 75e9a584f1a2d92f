/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_BUILD_SCRIPTS_H
#define VIAL_E2B_BUILD_SCRIPTS_H

/* What the shell of a build's image is given to do. Everything that a client says is an
 * argument of these, and no part of their text. */

/* $1: the command */
static const char script_run[] = "exec 2>&1\n"
                                 "[ ! -x /bin/bash ] || exec /bin/bash -l -c \"$1\"\n"
                                 "exec /bin/sh -l -c \"$1\"\n";

/* $1: a directory; $2: whose it and its new parents become, or "" */
static const char script_workdir[] =
    "exec 2>&1\n"
    "[ ! -d \"$1\" ] || exit 0\n"
    "top=$1\n"
    "while p=$(dirname -- \"$top\") && [ ! -d \"$p\" ]; do top=$p; done\n"
    "mkdir -p -- \"$1\" || exit 1\n"
    "[ -z \"$2\" ] || chown -R -- \"$2\" \"$top\"\n";

/* $1: what is copied, below the stage; $2: where to; $3: owner, or ""; $4: mode, or "";
 * $5: the stage; $6: "z" for gzip. What a directory has is laid over what is there:
 * other files, and the rights of directories, stay. */
static const char script_copy[] =
    "exec 2>&1\n"
    "set -e\n"
    "umask 022\n"
    "rm -rf -- \"$5\"\n"
    "mkdir -p -- \"$5\"\n"
    "tar -x${6}f - -C \"$5\"\n"
    "e=$5/$1\n"
    "if [ -d \"$e\" ] && [ ! -L \"$e\" ]; then\n"
    "  [ -z \"$3\" ] || chown -R -h -- \"$3\" \"$e\"\n"
    "  [ -z \"$4\" ] || chmod -R -- \"$4\" \"$e\"\n"
    "  if [ ! -d \"$2\" ]; then\n"
    "    mkdir -p -- \"$2\"\n"
    "    [ -z \"$3\" ] || chown -- \"$3\" \"$2\"\n"
    "  fi\n"
    "  if tar --version 2>/dev/null | grep -q GNU; then\n"
    "    (cd -- \"$e\" && tar -cf - .) | tar -xpf - -C \"$2\""
    " --keep-directory-symlink --no-overwrite-dir\n"
    "  else\n"
    "    find \"$e\" -mindepth 1 -maxdepth 1 -exec cp -a -- {} \"$2\"/ \\;\n"
    "  fi\n"
    "  chmod -R u+rwx -- \"$e\"\n"
    "elif [ -e \"$e\" ] || [ -L \"$e\" ]; then\n"
    "  [ -z \"$3\" ] || chown -h -- \"$3\" \"$e\"\n"
    "  [ -z \"$4\" ] || [ -L \"$e\" ] || chmod -- \"$4\" \"$e\"\n"
    "  case \"$2\" in\n"
    "  */) mkdir -p -- \"$2\" ;;\n"
    "  *) mkdir -p -- \"$(dirname -- \"$2\")\" ;;\n"
    "  esac\n"
    "  mv -f -- \"$e\" \"$2\"\n"
    "else\n"
    "  echo \"'$1' is not among its files\"\n"
    "  exit 1\n"
    "fi\n"
    "rm -rf -- \"$5\"\n";

#endif
