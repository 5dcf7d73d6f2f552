#include "smelt/runtime/state_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/device/device.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/runtime/strided.h"

namespace smelt {

namespace {

absl::StatusOr<Tensor> OnHost(const Tensor& t) {
  return t.device().is_cpu() ? absl::StatusOr<Tensor>(t) : t.CopyTo(Device::Cpu());
}

// A few names in quotes, and how many more there are.
std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 6;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    absl::StrAppend(&out, i > 0 ? ", " : "", "\"", absl::Utf8SafeCHexEscape(names[i]), "\"");
  if (names.size() > kShown) absl::StrAppend(&out, " and ", names.size() - kShown, " more");
  return names.empty() ? "no tensors" : out;
}

// Says which tensors a file of states has, and which this one has.
std::string Expected(const Program& program, const SafetensorsFile& file) {
  std::vector<std::string> wanted, present;
  for (const StateInfo& s : program.states()) {
    if (s.is_mutated) wanted.push_back(s.name);
  }
  for (const auto& [name, entry] : file.entries()) present.push_back(name);
  return absl::StrCat("every state that calls write expected: ", ListOf(wanted), "; the file ",
                      file.metadata().contains("smelt.case") ? "is a recorded case and " : "", "has ", ListOf(present));
}

}  // namespace

int FindState(const Program& program, absl::string_view name) {
  for (size_t i = 0; i < program.states().size(); ++i) {
    if (program.states()[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

absl::Status CheckStateFits(const Tensor& state, absl::string_view name, const Tensor& value) {
  if (value.dtype() == state.dtype() && value.sizes() == state.sizes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("state \"", name, "\" is ", Name(state.dtype()), " of ",
                                                 state.geometry().ToString(), ", the value is ", Name(value.dtype()),
                                                 " of ", value.geometry().ToString()));
}

absl::Status CopyIntoState(const Tensor& state, const Tensor& value) {
  const Device device = state.device();
  // A value in the state's own memory would be read while it is written.
  Tensor from = value;
  if (value.device() != device || value.storage() == state.storage()) {
    SMELT_ASSIGN_OR_RETURN(from, value.CopyTo(device));
  }
  if (!device.is_cpu()) {
    SMELT_ASSIGN_OR_RETURN(const ExecutionDevice* on, ExecutionDevice::Of(device));
    SMELT_RETURN_IF_ERROR(on->CopyElements(state, from));
    return on->Synchronize();
  }
  CopyStrided(static_cast<char*>(state.data()), state.strides(), static_cast<const char*>(from.data()), from.strides(),
              state.sizes(), ItemSize(state.dtype()));
  return absl::OkStatus();
}

absl::Status SaveStates(const Program& program, const Instance& instance, const std::string& path) {
  std::map<std::string, Tensor> states;
  for (size_t i = 0; i < program.states().size(); ++i) {
    const StateInfo& info = program.states()[i];
    if (!info.is_mutated) continue;
    SMELT_ASSIGN_OR_RETURN(states[info.name], OnHost(instance.state(static_cast<int>(i))));
  }
  return WriteSafetensors(path, states, {{"smelt.states", program.model_name()}});
}

absl::Status LoadStates(const Program& program, Instance& instance, const std::string& path) {
  SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Read(path));
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (size_t i = 0; i < program.states().size(); ++i) {
    const StateInfo& info = program.states()[i];
    if (!info.is_mutated) continue;
    if (!file->entries().contains(info.name))
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": it has no state \"", info.name, "\"; ", Expected(program, *file)));
    SMELT_ASSIGN_OR_RETURN(Tensor value, file->ReadTensor(info.name));
    const Tensor state = instance.state(static_cast<int>(i));
    SMELT_RETURN_IF_ERROR(Annotate(CheckStateFits(state, info.name, value), path));
    copies.emplace_back(state, std::move(value));
  }
  for (const auto& [name, entry] : file->entries()) {
    const int i = FindState(program, name);
    if (i < 0 || !program.states()[i].is_mutated)
      return absl::InvalidArgumentError(absl::StrCat(path, ": no call of the model writes a state \"", name, "\""));
  }
  for (const auto& [state, value] : copies) SMELT_RETURN_IF_ERROR(CopyIntoState(state, value));
  return absl::OkStatus();
}

}  // namespace smelt
