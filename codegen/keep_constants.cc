#include "smelt/codegen/keep_constants.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/Casting.h"

namespace smelt {
namespace {

using llvm::Constant;
using llvm::Instruction;

// Returns whether the instruction needs this operand, a constant, in a register.
bool NeedsRegister(const Instruction& i, unsigned operand, const Constant& constant) {
  if (!constant.getType()->isVectorTy() || constant.isZeroValue() || llvm::isa<llvm::UndefValue>(constant))
    return false;
  switch (i.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FCmp:
    case Instruction::Add:
    case Instruction::Sub:
      return true;
    case Instruction::FDiv:
      return operand == 0;  // LLVM multiplies by the inverse of a power of two
    case Instruction::Mul: {
      const Constant* splat = constant.getSplatValue();
      return splat == nullptr || !splat->getUniqueInteger().isPowerOf2();
    }
    case Instruction::ICmp:
    case Instruction::Select:
      return !constant.isAllOnesValue();
    case Instruction::Xor:
      return operand == 0;  // the complement in EmitCopySign
    case Instruction::And: {
      // The mask of the sign; LLVM finds better instructions for others.
      const Constant* splat = constant.getSplatValue();
      return splat != nullptr && splat->getUniqueInteger().isSignMask();
    }
    case Instruction::Call: {
      const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
      if (call == nullptr || operand >= call->arg_size()) return false;
      switch (call->getIntrinsicID()) {
        case llvm::Intrinsic::fma:
        case llvm::Intrinsic::minimum:
        case llvm::Intrinsic::maximum:
          return true;
        default:
          return false;
      }
    }
    default:
      return false;
  }
}

}  // namespace

void KeepConstants(llvm::Function& f) {
  llvm::BasicBlock& entry = f.getEntryBlock();
  llvm::DenseMap<Constant*, Instruction*> kept;
  for (llvm::BasicBlock& block : f) {
    if (&block == &entry) continue;
    for (Instruction& i : block) {
      for (llvm::Use& use : i.operands()) {
        auto* constant = llvm::dyn_cast<Constant>(use.get());
        if (constant == nullptr || !NeedsRegister(i, use.getOperandNo(), *constant)) continue;
        Instruction*& made = kept[constant];
        // A conversion of a constant to its own type: LLVM leaves conversions of constants where they are.
        if (made == nullptr) {
          made = new llvm::BitCastInst(constant, constant->getType(), "", entry.getTerminator()->getIterator());
        }
        use.set(made);
      }
    }
  }
}

}  // namespace smelt
