#!/bin/sh
# The bundle that a set gives is the one that the model alone gives.
set -e
ls -l fleet
cmp fleet/tiny_a.smb tiny_a_bundle.smb
test -s fleet/tiny_b.smb
