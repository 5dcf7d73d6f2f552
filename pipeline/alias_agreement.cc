#include "smelt/pipeline/alias_agreement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

AliasDb::Options DistinctInputs() {
  AliasDb::Options options;
  options.distinct_inputs = true;
  return options;
}

}  // namespace

AliasAgreement::AliasAgreement(const Graph& graph)
    : graph_(graph.Clone()), db_(AliasDb::Build(*graph_, DistinctInputs())) {}

void AliasAgreement::Add(ValueId tensor, int memory) {
  // Cloning keeps ids. Values that the pass made itself are not in the copy.
  if (!status_.ok() || !graph_->IsLive(tensor) || !graph_->value(tensor).type.IsTensor()) return;
  const NodeId def = graph_->value(tensor).def;
  if (!graph_->node(def).blocks.empty()) return;
  const ValueMemory where = db_->Memory(tensor);
  if (where.geometry_changes) return;
  for (LocationId l : where.locations) {
    const Location::Kind kind = db_->Describe(l).kind;
    if (kind == Location::Kind::kUnknown || kind == Location::Kind::kSummary || kind == Location::Kind::kContainer)
      return;
  }
  const auto name = [&](ValueId v) { return absl::StrCat("%", graph_->value(v).name); };
  auto [known, first] = of_memory_.try_emplace(memory, Known{where.locations, tensor});
  if (!first) {
    std::vector<LocationId> common;
    for (LocationId l : known->second.locations) {
      if (std::find(where.locations.begin(), where.locations.end(), l) != where.locations.end()) common.push_back(l);
    }
    if (common.empty()) {
      status_ = absl::InternalError(absl::StrCat("functionalization has ", name(known->second.example), " and ",
                                                 name(tensor), " in one memory, the alias database in different ones"));
      return;
    }
    known->second.locations = std::move(common);
  }
  if (where.locations.size() != 1) return;
  auto [of, fresh] = memory_of_.try_emplace(where.locations[0], memory, tensor);
  if (!fresh && of->second.first != memory) {
    status_ = absl::InternalError(absl::StrCat("the alias database has ", name(of->second.second), " and ",
                                               name(tensor), " in one memory, functionalization in different ones"));
  }
}

}  // namespace smelt
