#include "smelt/runtime/library/orthogonal.h"

#include <algorithm>
#include <atomic>
#include <complex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matrices.h"
#include "smelt/runtime/library/orthogonal_factors.h"

namespace smelt::library_internal {
namespace {

template <typename M, typename T>
Columns<T> Load(const Matrices& m, int64_t i, const char* data) {
  const M* p = reinterpret_cast<const M*>(data) + m.OffsetOf(i);
  Columns<T> out(static_cast<size_t>(m.columns), std::vector<T>(static_cast<size_t>(m.rows)));
  for (int64_t c = 0; c < m.columns; ++c) {
    for (int64_t r = 0; r < m.rows; ++r) {
      out[static_cast<size_t>(c)][static_cast<size_t>(r)] =
          static_cast<T>(p[r * m.row_stride() + c * m.column_stride()]);
    }
  }
  return out;
}

// Stores the columns, or their conjugates as rows; nothing if the result is not read.
template <typename M, typename T>
void Store(const OperandShape& shape, int64_t i, const Columns<T>& from, bool adjoint, char* data) {
  if (!shape.present) return;
  const Matrices m(shape);
  M* p = reinterpret_cast<M*>(data) + m.OffsetOf(i);
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) {
      const T v = adjoint ? orthogonal_internal::Conj(from[static_cast<size_t>(r)][static_cast<size_t>(c)])
                          : from[static_cast<size_t>(c)][static_cast<size_t>(r)];
      p[r * m.row_stride() + c * m.column_stride()] = static_cast<M>(v);
    }
  }
}

template <typename Real>
void StoreNumbers(const OperandShape& shape, int64_t i, const std::vector<double>& from, char* data) {
  if (!shape.present) return;
  const int last = shape.rank() - 1;
  Real* p = reinterpret_cast<Real*>(data) + Matrices::OffsetOf(shape, i, last);
  for (size_t k = 0; k < from.size(); ++k)
    p[static_cast<int64_t>(k) * shape.strides[last]] = static_cast<Real>(from[k]);
}

// The results, any of which may be absent: Q and R for "qr", s, U and V^H for "svd", eigenvalues and vectors for
// "eigh".
class OrthogonalOp : public PreparedOp {
 public:
  explicit OrthogonalOp(const LibraryRequest& r) : request_(r), a_(r.inputs[0]) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    std::atomic<bool> ok = true;
    context.For(a_.count, [&](int64_t i) {
      bool one = true;
      switch (a_.shape.dtype) {
        case DType::kFloat32:
          one = One<float, float, double>(i, inputs, outputs);
          break;
        case DType::kFloat64:
          one = One<double, double, double>(i, inputs, outputs);
          break;
        case DType::kComplex64:
          one = One<std::complex<float>, float, std::complex<double>>(i, inputs, outputs);
          break;
        default:
          one = One<std::complex<double>, double, std::complex<double>>(i, inputs, outputs);
      }
      if (!one) ok = false;
    });
    if (ok) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(request_.op, ": the algorithm does not converge: a matrix has elements that are not finite"));
  }

  static MakeResult Make(const LibraryRequest& r);

 private:
  enum class Kind { kQr, kSvd, kEigh };

  template <typename M, typename Real, typename T>
  bool One(int64_t i, absl::Span<char* const> inputs, absl::Span<char* const> outputs) const {
    const std::vector<OperandShape>& to = request_.outputs;
    Columns<T> a = Load<M, T>(a_, i, inputs[0]);
    switch (kind_) {
      case Kind::kQr: {
        const QrFactors<T> f = FactorQr(std::move(a), static_cast<size_t>(a_.rows), complete_);
        Store<M>(to[0], i, f.q, false, outputs[0]);
        Store<M>(to[1], i, f.r, false, outputs[1]);
        return true;
      }
      case Kind::kSvd: {
        const bool vectors = to[1].present || to[2].present;
        const SingularFactors<T> f = FactorSingular(std::move(a), static_cast<size_t>(a_.rows), complete_, vectors);
        if (!f.ok) return false;
        StoreNumbers<Real>(to[0], i, f.s, outputs[0]);
        Store<M>(to[1], i, f.u, false, outputs[1]);
        Store<M>(to[2], i, f.v, true, outputs[2]);
        return true;
      }
      case Kind::kEigh: {
        const EigenFactors<T> f = FactorHermitian(std::move(a), upper_);
        StoreNumbers<Real>(to[0], i, f.values, outputs[0]);
        Store<M>(to[1], i, f.vectors, false, outputs[1]);
        return true;
      }
    }
    return true;
  }

  LibraryRequest request_;
  Matrices a_;
  Kind kind_ = Kind::kQr;
  bool complete_ = false;  // of "qr": Q is square; of "svd": U and V are
  bool upper_ = false;     // of "eigh": the triangle that is looked at
};

MakeResult OrthogonalOp::Make(const LibraryRequest& r) {
  const auto invalid = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(r.op, ": ", what));
  };
  const Kind kind = r.op == "qr" ? Kind::kQr : r.op == "svd" ? Kind::kSvd : Kind::kEigh;
  const int results = kind == Kind::kSvd ? 3 : 2;
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 0, results, kind == Kind::kEigh ? 1 : 0));
  if (static_cast<int>(r.outputs.size()) != results) return invalid(absl::StrCat(results, " results are expected"));
  const OperandShape& a = r.inputs[0];
  if (a.rank() < 2) return invalid("matrices are expected");
  if (!IsSingleOrDouble(a.dtype)) return absl::UnimplementedError(absl::StrCat(r.op, " of ", Name(a.dtype)));
  const Matrices m(a);
  if (std::max(m.rows, m.columns) > kLargestMatrix) {
    return invalid(absl::StrCat("a matrix of ", m.rows, " rows and ", m.columns, " columns; at most ", kLargestMatrix));
  }
  const int64_t few = std::min(m.rows, m.columns);
  const std::vector<int64_t> batch(a.sizes.begin(), a.sizes.end() - 2);
  const auto has = [&](const OperandShape& o, DType t, std::vector<int64_t> last) {
    std::vector<int64_t> sizes = batch;
    sizes.insert(sizes.end(), last.begin(), last.end());
    return !o.present || (o.dtype == t && o.sizes == sizes);
  };
  // A matrix of one of two sizes, the second if it is complete.
  const auto either = [&](const OperandShape& o, std::vector<int64_t> less, std::vector<int64_t> more, bool* complete) {
    if (!o.present || has(o, a.dtype, less)) return true;
    *complete = true;
    return has(o, a.dtype, more);
  };
  const DType real = a.dtype == DType::kComplex64    ? DType::kFloat32
                     : a.dtype == DType::kComplex128 ? DType::kFloat64
                                                     : a.dtype;
  auto op = std::make_unique<OrthogonalOp>(r);
  op->kind_ = kind;
  bool fits = false;
  if (kind == Kind::kQr) {
    const bool q = either(r.outputs[0], {m.rows, few}, {m.rows, m.rows}, &op->complete_);
    const bool rest = either(r.outputs[1], {few, m.columns}, {m.rows, m.columns}, &op->complete_);
    // Both must be of one kind: a square Q with an R of a few rows would be read beyond its end.
    const int64_t width = op->complete_ ? m.rows : few;
    fits = q && rest && has(r.outputs[0], a.dtype, {m.rows, width}) && has(r.outputs[1], a.dtype, {width, m.columns});
  } else if (kind == Kind::kSvd) {
    fits = has(r.outputs[0], real, {few}) && either(r.outputs[1], {m.rows, few}, {m.rows, m.rows}, &op->complete_) &&
           either(r.outputs[2], {few, m.columns}, {m.columns, m.columns}, &op->complete_);
  } else {
    fits = m.rows == m.columns && has(r.outputs[0], real, {m.rows}) && has(r.outputs[1], a.dtype, {m.rows, m.rows});
    op->upper_ = r.ints[0] != 0;
  }
  if (!fits) return invalid("results do not fit the matrices");
  return std::unique_ptr<PreparedOp>(std::move(op));
}

}  // namespace

MakeResult MakeOrthogonal(const LibraryRequest& r, PackedWeights*) { return OrthogonalOp::Make(r); }

}  // namespace smelt::library_internal
