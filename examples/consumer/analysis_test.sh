#!/bin/sh
# What a model does to its inputs, as the tool wrote it.
read -r found <"$1"
echo "$found"
[ "$found" = "2 inputs are written; 2 mutations removed; OK" ]
