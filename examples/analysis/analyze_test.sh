#!/bin/sh
# The tool says what a model does to its inputs.
found=$("$1" "$2")
echo "$found"
[ "$found" = "2 inputs are written; 2 mutations removed; OK" ]
