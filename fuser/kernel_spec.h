// The computation of a kernel, and nothing else: the border between fusion and code generation.
//
// A kernel is a loop nest over P parallel and Q reduction dimensions. All sizes, strides, offsets and lifted scalars
// are given at launch. The spec holds what changes the code: dtypes, ranks, the stride class of each access, the
// program. Two groups with equal specs share one kernel, wherever they are.
//
//   for each point of the parallel dims:              phase 0 (outer): instructions run once per point
//     for each point of the reduction dims:           phase 1 (inner): once per element; kReduce accumulates
//     ...                                             phase 2 (outer or inner), ...
//
// Elementwise kernels have Q = 0 and one outer phase. A softmax has inner(max) inner(sum of exp) inner(store). Every
// later phase may use an instruction of an outer phase, but only its own phase may use one of an inner phase. The
// exception is the result of a kReduce (complete when its phase ends), which later phases use as an outer value.
//
// Parameter block (64-bit words), in this order: sizes of the P+Q dims; for each param its base address (bytes), then
// its stride in elements for each dim of class kAny, in dim order; then the scalars (integers and bool as int64,
// floating point as double).
//
//   extern "C" void kernel(const int64_t* words, int64_t begin, int64_t end, int64_t* status);
//
// [begin, end) is a range of tiles: points of the parallel dims flattened row-major without the vector dim if that is
// parallel ("rows"), or, if the vector dim is the only parallel dim, elements of it. An index out of range (1) or an
// integer division by zero (2) sets status[0] to nonzero; it is never cleared. status[1] tells a kernel for a CPU the
// strengths of the machine, as bits that change no result and may be 0. The kernel writes nothing outside the elements
// that its stores name. It assumes no alignment beyond the element's, and no noalias except between params of
// different, nonnegative alias classes.
#ifndef SMELT_FUSER_KERNEL_SPEC_H_
#define SMELT_FUSER_KERNEL_SPEC_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// The word of `status` that describes the machine's strengths, and its bits: gathers of vectors are faster than loads
// lane by lane; reads of contiguous memory are faster with prefetches; reads of several operands' rows are faster
// without writes in between.
inline constexpr int kHintsWord = 1;
inline constexpr int64_t kGathersWell = 1;
inline constexpr int64_t kAskAhead = 2;
inline constexpr int64_t kReadsAlone = 4;

enum class StrideClass : uint8_t {
  kZero,  // broadcast: the index of this dim does not matter
  kUnit,  // 1 element
  kAny,   // a word of the parameter block
  // 2, 3 and 4 elements: parts of complex numbers, points, colors. Distinguished along the vectorized dim only.
  kTwo,
  kThree,
  kFour,
  kBackward,  // -1 element, of what is only read: flipped; along the vectorized dim only
};

// The parameter block contains the distance.
inline constexpr int64_t kAnyApart = std::numeric_limits<int64_t>::min();

// Returns the distance between adjacent elements of a class.
constexpr int64_t ElementsApart(StrideClass c) {
  switch (c) {
    case StrideClass::kZero:
      return 0;
    case StrideClass::kUnit:
      return 1;
    case StrideClass::kAny:
      return kAnyApart;
    case StrideClass::kTwo:
      return 2;
    case StrideClass::kThree:
      return 3;
    case StrideClass::kFour:
      return 4;
    case StrideClass::kBackward:
      return -1;
  }
  return kAnyApart;
}

// "zero", "unit", ..., as in a spec's text.
absl::string_view Name(StrideClass c);

struct KernelParam {
  DType dtype = DType::kFloat32;
  bool is_read = false, is_written = false;
  std::vector<StrideClass> strides;  // P+Q
  // Params of equal class may touch the same bytes; a param of class -1 may touch anything. In-place updates are legal
  // within a class: at equal addresses and indices, each element is read for the last time before it is written, by the
  // same iteration or in an earlier phase of the same row. Partial overlap never is: the launch must guarantee that.
  int alias_class = -1;
};

enum class KernelOp : uint8_t {
  kScalar,     // `scalar` applied to operands
  kLoad,       // param[index]: operands {} or {offset} or {guard} or {offset, guard}, see has_offset/has_guard; a false
               // guard yields 0 and touches no memory
  kStore,      // operands {value, [offset], [guard]}; no result
  kAtomicAdd,  // not used on CPU: scatter with accumulation is `sequential` and a load + store
  kIndex,      // the index along dim `dim`, int64
  kScalarParam,  // lifted scalar number `dim`
  kReduce,       // inner phases only; operands {value} or {value, index}: combines over the reduction dims
  kScan,         // inner phases only: running combination including this element (cumsum); makes the phase run in order
  kCheckIndex,   // operands {index, size}: wraps a negative index by size; outside [-size, size) sets status 1 and
                 // yields 0 (safe)
  kDimSize,      // the size of dim `dim`, int64
};

enum class ReduceKind : uint8_t {
  kSum,
  kProd,
  kMin,
  kMax,  // NaN wins
  kArgMin,
  kArgMax,  // operands {value, index}: result is the index; first occurrence; NaN wins. Type int64
  kAnd,
  kOr,  // bool
};
constexpr bool IsArg(ReduceKind k) { return k == ReduceKind::kArgMin || k == ReduceKind::kArgMax; }

struct KernelInstr {
  KernelOp op = KernelOp::kScalar;
  DType type = DType::kFloat32;  // of the result. float16/bfloat16: a load yields that type; kScalar kCast converts
  ScalarOp scalar = ScalarOp::kConst;    // of kScalar (not kArg)
  ScalarImm imm;                         // of kScalar kConst
  std::vector<int> operands;             // indices of instructions, earlier ones
  int param = -1;                        // of kLoad, kStore
  bool has_offset = false;               // operand: an extra int64 offset in elements, added to the affine address
  bool has_guard = false;                // operand: bool
  int dim = -1;                          // of kIndex, kDimSize, kScalarParam
  ReduceKind reduce = ReduceKind::kSum;  // of kReduce, kScan
};

struct KernelPhase {
  bool inner = false;       // runs over the reduction dims
  std::vector<int> instrs;  // indices into KernelSpec::instrs, in order
};

struct KernelSpec {
  int parallel_rank = 0;  // may be 0: one point
  int reduction_rank = 0;
  // The dim that is vectorized: its unit-stride accesses become vector loads. -1 means scalar code. A parallel dim is
  // always the last one, P-1; a reduction dim is the last one, P+Q-1.
  int vector_dim = -1;
  bool sequential = false;  // the parallel points must run in order, in one tile (scatter with duplicates)
  std::vector<KernelParam> params;
  std::vector<DType> scalars;
  std::vector<KernelInstr> instrs;
  std::vector<KernelPhase> phases;

  int rank() const { return parallel_rank + reduction_rank; }
  int64_t num_words() const;
  // A complete, stable text: two specs are equal iff their texts are. The key hashes it and a cache hit compares it.
  std::string ToString() const;
};

absl::StatusOr<KernelSpec> ParseKernelSpec(absl::string_view text);
// The sizes that indices of the kernel must be less than, as instructions (of parameters, dims and constants), and
// whether they are indexed in an inner phase. A dim without elements has no element that could replace the one at a
// wrong index: if there are points, a kernel sets status 1 and does nothing else.
struct IndexedSize {
  int instr;
  bool inner;
};
std::vector<IndexedSize> IndexedSizes(const KernelSpec& spec);

absl::Status VerifyKernelSpec(const KernelSpec& spec);

// Returns the number of tiles for given words, the largest valid `end`.
int64_t NumTiles(const KernelSpec& spec, const int64_t* words);

}  // namespace smelt

#endif  // SMELT_FUSER_KERNEL_SPEC_H_
