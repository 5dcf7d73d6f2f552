// The rules that give types to results, in several files by subject. Internal to core/op; other code uses infer.h.
#ifndef SMELT_CORE_OP_INFER_RULES_H_
#define SMELT_CORE_OP_INFER_RULES_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt::op_internal {

using Geo = ExprGeometry;
using Outputs = std::vector<InferredOutput>;

// c10::MemoryFormat.
enum class Format { kContiguous = 0, kPreserve = 1, kChannelsLast = 2, kChannelsLast3d = 3 };

struct Ctx {
  const OpCall& call;
  SymbolicDecide& decide;
  Outputs out;

  // A contiguous result, or one in the channels-last layout.
  void Add(DType t, std::vector<Expr> sizes, Format f = Format::kContiguous) {
    const bool last =
        (f == Format::kChannelsLast && sizes.size() == 4) || (f == Format::kChannelsLast3d && sizes.size() == 5);
    std::vector<Expr> strides =
        last ? view_rules::ChannelsLastStrides(decide, sizes) : view_rules::ContiguousStrides(decide, sizes);
    AddStrided(t, std::move(sizes), std::move(strides));
  }
  void AddStrided(DType t, std::vector<Expr> sizes, std::vector<Expr> strides) {
    out.push_back({Type::Tensor(t, std::move(sizes), std::move(strides)), std::nullopt, {}});
  }
  void AddInt(Expr e) { out.push_back({Type::Int(), std::move(e), {}}); }
  void AddUnknown(TensorType t) { out.push_back({Type::Tensor(std::move(t)), std::nullopt, {}}); }
};

// Returns the error of a computation for a call as OpCall::Error does, with its cause.
absl::Status ErrorIn(const OpCall& call, const absl::Status& error);

using Rule = std::function<absl::Status(Ctx&)>;
// Rules by full name ("aten::len.t"), or by name for all overloads that have no rule of their own.
using RuleTable = absl::flat_hash_map<std::string, Rule>;

void AddFactoryRules(RuleTable& r);
void AddMovementTypeRules(RuleTable& r);
void AddLibraryRules(RuleTable& r);
void AddFourierTypeRules(RuleTable& r);
void AddFactorizationTypeRules(RuleTable& r);
void AddCompositeRules(RuleTable& r);
void AddScalarRules(RuleTable& r);
void AddDetectionTypeRules(RuleTable& r);
void AddWeightProductTypeRules(RuleTable& r);

// Operators that share one rule.
absl::Status InferPointwise(Ctx& c);
absl::Status InferReduction(Ctx& c);
absl::Status InferView(Ctx& c);
absl::Status InferForeach(Ctx& c);
// Returns the dtypes of a pointwise operator's results, including complex ones.
absl::StatusOr<std::vector<DType>> PointwiseDTypes(const OpCall& call);

// --- for the rules ---
// Names of aten operators, separated by blanks.
inline void AddRule(RuleTable& r, absl::string_view names, const Rule& rule) {
  for (absl::string_view n : absl::StrSplit(names, ' ', absl::SkipEmpty())) r[absl::StrCat("aten::", n)] = rule;
}
Geo GeoOf(SymbolicDecide& decide, const TensorType& t);
// The memory format that Tensor::suggest_memory_format() finds in the strides.
Format Suggest(Ctx& c, const TensorType& t);
// Does the same for one spatial dim: PyTorch computes [N, C, L] as images of one row, [N, C, 1, L].
Format SuggestAsRow(Ctx& c, const TensorType& t);
// Adds a result of that format, as rows again.
void AddAsRow(Ctx& c, DType dtype, std::vector<Expr> sizes, Format f);
absl::StatusOr<Format> FormatArg(Ctx& c, Format d);
// Adds a result like `t` in the requested format.
void AddLike(Ctx& c, DType dtype, const TensorType& t, Format f);
absl::StatusOr<TensorType> TensorArgument(Ctx& c, int i);
absl::StatusOr<int> Dim(Ctx& c, absl::string_view name, int rank, int64_t d = 0);
DType DTypeOr(Ctx& c, DType d);
// Spatial arguments: one number stands for all dims.
absl::StatusOr<std::vector<int64_t>> Spatial(Ctx& c, absl::string_view name, int n, std::optional<int64_t> d = {});
Rule SameAs(const char* name);  // an argument's dtype and sizes
Rule AdaptivePool(int n, bool max);
absl::Status Elementwise(Ctx& c);  // operators that have no scalar function but broadcast like one

}  // namespace smelt::op_internal

#endif  // SMELT_CORE_OP_INFER_RULES_H_
