// The kernels of functions.h. Compiled ahead of time: make_ptx.sh.
#include "smelt/runtime/cuda/functions/functions.h"

namespace smelt::cuda::functions {

template <int n>
struct Words {
  Int w[n];
};

}  // namespace smelt::cuda::functions

#define SMELT_FIRST                                                              \
  (static_cast<smelt::cuda::functions::Int>(__nvvm_read_ptx_sreg_ctaid_x()) *    \
       static_cast<smelt::cuda::functions::Int>(__nvvm_read_ptx_sreg_ntid_x()) + \
   static_cast<smelt::cuda::functions::Int>(__nvvm_read_ptx_sreg_tid_x()))
#define SMELT_STEP                                                             \
  (static_cast<smelt::cuda::functions::Int>(__nvvm_read_ptx_sreg_nctaid_x()) * \
   static_cast<smelt::cuda::functions::Int>(__nvvm_read_ptx_sreg_ntid_x()))
#define SMELT_KERNEL(name, words)                                                                                  \
  extern "C" __attribute__((global)) void name(smelt::cuda::functions::Words<words> w,                             \
                                               smelt::cuda::functions::Int begin, smelt::cuda::functions::Int end, \
                                               smelt::cuda::functions::Int* status, void* workspace)

SMELT_KERNEL(smelt_move, smelt::cuda::functions::kMoveWords) {
  smelt::cuda::functions::Move(w.w, SMELT_FIRST, SMELT_STEP);
}
SMELT_KERNEL(smelt_zero, smelt::cuda::functions::kZeroWords) {
  smelt::cuda::functions::Zero(w.w, SMELT_FIRST, SMELT_STEP);
}
SMELT_KERNEL(smelt_put_back, smelt::cuda::functions::kPutBackWords) {
  smelt::cuda::functions::PutBack(w.w, SMELT_FIRST, SMELT_STEP);
}
SMELT_KERNEL(smelt_copy, smelt::cuda::functions::kCopyWords) {
  smelt::cuda::functions::Copy(w.w, SMELT_FIRST, SMELT_STEP);
}
SMELT_KERNEL(smelt_put_back_items, smelt::cuda::functions::kPutBackItemsWords) {
  smelt::cuda::functions::PutBackItems(w.w, SMELT_FIRST, SMELT_STEP);
}
SMELT_KERNEL(smelt_check_indices, smelt::cuda::functions::kCheckIndexWords) {
  smelt::cuda::functions::CheckIndices(w.w, SMELT_FIRST, SMELT_STEP, status);
}
