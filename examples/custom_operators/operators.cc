// The operators of smoother.pt2 as a library, which `smelt run --op-library` and Python's op_libraries load:
//
//   smelt compile smoother.pt2 -o smoother.smb --op-schema=operators.txt
//   smelt run smoother.smb --op-library=operators.so --case=smoother.case.safetensors
//
// It links nothing of smelt.
#include "operators.h"

SMELT_OPERATOR_LIBRARY(operators) {
  operators.Register("mylib::push_", mylib::Push);
  operators.Register("mylib::soft_clip", mylib::SoftClip);
}
