#!/usr/bin/env bash
# Runs a program for AArch64, or a script, with its arguments. QEMU_CPU names the processor: cortex-a57, neoverse-n1, max, ...
set -euo pipefail
# The machine's number in an ELF file.
machine=$(od -An -tx2 -j18 -N2 "$1")
if [[ $machine == " 00b7" ]]; then
  # The libraries are beside the file itself, wherever a link to it is among a test's files.
  exec qemu-aarch64-static -L "$(dirname "$(readlink -f "$0")")/sysroot" "$@"
fi
exec "$@"
