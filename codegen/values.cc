#include "smelt/codegen/values.h"

namespace smelt {

void Values::Reset(int copies, std::vector<Value*> known) { copies_.assign(copies, known); }

std::vector<bool> Values::Ready() const {
  std::vector<bool> ready(copies_[0].size());
  for (size_t i = 0; i < ready.size(); ++i) ready[i] = copies_[0][i] != nullptr;
  return ready;
}

void Values::SetAll(int i, Value* v) {
  for (std::vector<Value*>& copy : copies_) copy[i] = v;
}

}  // namespace smelt
