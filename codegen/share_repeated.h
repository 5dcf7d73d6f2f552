// Removes repeated computations of a function. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_SHARE_REPEATED_H_
#define SMELT_CODEGEN_SHARE_REPEATED_H_

#include "llvm/IR/Function.h"

namespace smelt {

// Works within each block, since the emitter computes each access's address anew, and removes unused instructions.
// Linear in `f`: LLVM's pass for it takes several times as long, and values shared across blocks would occupy registers
// for as long.
void ShareRepeated(llvm::Function& f);

}  // namespace smelt

#endif  // SMELT_CODEGEN_SHARE_REPEATED_H_
