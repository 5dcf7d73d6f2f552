#!/bin/sh
# Runs the program named first with the other arguments.
exec "$@"
