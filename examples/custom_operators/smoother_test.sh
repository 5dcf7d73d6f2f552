#!/usr/bin/env bash
# The bundle, with the operators of the library, does what PyTorch did: smoother_test.sh SMELT SMOOTHER.smb OPERATORS.so
exec "$1" run "$2" --case=examples/custom_operators/smoother.case.safetensors --op-library="$3"
