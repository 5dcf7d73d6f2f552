#!/bin/sh
# The program ends well; with another bundle than the one it was built with, or none, it says so.
"$1" || exit 1
if "$1" digits_bundle.smb; then
  echo "exit 0 with another model's bundle"
  exit 1
fi
! "$1" no_such.smb
