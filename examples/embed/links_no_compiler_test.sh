#!/usr/bin/env bash
# The program named first loads no library of LLVM's, and no code of LLVM's or of the compiler's passes is in it.
set -u
program=$1
libraries=$(ldd "$program") || exit 1
echo "$libraries"
stat -L -c '%s bytes' "$program"
failed=0
if grep -qiE 'llvm|lld|zip' <<<"$libraries"; then
  echo "a library of the compiler is loaded"
  failed=1
fi
# Symbol names of code that only the compiler has, mangled.
for name in _ZN4llvm LLVMContext 5smelt13Functionalize 5smelt7ReadPt2 5smelt13CompileToFile; do
  if grep -qa "$name" "$program"; then
    echo "$name is in the program"
    failed=1
  fi
done
exit $failed
