// Types of the results of matrix factorizations: systems of equations, inverses, determinants, Cholesky factors, QR,
// singular values and eigenvalues of Hermitian matrices. Matrices are returned in column-major order, as LAPACK leaves
// them.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"

namespace smelt::op_internal {
namespace {

// Returns an argument that holds matrices, in floating point of at least 32 bits.
absl::StatusOr<TensorType> MatricesArg(Ctx& c, absl::string_view name, bool square) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, c.call.GetTensor(name));
  if (t.rank() < 2) return c.call.Error("The input tensor must have at least 2 dimensions.");
  if (!IsFloating(*t.dtype) && !IsComplex(*t.dtype)) {
    return c.call.Error(absl::StrCat("Expected a floating point or complex tensor as input. Got ", Name(*t.dtype)));
  }
  if (IsFloating(*t.dtype) && ItemSize(*t.dtype) < 4) {
    return c.call.Error(absl::StrCat("Low precision dtypes not supported. Got ", Name(*t.dtype)));
  }
  const Expr &rows = (*t.sizes)[t.rank() - 2], &columns = (*t.sizes)[t.rank() - 1];
  if (square && !c.decide.Equal(rows, columns)) {
    return c.call.Error(absl::StrCat("must be batches of square matrices, but they are ", rows.ToString(), " by ",
                                     columns.ToString(), " matrices"));
  }
  return t;
}

void AddColumnMajor(Ctx& c, DType t, std::vector<Expr> sizes) {
  std::vector<Expr> strides = view_rules::ContiguousStrides(c.decide, sizes);
  if (const size_t rank = sizes.size(); rank >= 2) {
    strides[rank - 1] = c.decide.Equal(sizes[rank - 2], Expr(0)) ? Expr(1) : sizes[rank - 2];
    strides[rank - 2] = 1;
  }
  c.AddStrided(t, std::move(sizes), std::move(strides));
}

std::vector<Expr> WithoutLast(const std::vector<Expr>& sizes, int count) {
  return std::vector<Expr>(sizes.begin(), sizes.end() - count);
}

absl::Status Inverse(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "A", true));
  AddColumnMajor(c, *a.dtype, *a.sizes);
  c.Add(DType::kInt32, WithoutLast(*a.sizes, 2));
  return absl::OkStatus();
}

absl::Status Cholesky(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "self", true));
  AddColumnMajor(c, *a.dtype, *a.sizes);
  c.Add(DType::kInt32, WithoutLast(*a.sizes, 2));
  return absl::OkStatus();
}

// Adds LU and the pivots.
void AddFactors(Ctx& c, const TensorType& a) {
  AddColumnMajor(c, *a.dtype, *a.sizes);
  c.Add(DType::kInt32, WithoutLast(*a.sizes, 1));
}

absl::Status Determinant(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "A", true));
  const std::vector<Expr> batch = WithoutLast(*a.sizes, 2);
  c.Add(*a.dtype, batch);
  if (c.call.op().name() == "aten::_linalg_slogdet") {
    const bool is_double = *a.dtype == DType::kFloat64 || *a.dtype == DType::kComplex128;
    c.Add(is_double ? DType::kFloat64 : DType::kFloat32, batch);
  }
  AddFactors(c, a);
  return absl::OkStatus();
}

// Returns the broadcast batch sizes, followed by the second tensor's last two sizes.
absl::StatusOr<std::vector<Expr>> BroadcastBatch(Ctx& c, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const std::vector<std::vector<Expr>> batches = {WithoutLast(a, 2), WithoutLast(b, 2)};
  auto sizes = view_rules::BroadcastSizes(c.decide, batches);
  if (!sizes.ok()) return ErrorIn(c.call, sizes.status());
  sizes->insert(sizes->end(), b.end() - 2, b.end());
  return *sizes;
}

absl::Status CheckFits(Ctx& c, const TensorType& a, const TensorType& b, const std::vector<Expr>& sizes, bool left) {
  if (*a.dtype != *b.dtype) {
    return c.call.Error(absl::StrCat("Expected A and B to have the same dtype, but found A of type ", Name(*a.dtype),
                                     " and B of type ", Name(*b.dtype), " instead"));
  }
  const Expr &rows = (*a.sizes)[a.rank() - 1], &have = sizes[sizes.size() - (left ? 2 : 1)];
  if (c.decide.Equal(rows, have)) return absl::OkStatus();
  return c.call.Error(absl::StrCat("Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B", " (",
                                   rows.ToString(), " and ", have.ToString(), ")"));
}

// B is one right-hand side, or one per matrix if it has as many dims as A's rows have.
absl::Status Solve(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "A", true));
  SMELT_ASSIGN_OR_RETURN(TensorType b, c.call.GetTensor("B"));
  SMELT_ASSIGN_OR_RETURN(bool left, c.call.GetBoolOr("left", true));
  std::vector<Expr> right = *b.sizes;
  const std::vector<Expr> rows = WithoutLast(*a.sizes, 1);
  bool is_vector = b.rank() == 1;
  if (!is_vector && right.size() == rows.size()) {
    is_vector = true;
    for (size_t d = 0; d < rows.size(); ++d) is_vector = is_vector && c.decide.Equal(rows[d], right[d]);
  }
  if (right.empty()) return c.call.Error("B must have at least 1 dimension");
  if (is_vector && !left)
    return c.call.Error("Vector broadcasting of the left hand side is not supported for left=False");
  if (is_vector) right.push_back(1);
  SMELT_RETURN_IF_ERROR(CheckFits(c, a, b, right, left));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, BroadcastBatch(c, *a.sizes, right));
  if (is_vector) sizes.pop_back();
  if (left) {
    AddColumnMajor(c, *a.dtype, std::move(sizes));
  } else {
    c.Add(*a.dtype, std::move(sizes));
  }
  if (c.call.op().name() == "aten::_linalg_solve_ex") AddFactors(c, a);
  c.Add(DType::kInt32, WithoutLast(*a.sizes, 2));
  return absl::OkStatus();
}

absl::Status SolveTriangular(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "self", true));
  SMELT_ASSIGN_OR_RETURN(TensorType b, MatricesArg(c, "B", false));
  SMELT_ASSIGN_OR_RETURN(bool left, c.call.GetBoolOr("left", true));
  SMELT_RETURN_IF_ERROR(CheckFits(c, a, b, *b.sizes, left));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, BroadcastBatch(c, *a.sizes, *b.sizes));
  AddColumnMajor(c, *a.dtype, std::move(sizes));
  return absl::OkStatus();
}

// linalg_qr(A, mode) -> (Q, R)
absl::Status Qr(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "A", false));
  SMELT_ASSIGN_OR_RETURN(std::string mode, c.call.GetString("mode"));
  if (mode != "reduced" && mode != "complete" && mode != "r") {
    return c.call.Error(absl::StrCat("qr received unrecognized mode '", mode,
                                     "' but expected one of 'reduced' (default), 'r', or 'complete'"));
  }
  const Expr &rows = (*a.sizes)[a.rank() - 2], &columns = (*a.sizes)[a.rank() - 1];
  const Expr width = mode == "complete" ? rows : Min(rows, columns);
  std::vector<Expr> q = WithoutLast(*a.sizes, 1), r = WithoutLast(*a.sizes, 2);
  q.push_back(width);
  r.insert(r.end(), {width, columns});
  if (mode == "r") {
    c.Add(*a.dtype, {Expr(0)});
  } else {
    AddColumnMajor(c, *a.dtype, std::move(q));
  }
  AddColumnMajor(c, *a.dtype, std::move(r));
  return absl::OkStatus();
}

// _linalg_svd(A, full_matrices, compute_uv) -> (U, S, Vh)
absl::Status Svd(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "A", false));
  SMELT_ASSIGN_OR_RETURN(bool full, c.call.GetBoolOr("full_matrices", false));
  SMELT_ASSIGN_OR_RETURN(bool vectors, c.call.GetBoolOr("compute_uv", true));
  const Expr &rows = (*a.sizes)[a.rank() - 2], &columns = (*a.sizes)[a.rank() - 1], few = Min(rows, columns);
  const auto sizes = [&](std::vector<Expr> last) {
    std::vector<Expr> s = WithoutLast(*a.sizes, 2);
    s.insert(s.end(), last.begin(), last.end());
    return s;
  };
  const auto add_vectors = [&](std::vector<Expr> last) {
    if (vectors) {
      AddColumnMajor(c, *a.dtype, sizes(std::move(last)));
    } else {
      c.Add(*a.dtype, {Expr(0)});
    }
  };
  add_vectors({rows, full ? rows : few});
  c.Add(RealOf(*a.dtype), sizes({few}));
  add_vectors({full ? columns : few, columns});
  return absl::OkStatus();
}

// _linalg_eigh(A, UPLO, compute_v) -> (eigenvalues, eigenvectors)
absl::Status Eigh(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, MatricesArg(c, "A", true));
  SMELT_ASSIGN_OR_RETURN(std::string uplo, c.call.GetString("UPLO"));
  if (uplo != "L" && uplo != "U" && uplo != "l" && uplo != "u") {
    return c.call.Error(absl::StrCat("Expected UPLO argument to be 'L' or 'U', but got ", uplo));
  }
  SMELT_ASSIGN_OR_RETURN(bool vectors, c.call.GetBoolOr("compute_v", true));
  c.Add(RealOf(*a.dtype), WithoutLast(*a.sizes, 1));
  if (vectors) {
    AddColumnMajor(c, *a.dtype, *a.sizes);
  } else {
    c.Add(*a.dtype, {Expr(0)});
  }
  return absl::OkStatus();
}

}  // namespace

void AddFactorizationTypeRules(RuleTable& r) {
  AddRule(r, "linalg_inv_ex", Inverse);
  AddRule(r, "linalg_cholesky_ex", Cholesky);
  AddRule(r, "_linalg_det _linalg_slogdet", Determinant);
  AddRule(r, "linalg_solve_ex _linalg_solve_ex", Solve);
  AddRule(r, "linalg_solve_triangular", SolveTriangular);
  AddRule(r, "linalg_qr", Qr);
  AddRule(r, "_linalg_svd", Svd);
  AddRule(r, "_linalg_eigh", Eigh);
}

}  // namespace smelt::op_internal
