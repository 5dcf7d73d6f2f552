#include "smelt/runtime/written_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

// The most bytes that are saved of a call's writes if data may still refuse the call: saving more would cost as much as
// writing in place saves.
constexpr size_t kMostRemembered = 64 << 10;

// Returns " (may have been written: x, cache)": everything visible to the caller that the plan changes.
std::string NamesOfWritten(const Executable& program, const ExecutablePlan& plan) {
  std::vector<std::string> names;
  for (int a : plan.plan->written_args) names.push_back(program.args()[a].path);
  for (int s : plan.plan->written_states) {
    for (const auto& state : program.bundle().states) {
      if (state->storage == s) names.push_back(state->name);
    }
  }
  const auto& convention = plan.plan->convention;
  if (convention != nullptr && convention->mutated != nullptr) {
    for (const auto& m : convention->mutated->inputs) {
      if (!(m->flags & kHandleChanges)) continue;
      const std::string& name =
          m->is_state ? program.bundle().states[m->arg]->name : program.args()[plan.outer_of_inner[m->arg]].path;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return absl::StrCat(" (may have been written: ", absl::StrJoin(names, ", "), ")");
}

}  // namespace

WrittenMemory::WrittenMemory(const Executable& program, const ExecutionDevice* device) : device_(device) {
  for (const ExecutablePlan& plan : program.plans()) {
    const std::string names = NamesOfWritten(program, plan);
    out_of_memory_.push_back(absl::ResourceExhaustedError(absl::StrCat("out of memory", names)));
    names_.push_back(names);
  }
}

absl::Status WrittenMemory::Remember(const ExecutablePlan& plan, bool is_checked_late, absl::Span<const Datum> args,
                                     const std::vector<Extent>& extents, const StateStore& states) {
  if (std::exchange(written_, true) || !(plan.plan->may_refuse_late || is_checked_late)) return absl::OkStatus();
  size_t bytes = 0;
  auto add = [&](char* at, size_t n) {
    pieces_.push_back({at, n, bytes});
    bytes += n;
  };
  for (int a : plan.plan->written_args) {
    if (!args[a].IsTensor()) continue;
    // The bounds of its present memory: a resize may have moved it.
    const Tensor& t = args[a].tensor();
    char* low = reinterpret_cast<char*>(extents[a].low);
    char* high = reinterpret_cast<char*>(extents[a].high);
    if (low == high) continue;
    if (low < t.storage()->address() || high > t.storage()->address() + t.storage()->bytes()) {
      pieces_.clear();
      return absl::OkStatus();
    }
    add(low, static_cast<size_t>(high - low));
  }
  for (int s : plan.plan->written_states)
    add(states.storages()[s]->address(), static_cast<size_t>(states.storages()[s]->bytes()));
  if (bytes > kMostRemembered) {
    pieces_.clear();
    return absl::OkStatus();
  }
  if (device_->is_host()) {
    if (bytes_.size() < bytes) bytes_.resize(bytes);
    for (const Piece& r : pieces_) std::copy_n(r.at, r.bytes, bytes_.data() + r.from);
    return absl::OkStatus();
  }
  const absl::Status saved = SaveOnDevice(static_cast<int64_t>(bytes));
  if (!saved.ok()) Begin();
  return saved;
}

absl::Status WrittenMemory::SaveOnDevice(int64_t bytes) {
  if (on_device_ == nullptr || on_device_->bytes() < bytes) {
    SMELT_ASSIGN_OR_RETURN(on_device_, device_->NewStorage(bytes));
  }
  for (const Piece& r : pieces_) {
    SMELT_RETURN_IF_ERROR(device_->Copy(on_device_->address() + r.from, r.at, static_cast<int64_t>(r.bytes)));
  }
  kept_after_ = device_->submissions();
  return absl::OkStatus();
}

absl::Status WrittenMemory::PutBack() {
  if (device_->is_host()) {
    for (const Piece& r : pieces_) std::copy_n(bytes_.data() + r.from, r.bytes, r.at);
    return absl::OkStatus();
  }
  for (const Piece& r : pieces_) {
    SMELT_RETURN_IF_ERROR(device_->Copy(r.at, on_device_->address() + r.from, static_cast<int64_t>(r.bytes)));
  }
  return device_->Synchronize();
}

absl::Status WrittenMemory::PutBackIf(const ExecutionDevice::Reports& reports) const {
  for (const Piece& r : pieces_) {
    SMELT_RETURN_IF_ERROR(
        device_->PutBack(r.at, on_device_->address() + r.from, static_cast<int64_t>(r.bytes), reports));
  }
  return absl::OkStatus();
}

absl::Status WrittenMemory::WithNames(const absl::Status& error, int plan) const {
  // If memory is short, the text exists already.
  try {
    return absl::Status(error.code(), absl::StrCat(error.message(), names_[plan]));
  } catch (const std::bad_alloc&) {
    return out_of_memory_[plan];
  }
}

}  // namespace smelt
