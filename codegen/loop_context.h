// The position of the emission in a kernel's loops: plain data that a loop copies, changes, and hands to its body.
#ifndef SMELT_CODEGEN_LOOP_CONTEXT_H_
#define SMELT_CODEGEN_LOOP_CONTEXT_H_

#include <vector>

#include "llvm/IR/Value.h"

namespace smelt {

struct LoopContext {
  // For each param, its address at the indices of all loops but the vectorized one; for each dim, the index.
  std::vector<llvm::Value*> addr, idx;
  // For each param that has one, the buffer of its row between phases.
  std::vector<llvm::Value*> scratch;
  // The loop over the vectorized dim: the index of the first lane of the first copy (null: outside of the loop), the
  // lanes of a vector, and which of them are active (null: all), as a mask and as the number of the first ones.
  llvm::Value* chunk = nullptr;
  int lanes = 1;
  llvm::Value *mask = nullptr, *count = nullptr;
  // Next to `mask`, where one body serves whole vectors and others: whether all lanes are active.
  llvm::Value* whole = nullptr;
  // In a main loop: whether its stores are non-temporal (null: they are not), and whether that is decided.
  llvm::Value* past_cache = nullptr;
  bool non_temporal = false;
  bool pairs = false;  // see Schedule::CanPair
  bool folds = false;  // lanes are parts of the columns' results, see emit_folds.h
  // > 0: the number of adjacent rows that copies belong to, with `row_vectors` adjacent vectors of each.
  int row_copies = 0, row_vectors = 1;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOOP_CONTEXT_H_
