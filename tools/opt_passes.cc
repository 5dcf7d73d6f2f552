#include "smelt/tools/opt_passes.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/editor.h"
#include "smelt/alias/live_passes.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/fuser/fuse.h"
#include "smelt/pipeline/passes.h"

namespace smelt {
namespace {

Pass PrintAliasDbPass() {
  return {.name = "alias-db",
          .description = "prints what shares memory with what and who writes it (--json, --dot, --html=FILE)",
          .is_analysis = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            OptOutput& out = context.Get<OptOutput>();
            const std::unique_ptr<AliasDb> db = AliasDb::Build(g);
            if (out.html) out.page = db->ToHtml();
            if (out.json) {
              out.text = db->ToJson();
            } else if (out.dot) {
              out.text = db->ToDot();
            } else if (!out.html) {
              out.text = db->ToString();
            }
            return false;
          }};
}

Pass VerifyAliasDbPass() {
  return {.name = "verify-alias-db",
          .description = "checks the alias database against a fresh build",
          .is_analysis = true,
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            SMELT_RETURN_IF_ERROR(AliasDb::Build(g)->Verify());
            return false;
          }};
}

// A pass that edits over one alias database, which must then equal a fresh one.
Pass LivePass(std::string name, std::string description, int64_t (*run)(Graph&, AliasDb&, Editor&)) {
  return {.name = std::move(name),
          .description = std::move(description),
          .run = [run](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            const std::unique_ptr<AliasDb> db = AliasDb::Build(g);
            Editor edit(g);
            const int64_t changed = run(g, *db, edit);
            OptOutput& out = context.Get<OptOutput>();
            if (out.explain) out.text = absl::StrCat("# ", changed, " changed\n");
            SMELT_RETURN_IF_ERROR(db->Verify());
            return changed > 0;
          }};
}

}  // namespace

PassPipeline OptPasses() {
  PassPipeline passes = AllPasses();
  passes.Add(PrintAliasDbPass());
  passes.Add(VerifyAliasDbPass());
  passes.Add(LivePass("remove-mutations", "in-place operators on fresh memory become pure, over one alias database",
                      RemoveMutations));
  passes.Add(LivePass("group-pointwise", "pointwise operators become groups, over one alias database", GroupPointwise));
  return passes;
}

std::vector<std::string> OptionsOf(const Pass& pass) {
  if (pass.name == "alias-db") return {"json", "dot", "html"};
  for (const char* explained : {"functionalize", "fuse", "remove-mutations", "group-pointwise"}) {
    if (pass.name == explained) return {"explain"};
  }
  return {};
}

std::string Explanation(const Pass& pass, PassContext& context) {
  std::string text;
  if (pass.name == "functionalize") text = context.Get<FunctionalizeResult>().convention.ToString();
  if (pass.name == "fuse") {
    for (const FusionEdge& e : context.Get<FusionReport>().edges) {
      absl::StrAppend(&text, "# ", e.producer, " -> ", e.consumer, ": ", e.fused ? "fused: " : "not fused: ", e.reason,
                      "\n");
    }
  }
  return text;
}

}  // namespace smelt
