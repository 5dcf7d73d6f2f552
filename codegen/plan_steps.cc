#include "smelt/codegen/plan_steps.h"

#include <memory>
#include <utility>

namespace smelt {

void PlanSteps::Allocate(int slot) {
  auto step = std::make_unique<fb::AllocT>();
  step->slot = slot;
  Emit(std::move(step));
}

int PlanSteps::NewBlock() {
  plan_.blocks.push_back(std::make_unique<fb::BlockT>());
  return static_cast<int>(plan_.blocks.size()) - 1;
}

}  // namespace smelt
