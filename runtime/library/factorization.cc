#include "smelt/runtime/library/factorization.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/elimination.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matrices.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

// Only these are compiled for each level, and once for both widths of a number: the copies that load and store a matrix
// would be most of the code.

template <typename T>
__attribute__((noinline)) int64_t SolveAtBestLevel(T* a, T* b, int64_t n, int64_t k, int triangle, bool unit) {
  int64_t info = 0;
  AtBestLevel([&]() SMELT_ALWAYS_INLINE {
    bool odd;
    if (triangle == 0) info = Eliminate(a, b, n, k, &odd);
    Substitute(a, b, n, k, triangle != 2, unit);
  });
  return info;
}

// Returns whether an odd number of rows was exchanged.
template <typename T>
__attribute__((noinline)) bool EliminateAtBestLevel(T* a, int64_t n) {
  bool odd = false;
  AtBestLevel([&]() SMELT_ALWAYS_INLINE { Eliminate<T>(a, nullptr, n, 0, &odd); });
  return odd;
}

template <typename T>
__attribute__((noinline)) int64_t FactorPositiveAtBestLevel(T* a, int64_t n) {
  int64_t info = 0;
  AtBestLevel([&]() SMELT_ALWAYS_INLINE { info = FactorPositive(a, n); });
  return info;
}

// The common part of the three: A, one matrix after the other, and errors found in one of them.
class FactorizationOp : public PreparedOp {
 public:
  FactorizationOp(const LibraryRequest& r) : request_(r), a_(r.inputs[0]) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    std::atomic<int64_t> first_failed = a_.count;
    const int64_t n = std::max<int64_t>(1, a_.rows);
    // A chunk is some ten thousand operations: a thousand matrices of 3 x 3.
    const int64_t chunk = std::max<int64_t>(1, 32768 / (n * n * n));
    context.For((a_.count + chunk - 1) / chunk, [&](int64_t c) {
      const int64_t end = std::min(a_.count, (c + 1) * chunk);
      int64_t failed = a_.count;
      const auto all = [&](auto memory, auto number) {
        for (int64_t i = c * chunk; i < end; ++i) {
          if (One<decltype(memory), decltype(number)>(i, inputs, outputs) != 0) failed = std::min(failed, i);
        }
      };
      switch (a_.shape.dtype) {
        case DType::kFloat32:
          all(float(), double());
          break;
        case DType::kFloat64:
          all(double(), double());
          break;
        case DType::kComplex64:
          all(std::complex<float>(), std::complex<double>());
          break;
        default:
          all(std::complex<double>(), std::complex<double>());
      }
      int64_t seen = first_failed;
      while (failed < seen && !first_failed.compare_exchange_weak(seen, failed)) {
      }
    });
    if (!checks_ || first_failed == a_.count) return absl::OkStatus();
    const std::string which = a_.shape.rank() > 2 ? absl::StrCat("(Batch element ", first_failed.load(), "): ") : "";
    return absl::FailedPreconditionError(absl::StrCat(request_.op, ": ", which, failure_));
  }

  static MakeResult Make(const LibraryRequest& r);

 private:
  enum class Kind { kSolve, kDeterminant, kCholesky };

  template <typename M, typename T>
  int64_t One(int64_t i, absl::Span<char* const> inputs, absl::Span<char* const> outputs) const {
    const int64_t n = a_.rows;
    T* a = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kA, n * n * static_cast<int64_t>(sizeof(T))));
    LoadMatrix<M>(a_, i, inputs[0], a);
    switch (kind_) {
      case Kind::kSolve:
        return Solve<M, T>(a, i, inputs, outputs);
      case Kind::kDeterminant:
        Determinant<M, T>(a, i, outputs);
        return 0;
      case Kind::kCholesky:
        return Cholesky<M, T>(a, i, outputs);
    }
    return 0;
  }

  template <typename M, typename T>
  int64_t Solve(T* a, int64_t i, absl::Span<char* const> inputs, absl::Span<char* const> outputs) const {
    const Matrices x(request_.outputs[0]);
    const int64_t n = a_.rows, k = x.columns;
    T* b = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kWeights, n * k * static_cast<int64_t>(sizeof(T))));
    if (request_.inputs.size() > 1 && request_.inputs[1].present) {
      LoadMatrix<M>(Matrices(request_.inputs[1]), i, inputs[1], b);
    } else {
      std::fill(b, b + n * k, T(0));
      for (int64_t d = 0; d < n; ++d) b[d * k + d] = T(1);
    }
    const int64_t info = SolveAtBestLevel(a, b, n, k, triangle_, unit_);
    StoreMatrix<M>(x, i, b, outputs[0]);
    StoreInfo(i, info, outputs);
    return info;
  }

  template <typename M, typename T>
  void Determinant(T* a, int64_t i, absl::Span<char* const> outputs) const {
    const int64_t n = a_.rows;
    T sign = EliminateAtBestLevel(a, n) ? T(-1) : T(1), product = sign;
    double logarithm = 0;
    for (int64_t d = 0; d < n; ++d) {
      const T u = a[d * n + d];
      const double size = std::abs(u);
      product *= u;
      logarithm += std::log(size);
      sign *= size == 0 ? T(0) : u / size;
    }
    const int dims = a_.shape.rank() - 2;
    M* out = reinterpret_cast<M*>(outputs[0]) + Matrices::OffsetOf(request_.outputs[0], i, dims);
    *out = static_cast<M>(request_.outputs.size() == 1 ? product : sign);
    if (request_.outputs.size() == 1) return;
    using Real = decltype(std::real(M()));
    reinterpret_cast<Real*>(outputs[1])[Matrices::OffsetOf(request_.outputs[1], i, dims)] =
        static_cast<Real>(logarithm);
  }

  template <typename M, typename T>
  int64_t Cholesky(T* a, int64_t i, absl::Span<char* const> outputs) const {
    const int64_t n = a_.rows;
    if (upper_) {
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < r; ++c) a[r * n + c] = Conjugate(a[c * n + r]);
      }
    }
    const int64_t info = FactorPositiveAtBestLevel(a, n);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = r + 1; c < n; ++c) {
        a[r * n + c] = T(0);
        if (upper_) std::swap(a[r * n + c], a[c * n + r]), a[r * n + c] = Conjugate(a[r * n + c]);
      }
    }
    StoreMatrix<M>(Matrices(request_.outputs[0]), i, a, outputs[0]);
    StoreInfo(i, info, outputs);
    return info;
  }

  void StoreInfo(int64_t i, int64_t info, absl::Span<char* const> outputs) const {
    if (request_.outputs.size() < 2 || !request_.outputs[1].present) return;
    reinterpret_cast<int32_t*>(outputs[1])[Matrices::OffsetOf(request_.outputs[1], i, a_.shape.rank() - 2)] =
        static_cast<int32_t>(info);
  }

  LibraryRequest request_;
  Matrices a_;
  Kind kind_ = Kind::kSolve;
  int triangle_ = 0;  // that A is: 0 none, 1 the upper, 2 the lower
  bool unit_ = false, upper_ = false, checks_ = false;
  std::string failure_;
};

MakeResult FactorizationOp::Make(const LibraryRequest& r) {
  const auto invalid = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(r.op, ": ", what));
  };
  const Kind kind = r.op == "solve" ? Kind::kSolve : r.op == "cholesky" ? Kind::kCholesky : Kind::kDeterminant;
  const bool solves = kind == Kind::kSolve;
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, solves ? 2 : 1, 1, 2, solves ? 3 : kind == Kind::kCholesky ? 2 : 0));
  const OperandShape& a = r.inputs[0];
  if (!IsSingleOrDouble(a.dtype)) return absl::UnimplementedError(absl::StrCat(r.op, " of ", Name(a.dtype)));
  if (a.rank() < 2 || a.sizes[a.rank() - 1] != a.sizes[a.rank() - 2]) return invalid("square matrices are expected");
  const int64_t n = a.sizes[a.rank() - 1];
  const std::vector<int64_t> batch(a.sizes.begin(), a.sizes.end() - 2);
  // Returns whether an operand has a matrix of n rows for each matrix of A.
  const auto fits = [&](const OperandShape& o) {
    return o.rank() == a.rank() && o.dtype == a.dtype && o.sizes[o.rank() - 2] == n &&
           std::equal(batch.begin(), batch.end(), o.sizes.begin()) && o.sizes.back() <= kLargestMatrix;
  };
  if (n > kLargestMatrix) return invalid(absl::StrCat("a matrix of ", n, " rows; at most ", kLargestMatrix));
  if (kind == Kind::kDeterminant) {
    const DType real = a.dtype == DType::kComplex64    ? DType::kFloat32
                       : a.dtype == DType::kComplex128 ? DType::kFloat64
                                                       : a.dtype;
    if (r.outputs[0].sizes != batch || r.outputs[0].dtype != a.dtype ||
        (r.outputs.size() > 1 &&
         (!r.outputs[1].present || r.outputs[1].sizes != batch || r.outputs[1].dtype != real))) {
      return invalid("results do not fit the matrices");
    }
  } else {
    const bool has_b = r.inputs.size() > 1 && r.inputs[1].present;
    if (!fits(r.outputs[0]) ||
        (has_b ? !fits(r.inputs[1]) || r.inputs[1].sizes != r.outputs[0].sizes : r.outputs[0].sizes.back() != n)) {
      return invalid("operands and results do not fit each other");
    }
    if (r.outputs.size() > 1 && r.outputs[1].present &&
        (r.outputs[1].sizes != batch || r.outputs[1].dtype != DType::kInt32)) {
      return invalid("info does not fit the matrices");
    }
  }
  auto op = std::unique_ptr<FactorizationOp>(new FactorizationOp(r));
  op->kind_ = kind;
  if (solves) {
    if (r.ints[0] < 0 || r.ints[0] > 2) return invalid("0, 1 or 2 is expected to say which triangle a matrix is");
    op->triangle_ = static_cast<int>(r.ints[0]);
    op->unit_ = r.ints[1] != 0;
    op->checks_ = r.ints[2] != 0;
    op->failure_ = "the matrix is singular";
  } else if (kind == Kind::kCholesky) {
    op->upper_ = r.ints[0] != 0;
    op->checks_ = r.ints[1] != 0;
    op->failure_ = "the matrix is not positive-definite";
  }
  return std::unique_ptr<PreparedOp>(std::move(op));
}

}  // namespace

MakeResult MakeFactorization(const LibraryRequest& r, PackedWeights*) { return FactorizationOp::Make(r); }

}  // namespace smelt::library_internal
