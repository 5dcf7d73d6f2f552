// The kernels that run steps of a plan on a CUDA device besides the plan's own launches: products, convolutions, sorts,
// random numbers. The image of a target holds those that the bundle's steps need, beside the bundle's
// kernels, and the executor looks for them by the names of their functions. An image without one is no error: the step
// then runs on the host.
//
//   LibraryKernel kernel{kProductKernel, {DType::kFloat32, DType::kFloat32}};
//   kernel.Entry();   // "smelt_product_float32_float32"
//
// A kernel takes int64 words, like any kernel; library_words.h says which.
#ifndef SMELT_SCHEMA_LIBRARY_KERNELS_H_
#define SMELT_SCHEMA_LIBRARY_KERNELS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

struct LibraryKernel {
  std::string base;
  std::vector<DType> types;
  // A kernel of the bundle that goes on with each element of a product's or a convolution's result, in the same
  // launch: its key, its spec's text, which only code generation needs, and its words, which follow the others.
  std::string epilogue_key = {}, epilogue_spec = {};
  int epilogue_words = 0;

  std::string Entry() const { return StageEntry(0); }  // the name of its function
  std::string StageEntry(int stage) const;             // that of one of its stages, up to four
  int NumWords() const;                                // 0 if there is no such kernel, or not for these dtypes
  fb::CudaKernelT Launch() const;
};

// The kernels that a call of a library operator may use; that which draws elements of a dtype. They need
// not exist.
std::vector<LibraryKernel> LibraryKernelsFor(absl::string_view op, absl::Span<const std::optional<DType>> inputs,
                                             absl::Span<const std::optional<DType>> outputs);
LibraryKernel RandomKernelFor(fb::RandomKind kind, DType t);

// Returns the kernel with one of the bundle that goes on with its result.
LibraryKernel WithEpilogue(LibraryKernel kernel, const fb::KernelT& epilogue);

// Returns the dtype that stands for all of this size, in kernels that only move elements.
DType ElementOfSize(DType t);

// Returns how many rows and columns of a product or a convolution a block computes.
int ProductTile(const LibraryKernel& kernel);
// Returns the dtype in which products of elements are added up.
DType ProductSum(DType t);

// Returns the kernels that steps of any plan of the bundle may use, in the order of their entries.
std::vector<LibraryKernel> LibraryKernelsOf(const fb::BundleT& bundle);

}  // namespace smelt

#endif  // SMELT_SCHEMA_LIBRARY_KERNELS_H_
