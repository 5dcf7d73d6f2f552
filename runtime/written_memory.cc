#include "smelt/runtime/written_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

// The most bytes that the host saves of a call's writes if data may still refuse the call: saving more would cost as much
// as writing in place saves. A device saves all, since nobody can wait there for what decides.
constexpr size_t kMostRemembered = 64 << 10;

// More views are not kept one by one.
constexpr size_t kMostViews = 16;

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

bool ChangesHandles(const ExecutablePlan& plan) {
  if (!plan.grown_states.empty()) return true;
  const auto& mutated = plan.plan->convention->mutated;
  return mutated != nullptr && std::any_of(mutated->inputs.begin(), mutated->inputs.end(),
                                           [](const auto& m) { return (m->flags & kHandleChanges) != 0; });
}

WrittenMemory::WrittenMemory(const Executable& program, const ExecutionDevice* device) : device_(device) {
  for (const ExecutablePlan& plan : program.plans()) {
    const std::string names = NamesOfWritten(program, plan);
    out_of_memory_.push_back(absl::ResourceExhaustedError(absl::StrCat("out of memory", names)));
    names_.push_back(names);
  }
}

absl::Status WrittenMemory::Remember(const ExecutablePlan& plan, const ExecutionDevice::Reports& checks,
                                     absl::Span<const Datum> args, const std::vector<Extent>& extents,
                                     const StateStore& states, absl::FunctionRef<std::vector<StridedSpan>()> written) {
  if (std::exchange(written_, true) || !(plan.plan->may_refuse_late || checks.count > 0)) return absl::OkStatus();
  // What was not kept must not be put back. Having no memory to keep it in is an exception, not a status.
  absl::Cleanup forget = [this] { Begin(); };
  const absl::Status kept = Keep(plan, checks, args, extents, states, written);
  if (kept.ok()) std::move(forget).Cancel();
  return kept;
}

absl::Status WrittenMemory::Keep(const ExecutablePlan& plan, const ExecutionDevice::Reports& checks,
                                 absl::Span<const Datum> args, const std::vector<Extent>& extents,
                                 const StateStore& states, absl::FunctionRef<std::vector<StridedSpan>()> written) {
  size_t bytes = 0;
  auto add = [&](char* at, size_t n) {
    // A device copies 16 bytes at once where they are aligned.
    bytes = (bytes + 15) / 16 * 16;
    pieces_.push_back({.at = at, .bytes = n, .from = bytes});
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
  if (!device_->is_host() && bytes > kMostRemembered && !ChangesHandles(plan))
    bytes = KeepOnlyWritten(bytes, written());
  const bool are_few = bytes <= kMostRemembered;
  if (device_->is_host()) {
    if (!are_few) pieces_.clear();
    if (are_few && bytes_.size() < bytes) bytes_.resize(bytes);
    for (const Piece& r : pieces_) std::copy_n(r.at, r.bytes, bytes_.data() + r.from);
    return absl::OkStatus();
  }
  if (!are_few && !plan.plan->may_refuse_late) kept_if_ = checks;
  const absl::Status saved = SaveOnDevice(static_cast<int64_t>(bytes));
  if (saved.ok()) return saved;
  // Without memory for so much, an error names what may have been written.
  if (are_few || !absl::IsResourceExhausted(saved)) return saved;
  Begin();
  written_ = true;
  return absl::OkStatus();
}

size_t WrittenMemory::KeepOnlyWritten(size_t bytes, const std::vector<StridedSpan>& written) {
  std::vector<Piece> pieces;
  size_t kept = 0;
  for (const StridedSpan& span : written) {
    const bool is_known = std::any_of(pieces.begin(), pieces.end(), [&](const Piece& p) {
      return p.at == span.data && p.item == ItemSize(span.dtype) && span.sizes == p.sizes && span.strides == p.strides;
    });
    if (is_known) continue;
    Piece& piece = pieces.emplace_back();
    piece.at = span.data;
    piece.item = ItemSize(span.dtype);
    piece.sizes.assign(span.sizes.begin(), span.sizes.end());
    piece.strides.assign(span.strides.begin(), span.strides.end());
    piece.dense = Geometry::Contiguous(span.sizes).strides;
    piece.from = kept = (kept + 15) / 16 * 16;
    piece.bytes = static_cast<size_t>(span.NumElements() * piece.item);
    kept += piece.bytes;
  }
  // Each view is a copy of its own, and strides cost time.
  if (pieces.empty() || pieces.size() > kMostViews || kept > bytes / 4) return bytes;
  pieces_ = std::move(pieces);
  return kept;
}

absl::Status WrittenMemory::Copy(const Piece& p, bool back, const ExecutionDevice::Reports* reports) const {
  char* const kept = on_device_->address() + p.from;
  char* const to = back ? p.at : kept;
  const char* const from = back ? kept : p.at;
  if (p.item == 0) {
    const auto size = static_cast<int64_t>(p.bytes);
    return reports == nullptr ? device_->Copy(to, from, size) : device_->PutBack(to, from, size, *reports);
  }
  const std::vector<int64_t>&to_strides = back ? p.strides : p.dense, &from_strides = back ? p.dense : p.strides;
  return reports == nullptr ? device_->CopyStrided(to, to_strides, from, from_strides, p.sizes, p.item)
                            : device_->PutBackStrided(to, to_strides, from, from_strides, p.sizes, p.item, *reports);
}

absl::Status WrittenMemory::SaveOnDevice(int64_t bytes) {
  if (on_device_ == nullptr || on_device_->bytes() < bytes) {
    SMELT_ASSIGN_OR_RETURN(on_device_, device_->NewStorage(bytes));
  }
  for (const Piece& r : pieces_)
    SMELT_RETURN_IF_ERROR(Copy(r, /*back=*/false, kept_if_.count > 0 ? &kept_if_ : nullptr));
  kept_after_ = device_->submissions();
  return absl::OkStatus();
}

absl::Status WrittenMemory::PutBack() {
  if (device_->is_host()) {
    for (const Piece& r : pieces_) std::copy_n(bytes_.data() + r.from, r.bytes, r.at);
    return absl::OkStatus();
  }
  for (const Piece& r : pieces_) SMELT_RETURN_IF_ERROR(Copy(r, /*back=*/true, nullptr));
  return device_->Synchronize();
}

absl::Status WrittenMemory::PutBackIf(const ExecutionDevice::Reports& reports) const {
  // Where a check has not reported anything, there is nothing to put back.
  const ExecutionDevice::Reports& decisive = kept_if_.count > 0 ? kept_if_ : reports;
  for (const Piece& r : pieces_) SMELT_RETURN_IF_ERROR(Copy(r, /*back=*/true, &decisive));
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
