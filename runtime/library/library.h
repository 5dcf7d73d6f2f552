// Operators that are called rather than generated: matrix products, convolutions, Fourier transforms, systems of
// equations, sorting, and operators that select elements by their values. docs/bundle_format.md lists them with their
// operands and attributes.
//
//   Library library;                                              // a Program has one
//   LibraryRequest request{.op = "matmul", .inputs = {a, b, {}}, .outputs = {c}};
//   // Once per set of sizes: creates primitives, packs constants.
//   SMELT_ASSIGN_OR_RETURN(auto op, library.Prepare(request));
//   // Allocates nothing once the thread's scratch has grown.
//   op->Run(context, {a_data, b_data, nullptr}, {c_data});
//
// Results do not depend on the number of threads: work is divided by sizes alone, and each piece runs on one thread.
#ifndef SMELT_RUNTIME_LIBRARY_LIBRARY_H_
#define SMELT_RUNTIME_LIBRARY_LIBRARY_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/library/packed_weights.h"
#include "smelt/runtime/strided.h"
#include "smelt/runtime/thread_pool.h"

namespace smelt {

struct OperandShape {
  bool present = false;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes, strides;  // elements
  // Contents that never change and outlive the Library; they may be packed when the op is prepared. Null if not
  // constant.
  const char* constant = nullptr;
  // Products of several numbers of rows read the constant: all of them read one packed form, so that the memory at
  // `constant` need not stay resident.
  bool serves_all_rows = false;

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t NumElements() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
  bool IsDense() const {  // row-major
    int64_t step = 1;
    for (int d = rank() - 1; d >= 0; --d) {
      if (sizes[d] != 1 && strides[d] != step) return false;
      step *= sizes[d];
    }
    return true;
  }
  bool operator==(const OperandShape& o) const {
    return present == o.present && dtype == o.dtype && sizes == o.sizes && strides == o.strides &&
           constant == o.constant && serves_all_rows == o.serves_all_rows;
  }
};

struct LibraryRequest {
  std::string op;
  std::vector<OperandShape> inputs, outputs;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;

  bool operator==(const LibraryRequest& o) const {
    return op == o.op && inputs == o.inputs && outputs == o.outputs && ints == o.ints && floats == o.floats &&
           strings == o.strings;
  }
  template <typename H>
  friend H AbslHashValue(H h, const LibraryRequest& r) {
    h = H::combine(std::move(h), r.op, r.ints, r.floats, r.strings);
    for (const auto* list : {&r.inputs, &r.outputs}) {
      for (const OperandShape& o : *list) {
        h = H::combine(std::move(h), o.present, static_cast<int>(o.dtype), o.sizes, o.strides, o.constant);
      }
    }
    return h;
  }
};

// Receives parts of an op's first output, which is dense, as they are completed: on the threads that made them, and so
// in their caches.
class PartListener {
 public:
  virtual ~PartListener() = default;
  // Elements [begin, end), in the order of memory: multiples of the op's PartUnit().
  virtual void OnPart(int64_t begin, int64_t end) const = 0;
};

struct LibraryContext {
  ThreadPool* pool = nullptr;  // null: on the caller's thread
  int width = 1;
  const PartListener* listener = nullptr;

  template <typename F>
  void For(int64_t count, F&& f) const {
    if (pool != nullptr) return pool->For(count, width, f);
    for (int64_t i = 0; i < count; ++i) f(i);
  }
};

// An operator for fixed shapes. Immutable; several threads may run it at the same time.
class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
  // Addresses of the operands' first elements, in the order of the request; null if absent. Returns kFailedPrecondition
  // for data that PyTorch would refuse, too.
  virtual absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                           absl::Span<char* const> outputs) const = 0;
  // If 0, a listener gets no parts. Otherwise a successful run reports each element of the first output once.
  virtual int64_t PartUnit() const { return 0; }

  // Names the implementation that was chosen, and why those before it in the operator's list do not apply: "tiles
  // (rows: the product is not small)". Empty for operators that have one.
  const std::string& implementation() const { return implementation_; }
  void set_implementation(std::string text) { implementation_ = std::move(text); }

 private:
  std::string implementation_;
};

class Library {
 public:
  // `on_packed` is called after a constant operand was packed (packed_weights.h).
  explicit Library(std::function<void(const PackedWeights::Source&)> on_packed = nullptr)
      : packed_(std::move(on_packed)) {}

  // Returns the op from the cache, or makes it. Thread-safe. Returns kUnimplemented if there is no such op, or not for
  // these dtypes, and kInvalidArgument for shapes that do not fit each other. The cache keeps the ops that were used
  // last, of about 64 MiB; packed constants do not count, because all ops share them.
  absl::StatusOr<std::shared_ptr<const PreparedOp>> Prepare(const LibraryRequest& request);

  // Returns the memory of packed constants.
  int64_t packed_bytes() const { return packed_.bytes(); }

 private:
  struct Cached {
    std::shared_ptr<const PreparedOp> op;
    int64_t bytes = 0;
    std::list<const LibraryRequest*>::iterator used;
  };

  PackedWeights packed_;
  std::mutex mutex_;
  // A hash table of the standard library: one of Abseil cannot be used or destroyed once it lacked memory to grow.
  std::unordered_map<LibraryRequest, Cached, absl::Hash<LibraryRequest>> cache_;
  std::list<const LibraryRequest*> used_;  // the last one first
  int64_t cached_bytes_ = 0;
};

// Returns whether an op of that name exists.
bool IsLibraryOp(absl::string_view op);

namespace library_internal {

using MakeResult = absl::StatusOr<std::unique_ptr<PreparedOp>>;

// An operator and the function that makes it, which is declared in the header of its subject (matmul.h, sort.h).
struct LibraryEntry {
  const char* name;
  MakeResult (*make)(const LibraryRequest& r, PackedWeights* packed);  // constants in other layouts come from `packed`
};

// Checks the number and the kinds of operands; the message names the op.
absl::Status CheckArity(const LibraryRequest& r, int min_inputs, int max_inputs, int min_outputs, int max_outputs,
                        int ints);

// The sizes, for messages: "[2, 3]".
std::string Show(const OperandShape& o);

}  // namespace library_internal
}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_LIBRARY_H_
