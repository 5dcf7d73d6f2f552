#include "smelt/core/op/decompose_rules.h"

#include <numeric>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/schema.h"

namespace smelt {

DecompositionRule FindDecomposition(OpName op) {
  static const DecompositionTable* const kTable = [] {
    auto* table = new DecompositionTable();
    AddLinearAlgebraRules(*table);
    AddEinsumRule(*table);
    AddNormalizationRules(*table);
    AddAttentionRules(*table);
    AddRecurrentRules(*table);
    AddLossRules(*table);
    AddMovementRules(*table);
    AddBackwardRules(*table);
    AddImageBackwardRules(*table);
    AddForeachRules(*table);
    AddOptimizerRules(*table);
    AddShapeRules(*table);
    AddSamplingRules(*table);
    AddResizingRules(*table);
    AddGridSamplerRules(*table);
    AddEmbeddingRules(*table);
    AddQuantizationRules(*table);
    AddSortingRules(*table);
    AddGradientRules(*table);
    AddNumberRules(*table);
    AddRandomRules(*table);
    AddFourierRules(*table);
    AddFactorizationRules(*table);
    AddDetectionRules(*table);
    AddWeightProductRules(*table);
    return table;
  }();
  auto it = kTable->find(op.full());
  if (it != kTable->end()) return it->second;
  // A rule for all overloads does not write: an out variant is handled by its functional operator.
  if (absl::StrContains(op.overload(), "out")) return nullptr;
  it = kTable->find(op.name());
  if (it == kTable->end()) return nullptr;
  const FunctionSchema* schema = FindSchema(op);
  return schema != nullptr && schema->IsMutable() ? nullptr : it->second;
}

ValueId Range(Emit& e, const Expr& n, DType t) {
  return e.Op("aten::arange", {e.Size(n), e.Const(ScalarTypeOf(t)), e.None(), e.None(), e.None()});
}

ValueId TensorArg(const OpCall& call, absl::string_view name) {
  const OpArg* a = call.Find(name);
  return a != nullptr && a->IsTensor() ? a->value : ValueId();
}

int64_t WrapDim(int64_t d, int rank) {
  if (rank == 0) return 0;
  return d < 0 ? d + rank : d;
}

absl::StatusOr<std::vector<int64_t>> DimsArg(const OpCall& call, absl::string_view name, int rank) {
  std::vector<int64_t> dims;
  const OpArg* a = call.Find(name);
  if (a != nullptr && a->kind == OpArg::Kind::kIntList) {
    SMELT_ASSIGN_OR_RETURN(dims, call.GetInts(name));
  } else if (a != nullptr && a->kind == OpArg::Kind::kInt) {
    SMELT_ASSIGN_OR_RETURN(int64_t d, call.GetInt(name));
    dims.push_back(d);
  }
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (int64_t& d : dims) {
    d = WrapDim(d, rank);
    if (rank > 0 && (d < 0 || d >= rank)) return call.Error("a dim is out of range");
  }
  return dims;
}

}  // namespace smelt
