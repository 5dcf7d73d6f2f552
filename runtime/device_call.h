// A call that a device has been given, for those who wait for its end. Internal.
#ifndef SMELT_RUNTIME_DEVICE_CALL_H_
#define SMELT_RUNTIME_DEVICE_CALL_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/written_memory.h"

namespace smelt {

class DeviceCall final : public PendingCall {
 public:
  // `names` are those of the memory that the call writes, which the device puts back if it is `kept`.
  DeviceCall(std::shared_ptr<const Executable> program, const ExecutablePlan& plan, std::unique_ptr<WorkMark> end,
             bool reports, std::string names, WrittenMemory::Kept kept, absl::Span<const Datum> args)
      : program_(std::move(program)),
        plan_(plan),
        end_(std::move(end)),
        reports_(reports),
        names_(std::move(names)),
        kept_(kept),
        args_(args.begin(), args.end()) {}

  bool Done() const override;
  absl::Status Wait() override;

 private:
  mutable std::mutex mutex_;
  const std::shared_ptr<const Executable> program_;  // the plan's
  const ExecutablePlan& plan_;
  std::unique_ptr<WorkMark> end_;
  const bool reports_;
  const std::string names_;
  const WrittenMemory::Kept kept_;
  std::vector<Datum> args_;  // whose memory the device uses
  absl::Status status_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_DEVICE_CALL_H_
