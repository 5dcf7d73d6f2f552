#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/editor.h"
#include "smelt/alias/live_passes.h"
#include "smelt/tools/pass_registry.h"

namespace smelt {

void RegisterAliasPasses() {
  Pass pass;
  pass.name = "alias-db";
  pass.description = "prints what shares memory with what and who writes it (--json, --dot, --html=FILE)";
  pass.is_analysis = true;
  pass.options = {"json", "dot", "html"};
  pass.run = [](PassContext& c) -> absl::Status {
    std::unique_ptr<AliasDb> db = AliasDb::Build(*c.graph);
    if (c.html) c.page = db->ToHtml();
    if (c.json) {
      c.output = db->ToJson();
    } else if (c.dot) {
      c.output = db->ToDot();
    } else if (!c.html) {
      c.output = db->ToString();
    }
    return absl::OkStatus();
  };
  RegisterPass(std::move(pass));
  Pass verify;
  verify.name = "verify-alias-db";
  verify.description = "checks the alias database against a fresh build";
  verify.is_analysis = true;
  verify.run = [](PassContext& c) { return AliasDb::Build(*c.graph)->Verify(); };
  RegisterPass(std::move(verify));
  const auto add_live = [](std::string name, std::string description, int64_t (*run)(Graph&, AliasDb&, Editor&)) {
    Pass live;
    live.name = std::move(name);
    live.description = std::move(description);
    live.options = {"explain"};
    live.run = [run](PassContext& c) -> absl::Status {
      std::unique_ptr<AliasDb> db = AliasDb::Build(*c.graph);
      Editor edit(*c.graph);
      const int64_t changed = run(*c.graph, *db, edit);
      if (c.explain) c.output = absl::StrCat("# ", changed, " changed\n");
      return db->Verify();
    };
    RegisterPass(std::move(live));
  };
  add_live("remove-mutations", "in-place operators on fresh memory become pure, over one alias database",
           RemoveMutations);
  add_live("group-pointwise", "pointwise operators become groups, over one alias database", GroupPointwise);
}

}  // namespace smelt
