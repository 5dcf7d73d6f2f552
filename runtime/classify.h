// Finds which arguments share memory in a call, and which plan is right for it. Internal.
#ifndef SMELT_RUNTIME_CLASSIFY_H_
#define SMELT_RUNTIME_CLASSIFY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/runtime/argument_strides.h"
#include "smelt/runtime/bind.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/sharing.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/state_store.h"

namespace smelt {

class CallClassifier {
 public:
  // All outlive this object.
  CallClassifier(const Executable& program, const Signature& signature, StateStore& states, ArgumentStrides& strides,
                 PlanBinder& binder)
      : program_(program),
        signature_(signature),
        states_(states),
        strides_(strides),
        binder_(binder),
        sharing_(program) {}

  // Returns the plan for a call whose arguments `signature` has read.
  absl::StatusOr<int> ChoosePlan(absl::Span<const Datum> args);
  // Returns whether the plan is right for the memory that arguments share, as ChoosePlan found it. Else *why says what it
  // is wrong for.
  bool PatternFits(const ExecutablePlan& plan, absl::Span<const Datum> args, std::string* why) const;

 private:
  bool GuardsHold(int plan, const fb::GuardT** failed);

  const Executable& program_;
  const Signature& signature_;
  StateStore& states_;
  ArgumentStrides& strides_;
  PlanBinder& binder_;
  ArgumentSharing sharing_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_CLASSIFY_H_
