#include "smelt/script/resolve_numbers.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

class NumberResolver {
 public:
  explicit NumberResolver(Graph& g) : g_(g) {}

  void Run() {
    const std::vector<NodeId> nodes = g_.AllNodes();
    for (NodeId n : nodes) Resolve(n);
    for (size_t k = made_.size(); k-- > 0;) EraseOrKeep(made_[k]);
  }

 private:
  void Resolve(NodeId n) {
    const Node& node = g_.node(n);
    if (node.outputs.size() != 1) return;
    const std::string& name = node.op.name();
    const ValueId out = node.outputs[0];
    if (name == op::kPrimNumToTensor) {
      if (g_.value(node.inputs[0]).type.kind() != TypeKind::kInt) return;
      Note(n, node.inputs[0]);
    } else if (name == op::kInt || name == op::kIntImplicit || name == op::kScalarImplicit) {
      const auto known = number_.find(node.inputs[0]);
      if (known == number_.end()) return;
      g_.ReplaceAllUses(out, known->second);
      g_.Erase(n);
    } else if (name == op::kDiv && node.inputs.size() == 3) {
      const std::optional<ConstantValue> mode = GetConstant(g_, node.inputs[2]);
      const auto* word = mode ? std::get_if<std::string>(&*mode) : nullptr;
      if (word != nullptr && *word == "floor") Compute(n, op::kFloordivInt, 2);
      if (word != nullptr && *word == "trunc") Compute(n, op::kPrivateRoundToZeroFloordivInt, 2);
    } else if (name == op::kDetach) {
      const auto known = number_.find(node.inputs[0]);
      if (known == number_.end()) return;
      Note(n, known->second);
    } else if (name == op::kNeg) {
      const auto known = number_.find(node.inputs[0]);
      if (known != number_.end()) Note(n, Insert(n, op::kNegInt, {known->second}));
    } else if (const char* op = OfIntegers(name)) {
      Compute(n, op, node.inputs.size());
    }
  }

  // Returns the operator on integers that corresponds to one on tensors of integers; null if there is none.
  static const char* OfIntegers(const std::string& name) {
    static const auto* const operators =
        new absl::flat_hash_map<std::string, const char*>{{op::kAdd, op::kAddInt},
                                                          {op::kSub, op::kSubInt},
                                                          {op::kRsub, op::kSubInt},
                                                          {op::kMul, op::kMulInt},
                                                          {op::kFloorDivide, op::kFloordivInt},
                                                          {op::kRemainder, op::kRemainderInt}};
    const auto it = operators->find(name);
    return it == operators->end() ? nullptr : it->second;
  }

  // Computes from two operands and, as the third of `operands`, the factor of the second one.
  void Compute(NodeId n, const char* op, size_t operands) {
    const Node& node = g_.node(n);
    if (node.inputs.size() < 2 || !(number_.contains(node.inputs[0]) || number_.contains(node.inputs[1]))) return;
    const bool reversed = node.op.name() == op::kRsub;
    std::optional<Expr> alpha = Expr(1);
    if (operands > 2) alpha = GetIntExpr(g_, node.inputs[2]);
    if (!alpha || !alpha->IsConstant()) return;
    std::optional<ValueId> a = NumberOf(node.inputs[0], n), b = NumberOf(node.inputs[1], n);
    if (!a || !b) return;
    if (reversed) std::swap(a, b);
    // PyTorch multiplies the operand that is added or subtracted, which rsub names first.
    if (*alpha != Expr(1)) b = Insert(n, op::kMulInt, {*b, InsertConstant(g_, n, *alpha->Constant())});
    Note(n, Insert(n, op, {*a, *b}));
  }

  // Inserts an operator on integers before `n`.
  ValueId Insert(NodeId n, const char* op, const std::vector<ValueId>& args) {
    const NodeId made = g_.InsertBefore(n, OpName::Get(op), args, {Type::Int()});
    g_.SetSource(made, g_.node(n).source);
    return g_.node(made).outputs[0];
  }

  // Notes that `number` is the result of `n`.
  void Note(NodeId n, ValueId number) {
    number_[g_.node(n).outputs[0]] = number;
    made_.push_back(n);
  }

  std::optional<ValueId> NumberOf(ValueId v, NodeId anchor) {
    if (const auto known = number_.find(v); known != number_.end()) return known->second;
    if (g_.value(v).type.kind() == TypeKind::kInt) return v;
    const std::optional<ConstantValue> c = GetConstant(g_, v);
    if (!c) return std::nullopt;
    if (const auto* i = std::get_if<int64_t>(&*c)) return InsertConstant(g_, anchor, *i);
    const auto* t = std::get_if<Tensor>(&*c);
    if (t == nullptr || !t->sizes().empty() || t->dtype() != DType::kInt64) return std::nullopt;
    return InsertConstant(g_, anchor, *static_cast<const int64_t*>(t->data()));
  }

  void EraseOrKeep(NodeId n) {
    if (g_.value(g_.node(n).outputs[0]).uses.empty()) return g_.Erase(n);
    if (g_.node(n).op.name() != op::kPrimNumToTensor) return;
    const ValueId none = InsertConstant(g_, n, std::monostate());
    const ValueId dtype = InsertConstant(g_, n, ScalarTypeOf(DType::kInt64));
    const NodeId made =
        g_.InsertBefore(n, OpName::Get(op::kScalarTensor), {g_.node(n).inputs[0], dtype, none, none, none},
                        {Type::Tensor(DType::kInt64, {}, {})});
    g_.SetSource(made, g_.node(n).source);
    g_.ReplaceAllUses(g_.node(n).outputs[0], g_.node(made).outputs[0]);
    g_.Erase(n);
  }

  Graph& g_;
  absl::flat_hash_map<ValueId, ValueId> number_;  // the integer in a tensor without dims
  std::vector<NodeId> made_;
};

}  // namespace

void ResolveNumbers(Graph& g) { NumberResolver(g).Run(); }

Pass ResolveNumbersPass() {
  return {.name = "resolve-numbers",
          .description = "sizes that a trace wrote as tensors become integers",
          .prerequisites = {"replace-script-operators"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            ResolveNumbers(g);
            return edits.count() > 0;
          }};
}

}  // namespace smelt
