#include "smelt/core/op/declare.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {

namespace op_internal {
void AddDeclaredSchema(FunctionSchema schema);  // schema.cc
}

namespace {

constexpr size_t kMostSchemaBytes = 1 << 16;

// The statement about a tensor, or about the tensors of a list.
const AliasInfo& OfTensors(const Argument& a) { return a.alias.contained.empty() ? a.alias : a.alias.contained[0]; }

const Type& Unwrapped(const Type& t) { return t.kind() == TypeKind::kOptional ? t.element() : t; }

bool IsTensorOrList(const Type& t) {
  const Type& u = Unwrapped(t);
  return u.IsTensor() || (u.kind() == TypeKind::kList && Unwrapped(u.element()).IsTensor());
}

bool IsPlain(const Type& t) {
  switch (t.kind()) {
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kComplex:
    case TypeKind::kNumber:
    case TypeKind::kString:
    case TypeKind::kDevice:
      return true;
    default:
      return false;
  }
}

bool CanBePassed(const Type& t) {
  const Type& u = Unwrapped(t);
  if (IsTensorOrList(u) || IsPlain(u)) return true;
  return u.kind() == TypeKind::kList && IsPlain(u.element()) && u.element().kind() != TypeKind::kDevice;
}

bool CanBeReturned(const Type& t) {
  if (t.kind() == TypeKind::kList) return t.element().IsTensor();
  return t.IsTensor() || t.kind() == TypeKind::kInt || t.kind() == TypeKind::kFloat || t.kind() == TypeKind::kBool;
}

// Returns what smelt cannot honour about an annotation; "" if nothing.
std::string Objection(const AliasInfo& a) {
  if (a.before != a.after) return "its alias set changes";
  if (a.IsWildcardBefore()) return "it is annotated as (*), which may be anything";
  if (a.before.size() > 1) return "it is in several alias sets";
  return "";
}

bool SharesSet(const AliasInfo& a, const AliasInfo& b) {
  return std::any_of(a.before.begin(), a.before.end(), [&](const std::string& set) {
    return std::find(b.before.begin(), b.before.end(), set) != b.before.end();
  });
}

absl::Status CheckName(OpName op) {
  const std::string& name = op.name();
  const size_t colons = name.find("::");
  const auto is_word = [](absl::string_view s) {
    return !s.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(s[0])) &&
           std::all_of(s.begin(), s.end(),
                       [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  };
  const absl::string_view whole = name;
  if (colons == std::string::npos || !is_word(whole.substr(0, colons)) || !is_word(whole.substr(colons + 2)) ||
      (absl::StrContains(op.full(), '.') && !is_word(op.overload()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::string_view(op.full()).substr(0, 200),
                     "\" is no operator's name: NAMESPACE::NAME or NAMESPACE::NAME.OVERLOAD expected"));
  }
  if (!FindOverloads(name).empty())
    return absl::InvalidArgumentError(absl::StrCat(op.full(), " is PyTorch's or smelt's own, so it is not declared"));
  for (absl::string_view taken : {"aten", "prim", "prims", "smelt", "dict", "_operator", "math", "onnx"}) {
    if (whole.substr(0, colons) == taken) {
      return absl::InvalidArgumentError(
          absl::StrCat(op.full(), ": the namespace ", taken, " is PyTorch's or smelt's own, so it declares nothing"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSchema(const FunctionSchema& s) {
  SMELT_RETURN_IF_ERROR(CheckName(s.op));
  const auto unsupported = [&](const auto&... what) {
    return absl::UnimplementedError(absl::StrCat(s.op.full(), ": ", what...));
  };
  if (s.is_vararg || s.is_varret) return unsupported("a schema with \"...\"");
  for (const Argument& a : s.arguments) {
    if (!CanBePassed(a.type)) return unsupported("argument \"", a.name, "\" is of type ", a.type_text);
    if (a.alias.IsEmpty()) continue;
    if (!IsTensorOrList(a.type))
      return absl::InvalidArgumentError(
          absl::StrCat(s.op.full(), ": argument \"", a.name, "\" is annotated, but no tensor"));
    for (const AliasInfo* info : {&a.alias, &OfTensors(a)}) {
      if (const std::string why = Objection(*info); !why.empty())
        return unsupported("argument \"", a.name, "\": ", why);
    }
    if (Unwrapped(a.type).kind() == TypeKind::kList && a.alias.is_write)
      return unsupported("argument \"", a.name,
                         "\" is a list that changes; Tensor(a!)[] is one whose tensors are written");
  }
  for (size_t k = 0; k < s.returns.size(); ++k) {
    const Argument& r = s.returns[k];
    const std::string name = r.name.empty() ? absl::StrCat("result ", k) : absl::StrCat("result \"", r.name, "\"");
    if (!CanBeReturned(r.type)) return unsupported(name, " is of type ", r.type_text);
    if (r.default_value) return absl::InvalidArgumentError(absl::StrCat(s.op.full(), ": ", name, " has a default"));
    const AliasInfo& info = OfTensors(r);
    if (const std::string why = Objection(info); !why.empty()) return unsupported(name, ": ", why);
    if (info.before.empty()) continue;
    const ResultMemory memory = MemoryOfResult(s, k);
    if (memory.arguments.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(s.op.full(), ": ", name, " is in the alias set ", info.before[0], ", as no argument is"));
    }
    if (info.is_write && !memory.is_argument) {
      return unsupported(name, " is a written argument, which must be one tensor that is no list");
    }
  }
  return absl::OkStatus();
}

}  // namespace

ResultMemory MemoryOfResult(const FunctionSchema& schema, size_t result) {
  ResultMemory out;
  const Argument& r = schema.returns[result];
  const AliasInfo& info = OfTensors(r);
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (SharesSet(info, OfTensors(schema.arguments[i]))) out.arguments.push_back(static_cast<int>(i));
  }
  out.is_argument = info.is_write && r.type.IsTensor() && out.arguments.size() == 1 &&
                    schema.arguments[out.arguments[0]].type.IsTensor() && IsWritten(schema.arguments[out.arguments[0]]);
  return out;
}

absl::StatusOr<OpName> DeclareOperator(absl::string_view schema) {
  if (schema.size() > kMostSchemaBytes)
    return absl::InvalidArgumentError(absl::StrCat("a schema of ", schema.size(), " bytes"));
  SMELT_ASSIGN_OR_RETURN(FunctionSchema parsed, ParseSchema(schema));
  if (parsed.op.overload() == "default") parsed.op = OpName::Get(absl::StripSuffix(parsed.op.full(), ".default"));
  SMELT_RETURN_IF_ERROR(CheckSchema(parsed));
  const OpName op = OpName::GetDeclared(parsed.op.full(), parsed.ToString());
  parsed.op = op;
  op_internal::AddDeclaredSchema(std::move(parsed));
  return op;
}

std::string DeclaredSchema(OpName op) { return op.IsDeclared() ? FindSchema(op)->ToString() : ""; }

absl::Status OperatorDeclarations::AddText(absl::string_view text, absl::string_view file_name) {
  std::vector<OpName> added = operators_;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    // A '#' in a default value that is a string stays.
    char quote = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (quote != 0) {
        if (line[i] == '\\')
          ++i;
        else if (line[i] == quote)
          quote = 0;
      } else if (line[i] == '"' || line[i] == '\'') {
        quote = line[i];
      } else if (line[i] == '#') {
        line = line.substr(0, i);
        break;
      }
    }
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    const auto at = [&](const absl::Status& s) {
      return absl::Status(s.code(), absl::StrCat(file_name, ":", number, ": ", s.message()));
    };
    absl::StatusOr<OpName> op = DeclareOperator(line);
    if (!op.ok()) return at(op.status());
    const auto before = std::find_if(added.begin(), added.end(), [&](OpName o) { return o.full() == op->full(); });
    if (before == added.end()) {
      added.push_back(*op);
    } else if (*before != *op) {
      return at(absl::InvalidArgumentError(
          absl::StrCat(op->full(), " is declared twice: ", DeclaredSchema(*before), " and ", DeclaredSchema(*op))));
    }
  }
  operators_ = std::move(added);
  return absl::OkStatus();
}

const OpName* OperatorDeclarations::Find(absl::string_view full) const {
  full = absl::StripSuffix(full, ".default");
  for (const OpName& op : operators_) {
    if (op.full() == full) return &op;
  }
  return nullptr;
}

void ApplyDeclarations(Graph& g, const OperatorDeclarations& operators) {
  for (NodeId n : g.AllNodes()) {
    if (const OpName* declared = operators.Find(g.node(n).op.full())) g.SetOp(n, *declared);
    for (const auto& [name, attribute] : g.node(n).attributes) {
      const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (subgraph != nullptr && *subgraph != nullptr) ApplyDeclarations(**subgraph, operators);
    }
  }
}

}  // namespace smelt
