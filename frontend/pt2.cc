#include "smelt/frontend/pt2.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/verify.h"
#include "smelt/frontend/number_guards.h"
#include "smelt/frontend/pt2_reader.h"
#include "smelt/frontend/related_sizes.h"
#include "smelt/frontend/small_sizes.h"
#include "smelt/frontend/sympy_expr.h"
#include "smelt/frontend/zip_archive.h"

namespace smelt {
namespace pt2_internal {
namespace {

constexpr int kSupportedMajor = 8, kKnownMinor = 20;  // of PyTorch 2.13
constexpr char kKnownArchive[] = "0";

// Symbols of sizes that a squeeze leaves in place because they are at least 2.
absl::flat_hash_set<std::string> SymbolsSqueezed(const Graph& g) {
  absl::flat_hash_set<std::string> out;
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (!absl::StartsWith(node.op.name(), "aten::squeeze") || node.inputs.empty()) continue;
    const Type& type = g.value(node.inputs[0]).type;
    if (!type.IsTensor() || !type.tensor().sizes) continue;
    const std::vector<Expr>& sizes = *type.tensor().sizes;
    // All dims, one or a list of them.
    std::optional<std::vector<Expr>> dims;
    if (node.inputs.size() > 1) {
      dims = GetIntListExpr(g, node.inputs[1]);
      if (const auto one = GetIntExpr(g, node.inputs[1])) dims = {*one};
    }
    const int64_t rank = static_cast<int64_t>(sizes.size());
    for (int64_t d = 0; d < rank; ++d) {
      const auto is = [&](const Expr& dim) { return dim == Expr(d) || dim == Expr(d - rank); };
      if (dims && std::none_of(dims->begin(), dims->end(), is)) continue;
      for (const std::string& symbol : sizes[d].Symbols()) out.insert(symbol);
    }
  }
  return out;
}

// An export checks that a slice between bounds that the data decide begins at no negative offset, as none does. Other
// uses of a tensor's offset are kept.
void DropOffsetChecks(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (g.node(n).op != "aten::sym_storage_offset") continue;
    const ValueId offset = g.node(n).outputs[0];
    const auto& uses = g.value(offset).uses;
    const bool only_checked = absl::c_all_of(uses, [&](const Use& use) {
      const Node& user = g.node(use.user);
      return user.op == "aten::ge.int" && use.index == 0 && GetIntExpr(g, user.inputs[1]) == Expr(0);
    });
    if (!only_checked) continue;
    g.ReplaceAllUses(offset, InsertSize(g, n, Expr(0)));
    g.Erase(n);
  }
}

}  // namespace

absl::StatusOr<Pt2Model> Pt2Reader::Read() {
  SMELT_RETURN_IF_ERROR(FindEntries());
  SMELT_ASSIGN_OR_RETURN(std::string text, zip_.Read(model_entry_, options_.max_json_bytes));
  SMELT_ASSIGN_OR_RETURN(Json program, ParseJson(text, absl::StrCat(zip_.path(), ": ", model_entry_)));
  text = std::string();
  absl::Status s = ReadProgram(program);
  if (!s.ok()) return Annotate(s, absl::StrCat(zip_.path(), ": ", model_entry_));
  return Pt2Model{std::move(g_owner_), torch_version_, std::move(unchecked_guards_), std::move(warnings_),
                  std::move(structure_)};
}

absl::Status Pt2Reader::FindEntries() {
  for (const std::string& name : zip_.names()) {
    const std::vector<std::string> parts = absl::StrSplit(name, '/');
    if (parts.size() == 3 && parts[1] == "models" && absl::EndsWith(parts[2], ".json")) {
      if (!model_entry_.empty()) {
        return absl::UnimplementedError(
            absl::StrCat(zip_.path(), ": two programs (", model_entry_, " and ", name, "), one expected"));
      }
      model_entry_ = name;
      root_ = parts[0];
    }
  }
  if (zip_.Contains("serialized_exported_program.json")) {
    return absl::UnimplementedError(absl::StrCat(
        zip_.path(), ": an archive as PyTorch 2.7 writes it, whose weights are pickled; save it with 2.9 or later"));
  }
  if (model_entry_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(zip_.path(),
                     ": no entry TOP/models/NAME.json, so this is no PyTorch export archive; "
                     "torch.export.save() writes one"));
  }
  const std::string order = root_ + "/byteorder";
  if (zip_.Contains(order)) {
    SMELT_ASSIGN_OR_RETURN(std::string value, zip_.Read(order, 64));
    if (absl::StripAsciiWhitespace(value) != "little") {
      return absl::UnimplementedError(
          absl::StrCat(zip_.path(), ": ", order, ": byte order \"", value.substr(0, 20), "\", \"little\" expected"));
    }
  }
  const std::string archive_version = root_ + "/archive_version";
  if (zip_.Contains(archive_version)) {
    SMELT_ASSIGN_OR_RETURN(const std::string value, zip_.Read(archive_version, 64));
    if (absl::StripAsciiWhitespace(value) != kKnownArchive) {
      warnings_.push_back(absl::StrCat("archive_version is \"", absl::CHexEscape(value.substr(0, 20)), "\", \"",
                                       kKnownArchive, "\" is known; what is new in it is not read"));
    }
  }
  return absl::OkStatus();
}

absl::Status Pt2Reader::ReadProgram(const Json& program) {
  SMELT_ASSIGN_OR_RETURN(const Json* version, Get(program, "schema_version"));
  SMELT_ASSIGN_OR_RETURN(const Json* major, Get(*version, "major"));
  SMELT_ASSIGN_OR_RETURN(int64_t major_number, AsInt(*major));
  if (const Json* t = Find(program, "torch_version"); t != nullptr && t->is_string())
    torch_version_ = t->get<std::string>();
  const std::string saved_by =
      torch_version_.empty() ? ""
                             : absl::StrCat(" (saved by PyTorch ", absl::CHexEscape(torch_version_.substr(0, 40)), ")");
  if (major_number != kSupportedMajor) {
    return absl::UnimplementedError(absl::StrCat("schema_version.major is ", major_number, ", ", kSupportedMajor,
                                                 " expected", saved_by, "; save the model with PyTorch 2.9 to 2.14"));
  }
  if (const Json* minor = Find(*version, "minor"); minor != nullptr) {
    SMELT_ASSIGN_OR_RETURN(const int64_t minor_number, AsInt(*minor));
    if (minor_number > kKnownMinor) {
      warnings_.push_back(absl::StrCat("schema_version is ", major_number, ".", minor_number, saved_by, ", ",
                                       kSupportedMajor, ".", kKnownMinor,
                                       " of PyTorch 2.13 is known; what is new in it is not read"));
    }
  }
  weights_.emplace(zip_, options_, root_);
  SMELT_RETURN_IF_ERROR(weights_->Read());

  SMELT_ASSIGN_OR_RETURN(const Json* module, Get(program, "graph_module"));
  SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*module, "graph"));
  SMELT_ASSIGN_OR_RETURN(const Json* signature, Get(*module, "signature"));
  g_owner_ = std::make_unique<Graph>();
  g_ = g_owner_.get();
  Scope scope;
  scope.graph = graph;
  SMELT_RETURN_IF_ERROR(ReadRanges(program, /*of_data=*/true));
  SMELT_RETURN_IF_ERROR(ReadInputs(*graph, *signature, scope));
  structure_ = ReadCallStructure(*module);
  FindArguments();
  SMELT_RETURN_IF_ERROR(ReadNodes(*graph, g_->top(), scope, 0));
  SMELT_RETURN_IF_ERROR(ReadOutputs(*graph, *signature, scope));
  if (!CheckStructure(structure_.results, g_->outputs().size()).ok()) structure_.results.clear();
  OpenAssignments();
  DropOffsetChecks(*g_);
  SMELT_RETURN_IF_ERROR(ReadRanges(program, /*of_data=*/false));
  std::vector<Expr> zeros;
  for (const auto& [text, guard] : ParseGuards(program)) {
    if (guard.ok() && guard->zero) zeros.push_back(*guard->zero);
  }
  RelateSizes(*g_, std::move(zeros));
  ReconcileSmallSizes(*g_);
  KeepGuards(program);
  AskForNumbersThatFit(*g_);
  SMELT_RETURN_IF_ERROR(CheckBroadcasts(*g_));
  SMELT_RETURN_IF_ERROR(CheckCounts());
  // The archive's claims may still contradict each other, and no later code checks them again.
  if (const absl::Status sound = VerifyGraph(*g_); !sound.ok()) return absl::InvalidArgumentError(sound.message());
  SMELT_RETURN_IF_ERROR(VerifySchemas(*g_, {.check_types = false}));  // ReadArguments has checked them, and knows more
  SMELT_RETURN_IF_ERROR(CheckArgumentKinds(*g_));
  if (autocast_seen_) {
    const std::vector<std::string> different = CheckTypes(*g_);
    if (!different.empty()) return absl::UnimplementedError(absl::StrCat("autocast: ", absl::StrJoin(different, "; ")));
  }
  return CheckDeclaredTypes(*g_);
}

absl::Status Pt2Reader::ReadRanges(const Json& program, bool of_data) {
  const Json* ranges = Find(program, "range_constraints");
  if (ranges == nullptr || !ranges->is_object()) return absl::OkStatus();
  const absl::flat_hash_set<std::string> squeezed = SymbolsSqueezed(*g_);
  for (auto it = ranges->begin(); it != ranges->end(); ++it) {
    auto e = Expr::Parse(it.key());
    if (!e.ok() || !e->IsSymbol()) continue;  // "2*s44": follows from s44's own range
    if (DependsOnData(*e) != of_data) continue;
    SymbolRanges::Range r = g_->symbols.Get(e->SymbolName());
    // Sizes are not negative, but numbers in the data may be.
    if (of_data) r.min = INT64_MIN;
    if (const Json* min = Find(*it, "min_val"); min != nullptr && min->is_number_integer()) {
      auto v = AsInt(*min);
      if (v.ok()) r.min = of_data ? *v : std::max<int64_t>(*v, 0);
    }
    if (const Json* max = Find(*it, "max_val"); max != nullptr && max->is_number_integer()) {
      auto v = AsInt(*max);
      if (v.ok()) r.max = *v;
    }
    if (r.min > r.max)
      return absl::InvalidArgumentError(absl::StrCat("range_constraints: ", it.key(), " has an empty range"));
    auto hint = g_->symbol_hints.find(e->SymbolName());
    if (hint != g_->symbol_hints.end() && hint->second >= 2 && r.min <= 2 && r.max >= 2) {
      // 2 is the minimum of a symbol that nobody constrained; PyTorch does not enforce it in a call.
      if (!squeezed.contains(e->SymbolName())) r.accepted_min = r.min == 2 ? 0 : r.min;
      r.min = 2;
    }
    g_->symbols.Set(e->SymbolName(), r);
  }
  return absl::OkStatus();
}

void Pt2Reader::FindArguments() {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < g_->inputs().size(); ++i) {
    if (g_->input_infos[i].kind == InputInfo::Kind::kUser) inputs.push_back(g_->inputs()[i]);
  }
  if (!CheckStructure(structure_.arguments, inputs.size()).ok()) structure_.arguments.clear();
  if (structure_.arguments.empty()) return;
  const std::vector<ArgumentPath> paths = ArgumentPaths(structure_.arguments);
  arguments_.emplace();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!paths[i].empty()) arguments_->emplace(paths[i], inputs[i]);
  }
}

ValueId Pt2Reader::ArgumentAt(const ArgumentPath& path) const {
  if (arguments_) {
    if (const auto it = arguments_->find(path); it != arguments_->end()) return it->second;
    if (path.size() < 2) return ValueId();
    // For `*xs` the archive has the arguments xs_0, xs_1, ..., and Python has xs[0], xs[1].
    ArgumentPath of_many(path.begin() + 1, path.end());
    of_many[0] = absl::StrCat(path[0], "_", path[1]);
    const auto it = arguments_->find(of_many);
    return it == arguments_->end() ? ValueId() : it->second;
  }
  const ValueId v = g_->FindValue(absl::StrJoin(path, "_"));
  return v.valid() && g_->IsParam(g_->value(v).def) ? v : ValueId();
}

std::optional<Expr> Pt2Reader::NumberOf(const GuardedNumber& at) const {
  const ValueId v = ArgumentAt(at.path);
  if (!v.valid()) return std::nullopt;
  if (at.what == GuardedNumber::kInt) return g_->value(v).expr;
  if (at.what == GuardedNumber::kOffset) return Expr(0);
  const Type& type = g_->value(v).type;
  if (!type.IsTensor() || !type.tensor().IsComplete() || at.dim >= type.tensor().rank()) return std::nullopt;
  return at.what == GuardedNumber::kSize ? (*type.tensor().sizes)[at.dim] : (*type.tensor().strides)[at.dim];
}

std::vector<std::pair<std::string, absl::StatusOr<SizeGuardParts>>> Pt2Reader::ParseGuards(const Json& program) const {
  std::vector<std::pair<std::string, absl::StatusOr<SizeGuardParts>>> parsed;
  const Json* guards = Find(program, "guards_code");
  if (guards == nullptr || !guards->is_array()) return parsed;
  for (const Json& guard : *guards) {
    if (!guard.is_string()) continue;
    const std::string text = guard.get<std::string>();
    parsed.push_back({text, ParseSizeGuard(text, [&](const GuardedNumber& at) { return NumberOf(at); })});
  }
  return parsed;
}

// Returns an expression that is 0 for other values of its numbers than the example's, or nothing if these are not
// known.
std::optional<Expr> Pt2Reader::HoldsForTheExample(absl::string_view guard) const {
  Expr apart = 0;
  for (const Expr& e : NumbersInGuard(guard, [&](const GuardedNumber& at) { return NumberOf(at); })) {
    if (e.IsConstant()) continue;
    const absl::StatusOr<int64_t> hint = e.Evaluate(g_->symbol_hints);
    if (!hint.ok()) return std::nullopt;
    apart = apart + Max(e - *hint, Expr(*hint) - e);
  }
  if (apart.IsConstant()) return std::nullopt;
  return Expr(1) - Min(apart, 1);
}

// L['d']['k'].size()[0] as it stands in the program: d['k'].size()[0].
static std::string WithoutLocals(absl::string_view guard) {
  std::string text;
  for (size_t begin; (begin = guard.find("L['")) != absl::string_view::npos;) {
    const size_t end = guard.find("']", begin);
    if (end == absl::string_view::npos) break;
    absl::StrAppend(&text, guard.substr(0, begin), guard.substr(begin + 3, end - begin - 3));
    guard.remove_prefix(end + 2);
  }
  return absl::StrCat(text, guard);
}

void Pt2Reader::KeepGuards(const Json& program) {
  // PyTorch reasons about sizes from 2 on. Conditions that follow from that are not the program's. (It does not reason
  // so about numbers that are arguments, nor about parts of sizes.)
  SymbolRanges reasoned = g_->symbols, accepted = g_->symbols;
  const absl::flat_hash_set<std::string> numbers = SymbolsOfNumbers(*g_);
  for (const auto& [symbol, range] : g_->symbols.entries()) {
    SymbolRanges::Range wider = range;
    if (numbers.contains(symbol)) {
      wider = {INT64_MIN, SymbolRanges::kInfinity};  // nothing else may hold an argument that no node uses to its range
      reasoned.Set(symbol, wider);
    } else if (range.accepted_min >= 0) {
      wider.min = std::min(range.min, std::max<int64_t>(range.accepted_min, 1));
    }
    accepted.Set(symbol, wider);
  }
  const auto follows = [&](const Expr& holds) {
    const std::vector<std::string> symbols = holds.Symbols();
    const bool parts = absl::c_any_of(symbols, [](const std::string& s) { return IsPartOfSize(s); });
    return (parts ? accepted : reasoned).LessOrEqual(1, holds) == true;
  };
  for (const auto& [text, guard] : ParseGuards(program)) {
    const std::string readable = WithoutLocals(text);
    if (!guard.ok()) {
      const std::optional<Expr> example = HoldsForTheExample(text);
      if (!example) {
        unchecked_guards_.push_back(text);
      } else {
        g_->AddSizeGuard({*example, absl::StrCat(readable, " (which is known of the example alone)")});
      }
    } else if (!follows(guard->holds)) {
      g_->AddSizeGuard({guard->holds, readable});
    }
  }
}

}  // namespace pt2_internal

absl::StatusOr<Pt2Model> ReadPt2(const std::string& path, const Pt2Options& options) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<ZipArchive> zip, ZipArchive::Open(path));
  return pt2_internal::Pt2Reader(*zip, options).Read();
}

}  // namespace smelt
