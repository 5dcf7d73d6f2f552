#!/bin/sh
# The effects of a model on its inputs, as the tool wrote them.
read -r found <"$1"
echo "$found"
[ "$found" = "2 inputs are written; 2 mutations removed; OK" ]
