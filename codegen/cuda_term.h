// Integer arithmetic that is written as formulas. Internal to codegen: includes LLVM.
//
//   Term row = Term(thread) / 16 + first;
//   Value* v = (row * pitch + column).Emit(b);
//
// A term is a tree of 64-bit integers and conditions. It becomes instructions where it is emitted, operands from left to
// right, so that the code does not depend on the order in which the C++ compiler evaluates operands. A term that is
// used twice is emitted twice: emit what is used often, and build terms of its value.
#ifndef SMELT_CODEGEN_CUDA_TERM_H_
#define SMELT_CODEGEN_CUDA_TERM_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "llvm/IR/IRBuilder.h"

namespace smelt {

class Term {
  using Value = llvm::Value;

 public:
  enum Op {
    kLeaf,
    kNumber,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kMod,
    kAnd,
    kOr,
    kXor,
    kShl,
    kShr,
    kLess,
    kEqual,
    kNotEqual,
    kSelect
  };

  Term(Value* v) : node_(std::make_shared<Node>(Node{kLeaf, v, 0, {}})) {}           // NOLINT: a conversion
  Term(int64_t n) : node_(std::make_shared<Node>(Node{kNumber, nullptr, n, {}})) {}  // NOLINT
  Term(int n) : Term(static_cast<int64_t>(n)) {}                                     // NOLINT
  // `condition` ? yes : no.
  static Term Select(Term condition, Term yes, Term no) { return Term(kSelect, {condition, yes, no}); }

  friend Term operator+(Term a, Term z) { return Term(kAdd, {a, z}); }
  friend Term operator-(Term a, Term z) { return Term(kSub, {a, z}); }
  friend Term operator*(Term a, Term z) { return Term(kMul, {a, z}); }
  // For numbers that are not negative.
  friend Term operator/(Term a, Term z) { return Term(kDiv, {a, z}); }
  friend Term operator%(Term a, Term z) { return Term(kMod, {a, z}); }
  friend Term operator&(Term a, Term z) { return Term(kAnd, {a, z}); }
  friend Term operator|(Term a, Term z) { return Term(kOr, {a, z}); }
  friend Term operator^(Term a, Term z) { return Term(kXor, {a, z}); }
  friend Term operator<<(Term a, Term z) { return Term(kShl, {a, z}); }
  friend Term operator>>(Term a, Term z) { return Term(kShr, {a, z}); }  // of a number without a sign
  friend Term operator<(Term a, Term z) { return Term(kLess, {a, z}); }
  friend Term operator==(Term a, Term z) { return Term(kEqual, {a, z}); }
  friend Term operator!=(Term a, Term z) { return Term(kNotEqual, {a, z}); }
  // ceil(a / by)
  static Term CeilDiv(Term a, Term by) { return (a + (by - 1)) / by; }
  static Term Min(Term a, Term z) { return Select(a < z, a, z); }

  Value* Emit(llvm::IRBuilder<>& b) const {
    if (node_->op == kLeaf) return node_->value;
    if (node_->op == kNumber) return b.getInt64(static_cast<uint64_t>(node_->number));
    Value* x = node_->operands[0].Emit(b);
    Value* y = node_->operands[1].Emit(b);
    switch (node_->op) {
      case kAdd:
        return b.CreateAdd(x, y);
      case kSub:
        return b.CreateSub(x, y);
      case kMul:
        return b.CreateMul(x, y);
      case kDiv:
        return b.CreateUDiv(x, y);
      case kMod:
        return b.CreateURem(x, y);
      case kAnd:
        return b.CreateAnd(x, y);
      case kOr:
        return b.CreateOr(x, y);
      case kXor:
        return b.CreateXor(x, y);
      case kShl:
        return b.CreateShl(x, y);
      case kShr:
        return b.CreateLShr(x, y);
      case kLess:
        return b.CreateICmpSLT(x, y);
      case kEqual:
        return b.CreateICmpEQ(x, y);
      case kNotEqual:
        return b.CreateICmpNE(x, y);
      default: {
        Value* z = node_->operands[2].Emit(b);
        return b.CreateSelect(x, y, z);
      }
    }
  }

 private:
  struct Node {
    Op op;
    Value* value;
    int64_t number;
    std::vector<Term> operands;
  };
  Term(Op op, std::vector<Term> operands) : node_(std::make_shared<Node>(Node{op, nullptr, 0, std::move(operands)})) {}

  std::shared_ptr<const Node> node_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_TERM_H_
