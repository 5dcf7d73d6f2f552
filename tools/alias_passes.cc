#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/base/file.h"
#include "smelt/tools/pass_registry.h"

namespace smelt {

void RegisterAliasPasses() {
  Pass pass;
  pass.name = "alias-db";
  pass.description = "prints what shares memory with what and who writes it (--json, --dot, --html=FILE)";
  pass.is_analysis = true;
  pass.run = [](PassContext& c) -> absl::Status {
    std::unique_ptr<AliasDb> db = AliasDb::Build(*c.graph);
    if (!c.html.empty()) {
      absl::Status s = WriteFileAtomically(c.html, absl::string_view(db->ToHtml()));
      if (!s.ok()) return s;
    }
    if (c.json) {
      c.output = db->ToJson();
    } else if (c.dot) {
      c.output = db->ToDot();
    } else if (c.html.empty()) {
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
}

}  // namespace smelt
