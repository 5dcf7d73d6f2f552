#include "smelt/frontend/pt2_targets.h"

#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace smelt {
namespace pt2_internal {

absl::StatusOr<OpName> TargetName(const std::string& target, const Json& inputs,
                                  const OperatorDeclarations* operators) {
  if (absl::StrContains(target, '\n')) return absl::InvalidArgumentError("a target with a line end in its name");
  if (absl::StartsWith(target, "torch.ops.")) {
    const std::vector<std::string> parts = absl::StrSplit(target.substr(10), '.');
    const auto named = [&](const std::string& full) {
      const OpName* declared = operators == nullptr ? nullptr : operators->Find(full);
      return declared == nullptr ? OpName::Get(full) : *declared;
    };
    if (parts.size() == 2) return named(absl::StrCat(parts[0], "::", parts[1]));
    if (parts.size() == 3) {
      return named(parts[2] == "default" ? absl::StrCat(parts[0], "::", parts[1])
                                         : absl::StrCat(parts[0], "::", parts[1], ".", parts[2]));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("target \"", target, "\": torch.ops.NAMESPACE.NAME.OVERLOAD expected"));
  }
  // Arithmetic on symbolic numbers. Floats among the operands choose the float overload.
  bool is_float = false;
  for (const Json& input : inputs) {
    const Json* arg = Find(input, "arg");
    if (arg != nullptr && (arg->contains("as_float") || arg->contains("as_sym_float"))) is_float = true;
  }
  static const auto* const kNames = new std::map<std::string, std::string>{
      {"_operator.add", "aten::add"},        {"_operator.sub", "aten::sub"},
      {"_operator.mul", "aten::mul"},        {"_operator.floordiv", "aten::floordiv"},
      {"_operator.mod", "aten::remainder"},  {"_operator.neg", "aten::neg"},
      {"_operator.eq", "aten::eq"},          {"_operator.ne", "aten::ne"},
      {"_operator.lt", "aten::lt"},          {"_operator.le", "aten::le"},
      {"_operator.gt", "aten::gt"},          {"_operator.ge", "aten::ge"},
      {"_operator.truediv", "aten::div"},    {"torch.sym_max", "prim::max"},
      {"torch.sym_min", "prim::min"},        {"torch.sym_not", "aten::__not__"},
      {"_operator.and_", "aten::__and__"},   {"_operator.or_", "aten::__or__"},
      {"_operator.pow", "aten::pow"},        {"math.floor", "aten::floor"},
      {"math.ceil", "aten::ceil"},           {"torch.sym_float", "aten::Float.Scalar"},
      {"torch.sym_int", "aten::Int.Scalar"}, {"math.trunc", "aten::Int.Scalar"}};
  std::string key = target;
  if (absl::StartsWith(key, "operator.")) key = "_" + key;
  if (absl::StartsWith(key, "torch._sym_")) key = "torch.sym_" + key.substr(11);
  auto it = kNames->find(key);
  if (it == kNames->end()) return absl::UnimplementedError(absl::StrCat("target \"", target, "\""));
  const std::string& name = it->second;
  if (absl::StrContains(name, ".")) return OpName::Get(name);
  if (name == "aten::__not__") return OpName::Get(name);
  if (name == "aten::__and__" || name == "aten::__or__") return OpName::Get(name + ".bool");
  return OpName::Get(name + (is_float ? ".float" : ".int"));
}

}  // namespace pt2_internal
}  // namespace smelt
