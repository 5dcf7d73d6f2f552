// For tests: memory for library kernels, and their launch in the emulation.
#ifndef SMELT_CODEGEN_CUDA_LIBRARY_TESTING_H_
#define SMELT_CODEGEN_CUDA_LIBRARY_TESTING_H_

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/cuda_emulation.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// Elements of a dtype in memory, with room before and after that nothing may change. All bytes are 0xa5 at first.
class LibraryMemory {
 public:
  LibraryMemory(DType t, int64_t elements)
      : type_(t), bytes_(static_cast<size_t>((elements + 2 * kRoom) * ItemSize(t)), static_cast<char>(0xa5)) {}
  char* at(int64_t i) { return bytes_.data() + (i + kRoom) * ItemSize(type_); }
  const char* at(int64_t i) const { return bytes_.data() + (i + kRoom) * ItemSize(type_); }
  int64_t word() { return reinterpret_cast<int64_t>(at(0)); }
  int64_t elements() const { return static_cast<int64_t>(bytes_.size()) / ItemSize(type_) - 2 * kRoom; }
  double Get(int64_t i) const { return LoadDouble(at(i), type_); }
  void Set(int64_t i, double v) { StoreDouble(at(i), type_, v); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  static constexpr int64_t kRoom = 16;
  DType type_;
  std::vector<char> bytes_;
};

// Runs the kernel in lockstep, and expects that it neither races nor reports an error.
inline void LaunchLibraryKernel(const LibraryKernel& kernel, int capability, const std::vector<int64_t>& words,
                                int grid) {
  auto emulation = CudaEmulation::CreateLibrary(kernel, capability);
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  ASSERT_EQ(static_cast<int>(words.size()), kernel.NumWords());
  int64_t status[8] = {};
  (*emulation)->Launch(grid, words.data(), 0, 1, status);
  EXPECT_EQ((*emulation)->race(), "");
  EXPECT_EQ(status[0], 0);
}

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_LIBRARY_TESTING_H_
