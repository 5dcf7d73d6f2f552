// Transposes squares of elements in registers.
#ifndef SMELT_CODEGEN_TRANSPOSE_REGISTERS_H_
#define SMELT_CODEGEN_TRANSPOSE_REGISTERS_H_

#include <vector>

#include "llvm/IR/IRBuilder.h"

namespace smelt {

// rows[r][c] becomes rows[c][r]: as many vectors as each has elements, of `item` bytes; 16, 32 or 64 bytes per vector.
// Emits n log2(n) shuffles for n vectors.
void TransposeRegisters(llvm::IRBuilder<>& b, int item, std::vector<llvm::Value*>& rows);

}  // namespace smelt

#endif  // SMELT_CODEGEN_TRANSPOSE_REGISTERS_H_
