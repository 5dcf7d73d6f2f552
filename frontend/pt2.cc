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
#include "smelt/frontend/pt2_guards.h"
#include "smelt/frontend/pt2_nodes.h"
#include "smelt/frontend/pt2_parts.h"
#include "smelt/frontend/pt2_ranges.h"
#include "smelt/frontend/pt2_scope.h"
#include "smelt/frontend/pt2_signature.h"
#include "smelt/frontend/pt2_weights.h"
#include "smelt/frontend/related_sizes.h"
#include "smelt/frontend/small_sizes.h"
#include "smelt/frontend/sympy_expr.h"
#include "smelt/frontend/zip_archive.h"

namespace smelt {
namespace pt2_internal {
namespace {

constexpr int kSupportedMajor = 8, kKnownMinor = 20;  // of PyTorch 2.13
constexpr char kKnownArchive[] = "0";

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

// Reads one archive.
class Pt2Reader {
 public:
  // Both must outlive this.
  Pt2Reader(const ZipArchive& zip, const Pt2Options& options) : zip_(zip), options_(options) {}

  absl::StatusOr<Pt2Model> Read();

 private:
  absl::Status FindEntries();
  // Checks the version of the program's schema.
  absl::Status ReadVersion(const Json& program);
  absl::Status ReadProgram(const Json& program);

  const ZipArchive& zip_;
  const Pt2Options& options_;
  std::string root_, model_entry_;
  Pt2Model model_;
};

absl::StatusOr<Pt2Model> Pt2Reader::Read() {
  SMELT_RETURN_IF_ERROR(FindEntries());
  SMELT_ASSIGN_OR_RETURN(std::string text, zip_.Read(model_entry_, options_.max_json_bytes));
  SMELT_ASSIGN_OR_RETURN(Json program, ParseJson(text, absl::StrCat(zip_.path(), ": ", model_entry_)));
  text = std::string();
  absl::Status s = ReadProgram(program);
  if (!s.ok()) return Annotate(s, absl::StrCat(zip_.path(), ": ", model_entry_));
  return std::move(model_);
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
      model_.warnings.push_back(absl::StrCat("archive_version is \"", absl::CHexEscape(value.substr(0, 20)), "\", \"",
                                             kKnownArchive, "\" is known; what is new in it is not read"));
    }
  }
  return absl::OkStatus();
}

absl::Status Pt2Reader::ReadVersion(const Json& program) {
  SMELT_ASSIGN_OR_RETURN(const Json* version, Get(program, "schema_version"));
  SMELT_ASSIGN_OR_RETURN(const Json* major, Get(*version, "major"));
  SMELT_ASSIGN_OR_RETURN(int64_t major_number, AsInt(*major));
  if (const Json* t = Find(program, "torch_version"); t != nullptr && t->is_string())
    model_.torch_version = t->get<std::string>();
  const std::string saved_by =
      model_.torch_version.empty()
          ? ""
          : absl::StrCat(" (saved by PyTorch ", absl::CHexEscape(model_.torch_version.substr(0, 40)), ")");
  if (major_number != kSupportedMajor) {
    return absl::UnimplementedError(absl::StrCat("schema_version.major is ", major_number, ", ", kSupportedMajor,
                                                 " expected", saved_by, "; save the model with PyTorch 2.9 to 2.14"));
  }
  if (const Json* minor = Find(*version, "minor"); minor != nullptr) {
    SMELT_ASSIGN_OR_RETURN(const int64_t minor_number, AsInt(*minor));
    if (minor_number > kKnownMinor) {
      model_.warnings.push_back(absl::StrCat("schema_version is ", major_number, ".", minor_number, saved_by, ", ",
                                             kSupportedMajor, ".", kKnownMinor,
                                             " of PyTorch 2.13 is known; what is new in it is not read"));
    }
  }
  return absl::OkStatus();
}

absl::Status Pt2Reader::ReadProgram(const Json& program) {
  SMELT_RETURN_IF_ERROR(ReadVersion(program));
  Pt2Weights weights(zip_, options_, root_);
  SMELT_RETURN_IF_ERROR(weights.Read());
  SMELT_ASSIGN_OR_RETURN(const Json* module, Get(program, "graph_module"));
  SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*module, "graph"));
  SMELT_ASSIGN_OR_RETURN(const Json* signature, Get(*module, "signature"));

  model_.graph = std::make_unique<Graph>();
  Graph& g = *model_.graph;
  Pt2Parts parts(g, options_);
  Pt2Signature inputs_and_outputs(g, parts.types, parts.arguments, weights);
  Scope scope;
  scope.graph = graph;
  SMELT_RETURN_IF_ERROR(ReadRanges(program, /*of_data=*/true, g));
  SMELT_RETURN_IF_ERROR(inputs_and_outputs.ReadInputs(*graph, *signature, scope));
  model_.structure = ReadCallStructure(*module);
  const Pt2Guards guards(g, model_.structure.arguments, program);
  SMELT_RETURN_IF_ERROR(Pt2Nodes(parts).ReadNodes(*graph, g.top(), scope, 0));
  SMELT_RETURN_IF_ERROR(inputs_and_outputs.ReadOutputs(*graph, *signature, scope));
  if (!CheckStructure(model_.structure.results, g.outputs().size()).ok()) model_.structure.results.clear();
  parts.assignments.Open();
  DropOffsetChecks(g);
  SMELT_RETURN_IF_ERROR(ReadRanges(program, /*of_data=*/false, g));
  RelateSizes(g, guards.Zeros());
  ReconcileSmallSizes(g);
  model_.unchecked_guards = guards.Keep(g);
  AskForNumbersThatFit(g);
  SMELT_RETURN_IF_ERROR(CheckBroadcasts(g));
  SMELT_RETURN_IF_ERROR(parts.uint16.Check(g));
  // The archive's claims may still contradict each other, and no later code checks them again.
  if (const absl::Status sound = VerifyGraph(g); !sound.ok()) return absl::InvalidArgumentError(sound.message());
  SMELT_RETURN_IF_ERROR(VerifySchemas(g, {.check_types = false}));  // ReadArguments has checked them, and knows more
  SMELT_RETURN_IF_ERROR(CheckArgumentKinds(g));
  if (parts.autocast.seen()) {
    const std::vector<std::string> different = CheckTypes(g);
    if (!different.empty()) return absl::UnimplementedError(absl::StrCat("autocast: ", absl::StrJoin(different, "; ")));
  }
  return CheckDeclaredTypes(g);
}

}  // namespace
}  // namespace pt2_internal

absl::StatusOr<Pt2Model> ReadPt2(const std::string& path, const Pt2Options& options) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<ZipArchive> zip, ZipArchive::Open(path));
  return pt2_internal::Pt2Reader(*zip, options).Read();
}

}  // namespace smelt
