// Systems of equations, inverses, determinants and Cholesky factors by textbook methods; QR, singular values and
// eigenvalues. All in complex double.
#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/eval/orthogonal_factors.h"

namespace smelt::eval_internal {
namespace {

using Matrix = std::vector<std::vector<Cx>>;

// Returns the matrices in the last two dims.
std::vector<Matrix> MatricesOf(const Tensor& t) {
  const std::vector<Cx> x = Read<Cx>(t);
  const int64_t rows = t.sizes()[t.rank() - 2], columns = t.sizes()[t.rank() - 1];
  std::vector<Matrix> out(Product(t.sizes().subspan(0, t.rank() - 2)));
  auto next = x.begin();
  for (Matrix& m : out) {
    for (int64_t r = 0; r < rows; ++r, next += columns) m.emplace_back(next, next + columns);
  }
  return out;
}

void WriteNumbers(const Tensor& to, const std::vector<Cx>& values) {
  if (IsComplex(to.dtype())) return Write(to, values);
  std::vector<double> real;
  for (const Cx& v : values) real.push_back(v.real());
  Write(to, real);
}
void WriteMatrices(const Tensor& to, const std::vector<Matrix>& matrices) {
  std::vector<Cx> flat;
  for (const Matrix& m : matrices) {
    for (const std::vector<Cx>& row : m) flat.insert(flat.end(), row.begin(), row.end());
  }
  WriteNumbers(to, flat);
}

// Gaussian elimination: `a` becomes upper triangular, with the same row operations on `b`. Returns the determinant, and
// the first pivot that is 0, counted from 1.
struct Eliminated {
  std::vector<Cx> pivots;
  double sign = 1;
  int64_t info = 0;
};
Eliminated Eliminate(Matrix& a, Matrix& b) {
  Eliminated out;
  const size_t n = a.size();
  for (size_t j = 0; j < n; ++j) {
    const auto largest = std::max_element(a.begin() + j, a.end(), [&](const auto& x, const auto& y) {
      return std::abs(x[j].real()) + std::abs(x[j].imag()) < std::abs(y[j].real()) + std::abs(y[j].imag());
    });
    if (largest != a.begin() + j) {
      if (!b.empty()) std::swap(b[j], b[largest - a.begin()]);
      std::swap(a[j], *largest);
      out.sign = -out.sign;
    }
    out.pivots.push_back(a[j][j]);
    if (a[j][j] == Cx(0)) {
      if (out.info == 0) out.info = static_cast<int64_t>(j) + 1;
      continue;
    }
    for (size_t i = j + 1; i < n; ++i) {
      const Cx factor = a[i][j] / a[j][j];
      for (size_t k = j; k < n; ++k) a[i][k] -= factor * a[j][k];
      if (b.empty()) continue;
      for (size_t k = 0; k < b[i].size(); ++k) b[i][k] -= factor * b[j][k];
    }
  }
  return out;
}

// Replaces b by the solution of a triangular system.
void Substitute(const Matrix& a, Matrix& b, bool upper, bool unit) {
  const size_t n = a.size();
  for (size_t step = 0; step < n; ++step) {
    const size_t i = upper ? n - 1 - step : step;
    for (size_t k = 0; k < b[i].size(); ++k) {
      for (size_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) b[i][k] -= a[i][j] * b[j][k];
      if (!unit) b[i][k] /= a[i][i];
    }
  }
}

absl::StatusOr<Values> Checked(const Call& c, std::vector<Tensor> outs, const std::vector<int64_t>& info,
                               absl::string_view failure) {
  for (size_t i = 0; i < info.size(); ++i) {
    if (info[i] == 0 || !c.B("check_errors")) continue;
    return c.Error(absl::StrCat("(Batch element ", i, "): the matrix is ", failure));
  }
  Write(outs.back(), info);
  Values values;
  for (const Tensor& t : outs) values.push_back(EvalValue(t));
  return values;
}

absl::StatusOr<Values> Inverse(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  std::vector<Matrix> a = MatricesOf(c.T("A")), x;
  std::vector<int64_t> info;
  for (Matrix& m : a) {
    Matrix b(m.size(), std::vector<Cx>(m.size()));
    for (size_t d = 0; d < m.size(); ++d) b[d][d] = 1;
    info.push_back(Eliminate(m, b).info);
    Substitute(m, b, true, false);
    x.push_back(std::move(b));
  }
  WriteMatrices(outs[0], x);
  return Checked(c, outs, info, "singular");
}

// Returns whether both have matrices of one batch and the unknowns are on the right. The decomposition brings all other
// calls into this form.
bool IsPlain(const Call& c, const Tensor& a, const Tensor& b) {
  return c.B("left", true) && a.rank() == b.rank() && a.rank() >= 2 &&
         a.sizes().subspan(0, a.rank() - 1) == b.sizes().subspan(0, b.rank() - 1);
}

absl::StatusOr<Values> Solve(Call& c) {
  const Tensor given = c.T("A"), right = c.T("B");
  if (!IsPlain(c, given, right)) return RunDecomposed(c);
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  std::vector<Matrix> a = MatricesOf(given), b = MatricesOf(right);
  std::vector<int64_t> info;
  for (size_t i = 0; i < a.size(); ++i) {
    info.push_back(Eliminate(a[i], b[i]).info);
    Substitute(a[i], b[i], true, false);
  }
  WriteMatrices(outs[0], b);
  return Checked(c, outs, info, "singular");
}

absl::StatusOr<Values> SolveTriangular(Call& c) {
  const Tensor given = c.T("self"), right = c.T("B");
  if (!IsPlain(c, given, right)) return RunDecomposed(c);
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  std::vector<Matrix> a = MatricesOf(given), b = MatricesOf(right);
  for (size_t i = 0; i < a.size(); ++i) Substitute(a[i], b[i], c.B("upper"), c.B("unitriangular"));
  WriteMatrices(out, b);
  return Values{EvalValue(out)};
}

// _linalg_det(A) -> (result, LU, pivots), _linalg_slogdet(A) -> (sign, logabsdet, LU, pivots). The factors are left
// undefined, because no compiled graph may use them.
absl::StatusOr<Values> Determinant(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const bool logarithm = c.name() == "aten::_linalg_slogdet";
  std::vector<Cx> first;
  std::vector<double> second;
  Matrix none;
  for (Matrix& m : MatricesOf(c.T("A"))) {
    const Eliminated e = Eliminate(m, none);
    Cx result = e.sign;
    double sum = 0;
    for (const Cx& p : e.pivots) {
      result *= logarithm && p != Cx(0) ? p / std::abs(p) : p;
      sum += std::log(std::abs(p));
    }
    first.push_back(result);
    second.push_back(sum);
  }
  WriteNumbers(outs[0], first);
  if (logarithm) Write(outs[1], second);
  Values values(outs.size());
  for (size_t i = 0; i < (logarithm ? 2u : 1u); ++i) values[i] = EvalValue(outs[i]);
  return values;
}

absl::StatusOr<Values> Cholesky(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const bool upper = c.B("upper");
  std::vector<Matrix> a = MatricesOf(c.T("self")), x;
  std::vector<int64_t> info;
  for (const Matrix& m : a) {
    const size_t n = m.size();
    Matrix l(n, std::vector<Cx>(n));
    int64_t failed = 0;
    for (size_t i = 0; i < n && failed == 0; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        Cx sum = upper ? std::conj(m[j][i]) : m[i][j];
        for (size_t k = 0; k < j; ++k) sum -= l[i][k] * std::conj(l[j][k]);
        if (i != j) {
          l[i][j] = sum / l[j][j];
        } else if (sum.real() > 0) {
          l[i][i] = std::sqrt(sum.real());
        } else {
          failed = static_cast<int64_t>(i) + 1;
        }
      }
    }
    if (upper) {
      Matrix adjoint(n, std::vector<Cx>(n));
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) adjoint[j][i] = std::conj(l[i][j]);
      }
      l = std::move(adjoint);
    }
    x.push_back(std::move(l));
    info.push_back(failed);
  }
  WriteMatrices(outs[0], x);
  return Checked(c, outs, info, "not positive-definite");
}

Columns ColumnsOf(const Matrix& m, int64_t columns) {
  Columns out(static_cast<size_t>(columns), std::vector<Cx>(m.size()));
  for (size_t r = 0; r < m.size(); ++r) {
    for (size_t c = 0; c < out.size(); ++c) out[c][r] = m[r][c];
  }
  return out;
}
Matrix MatrixOf(const Columns& columns, int64_t rows) {
  Matrix out(static_cast<size_t>(rows), std::vector<Cx>(columns.size()));
  for (size_t r = 0; r < out.size(); ++r) {
    for (size_t c = 0; c < columns.size(); ++c) out[r][c] = columns[c][r];
  }
  return out;
}
// Returns the conjugated columns as rows.
Matrix AdjointOf(const Columns& columns) {
  Matrix out = columns;
  for (std::vector<Cx>& row : out) {
    for (Cx& v : row) v = std::conj(v);
  }
  return out;
}

Values ValuesOf(const std::vector<Tensor>& tensors) {
  Values values;
  for (const Tensor& t : tensors) values.push_back(EvalValue(t));
  return values;
}

// linalg_qr(A, mode) -> (Q, R)
absl::StatusOr<Values> Qr(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const Tensor a = c.T("A");
  const int64_t rows = a.sizes()[a.rank() - 2], columns = a.sizes()[a.rank() - 1];
  SMELT_ASSIGN_OR_RETURN(const std::string mode, c.op.GetString("mode"));
  const bool complete = mode == "complete";
  std::vector<Matrix> q, r;
  for (const Matrix& m : MatricesOf(a)) {
    QrFactors f = FactorQr(ColumnsOf(m, columns), static_cast<size_t>(rows), complete);
    q.push_back(MatrixOf(f.q, rows));
    r.push_back(MatrixOf(f.r, complete ? rows : std::min(rows, columns)));
  }
  if (mode != "r") WriteMatrices(outs[0], q);
  WriteMatrices(outs[1], r);
  return ValuesOf(outs);
}

// _linalg_svd(A, full_matrices, compute_uv) -> (U, S, Vh)
absl::StatusOr<Values> Svd(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const Tensor a = c.T("A");
  const int64_t rows = a.sizes()[a.rank() - 2], columns = a.sizes()[a.rank() - 1];
  const bool vectors = c.B("compute_uv", true);
  std::vector<Matrix> u, vh;
  std::vector<double> s;
  for (const Matrix& m : MatricesOf(a)) {
    SingularFactors f = FactorSingular(ColumnsOf(m, columns), static_cast<size_t>(rows), c.B("full_matrices"), vectors);
    if (!f.ok) {
      return c.Error("The algorithm failed to converge because the input matrix contained non-finite values.");
    }
    s.insert(s.end(), f.s.begin(), f.s.end());
    u.push_back(MatrixOf(f.u, rows));
    vh.push_back(AdjointOf(f.v));
  }
  Write(outs[1], s);
  if (vectors) {
    WriteMatrices(outs[0], u);
    WriteMatrices(outs[2], vh);
  }
  return ValuesOf(outs);
}

// _linalg_eigh(A, UPLO, compute_v) -> (eigenvalues, eigenvectors)
absl::StatusOr<Values> Eigh(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  SMELT_ASSIGN_OR_RETURN(const std::string uplo, c.op.GetString("UPLO"));
  std::vector<double> w;
  std::vector<Matrix> v;
  for (const Matrix& m : MatricesOf(c.T("A"))) {
    const int64_t n = static_cast<int64_t>(m.size());
    const EigenFactors f = FactorHermitian(ColumnsOf(m, n), uplo == "U" || uplo == "u");
    w.insert(w.end(), f.values.begin(), f.values.end());
    v.push_back(MatrixOf(f.vectors, n));
  }
  Write(outs[0], w);
  if (c.B("compute_v", true)) WriteMatrices(outs[1], v);
  return ValuesOf(outs);
}

}  // namespace

void AddFactorizationKernels(KernelTable& t) {
  t["aten::linalg_inv_ex"] = Inverse;
  t["aten::linalg_solve_ex"] = Solve;
  t["aten::linalg_solve_triangular"] = SolveTriangular;
  t["aten::_linalg_det"] = t["aten::_linalg_slogdet"] = Determinant;
  t["aten::linalg_cholesky_ex"] = Cholesky;
  t["aten::linalg_qr"] = Qr;
  t["aten::_linalg_svd"] = Svd;
  t["aten::_linalg_eigh"] = Eigh;
}

}  // namespace smelt::eval_internal
