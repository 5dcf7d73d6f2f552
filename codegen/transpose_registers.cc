#include "smelt/codegen/transpose_registers.h"

#include "llvm/IR/DerivedTypes.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

namespace {

constexpr int kLaneBytes = 16;  // in which x86's shuffles move elements about

// Shuffles of vectors of n elements.
class Transposer {
 public:
  Transposer(llvm::IRBuilder<>& b, int n, int item) : b_(b), n_(n), per_lane_(kLaneBytes / item) {}

  // rows[r][c] becomes rows[c][r]. There are as many vectors as a vector has elements.
  void Run(std::vector<Value*>& rows) {
    const int lanes = n_ / per_lane_;
    SMELT_CHECK(lanes == 1 || lanes == 2 || lanes == 4);
    // Within lanes: afterwards row per_lane * k + c holds in lane l column per_lane * l + c of rows per_lane * k ...
    for (int g = 1; g < per_lane_; g *= 2) {
      std::vector<Value*> next(rows.size());
      for (int m = 0; m < n_; m += 2 * g) {
        for (int j = 0; j < g; ++j) {
          next[m + 2 * j] = Unpack(rows[m + j], rows[m + j + g], g, 0);
          next[m + 2 * j + 1] = Unpack(rows[m + j], rows[m + j + g], g, 1);
        }
      }
      for (size_t r = 0; r < rows.size(); ++r) rows[r] = Fenced(next[r]);
    }
    if (lanes == 1) return;
    std::vector<Value*> out(rows.size());
    for (int c = 0; c < per_lane_; ++c) {
      auto row = [&](int k) { return rows[per_lane_ * k + c]; };
      if (lanes == 2) {
        out[c] = Lanes(row(0), row(1), {0, 2});
        out[per_lane_ + c] = Lanes(row(0), row(1), {1, 3});
        continue;
      }
      for (int odd = 0; odd < 2; ++odd) {
        Value* low = Fenced(Lanes(row(0), row(1), {odd, odd + 2, odd + 4, odd + 6}));
        Value* high = Fenced(Lanes(row(2), row(3), {odd, odd + 2, odd + 4, odd + 6}));
        out[per_lane_ * odd + c] = Lanes(low, high, {0, 2, 4, 6});
        out[per_lane_ * (odd + 2) + c] = Lanes(low, high, {1, 3, 5, 7});
      }
    }
    rows = out;
  }

 private:
  // Interleaves, in each lane, granules of g elements of a and z, from the lane's first or second half.
  Value* Unpack(Value* a, Value* z, int g, int half) {
    std::vector<int> mask;
    for (int lane = 0; lane < n_; lane += per_lane_) {
      for (int q = 0; q < per_lane_ / 2 / g; ++q) {
        for (int from : {0, n_}) {
          for (int e = 0; e < g; ++e) mask.push_back(from + lane + half * per_lane_ / 2 + q * g + e);
        }
      }
    }
    return b_.CreateShuffleVector(a, z, mask);
  }
  Value* Lanes(Value* a, Value* z, const std::vector<int>& which) {
    std::vector<int> mask;
    for (int w : which) {
      for (int e = 0; e < per_lane_; ++e) mask.push_back(w * per_lane_ + e);
    }
    return b_.CreateShuffleVector(a, z, mask);
  }

  // LLVM looks through a shuffle at those that it takes its elements from, anew for each of its users: in a network of
  // shuffles that took ten times as long as everything else. It does not look through this fence, which is not an
  // instruction of the machine.
  Value* Fenced(Value* v) {
    Type* floats = llvm::FixedVectorType::get(b_.getFloatTy(), v->getType()->getPrimitiveSizeInBits() / 32);
    return b_.CreateBitCast(b_.CreateArithmeticFence(b_.CreateBitCast(v, floats), floats), v->getType());
  }

  llvm::IRBuilder<>& b_;
  const int n_, per_lane_;
};

}  // namespace

void TransposeRegisters(llvm::IRBuilder<>& b, int item, std::vector<Value*>& rows) {
  Transposer(b, static_cast<int>(rows.size()), item).Run(rows);
}

}  // namespace smelt
