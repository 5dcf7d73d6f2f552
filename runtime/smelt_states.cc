// The C interface to the states of an instance.
#include <map>
#include <string>
#include <utility>

#include "smelt/runtime/safetensors.h"
#include "smelt/runtime/smelt_internal.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace c_internal {
namespace {

// -1: the model has none of that name.
int FindState(const Program& program, absl::string_view name) {
  for (size_t i = 0; i < program.states().size(); ++i) {
    if (program.states()[i].name == name) return static_cast<int>(i);
  }
  return -1;
}
smelt_status NoState(const std::string& name) {
  return Fail(SMELT_NOT_FOUND, "the model has no parameter or buffer \"" + name + "\"");
}

// Checks that `value` can become the contents of `state`.
smelt_status CheckFits(const Tensor& state, const std::string& name, const Tensor& value) {
  if (value.dtype() == state.dtype() && value.sizes() == state.sizes()) return SMELT_OK;
  return Fail(SMELT_INVALID_ARGUMENT, "state \"" + name + "\" is " + std::string(Name(state.dtype())) + " of " +
                                          state.geometry().ToString() + ", the value is " +
                                          std::string(Name(value.dtype())) + " of " + value.geometry().ToString());
}

void CopyInto(const Tensor& state, const Tensor& value) {
  CopyStrided(static_cast<char*>(state.data()), state.strides(), static_cast<const char*>(value.data()),
              value.strides(), state.sizes(), ItemSize(state.dtype()));
}

}  // namespace
}  // namespace c_internal
}  // namespace smelt

using smelt::c_internal::CheckFits;
using smelt::c_internal::CopyInto;
using smelt::c_internal::Fail;
using smelt::c_internal::FindState;
using smelt::c_internal::From;
using smelt::c_internal::Guarded;
using smelt::c_internal::NoState;

smelt_status smelt_instance_state(smelt_instance* instance, const char* name, smelt_tensor** tensor) {
  return Guarded([&] {
    if (instance == nullptr || name == nullptr || tensor == nullptr) {
      return Fail(SMELT_INVALID_ARGUMENT, "instance, name or tensor is null");
    }
    const int i = FindState(instance->program(), name);
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
    const int i = FindState(instance->program(), name);
    if (i < 0) return NoState(name);
    if (!instance->program().states()[i].is_mutated) {
      return Fail(SMELT_FAILED_PRECONDITION,
                  "no call of the model writes \"" + std::string(name) + "\": it is shared and cannot be set");
    }
    const smelt::Tensor state = instance->instance->state(i);
    if (const smelt_status s = CheckFits(state, name, value->tensor); s != SMELT_OK) return s;
    // A value in the state's own memory would be read while it is written.
    CopyInto(state, state.storage() == value->tensor.storage() ? value->tensor.Clone() : value->tensor);
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
    std::map<std::string, smelt::Tensor> states;
    for (size_t i = 0; i < instance->program().states().size(); ++i) {
      const smelt::StateInfo& info = instance->program().states()[i];
      if (info.is_mutated) states[info.name] = instance->instance->state(static_cast<int>(i));
    }
    return From(smelt::WriteSafetensors(path, states, {{"smelt.states", instance->program().model_name()}}));
  });
}

smelt_status smelt_instance_load_states(smelt_instance* instance, const char* path) {
  return Guarded([&] {
    if (instance == nullptr || path == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "instance or path is null");
    auto file = smelt::SafetensorsFile::Read(path);
    if (!file.ok()) return From(file.status());
    const std::string where = std::string(path) + ": ";
    std::vector<std::pair<smelt::Tensor, smelt::Tensor>> copies;
    for (size_t i = 0; i < instance->program().states().size(); ++i) {
      const smelt::StateInfo& info = instance->program().states()[i];
      if (!info.is_mutated) continue;
      if (!(*file)->entries().contains(info.name))
        return Fail(SMELT_INVALID_ARGUMENT, where + "it has no state \"" + info.name + "\"");
      auto value = (*file)->ReadTensor(info.name);
      if (!value.ok()) return From(value.status());
      const smelt::Tensor state = instance->instance->state(static_cast<int>(i));
      if (const smelt_status s = CheckFits(state, info.name, *value); s != SMELT_OK)
        return Fail(s, where + smelt_last_error());
      copies.emplace_back(state, *std::move(value));
    }
    for (const auto& [name, entry] : (*file)->entries()) {
      const int i = FindState(instance->program(), name);
      if (i < 0 || !instance->program().states()[i].is_mutated)
        return Fail(SMELT_INVALID_ARGUMENT, where + "no call of the model writes a state \"" + name + "\"");
    }
    for (const auto& [state, value] : copies) CopyInto(state, value);
    return SMELT_OK;
  });
}
