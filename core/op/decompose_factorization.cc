// Decomposes inverses, determinants and systems of equations into a few operators: linalg_inv_ex, linalg_cholesky_ex,
// _linalg_det, _linalg_slogdet, linalg_qr, _linalg_svd, _linalg_eigh, and linalg_solve_ex and linalg_solve_triangular
// whose operands have the same batch of matrices and the unknowns on the right.
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

Values First(ValueId v) { return std::vector<ValueId>{v}; }

Values Inverse(Emit& e, const OpCall& call) {
  return First(e.Multi("aten::linalg_inv_ex", {call.arg(0).value, e.Const(true)}, 2)[0]);
}

Values Cholesky(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool upper, call.GetBoolOr("upper", false));
  return First(e.Multi("aten::linalg_cholesky_ex", {call.arg(0).value, e.Const(upper), e.Const(true)}, 2)[0]);
}

Values Determinant(Emit& e, const OpCall& call) {
  return First(e.Multi("aten::_linalg_det", {call.arg(0).value}, 3)[0]);
}

Values SignAndLogarithm(Emit& e, const OpCall& call) {
  const std::vector<ValueId> r = e.Multi("aten::_linalg_slogdet", {call.arg(0).value}, 4);
  return std::vector<ValueId>{r[0], r[1]};
}

Values Logarithm(Emit& e, const OpCall& call) {
  const std::vector<ValueId> r = e.Multi("aten::_linalg_slogdet", {call.arg(0).value}, 4);
  if (!e.ok()) return e.status();
  if (IsComplex(e.DTypeOf(r[0]))) return First(e.Add(e.Log(r[0]), r[1]));
  const ValueId filled = e.Fill(r[1], std::numeric_limits<double>::quiet_NaN());
  return First(e.Where(e.EqN(r[0], -1), filled, r[1]));
}

Values Solve(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool left, call.GetBoolOr("left", true));
  return First(
      e.Multi("aten::linalg_solve_ex", {call.arg(0).value, call.arg(1).value, e.Const(left), e.Const(true)}, 2)[0]);
}

// Brings A and B into the form with the unknowns on the right: transposes them for X A = B, and broadcasts them to one
// batch. Returns whether that changed them.
bool MakePlain(Emit& e, ValueId* a, ValueId* b, bool left) {
  const ValueId a_given = *a, b_given = *b;
  if (!left) {
    *a = e.Transpose(*a, -2, -1);
    *b = e.Transpose(*b, -2, -1);
  }
  std::vector<Expr> sa = e.Sizes(*a), sb = e.Sizes(*b);
  const size_t rank = std::max(sa.size(), sb.size());
  sa.insert(sa.begin(), rank - sa.size(), Expr(1));
  sb.insert(sb.begin(), rank - sb.size(), Expr(1));
  for (size_t d = 0; d + 2 < rank; ++d) sa[d] = sb[d] = sa[d] == Expr(1) ? sb[d] : sa[d];
  *a = e.Expand(*a, sa);
  *b = e.Expand(*b, sb);
  return *a != a_given || *b != b_given;
}

// linalg_solve_ex(A, B, left, check_errors) -> (result, info), _linalg_solve_ex -> (result, LU, pivots, info)
Values SolveEx(Emit& e, const OpCall& call) {
  const bool has_factors = call.op().name() == "aten::_linalg_solve_ex";
  SMELT_ASSIGN_OR_RETURN(bool left, call.GetBoolOr("left", true));
  SMELT_ASSIGN_OR_RETURN(bool check, call.GetBoolOr("check_errors", false));
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.Rank(a) < 2 || e.Rank(b) < 1) return call.Error("matrices are expected");
  const std::vector<Expr> sa = e.Sizes(a), sb = e.Sizes(b);
  const bool is_vector = sb.size() == 1 || std::vector<Expr>(sa.begin(), sa.end() - 1) == sb;
  if (is_vector) b = e.Unsqueeze(b, -1);
  const bool changed = MakePlain(e, &a, &b, left);
  if (!changed && !is_vector && !has_factors) return std::vector<ValueId>();
  const std::vector<ValueId> r = e.Multi("aten::linalg_solve_ex", {a, b, e.Const(true), e.Const(check)}, 2);
  if (!e.ok()) return e.status();
  ValueId x = r[0];
  if (!left) x = e.Transpose(x, -2, -1);
  if (is_vector) x = e.Squeeze(x, -1);
  // There is one info per given matrix, not per matrix of the broadcast batch.
  ValueId info = r[1];
  for (int lead = e.Rank(a) - static_cast<int>(sa.size()); lead > 0; --lead) info = e.Select(info, 0, 0);
  for (size_t d = 0; d + 2 < sa.size(); ++d) info = e.Slice(info, static_cast<int64_t>(d), 0, sa[d]);
  if (has_factors) return std::vector<ValueId>{x, ValueId(), ValueId(), info};
  return std::vector<ValueId>{x, info};
}

// linalg_solve_triangular(A, B, upper, left, unitriangular)
Values SolveTriangular(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool upper, call.GetBool("upper"));
  SMELT_ASSIGN_OR_RETURN(bool left, call.GetBoolOr("left", true));
  SMELT_ASSIGN_OR_RETURN(bool unit, call.GetBoolOr("unitriangular", false));
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.Rank(a) < 2 || e.Rank(b) < 2) return call.Error("matrices are expected");
  if (!MakePlain(e, &a, &b, left)) return std::vector<ValueId>();
  const ValueId x =
      e.Op("aten::linalg_solve_triangular", {a, b, e.Const(left ? upper : !upper), e.Const(true), e.Const(unit)});
  return First(left ? x : e.Transpose(x, -2, -1));
}

// Solves the system of A = L L^H, or of U^H U.
ValueId SolveByFactor(Emit& e, ValueId factor, ValueId b, bool upper) {
  ValueId adjoint = e.Transpose(factor, -2, -1);
  if (IsComplex(e.DTypeOf(factor))) adjoint = e.Op("aten::conj_physical", {adjoint});
  const auto solve = [&](ValueId a, bool is_upper) {
    b = e.Op("aten::linalg_solve_triangular", {a, b, e.Const(is_upper), e.Const(true), e.Const(false)});
  };
  solve(upper ? adjoint : factor, false);
  solve(upper ? factor : adjoint, true);
  return b;
}

// cholesky_solve(self, input2, upper): input2 is the factor.
Values CholeskySolve(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool upper, call.GetBoolOr("upper", false));
  return First(SolveByFactor(e, call.arg(1).value, call.arg(0).value, upper));
}

Values CholeskyInverse(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool upper, call.GetBoolOr("upper", false));
  const ValueId factor = call.arg(0).value;
  if (e.Rank(factor) < 2) return call.Error("matrices are expected");
  const ValueId none = e.None();
  const ValueId one =
      e.Op("aten::eye", {e.Size(e.Sizes(factor).back()), e.Const(ScalarTypeOf(e.DTypeOf(factor))), none, none, none});
  return First(SolveByFactor(e, factor, one, upper));
}

ValueId Adjoint(Emit& e, ValueId v) {
  v = e.Transpose(v, -2, -1);
  return e.ok() && IsComplex(e.DTypeOf(v)) ? e.Op("aten::conj_physical", {v}) : v;
}

std::vector<ValueId> SingularOf(Emit& e, ValueId a, bool full, bool vectors) {
  return e.Multi("aten::_linalg_svd", {a, e.Const(full), e.Const(vectors), e.None()}, 3);
}

Values Svd(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool full, call.GetBoolOr("full_matrices", true));
  return SingularOf(e, call.arg(0).value, full, true);
}
Values SingularValues(Emit& e, const OpCall& call) { return First(SingularOf(e, call.arg(0).value, false, false)[1]); }

// svd(self, some, compute_uv) -> (U, S, V): returns V, not its adjoint, and zeros for vectors that are not requested.
Values OldSvd(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool some, call.GetBoolOr("some", true));
  SMELT_ASSIGN_OR_RETURN(bool vectors, call.GetBoolOr("compute_uv", true));
  const ValueId a = call.arg(0).value;
  std::vector<ValueId> r = SingularOf(e, a, !some, vectors);
  if (!e.ok()) return e.status();
  if (vectors) {
    r[2] = Adjoint(e, r[2]);
    return r;
  }
  const std::vector<Expr> sizes = e.Sizes(a);
  for (int i = 0; i < 2; ++i) {
    std::vector<Expr> square(sizes.begin(), sizes.end() - 2);
    square.insert(square.end(), 2, sizes[sizes.size() - 2 + static_cast<size_t>(i)]);
    r[static_cast<size_t>(2 * i)] = e.Full(e.DTypeOf(a), square, 0);
  }
  return r;
}

Values Eigh(Emit& e, const OpCall& call) {
  const bool vectors = call.op().name() == "aten::linalg_eigh";
  std::vector<ValueId> r =
      e.Multi("aten::_linalg_eigh", {call.arg(0).value, ValueOf(e, call.arg(1)), e.Const(vectors)}, 2);
  if (!vectors) r.pop_back();
  return r;
}

// qr(self, some)
Values OldQr(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool some, call.GetBoolOr("some", true));
  return e.Multi("aten::linalg_qr", {call.arg(0).value, e.Const(std::string(some ? "reduced" : "complete"))}, 2);
}

// The ratio of the largest to the smallest singular value, or its inverse for order -2.
Values Condition(Emit& e, const OpCall& call) {
  double p = 2;
  if (!call.IsNone("p")) {
    const OpArg* given = call.Find("p");
    if (given == nullptr || !given->IsScalar()) return call.Unsupported("this norm");
    SMELT_ASSIGN_OR_RETURN(p, call.GetDouble("p"));
  }
  if (p != 2 && p != -2) return call.Unsupported("this norm");
  const ValueId s = SingularOf(e, call.arg(0).value, false, false)[1];
  if (!e.ok()) return e.status();
  const ValueId first = e.Select(s, -1, 0), last = e.Select(s, -1, e.Sizes(s).back() - 1);
  return First(p == 2 ? e.Div(first, last) : e.Div(last, first));
}

// The bound that singular values must exceed to count: the larger of `atol` and `rtol` times the largest. By default
// rtol is the dtype's epsilon times the longer side if no atol is given.
absl::StatusOr<ValueId> Threshold(Emit& e, const OpCall& call, ValueId a, ValueId s) {
  const OpArg *atol = call.Find("atol"), *rtol = call.Find("rtol");
  for (const char* name : {"tol", "rcond"}) {
    const OpArg* one = call.Find(name);
    if (one == nullptr) continue;
    if (!one->IsScalar() || !one->known) return call.Unsupported(absl::StrCat("a ", name, " that is a tensor"));
    (name[0] == 't' ? atol : rtol) = one;
  }
  for (const OpArg* one : {atol, rtol}) {
    if (one != nullptr && !one->IsNone() && (!one->IsScalar() || !one->known)) {
      return call.Unsupported("a tolerance that is a tensor");
    }
  }
  const auto number = [](const OpArg* one) { return one == nullptr || one->IsNone() ? 0 : one->number; };
  const double least = number(atol);
  ValueId threshold = e.Amax(s, {e.Rank(s) - 1}, true);
  if (rtol != nullptr && !rtol->IsNone()) {
    threshold = e.MulN(threshold, number(rtol));
  } else if (least > 0) {
    threshold = e.MulN(threshold, 0);
  } else {
    const double epsilon = e.DTypeOf(s) == DType::kFloat32 ? std::numeric_limits<float>::epsilon()
                                                           : std::numeric_limits<double>::epsilon();
    const std::vector<Expr>& sizes = e.Sizes(a);
    threshold = e.Op("aten::mul.Scalar",
                     {e.MulN(threshold, epsilon), e.Size(Max(sizes[sizes.size() - 1], sizes[sizes.size() - 2]))});
  }
  return e.Op("aten::clamp_min", {threshold, e.Const(least)});
}

// Returns the magnitudes of the eigenvalues of a matrix declared as Hermitian, else the singular values.
absl::StatusOr<ValueId> Magnitudes(Emit& e, const OpCall& call, ValueId a) {
  SMELT_ASSIGN_OR_RETURN(bool hermitian, call.GetBoolOr("hermitian", false));
  if (!hermitian) return SingularOf(e, a, false, false)[1];
  return e.Abs(e.Multi("aten::_linalg_eigh", {a, e.Const(std::string("L")), e.Const(false)}, 2)[0]);
}

Values MatrixRank(Emit& e, const OpCall& call) {
  const ValueId a = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(ValueId s, Magnitudes(e, call, a));
  if (!e.ok()) return e.status();
  SMELT_ASSIGN_OR_RETURN(ValueId threshold, Threshold(e, call, a, s));
  return First(e.Sum(e.Cast(e.Op("aten::gt.Tensor", {s, threshold}), DType::kInt64), {e.Rank(s) - 1}, false));
}

// Returns V diag(1 / s) U^H of the singular values that count.
Values PseudoInverse(Emit& e, const OpCall& call) {
  const ValueId a = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(bool hermitian, call.GetBoolOr("hermitian", false));
  if (hermitian) return call.Unsupported("of what is said to be Hermitian");
  const std::vector<ValueId> r = SingularOf(e, a, false, true);
  if (!e.ok()) return e.status();
  SMELT_ASSIGN_OR_RETURN(ValueId threshold, Threshold(e, call, a, r[1]));
  const ValueId second = e.Op("aten::reciprocal", {r[1]});
  const ValueId inverse = e.WhereN(e.Op("aten::gt.Tensor", {r[1], threshold}), second, 0);
  const ValueId unsqueezed = e.Unsqueeze(inverse, -2);
  return First(e.Op("aten::matmul", {e.Mul(Adjoint(e, r[2]), unsqueezed), Adjoint(e, r[0])}));
}

}  // namespace

void AddFactorizationRules(DecompositionTable& t) {
  t["aten::linalg_inv"] = t["aten::inverse"] = Inverse;
  t["aten::linalg_cholesky"] = t["aten::cholesky"] = Cholesky;
  t["aten::linalg_det"] = t["aten::det"] = Determinant;
  t["aten::linalg_slogdet"] = t["aten::slogdet"] = SignAndLogarithm;
  t["aten::logdet"] = Logarithm;
  t["aten::linalg_solve"] = Solve;
  t["aten::linalg_solve_ex"] = t["aten::_linalg_solve_ex"] = SolveEx;
  t["aten::linalg_solve_triangular"] = SolveTriangular;
  t["aten::cholesky_solve"] = CholeskySolve;
  t["aten::cholesky_inverse"] = CholeskyInverse;
  t["aten::linalg_svd"] = Svd;
  t["aten::linalg_svdvals"] = SingularValues;
  t["aten::svd"] = OldSvd;
  t["aten::linalg_eigh"] = t["aten::linalg_eigvalsh"] = Eigh;
  t["aten::qr"] = OldQr;
  t["aten::linalg_cond"] = Condition;
  t["aten::linalg_matrix_rank"] = MatrixRank;
  t["aten::linalg_pinv"] = t["aten::pinverse"] = PseudoInverse;
}

}  // namespace smelt
