// Arguments whose strides are not those of the export: which of them a copy can replace for a plan, and how the results
// are laid out then. Internal.
//
//   strides.Begin();                                          // once per call
//   SMELT_RETURN_IF_ERROR(strides.Check(args, call, plan));   // for each plan that is tried, by its number
//   args = strides.InExportedStrides(args, call);             // for the plan that was checked last
//
// The answers are kept for later calls whose arguments have the same sizes, strides and numbers: such a call compares
// these and evaluates nothing.
#ifndef SMELT_RUNTIME_ARGUMENT_STRIDES_H_
#define SMELT_RUNTIME_ARGUMENT_STRIDES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/value.h"

namespace smelt {

class ArgumentStrides {
 public:
  ArgumentStrides(const Executable& program, const ExecutionDevice* device)
      : program_(program), bundle_(program.bundle()), device_(device) {}

  // Forgets the arguments of the last call and the plan that was checked last.
  void Begin() {
    call_ = nullptr;
    fit_ = nullptr;
  }
  // Forgets the plan that was checked last.
  void ForgetPlan() { fit_ = nullptr; }
  // Checks the arguments' strides, for a plan that needs the exported ones. The cause of an error is kOtherStrides.
  // `call` has read the arguments, which are the same until Begin.
  absl::Status Check(absl::Span<const Datum> args, const Signature& call, int plan);
  // Returns the arguments, with copies of those whose strides the plan cannot take. Valid until Release.
  absl::StatusOr<absl::Span<const Datum>> InExportedStrides(absl::Span<const Datum> args, const Signature& call);
  void Release() { copied_args_.clear(); }

  // The layouts of the results, by output; empty if the plan's own layouts are correct.
  const std::vector<EvaluatedLayout>& result_layouts() const {
    static const std::vector<EvaluatedLayout> kNone;
    return fit_ == nullptr ? kNone : fit_->result_layouts;
  }
  // Moves a fresh result to memory with this layout.
  absl::Status MoveToLayout(const EvaluatedLayout& layout, Datum* out) const;

 private:
  // How the arguments fit a plan.
  struct Fit {
    bool is_known = false;
    absl::Status status;
    std::vector<int> to_copy;  // arguments with other strides than the plan needs
    std::vector<EvaluatedLayout> result_layouts;
  };
  // Calls whose arguments have the same numbers, sizes and strides.
  struct Layouts {
    std::vector<int64_t> key;
    std::vector<Fit> fits;  // by plan
  };

  // Returns what is known about calls like this one.
  Layouts& LayoutsOf(absl::Span<const Datum> args, const Signature& call);
  absl::Status Find(absl::Span<const Datum> args, const Signature& call, const ExecutablePlan& plan, Fit* fit) const;
  bool HasExportedStrides(int arg, const Tensor& t, const Signature& call) const;
  bool MayBeCopied(int arg, const Tensor& t, const Signature& call, const ExecutablePlan& plan) const;
  // Computes the layouts of the plan's results for arguments with other strides.
  absl::Status LayOutResults(absl::Span<const Datum> args, const ExecutablePlan& plan, Fit* fit) const;

  const Executable& program_;
  const fb::BundleT& bundle_;
  const ExecutionDevice* device_;
  std::vector<std::unique_ptr<Layouts>> known_;  // the last used first
  std::vector<int64_t> key_;                     // of the call; kept for its memory
  Layouts* call_ = nullptr;                      // of the call, once it is asked for
  const Fit* fit_ = nullptr;                     // of the plan that was checked last
  std::vector<Datum> copied_args_;
  std::vector<Tensor> copies_;  // by argument, kept for the next call
};

// Returns whether a copy of t in the exported strides can replace it: at most the order of the strides can be observed
// (in_order).
bool CopyIsAsGood(const Tensor& t, absl::Span<const int64_t> exported, bool in_order);

}  // namespace smelt

#endif  // SMELT_RUNTIME_ARGUMENT_STRIDES_H_
