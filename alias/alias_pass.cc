#include "smelt/alias/alias_pass.h"

#include <memory>

namespace smelt {

Pass BuildAliasDbPass() {
  return {.name = "build-alias-db",
          .description = "finds who shares memory with whom; later passes keep it up to date",
          .is_optional = true,
          .is_analysis = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            context.Put(AliasDb::Build(g, context.Get<AliasDb::Options>()));
            return false;
          }};
}

AliasDb* LiveAliasDb(PassContext& context) {
  const std::unique_ptr<AliasDb>* db = context.Find<std::unique_ptr<AliasDb>>();
  return db == nullptr ? nullptr : db->get();
}

}  // namespace smelt
