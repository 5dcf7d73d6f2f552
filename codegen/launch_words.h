// The parameter block of a launch, as values in the entry of a kernel's function, and the addresses of elements.
//
//   const LaunchWords words(fn, plan);   // while `fn` stands in its entry
//   words.AddIndex(ctx, /*dim=*/0, i);   // moves the position to index i of dim 0
//   words.Address(ctx, /*param=*/1, 0);  // of lane 0 of copy 0
//
// Invariants: the values dominate the body and never change. Strides are in bytes; that of a dim that does not matter to
// a param is null, exactly where Schedule::Moves is false.
#ifndef SMELT_CODEGEN_LAUNCH_WORDS_H_
#define SMELT_CODEGEN_LAUNCH_WORDS_H_

#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/loop_context.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

// The most elements of a row whose values are kept between phases in a buffer.
constexpr int64_t kScratchElements = 4096;

// Columns in memory that become the rows of the next buffer: the address of the first (0: there are none), the bytes from
// one to the next, and the lines of each.
struct NextRows {
  static constexpr int kWords = 3;
  llvm::Value *address = nullptr, *stride = nullptr, *lines = nullptr;
};

class LaunchWords {
  using Value = llvm::Value;

 public:
  LaunchWords(KernelFunction& fn, const Schedule& plan);
  LaunchWords(const LaunchWords&) = delete;
  LaunchWords& operator=(const LaunchWords&) = delete;

  Value* size(int dim) const { return size_[dim]; }
  const std::vector<Value*>& sizes() const { return size_; }
  Value* scalar(int n) const { return scalars_[n]; }
  const std::vector<Value*>& scalars() const { return scalars_; }
  Value* base(int param) const { return base_[param]; }
  Value* stride(int param, int dim) const { return stride_[param][dim]; }
  // Returns whether this launch's elements of a param are stored past the cache; null: in no launch.
  Value* passes_cache(int param) const { return passes_cache_[param]; }
  // Returns words that follow those of the spec, for params with Schedule::fills_next.
  const NextRows& next_rows(int param) const { return next_rows_[param]; }
  // Return the hints of the machine (see kernel_spec.h); null for machines whose code does not depend on them.
  Value* asks_ahead() const { return asks_ahead_; }
  Value* reads_alone() const { return reads_alone_; }

  // Returns the position outside of all loops.
  LoopContext Outermost() const;
  // Moves on by `index` along a dim, which becomes the position's index of that dim.
  void AddIndex(LoopContext& ctx, int dim, Value* index) const;
  // Returns the address of lane 0 of copy u; `past_scratch`: in the param itself, even if its row is in a buffer.
  Value* Address(const LoopContext& ctx, int param, int u, bool past_scratch = false) const;
  // In bytes; 0 outside of the loop over the vectorized dim.
  Value* StrideAlongLoop(const LoopContext& ctx, int param) const;
  bool UnitAlongLoop(const LoopContext& ctx, int param) const;
  bool MovesAlongLoop(const LoopContext& ctx, int param) const { return ctx.chunk && stride_[param][plan_.loop_dim]; }

 private:
  Value* Word(int n, llvm::Type* type);
  void LoadHints();
  Value* ElementsOf(int param);
  int64_t BytesMovedWith(int param) const;
  Value* PassesCache(int param);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  std::vector<Value*> size_, base_, scalars_;
  std::vector<std::vector<Value*>> stride_;
  std::vector<Value*> passes_cache_;
  std::vector<NextRows> next_rows_;
  Value *asks_ahead_ = nullptr, *reads_alone_ = nullptr, *cache_bytes_ = nullptr;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_LAUNCH_WORDS_H_
