#include "smelt/codegen/share_repeated.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/Casting.h"
#include "llvm/Transforms/Utils/Local.h"

namespace smelt {
namespace {

using llvm::Instruction;

// Instructions are equal if they compute the same from the same operands, whatever they promise about the result.
struct ByComputation : llvm::DenseMapInfo<Instruction*> {
  static unsigned getHashValue(const Instruction* i) {
    return static_cast<unsigned>(llvm::hash_combine(i->getOpcode(), i->getType(),
                                                    llvm::hash_combine_range(i->value_op_begin(), i->value_op_end())));
  }
  static bool isEqual(const Instruction* a, const Instruction* b) {
    const auto is_key = [](const Instruction* i) { return i != getEmptyKey() && i != getTombstoneKey(); };
    return a == b || (is_key(a) && is_key(b) && a->isIdenticalToWhenDefined(b));
  }
};

// Returns whether it depends on nothing but its operands.
bool IsPure(const Instruction& i) {
  return llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::CmpInst, llvm::SelectInst, llvm::GetElementPtrInst,
                   llvm::ExtractElementInst, llvm::InsertElementInst, llvm::ShuffleVectorInst>(i);
}

}  // namespace

void ShareRepeated(llvm::Function& f) {
  llvm::DenseSet<Instruction*, ByComputation> known;
  for (llvm::BasicBlock& block : f) {
    known.clear();
    for (Instruction& i : llvm::make_early_inc_range(block)) {
      if (!IsPure(i)) continue;
      const auto [first, is_new] = known.insert(&i);
      if (is_new) continue;
      (*first)->andIRFlags(&i);
      i.replaceAllUsesWith(*first);
      i.eraseFromParent();
    }
  }
  for (llvm::BasicBlock& block : f) {
    for (Instruction& i : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (llvm::isInstructionTriviallyDead(&i)) i.eraseFromParent();
    }
  }
}

}  // namespace smelt
