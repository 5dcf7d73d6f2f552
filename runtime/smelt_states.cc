// The C interface to the states of an instance.
#include <string>

#include "smelt/runtime/smelt_internal.h"
#include "smelt/runtime/state_file.h"

namespace smelt {
namespace c_internal {
namespace {

smelt_status NoState(const std::string& name) {
  return Fail(SMELT_NOT_FOUND, "the model has no parameter or buffer \"" + name + "\"");
}

}  // namespace
}  // namespace c_internal
}  // namespace smelt

using smelt::c_internal::Fail;
using smelt::c_internal::From;
using smelt::c_internal::Guarded;
using smelt::c_internal::NoState;

smelt_status smelt_instance_state(smelt_instance* instance, const char* name, smelt_tensor** tensor) {
  return Guarded([&] {
    if (instance == nullptr || name == nullptr || tensor == nullptr) {
      return Fail(SMELT_INVALID_ARGUMENT, "instance, name or tensor is null");
    }
    const int i = smelt::FindState(instance->program(), name);
    if (i < 0) return NoState(name);
    const smelt::StateInfo& info = instance->program().states()[i];
    *tensor = new smelt_tensor{instance->instance->state(i), !info.is_mutated, info.may_move};
    return SMELT_OK;
  });
}

smelt_status smelt_instance_set_state(smelt_instance* instance, const char* name, const smelt_tensor* value) {
  return Guarded([&] {
    if (instance == nullptr || name == nullptr || value == nullptr) {
      return Fail(SMELT_INVALID_ARGUMENT, "instance, name or value is null");
    }
    const int i = smelt::FindState(instance->program(), name);
    if (i < 0) return NoState(name);
    if (!instance->program().states()[i].is_mutated) {
      return Fail(SMELT_FAILED_PRECONDITION,
                  "no call of the model writes \"" + std::string(name) + "\": it is shared and cannot be set");
    }
    const smelt::Tensor state = instance->instance->state(i);
    if (const absl::Status s = smelt::CheckStateFits(state, name, value->tensor); !s.ok()) return From(s);
    if (const absl::Status s = smelt::CopyIntoState(state, value->tensor); !s.ok()) return From(s);
    return SMELT_OK;
  });
}

smelt_status smelt_instance_reset(smelt_instance* instance) {
  return Guarded([&] {
    if (instance == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "instance is null");
    return From(instance->instance->ResetStates());
  });
}

void smelt_instance_seed(smelt_instance* instance, uint64_t seed) {
  if (instance != nullptr) instance->instance->Seed(seed);
}

smelt_status smelt_instance_save_states(smelt_instance* instance, const char* path) {
  return Guarded([&] {
    if (instance == nullptr || path == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "instance or path is null");
    return From(smelt::SaveStates(instance->program(), *instance->instance, path));
  });
}

smelt_status smelt_instance_load_states(smelt_instance* instance, const char* path) {
  return Guarded([&] {
    if (instance == nullptr || path == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "instance or path is null");
    return From(smelt::LoadStates(instance->program(), *instance->instance, path));
  });
}
