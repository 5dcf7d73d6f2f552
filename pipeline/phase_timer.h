// Times the phases of a compilation for CompileStats.
#ifndef SMELT_PIPELINE_PHASE_TIMER_H_
#define SMELT_PIPELINE_PHASE_TIMER_H_

#include <algorithm>
#include <chrono>
#include <string>

#include "smelt/pipeline/compile_options.h"

namespace smelt {

class PhaseTimer {
 public:
  PhaseTimer(const CompileOptions& options, CompileStats& stats) : options_(options), stats_(stats) {}
  // Ends a phase that began when the last one ended.
  void End(const std::string& phase) {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - since_).count();
    since_ = now;
    const auto it = std::find_if(stats_.phase_ms.begin(), stats_.phase_ms.end(),
                                 [&](const auto& known) { return known.first == phase; });
    if (it == stats_.phase_ms.end()) {
      stats_.phase_ms.push_back({phase, ms});
    } else {
      it->second += ms;  // of several methods
    }
    if (options_.on_phase) options_.on_phase(phase, ms);
  }

 private:
  const CompileOptions& options_;
  CompileStats& stats_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_PHASE_TIMER_H_
