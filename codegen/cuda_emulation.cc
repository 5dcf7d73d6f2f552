#include "smelt/codegen/cuda_emulation.h"

#include <ucontext.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "smelt/codegen/lower_cuda.h"
#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using Kernel = void (*)(const int64_t*, int64_t, int64_t, int64_t*);

constexpr size_t kStackBytes = 64 << 10;

// The threads of a block. Each runs until it must wait for others: then the next one runs.
class Block {
 public:
  explicit Block(Kernel kernel) : kernel_(kernel), fibers_(kCudaBlock), stacks_(kCudaBlock * kStackBytes) {}

  void Run(int block, int blocks, const int64_t* words, int64_t begin, int64_t end, int64_t* status) {
    current_ = this;
    block_ = block;
    blocks_ = blocks;
    body_ = [=, this] { kernel_(words, begin, end, status); };
    waiting_ = 0;
    for (int t = 0; t < kCudaBlock; ++t) {
      Fiber& f = fibers_[t];
      f.state = kReady;
      f.met = 0;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = &stacks_[t * kStackBytes];
      f.context.uc_stack.ss_size = kStackBytes;
      f.context.uc_link = &scheduler_;
      makecontext(&f.context, &Block::Enter, 0);
    }
    // Round and round, until all are done. In a round in which nobody runs they wait for threads that are done.
    for (int done = 0; done < kCudaBlock;) {
      bool progress = false;
      for (int t = 0; t < kCudaBlock; ++t) {
        Fiber& f = fibers_[t];
        if (f.state == kBarrier || f.state == kDone) continue;
        if (f.state == kShuffle && !WarpHasMet(t)) continue;
        progress = true;
        thread_ = t;
        f.state = kReady;
        swapcontext(&scheduler_, &f.context);
        done += f.state == kDone;
      }
      if (waiting_ == kCudaBlock) {
        waiting_ = 0;
        ++meetings;
        progress = true;
        for (Fiber& f : fibers_) f.state = kReady;
      }
      SMELT_CHECK(progress || done == kCudaBlock) << "threads wait at a barrier or a shuffle that others do not reach";
    }
    current_ = nullptr;
  }

  int64_t meetings = 0;

  // What the kernel calls.
  static int32_t Thread() { return current_->thread_; }
  static int32_t BlockIndex() { return current_->block_; }
  static int32_t Blocks() { return current_->blocks_; }
  static void Barrier(int32_t) {
    Block& b = *current_;
    Fiber& f = b.fibers_[b.thread_];
    f.state = kBarrier;
    ++b.waiting_;
    swapcontext(&f.context, &b.scheduler_);
  }
  static int32_t ShuffleDown(int32_t mask, int32_t value, int32_t distance, int32_t) {
    Block& b = *current_;
    SMELT_CHECK(mask == -1);
    const int t = b.thread_;
    b.Meet(value);
    const int lane = t % kCudaWarp + distance;
    const int32_t result = lane < kCudaWarp ? b.fibers_[t - t % kCudaWarp + lane].value : value;
    // Nobody may bring a new value before all have read.
    b.Meet(value);
    return result;
  }

 private:
  enum State {
    kReady,
    kBarrier,  // waits for the whole block
    kShuffle,  // waits for the rest of its warp
    kDone,
  };
  struct Fiber {
    ucontext_t context;
    State state = kReady;
    int32_t value = 0;
    int64_t met = 0;  // how often it came to a meeting of its warp
  };

  static void Enter() {
    current_->body_();
    current_->fibers_[current_->thread_].state = kDone;
  }
  // Waits until all of the warp have come as often.
  void Meet(int32_t value) {
    const int t = thread_;
    Fiber& f = fibers_[t];
    f.value = value;
    ++f.met;
    f.state = kShuffle;
    if (t % kCudaWarp == kCudaWarp - 1) ++meetings;
    swapcontext(&f.context, &scheduler_);
  }
  bool WarpHasMet(int t) const {
    const int first = t - t % kCudaWarp;
    for (int k = 0; k < kCudaWarp; ++k) {
      if (fibers_[first + k].met < fibers_[t].met) return false;
    }
    return true;
  }

  static inline Block* current_ = nullptr;
  const Kernel kernel_;
  std::vector<Fiber> fibers_;
  std::vector<char> stacks_;
  std::function<void()> body_;
  ucontext_t scheduler_;
  int thread_ = 0, block_ = 0, blocks_ = 0, waiting_ = 0;
};

// libdevice has it, the C library has not: by halving, to the last place.
double InverseErf(double y) {
  if (std::isnan(y) || std::fabs(y) > 1) return NAN;
  if (std::fabs(y) == 1) return y * INFINITY;
  double low = 0, high = 6;
  for (int k = 0; k < 200; ++k) {
    const double middle = (low + high) / 2;
    (std::erf(middle) < std::fabs(y) ? low : high) = middle;
  }
  return std::copysign(low, y);
}
float InverseErfFloat(float y) { return static_cast<float>(InverseErf(y)); }

struct Symbol {
  const char* name;
  void* address;
};
template <typename F>
void* AddressOf(F* f) {
  return reinterpret_cast<void*>(f);
}
// The functions of float are computed in double and rounded: nearer to the truth than libdevice, which is within a few
// ULP of it.
#define SMELT_ONE(name)                                                                                          \
  {"__nv_" #name, AddressOf(+[](double x) { return std::name(x); })}, {                                          \
    "__nv_" #name "f", AddressOf(+[](float x) { return static_cast<float>(std::name(static_cast<double>(x))); }) \
  }
#define SMELT_TWO(name)                                                              \
  {"__nv_" #name, AddressOf(+[](double x, double y) { return std::name(x, y); })}, { \
    "__nv_" #name "f", AddressOf(+[](float x, float y) { return std::name(x, y); })  \
  }
const Symbol kSymbols[] = {
    SMELT_ONE(exp),
    SMELT_ONE(exp2),
    SMELT_ONE(expm1),
    SMELT_ONE(log),
    SMELT_ONE(log2),
    SMELT_ONE(log10),
    SMELT_ONE(log1p),
    SMELT_ONE(sin),
    SMELT_ONE(cos),
    SMELT_ONE(tan),
    SMELT_ONE(asin),
    SMELT_ONE(acos),
    SMELT_ONE(atan),
    SMELT_ONE(sinh),
    SMELT_ONE(cosh),
    SMELT_ONE(tanh),
    SMELT_ONE(asinh),
    SMELT_ONE(acosh),
    SMELT_ONE(atanh),
    SMELT_ONE(erf),
    SMELT_ONE(erfc),
    SMELT_ONE(lgamma),
    SMELT_TWO(pow),
    SMELT_TWO(atan2),
    SMELT_TWO(hypot),
    SMELT_TWO(nextafter),
    SMELT_TWO(fmod),
    {"__nv_erfinv", AddressOf(&InverseErf)},
    {"__nv_erfinvf", AddressOf(&InverseErfFloat)},
    {"emulated.nvvm.read.ptx.sreg.tid.x", AddressOf(&Block::Thread)},
    {"emulated.nvvm.read.ptx.sreg.ctaid.x", AddressOf(&Block::BlockIndex)},
    {"emulated.nvvm.read.ptx.sreg.nctaid.x", AddressOf(&Block::Blocks)},
    {"emulated.nvvm.barrier.cta.sync.aligned.all", AddressOf(&Block::Barrier)},
    {"emulated.nvvm.shfl.sync.down.i32", AddressOf(&Block::ShuffleDown)},
};

absl::Status FromLlvm(llvm::Error error) { return absl::InternalError(llvm::toString(std::move(error))); }

class Emulation : public CudaEmulation {
 public:
  absl::Status Init(const KernelSpec& spec) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = LowerKernelForCuda(*context, spec, "kernel");
    if (!module.ok()) return module.status();
    // The machine's own registers and barriers become calls; nothing else changes.
    std::vector<llvm::Function*> functions;
    for (llvm::Function& f : **module) functions.push_back(&f);
    for (llvm::Function* f : functions) {
      f->setCallingConv(llvm::CallingConv::C);
      if (!f->getName().starts_with("llvm.nvvm.")) continue;
      const std::string name = absl::StrReplaceAll(std::string(f->getName()), {{"llvm.", "emulated."}});
      auto* call = llvm::Function::Create(f->getFunctionType(), llvm::GlobalValue::ExternalLinkage, name, **module);
      f->replaceAllUsesWith(call);
      f->eraseFromParent();
    }
    auto jit = llvm::orc::LLJITBuilder().create();
    if (!jit) return FromLlvm(jit.takeError());
    jit_ = std::move(*jit);
    llvm::orc::SymbolMap symbols;
    for (const Symbol& s : kSymbols) {
      symbols[jit_->mangleAndIntern(s.name)] = {llvm::orc::ExecutorAddr::fromPtr(s.address),
                                                llvm::JITSymbolFlags::Exported};
    }
    if (auto e = jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))))
      return FromLlvm(std::move(e));
    (*module)->setTargetTriple(jit_->getTargetTriple());
    (*module)->setDataLayout(jit_->getDataLayout());
    if (auto e = jit_->addIRModule(llvm::orc::ThreadSafeModule(*std::move(module), std::move(context))))
      return FromLlvm(std::move(e));
    auto address = jit_->lookup("kernel");
    if (!address) return FromLlvm(address.takeError());
    block_ = std::make_unique<Block>(address->toPtr<Kernel>());
    return absl::OkStatus();
  }

  void Launch(int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status) override {
    block_->meetings = 0;
    for (int b = 0; b < grid; ++b) block_->Run(b, grid, words, begin, end, status);
  }
  int64_t meetings() const override { return block_->meetings; }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::unique_ptr<Block> block_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEmulation>> CudaEmulation::Create(const KernelSpec& spec) {
  auto out = std::make_unique<Emulation>();
  const absl::Status status = out->Init(spec);
  if (!status.ok()) return status;
  return std::unique_ptr<CudaEmulation>(std::move(out));
}

}  // namespace smelt
