// Computes only once what a function would compute several times. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_SHARE_REPEATED_H_
#define SMELT_CODEGEN_SHARE_REPEATED_H_

#include "llvm/IR/Function.h"

namespace smelt {

// Within each block, as the emitter forms each access's address anew; and removes what nobody uses. Linear in `f`: LLVM
// has a pass for it that takes several times as long, and across blocks what is shared must be kept for as long.
void ShareRepeated(llvm::Function& f);

}  // namespace smelt

#endif  // SMELT_CODEGEN_SHARE_REPEATED_H_
