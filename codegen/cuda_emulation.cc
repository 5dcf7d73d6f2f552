#include "smelt/codegen/cuda_emulation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "smelt/codegen/cuda_library.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/lower_cuda.h"
#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/schema/cuda_launch.h"
#include "smelt/schema/library_kernels.h"

// Continues on the stack `to`, where it was left, and stores this stack's place in *from. (swapcontext asks the system
// for the signal mask each time, which would be most of the emulation's time.)
extern "C" void SmeltSwitchStacks(void** from, void* to);
#if defined(__aarch64__)
asm(R"(
.text
.type SmeltSwitchStacks, @function
SmeltSwitchStacks:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
.size SmeltSwitchStacks, .-SmeltSwitchStacks
)");
#else
asm(R"(
.text
.type SmeltSwitchStacks, @function
SmeltSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size SmeltSwitchStacks, .-SmeltSwitchStacks
)");
#endif

namespace smelt {
namespace {

using Kernel = void (*)(const int64_t*, int64_t, int64_t, int64_t*, void*);

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces

// The threads that have accessed each byte of memory.
class Accesses {
 public:
  // Forgets the accesses so far.
  void Begin() {
    launch_begin_ = run_ + 1;
    if (pages_.size() < kMostPages) return;
    pages_.clear();
    std::fill(std::begin(near_), std::end(near_), Near());
  }
  void BeginBlock() { ++run_; }
  // A thread of the block that has passed `epoch` barriers of its block, and `warp_epoch` of its warp.
  struct Who {
    int32_t epoch = -1, warp_epoch = -1;
    int16_t thread = -1;
    int warp() const { return thread / kCudaWarp; }
  };
  // Notes an access by `me`: it writes `value`, or reads if that is null. `shared` means the block's own memory.
  // Returns the access that it races with, or null. Writes of equal bytes do not race: expanded memory is filled by
  // them.
  const char* Note(const char* at, int64_t bytes, const char* value, bool shared, const Who& me) {
    const char* race = nullptr;
    for (int64_t k = 0; k < bytes;) {
      const uintptr_t address = reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(k);
      Page& page = PageOf(address / kPageBytes);
      const size_t i = address % kPageBytes, word = i / kWord;
      const bool whole = i % kWord == 0 && bytes - k >= int64_t{kWord} && (page.split >> word & 1) == 0;
      if (!whole && (page.split >> word & 1) == 0) {
        Cell* const cells = page.cells + word * kWord;
        for (size_t b = 1; b < kWord; ++b) cells[b] = cells[0];
        page.split |= 1u << word;
      }
      const int64_t size = whole ? int64_t{kWord} : 1;
      const char* met = Note(page.cells[i], page.written + i, size, value == nullptr ? nullptr : value + k, shared, me);
      if (met != nullptr) race = met;
      k += size;
    }
    return race;
  }

 private:
  static constexpr size_t kPageBytes = 64, kWord = 4, kMostPages = 1 << 13;
  struct Cell {
    int64_t run = -1;                                    // the block of the last access
    bool earlier_read = false, earlier_written = false;  // by blocks of the same launch before that one
    Who writer = {}, readers[3] = {};
  };
  struct Page {
    int64_t launch = -1;
    // The words whose bytes were accessed apart. The first cell of another word is that of all its bytes.
    uint32_t split = 0;
    char written[kPageBytes];  // the last bytes
    Cell cells[kPageBytes];
  };
  // A page that was found lately.
  struct Near {
    uintptr_t number = 0;
    Page* page = nullptr;
  };

  Page& PageOf(uintptr_t number) {
    Near& near = near_[number % std::size(near_)];
    if (near.page == nullptr || near.number != number) {
      std::unique_ptr<Page>& page = pages_[number];
      if (page == nullptr) page = std::make_unique<Page>();
      near = {number, page.get()};
    }
    Page& page = *near.page;
    if (page.launch != launch_begin_) {
      page.launch = launch_begin_;
      page.split = 0;
    }
    return page;
  }

  // The same for bytes that have one cell.
  const char* Note(Cell& c, char* written, int64_t bytes, const char* value, bool shared, const Who& me) {
    if (c.run != run_) {
      const bool keeps = !shared && c.run >= launch_begin_;
      c = {.run = run_,
           .earlier_read = keeps && (c.earlier_read || c.readers[0].thread >= 0),
           .earlier_written = keeps && (c.earlier_written || c.writer.thread >= 0)};
    }
    const auto meets = [&](const Who& o) {
      if (o.thread < 0 || o.thread == me.thread || o.epoch != me.epoch) return false;
      return o.warp() != me.warp() || o.warp_epoch == me.warp_epoch;
    };
    const char* race = nullptr;
    const bool met_writer = c.earlier_written || meets(c.writer);
    if (value == nullptr) {
      if (met_writer) race = "a read and a write";
      // Three are enough: of them, one is another thread than the writer, and one of another warp, if there were any.
      if (c.readers[0].warp() != me.warp()) c.readers[2] = c.readers[0];
      if (c.readers[0].thread != me.thread) c.readers[1] = c.readers[0];
      c.readers[0] = me;
      return race;
    }
    if (met_writer && std::memcmp(written, value, static_cast<size_t>(bytes)) != 0) race = "two writes";
    if (c.earlier_read || std::any_of(std::begin(c.readers), std::end(c.readers), meets)) race = "a read and a write";
    c.writer = me;
    std::memcpy(written, value, static_cast<size_t>(bytes));
    return race;
  }

  absl::flat_hash_map<uintptr_t, std::unique_ptr<Page>> pages_;
  Near near_[1024];
  int64_t launch_begin_ = 0, run_ = -1;  // numbers of blocks, counted over all launches
};

// The threads of a block. Each runs until its next access to memory, or until it must wait for others, and then the
// next one runs. All kernels share one block: their launches wait for each other.
class Block {
 public:
  Block() : fibers_(kCudaBlock), stacks_(kCudaBlock * kStackBytes) {}

  void Begin() {
    accesses_.Begin();
    meetings = 0;
    race.clear();
  }

  void Run(int block, int blocks, const std::function<void()>& body) {
    current_ = this;
    block_ = block;
    blocks_ = blocks;
    body_ = body;
    waiting_ = 0;
    epoch_ = 0;
    accesses_.BeginBlock();
    for (int t = 0; t < kCudaBlock; ++t) {
      Fiber& f = fibers_[t];
      f.state = kReady;
      f.met = f.warp_epoch = 0;
      auto* top = reinterpret_cast<void**>(stacks_.data() + (t + 1) * kStackBytes);
#if defined(__aarch64__)
      // The stack looks as if SmeltSwitchStacks had left it: the caller's frame, the place to continue at, and eighteen
      // registers.
      f.stack = top - 20;
      top[-20] = nullptr;
      top[-19] = reinterpret_cast<void*>(&Block::Enter);
#else
      // The stack looks as if Enter had been called and had left by SmeltSwitchStacks: six registers, the place to
      // continue at, and the place that Enter would return to, which it never does.
      *--top = nullptr;
      *--top = reinterpret_cast<void*>(&Block::Enter);
      f.stack = top - 6;
#endif
    }
    // Runs rounds until all threads are done. If nobody runs in a round, they wait for threads that are done.
    WakeAll();
    for (int done = 0; done < kCudaBlock;) {
      bool progress = false;
      size_t left = 0;
      for (const int t : running_) {
        Fiber& f = fibers_[t];
        if (f.state != kShuffle || WarpHasMet(t)) {
          progress = true;
          thread_ = t;
          f.state = kReady;
          SmeltSwitchStacks(&scheduler_, f.stack);
        }
        done += f.state == kDone;
        if (f.state == kReady || f.state == kShuffle) running_[left++] = t;
      }
      running_.resize(left);
      if (waiting_ == kCudaBlock) {
        waiting_ = 0;
        ++epoch_;
        ++meetings;
        progress = true;
        WakeAll();
      }
      SMELT_CHECK(progress || done == kCudaBlock) << "threads wait at a barrier or a shuffle that others do not reach";
    }
    current_ = nullptr;
  }

  int64_t meetings = 0;
  std::string race;  // the first

  // The functions that kernels call.
  static int32_t Thread() { return current_->thread_; }
  static int32_t BlockIndex() { return current_->block_; }
  static int32_t Blocks() { return current_->blocks_; }
  // Called before each load, and each store of `value`. `what`: bytes, and whether of shared memory.
  static void Access(const char* at, int64_t what, const char* value) {
    Block& b = *current_;
    const Accesses::Who me{b.epoch_, b.fibers_[b.thread_].warp_epoch, static_cast<int16_t>(b.thread_)};
    const char* race = b.accesses_.Note(at, what >> 1, value, (what & 1) != 0, me);
    if (race != nullptr && b.race.empty()) b.race = absl::StrCat(race, " by threads that no barrier orders");
    SmeltSwitchStacks(&b.fibers_[b.thread_].stack, b.scheduler_);
  }
  static void Barrier(int32_t) {
    Block& b = *current_;
    Fiber& f = b.fibers_[b.thread_];
    f.state = kBarrier;
    ++b.waiting_;
    SmeltSwitchStacks(&f.stack, b.scheduler_);
  }
  static void WarpBarrier(int32_t mask) {
    Block& b = *current_;
    SMELT_CHECK(mask == -1);
    b.Meet(0);
    ++b.fibers_[b.thread_].warp_epoch;
  }
  static int32_t ShuffleDown(int32_t mask, int32_t value, int32_t distance, int32_t) {
    return current_->Shuffle(mask, value, current_->thread_ % kCudaWarp + distance);
  }
  static int32_t ShuffleIndex(int32_t mask, int32_t value, int32_t lane, int32_t) {
    return current_->Shuffle(mask, value, lane);
  }
  // mma.sync.m16n8k16: `in` has four words of a, two of b and four sums of this thread.
  static void Mma(const uint32_t* in, float* out, int32_t is_bfloat) {
    Block& b = *current_;
    const int t = b.thread_, first = t - t % kCudaWarp, lane = t % kCudaWarp;
    std::memcpy(b.fibers_[t].fragment, in, sizeof b.fibers_[t].fragment);
    b.Meet(0);
    // The half of a pair, from the lane that has it.
    const auto half = [&](int of_lane, int word, int part) {
      const auto bits = static_cast<uint16_t>(b.fibers_[first + of_lane].fragment[word] >> (16 * part));
      return is_bfloat ? BFloat16ToFloat(bits) : HalfToFloat(bits);
    };
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4, column = lane % 4 * 2 + e % 2;
      float sum;
      std::memcpy(&sum, &in[6 + e], sizeof sum);
      for (int k = 0; k < 16; ++k) {
        sum += half(row * 4 + k % 8 / 2, e / 2 + k / 8 * 2, k % 2) * half(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
      }
      out[e] = sum;
    }
    // Nobody may bring new words before all have read.
    b.Meet(0);
  }
  static uint16_t ToBFloat16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if (std::isnan(x)) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

 private:
  enum State {
    kReady,
    kBarrier,  // waits for the whole block
    kShuffle,  // waits for the rest of its warp
    kDone,
  };
  struct Fiber {
    void* stack = nullptr;  // where it was left
    State state = kReady;
    int32_t value = 0;
    int64_t met = 0;  // how often it came to a meeting of its warp
    int32_t warp_epoch = 0;
    uint32_t fragment[10];  // that it brings to tensor cores
  };

  // Lets all threads run, in their order.
  void WakeAll() {
    running_.resize(kCudaBlock);
    std::iota(running_.begin(), running_.end(), 0);
    for (Fiber& f : fibers_) f.state = kReady;
  }
  [[noreturn]] static void Enter() {
    current_->body_();
    Fiber& f = current_->fibers_[current_->thread_];
    f.state = kDone;
    SmeltSwitchStacks(&f.stack, current_->scheduler_);
    SMELT_CHECK(false) << "a thread that is done goes on";
    std::abort();
  }
  int32_t Shuffle(int32_t mask, int32_t value, int lane) {
    SMELT_CHECK(mask == -1);
    const int t = thread_;
    Meet(value);
    const int32_t result = lane < kCudaWarp ? fibers_[t - t % kCudaWarp + lane].value : value;
    // Nobody may bring a new value before all have read.
    Meet(value);
    return result;
  }
  // Waits until all threads of the warp have come to as many meetings.
  void Meet(int32_t value) {
    const int t = thread_;
    Fiber& f = fibers_[t];
    f.value = value;
    ++f.met;
    f.state = kShuffle;
    if (t % kCudaWarp == kCudaWarp - 1) ++meetings;
    SmeltSwitchStacks(&f.stack, scheduler_);
  }
  bool WarpHasMet(int t) const {
    const int first = t - t % kCudaWarp;
    for (int k = 0; k < kCudaWarp; ++k) {
      if (fibers_[first + k].met < fibers_[t].met) return false;
    }
    return true;
  }

  static inline Block* current_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<int> running_;  // the threads that are neither done nor at a barrier of the block
  std::vector<char> stacks_;
  std::function<void()> body_;
  void* scheduler_ = nullptr;
  Accesses accesses_;
  int32_t epoch_ = 0;
  int thread_ = 0, block_ = 0, blocks_ = 0, waiting_ = 0;
};

// Inserts a call of Block::Access before each load and store of global and shared memory.
void NoteAccesses(llvm::Module& module) {
  llvm::LLVMContext& c = module.getContext();
  llvm::PointerType* pointer = llvm::PointerType::get(c, 0);
  llvm::Type* word = llvm::Type::getInt64Ty(c);
  const llvm::FunctionCallee access = module.getOrInsertFunction(
      "emulated.access", llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer, word, pointer}, false));
  std::vector<llvm::Instruction*> all;
  for (llvm::Function& f : module) {
    for (llvm::BasicBlock& block : f) {
      for (llvm::Instruction& in : block) all.push_back(&in);
    }
  }
  for (llvm::Instruction* in : all) {
    auto* const store = llvm::dyn_cast<llvm::StoreInst>(in);
    llvm::Value* at = llvm::getLoadStorePointerOperand(in);
    if (at == nullptr) continue;
    const unsigned space = at->getType()->getPointerAddressSpace();
    if (space != kGlobal && space != kShared) continue;
    const uint64_t bytes = module.getDataLayout().getTypeStoreSize(llvm::getLoadStoreType(in)).getFixedValue();
    const uint64_t what = bytes * 2 + (space == kShared ? 1 : 0);
    auto* cast = new llvm::AddrSpaceCastInst(at, pointer, "", in->getIterator());
    llvm::Value* value = llvm::ConstantPointerNull::get(pointer);
    if (store != nullptr) {
      llvm::Instruction* first = &*in->getFunction()->getEntryBlock().begin();
      auto* copy = new llvm::AllocaInst(store->getValueOperand()->getType(), 0, "", first->getIterator());
      new llvm::StoreInst(store->getValueOperand(), copy, in->getIterator());
      value = copy;
    }
    llvm::CallInst::Create(access, {cast, llvm::ConstantInt::get(word, what), value}, "", in->getIterator());
  }
}

// Rounds to bfloat16 as the instruction does, with calls of Block::ToBFloat16: processors differ in denormals and NaN.
void RoundToBFloat16(llvm::Module& module) {
  llvm::LLVMContext& c = module.getContext();
  const llvm::FunctionCallee round = module.getOrInsertFunction(
      "emulated.bfloat16", llvm::FunctionType::get(llvm::Type::getInt16Ty(c), {llvm::Type::getFloatTy(c)}, false));
  std::vector<llvm::Instruction*> all;
  for (llvm::Function& f : module) {
    for (llvm::BasicBlock& block : f) {
      for (llvm::Instruction& in : block) {
        if (llvm::isa<llvm::BitCastInst>(in) && llvm::isa<llvm::FPTruncInst>(in.getOperand(0)) &&
            in.getOperand(0)->getType()->isBFloatTy()) {
          all.push_back(&in);
        }
      }
    }
  }
  for (llvm::Instruction* cast : all) {
    auto* truncation = llvm::cast<llvm::FPTruncInst>(cast->getOperand(0));
    cast->replaceAllUsesWith(llvm::CallInst::Create(round, {truncation->getOperand(0)}, "", cast->getIterator()));
    cast->eraseFromParent();
    if (truncation->use_empty()) truncation->eraseFromParent();
  }
}

// Replaces products on tensor cores by calls of Block::Mma, with operands and results in memory.
void EmulateTensorCores(llvm::Module& module) {
  llvm::LLVMContext& c = module.getContext();
  llvm::IRBuilder<> b(c);
  llvm::Type *pointer = b.getPtrTy(), *word = b.getInt32Ty();
  const llvm::FunctionCallee mma = module.getOrInsertFunction(
      "emulated.mma", llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, word}, false));
  std::vector<llvm::CallInst*> all;
  for (llvm::Function& f : module) {
    for (llvm::BasicBlock& block : f) {
      for (llvm::Instruction& in : block) {
        auto* call = llvm::dyn_cast<llvm::CallInst>(&in);
        if (call != nullptr && call->getCalledFunction()->getName().starts_with("llvm.nvvm.mma.")) all.push_back(call);
      }
    }
  }
  for (llvm::CallInst* call : all) {
    b.SetInsertPoint(&*call->getFunction()->getEntryBlock().begin());
    llvm::Value* in = b.CreateAlloca(llvm::ArrayType::get(word, call->arg_size()));
    llvm::Value* out = b.CreateAlloca(call->getType());
    b.SetInsertPoint(call);
    for (unsigned k = 0; k < call->arg_size(); ++k) {
      llvm::Value* at = b.CreateConstGEP1_32(word, in, k);
      b.CreateStore(call->getArgOperand(k), at);
    }
    const bool is_bfloat = call->getCalledFunction()->getName().contains("bf16");
    b.CreateCall(mma, {in, out, b.getInt32(is_bfloat)});
    call->replaceAllUsesWith(b.CreateLoad(call->getType(), out));
    call->eraseFromParent();
  }
}

// Adds a function with the signature of a kernel for a CPU: it calls emulated.launch with `self`.
void AddEntry(llvm::Module& module, const void* self) {
  llvm::LLVMContext& c = module.getContext();
  llvm::IRBuilder<> b(c);
  llvm::Type *pointer = b.getPtrTy(), *word = b.getInt64Ty();
  auto* f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {pointer, word, word, pointer}, false),
                                   llvm::GlobalValue::ExternalLinkage, "entry", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(c, "entry", f));
  llvm::Value* me = b.CreateIntToPtr(b.getInt64(reinterpret_cast<uint64_t>(self)), pointer);
  const llvm::FunctionCallee launch = module.getOrInsertFunction(
      "emulated.launch", llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, word, word, pointer}, false));
  b.CreateCall(launch, {me, f->getArg(0), f->getArg(1), f->getArg(2), f->getArg(3)});
  b.CreateRetVoid();
}

void LaunchFromEntry(CudaEmulation* kernel, const int64_t* words, int64_t begin, int64_t end, int64_t* status) {
  kernel->Launch(/*grid=*/2, words, begin, end, status);
}

// libdevice has this function and the C library lacks it. Computed by bisection, to the last place.
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
// The functions of float are computed in double and rounded. That is more exact than libdevice, which is within a few
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
    {"emulated.nvvm.bar.warp.sync", AddressOf(&Block::WarpBarrier)},
    {"emulated.nvvm.shfl.sync.down.i32", AddressOf(&Block::ShuffleDown)},
    {"emulated.nvvm.shfl.sync.idx.i32", AddressOf(&Block::ShuffleIndex)},
    {"emulated.mma", AddressOf(&Block::Mma)},
    {"emulated.bfloat16", AddressOf(&Block::ToBFloat16)},
    {"emulated.access", AddressOf(&Block::Access)},
    {"emulated.launch", AddressOf(&LaunchFromEntry)},
};

absl::Status FromLlvm(llvm::Error error) { return absl::InternalError(llvm::toString(std::move(error))); }

class Emulation : public CudaEmulation {
 public:
  using Lower = std::function<absl::StatusOr<std::unique_ptr<llvm::Module>>(llvm::LLVMContext&)>;

  absl::Status Init(const Lower& lower, fb::CudaKernelT launch, int64_t num_words) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = lower(*context);
    if (!module.ok()) return module.status();
    EmulateTensorCores(**module);
    // The machine's own registers and barriers become calls; nothing else changes.
    std::vector<llvm::Function*> functions;
    for (llvm::Function& f : **module) functions.push_back(&f);
    for (llvm::Function* f : functions) {
      f->setCallingConv(llvm::CallingConv::C);
      // Words by value would be passed on the stack, in a number that differs from kernel to kernel.
      for (unsigned k = 0; k < f->arg_size(); ++k) f->removeParamAttr(k, llvm::Attribute::ByVal);
      if (!f->getName().starts_with("llvm.nvvm.")) continue;
      const std::string name = absl::StrReplaceAll(std::string(f->getName()), {{"llvm.", "emulated."}});
      auto* call = llvm::Function::Create(f->getFunctionType(), llvm::GlobalValue::ExternalLinkage, name, **module);
      f->replaceAllUsesWith(call);
      f->eraseFromParent();
    }
    NoteAccesses(**module);
    RoundToBFloat16(**module);
    AddEntry(**module, static_cast<CudaEmulation*>(this));
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
    launch_ = std::move(launch);
    num_words_ = num_words;
    for (const auto& stage : launch_.stages) {
      auto address = jit_->lookup(stage->entry);
      if (!address) return FromLlvm(address.takeError());
      stages_.push_back(address->toPtr<Kernel>());
    }
    auto entry = jit_->lookup("entry");
    if (!entry) return FromLlvm(entry.takeError());
    entry_ = entry->toPtr<KernelEntry>();
    return absl::OkStatus();
  }

  void Launch(int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status) override {
    const auto bytes = ComputeWorkspaceBytes(launch_, absl::MakeConstSpan(words, num_words_), end - begin);
    SMELT_CHECK(bytes.ok()) << bytes.status();
    // The kernel may not depend on what a workspace holds.
    std::vector<std::max_align_t> workspace(*bytes / sizeof(std::max_align_t) + 1);
    std::memset(workspace.data(), 0xa5, workspace.size() * sizeof(std::max_align_t));
    int64_t meetings = 0;
    for (int k = 0; k < static_cast<int>(stages_.size()); ++k) {
      if (*ComputeBlocks(launch_, k, absl::MakeConstSpan(words, num_words_), end - begin) == 0) continue;
      LaunchStage(k, grid, words, begin, end, status, *bytes > 0 ? workspace.data() : nullptr);
      meetings += meetings_;
    }
    meetings_ = meetings;
  }
  void LaunchStage(int stage, int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status,
                   void* workspace) override {
    static absl::Mutex mutex;
    absl::MutexLock lock(&mutex);
    static Block* const block = new Block();
    block->Begin();
    for (int b = 0; b < grid; ++b) {
      block->Run(b, grid, [&] { stages_[stage](words, begin, end, status, workspace); });
    }
    meetings_ = block->meetings;
    if (race_.empty()) race_ = block->race;
  }
  KernelEntry entry() const override { return entry_; }
  const std::string& race() const override { return race_; }
  int64_t meetings() const override { return meetings_; }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  fb::CudaKernelT launch_;
  int64_t num_words_ = 0;
  std::vector<Kernel> stages_;
  KernelEntry entry_ = nullptr;
  std::string race_;
  int64_t meetings_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEmulation>> CudaEmulation::Create(const KernelSpec& spec, const CudaLimits& limits) {
  auto out = std::make_unique<Emulation>();
  const absl::Status status =
      out->Init([&](llvm::LLVMContext& c) { return LowerKernelForCuda(c, spec, "kernel", limits); },
                CudaLaunchFor(spec, "kernel", limits), spec.num_words());
  if (!status.ok()) return status;
  return std::unique_ptr<CudaEmulation>(std::move(out));
}

absl::StatusOr<std::unique_ptr<CudaEmulation>> CudaEmulation::CreateLibrary(const LibraryKernel& kernel,
                                                                            int capability) {
  auto out = std::make_unique<Emulation>();
  const absl::Status status = out->Init([&](llvm::LLVMContext& c) { return LowerLibraryKernel(c, kernel, capability); },
                                        kernel.Launch(), kernel.NumWords());
  if (!status.ok()) return status;
  return std::unique_ptr<CudaEmulation>(std::move(out));
}

}  // namespace smelt
