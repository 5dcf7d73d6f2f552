// Constants of vectors in registers, for machines whose instructions take them from registers alone.
//
// LLVM selects instructions block by block and makes each constant anew in each block. Where many loops use the same
// constants, too many equal registers are needed to move all of them out of the loops, and each round makes the rest
// again. A constant that is made once, in the entry, is one value for all blocks, which the register allocator keeps, or
// loads from the stack where registers are short.
#ifndef SMELT_CODEGEN_KEEP_CONSTANTS_H_
#define SMELT_CODEGEN_KEEP_CONSTANTS_H_

#include "llvm/IR/Function.h"

namespace smelt {

// Makes the constant vectors that arithmetic and comparisons take in the function's entry. Constants that instructions
// hold themselves stay where they are: 0, the count of a shift, powers of two that become shifts.
void KeepConstants(llvm::Function& f);

}  // namespace smelt

#endif  // SMELT_CODEGEN_KEEP_CONSTANTS_H_
