// A oneDNN primitive that several threads may run at the same time without allocating: the memory objects of a run are
// kept and reused by the next run.
#ifndef SMELT_RUNTIME_LIBRARY_DNNL_EXEC_H_
#define SMELT_RUNTIME_LIBRARY_DNNL_EXEC_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "smelt/runtime/library/dnnl_util.h"

namespace smelt {

class DnnlExec {
 public:
  struct Arg {
    int index;  // DNNL_ARG_SRC...
    dnnl::memory::desc desc;
  };

  DnnlExec(dnnl::primitive primitive, std::vector<Arg> args, dnnl::memory::desc scratchpad)
      : primitive_(std::move(primitive)), args_(std::move(args)), scratchpad_(std::move(scratchpad)) {}
  ~DnnlExec() { delete idle_.load(); }
  DnnlExec(const DnnlExec&) = delete;

  // `handles` are in the order of the args. Returns false if oneDNN refused (out of memory).
  bool Run(absl::Span<void* const> handles) const {
    OneOmpThread one;
    std::unique_ptr<State> s(idle_.exchange(nullptr, std::memory_order_acquire));
    if (s == nullptr) s = MakeState();
    if (s == nullptr) return false;
    bool ok = true;
    for (size_t i = 0; i < args_.size(); ++i) {
      ok = ok && dnnl_memory_set_data_handle(s->memories[i].get(), handles[i]) == dnnl_success;
    }
    if (scratchpad_.get_size() > 0) {
      ok = ok && dnnl_memory_set_data_handle(
                     s->memories.back().get(),
                     Scratch::Get(ScratchUse::kLibrary, static_cast<int64_t>(scratchpad_.get_size()))) == dnnl_success;
    }
    const auto stream = TryDnnl([] { return ThreadStream().get(); });
    ok = ok && stream &&
         dnnl_primitive_execute(primitive_.get(), *stream, static_cast<int>(s->args.size()), s->args.data()) ==
             dnnl_success;
    // acquire is needed too: another thread wrote the current object, which is deleted here.
    delete idle_.exchange(s.release(), std::memory_order_acq_rel);
    return ok;
  }

 private:
  struct State {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> args;
  };
  std::unique_ptr<State> MakeState() const {
    auto made = TryDnnl([&] {
      auto s = std::make_unique<State>();
      for (const Arg& a : args_) s->memories.emplace_back(a.desc, CpuEngine(), nullptr);
      if (scratchpad_.get_size() > 0) s->memories.emplace_back(scratchpad_, CpuEngine(), nullptr);
      for (size_t i = 0; i < s->memories.size(); ++i) {
        s->args.push_back({i < args_.size() ? args_[i].index : DNNL_ARG_SCRATCHPAD, s->memories[i].get()});
      }
      return s;
    });
    return made ? *std::move(made) : nullptr;
  }

  dnnl::primitive primitive_;
  std::vector<Arg> args_;
  dnnl::memory::desc scratchpad_;
  mutable std::atomic<State*> idle_ = nullptr;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_DNNL_EXEC_H_
