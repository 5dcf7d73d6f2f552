#include "smelt/functionalize/functional_counterpart.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace smelt {
namespace {

// In-place names whose pure form is not the name without its underscore.
const absl::flat_hash_map<std::string, std::string>& Renamed() {
  static const auto* const kMap = new absl::flat_hash_map<std::string, std::string>{
      {"aten::normal_", "aten::normal_functional"},
      {"aten::__iand__", "aten::__and__"},
      {"aten::__ior__", "aten::__or__"},
      {"aten::__ixor__", "aten::__xor__"},
      {"aten::__ilshift__", "aten::__lshift__"},
      {"aten::__irshift__", "aten::__rshift__"},
      {"aten::_index_put_impl_", "aten::_index_put_impl"},
  };
  return *kMap;
}

bool SameArguments(const std::vector<const Argument*>& a, const std::vector<Argument>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i]->name != b[i].name || a[i]->type != b[i].type) return false;
  }
  return true;
}

}  // namespace

bool IsWritten(const Argument& a) {
  if (a.alias.is_write) return true;
  for (const AliasInfo& c : a.alias.contained) {
    if (c.is_write) return true;
  }
  return false;
}

absl::StatusOr<FunctionalCounterpart> FindFunctionalCounterpart(const FunctionSchema& schema) {
  const std::string& name = schema.op.name();
  std::vector<int> out_args;   // arguments that only receive a result
  std::vector<int> self_args;  // arguments that are read and written
  const bool in_place_name = absl::EndsWith(name, "_") || Renamed().contains(name);
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (!IsWritten(schema.arguments[i])) continue;
    (in_place_name ? self_args : out_args).push_back(static_cast<int>(i));
  }
  FunctionalCounterpart f;
  std::vector<const Argument*> wanted;
  std::vector<int> positions;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (!in_place_name && IsWritten(schema.arguments[i])) continue;
    wanted.push_back(&schema.arguments[i]);
    positions.push_back(static_cast<int>(i));
  }
  std::string pure = name;
  if (auto it = Renamed().find(name); it != Renamed().end()) {
    pure = it->second;
  } else if (in_place_name) {
    pure = std::string(absl::StripSuffix(name, "_"));
  }
  std::vector<std::string> names = {pure};
  if (in_place_name) names.push_back(pure + "_functional");
  for (const std::string& candidate_name : names) {
    for (const FunctionSchema* candidate : FindOverloads(candidate_name)) {
      if (candidate->IsMutable() || !SameArguments(wanted, candidate->arguments)) continue;
      const std::vector<int>& targets = in_place_name ? self_args : out_args;
      if (candidate->returns.size() < targets.size()) continue;
      f.op = candidate->op;
      f.arguments = positions;
      f.operands = OperandSharingOf(schema.op, candidate->op);
      for (size_t r = 0; r < candidate->returns.size(); ++r) {
        FunctionalCounterpart::Result result;
        if (r < targets.size()) {
          result.argument = targets[r];
          result.may_resize = !in_place_name;
        }
        f.results.push_back(result);
      }
      for (size_t o = 0; o < schema.returns.size(); ++o)
        f.result_of_output.push_back(static_cast<int>(o < f.results.size() ? o : 0));
      return f;
    }
  }
  return absl::UnimplementedError(absl::StrCat(schema.op.full(), ": no pure form is known"));
}

}  // namespace smelt
