// SPDX-License-Identifier: Apache-2.0
export { FitAddon } from "@xterm/addon-fit";
export { Terminal } from "@xterm/xterm";
