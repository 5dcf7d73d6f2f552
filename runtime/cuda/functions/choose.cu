// The kernel that decides which graph of two conditional nodes runs (functions.h). Compiled ahead of time: make_ptx.sh.
//
// The driver has cudaGraphSetConditional: it links the function when it loads the PTX. A driver before CUDA 12.3 refuses to
// load it, so the kernel is a module of its own.
#include "smelt/runtime/cuda/functions/functions.h"

extern "C" __attribute__((device)) void cudaGraphSetConditional(unsigned long long handle, unsigned value);  // NOLINT

namespace smelt::cuda::functions {

struct ChooseWords {
  Int w[kChooseWords];
};

struct SetHandle {
  SMELT_DEVICE_FUNCTION void operator()(Int handle, unsigned value) const {
    cudaGraphSetConditional(static_cast<unsigned long long>(handle), value);  // NOLINT: the function's type
  }
};

}  // namespace smelt::cuda::functions

extern "C" __attribute__((global)) void smelt_choose(smelt::cuda::functions::ChooseWords w,
                                                     smelt::cuda::functions::Int begin, smelt::cuda::functions::Int end,
                                                     smelt::cuda::functions::Int* status, void* workspace) {
  // One thread sets the handles.
  if (__nvvm_read_ptx_sreg_ctaid_x() == 0 && __nvvm_read_ptx_sreg_tid_x() == 0)
    smelt::cuda::functions::Choose(w.w, smelt::cuda::functions::SetHandle());
}
