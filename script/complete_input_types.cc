#include "smelt/script/complete_input_types.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {

absl::Status CompleteInputTypes(Graph& g) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Value& v = g.value(g.inputs()[i]);
    if (!v.type.IsTensor()) continue;
    const TensorType t = v.type.tensor();
    if (t.dtype && t.sizes && !t.strides) {
      g.SetType(g.inputs()[i], Type::Tensor(*t.dtype, *t.sizes, ContiguousStrides(*t.sizes)));
    } else if (!t.IsComplete()) {
      missing.push_back(absl::StrCat("%", v.name, " : ", v.type.ToString()));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "inputs without a complete type (dtype, sizes; strides where not contiguous): ", absl::StrJoin(missing, ", ")));
}

bool NameOutputs(Graph& g) {
  bool any = false;
  absl::flat_hash_set<std::string> taken(g.output_names.begin(), g.output_names.end());
  for (size_t i = 0; i < g.output_names.size(); ++i) {
    const std::string& name = g.value(g.outputs()[i]).name;
    const bool numbered = name.find_first_not_of("0123456789") == std::string::npos;
    if (!g.output_names[i].empty() || numbered || !taken.insert(name).second) continue;
    g.output_names[i] = name;
    any = true;
  }
  return any;
}

Pass CompleteInputTypesPass() {
  return {.name = "complete-input-types",
          .description = "inputs without strides are contiguous; results are called as the text calls them",
          .prerequisites = {"resolve-lists"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            SMELT_RETURN_IF_ERROR(CompleteInputTypes(g));
            return NameOutputs(g) || edits.count() > 0;
          }};
}

}  // namespace smelt
