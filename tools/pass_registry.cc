#include "smelt/tools/pass_registry.h"

namespace smelt {

namespace {
std::vector<Pass>& Registry() {
  static auto* const passes = new std::vector<Pass>();
  return *passes;
}
}  // namespace

void RegisterPass(Pass pass) { Registry().push_back(std::move(pass)); }
const std::vector<Pass>& Passes() { return Registry(); }
const Pass* FindPass(const std::string& name) {
  for (const Pass& p : Registry()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

}  // namespace smelt
