#!/usr/bin/env bash
# The program prints what PyTorch answers to the same calls: custom_operators_test.sh PROGRAM... smoother.smb
diff <("$@") - <<'END'
mean 1.214286, newest 2.0
mean 1.487013, newest 4.0
mean 1.787013, newest 6.0
END
