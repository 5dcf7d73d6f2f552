#include "smelt/codegen/library_lowering.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

using Rule = absl::StatusOr<LibraryNode> (*)(const Graph&, NodeId, const OpCall&);

std::vector<ValueId> Outputs(const Graph& g, NodeId n) {
  return std::vector<ValueId>(g.node(n).outputs.begin(), g.node(n).outputs.end());
}

absl::StatusOr<LibraryNode> Matmul(const Graph& g, NodeId n, const OpCall&) {
  const Node& node = g.node(n);
  return LibraryNode{"matmul", {node.inputs[0], node.inputs[1], ValueId()}, {node.outputs[0]}, {}, {}};
}

// addmm(self, a, b, beta, alpha), baddbmm likewise: with beta = alpha = 1 self is a bias.
absl::StatusOr<LibraryNode> MatmulWithBias(const Graph& g, NodeId n, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", 1));
  SMELT_ASSIGN_OR_RETURN(double alpha, call.GetDoubleOr("alpha", 1));
  if (beta != 1 || alpha != 1) return call.Unsupported("beta or alpha other than 1");
  const Node& node = g.node(n);
  return LibraryNode{"matmul", {node.inputs[1], node.inputs[2], node.inputs[0]}, {node.outputs[0]}, {}, {}};
}

ValueId OptionalTensor(const OpCall& call, absl::string_view name) {
  const OpArg* a = call.Find(name);
  return a != nullptr && a->IsTensor() ? a->value : ValueId();
}

// A list that PyTorch accepts as one number.
absl::StatusOr<std::vector<Expr>> Spread(const OpCall& call, absl::string_view name, int rank) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> v, call.GetExprs(name));
  if (static_cast<int>(v.size()) == 1) v.resize(rank, v[0]);
  if (static_cast<int>(v.size()) != rank)
    return call.Error(absl::StrCat(name, " has ", v.size(), " elements, ", rank, " expected"));
  return v;
}

absl::StatusOr<LibraryNode> Convolution(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "convolution";
  out.inputs = {OptionalTensor(call, "input"), OptionalTensor(call, "weight"), OptionalTensor(call, "bias")};
  out.outputs = {g.node(n).outputs[0]};
  SMELT_ASSIGN_OR_RETURN(TensorType weight, call.GetTensor("weight"));
  const int rank = weight.rank() - 2;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, Spread(call, "stride", rank));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, Spread(call, "padding", rank));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, Spread(call, "dilation", rank));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> output_padding, Spread(call, "output_padding", rank));
  SMELT_ASSIGN_OR_RETURN(bool transposed, call.GetBool("transposed"));
  SMELT_ASSIGN_OR_RETURN(Expr groups, call.GetExpr("groups"));
  for (const auto* list : {&stride, &padding, &dilation}) out.ints.insert(out.ints.end(), list->begin(), list->end());
  out.ints.push_back(transposed ? 1 : 0);
  out.ints.insert(out.ints.end(), output_padding.begin(), output_padding.end());
  out.ints.push_back(groups);
  return out;
}

// Lowers the gradient of the weight alone. The rest is convolutions and sums.
absl::StatusOr<LibraryNode> ConvolutionBackward(const Graph& g, NodeId n, const OpCall& call) {
  const OpArg* mask = call.Find("output_mask");
  if (mask == nullptr || mask->bools != std::vector<bool>{false, true, false})
    return call.Unsupported("but for the gradient of the weight");
  SMELT_ASSIGN_OR_RETURN(LibraryNode out, Convolution(g, n, call));
  out.op = "convolution_backward";
  out.inputs = {OptionalTensor(call, "grad_output"), OptionalTensor(call, "input"), OptionalTensor(call, "weight")};
  out.outputs = {ValueId(), g.node(n).outputs[1]};
  return out;
}

absl::StatusOr<LibraryNode> Sort(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "sort";
  out.inputs = {OptionalTensor(call, "self")};
  out.outputs = Outputs(g, n);
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  SMELT_ASSIGN_OR_RETURN(bool descending, call.GetBoolOr("descending", false));
  out.ints = {Expr(dim), Expr(descending ? 1 : 0), Expr(1)};
  return out;
}

absl::StatusOr<LibraryNode> TopK(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "topk";
  out.inputs = {OptionalTensor(call, "self")};
  out.outputs = Outputs(g, n);
  SMELT_ASSIGN_OR_RETURN(Expr k, call.GetExpr("k"));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  SMELT_ASSIGN_OR_RETURN(bool largest, call.GetBoolOr("largest", true));
  SMELT_ASSIGN_OR_RETURN(bool sorted, call.GetBoolOr("sorted", true));
  out.ints = {k, Expr(dim), Expr(largest ? 1 : 0), Expr(sorted ? 1 : 0)};
  return out;
}

// kthvalue, median, nanmedian, mode along a dim, which the result keeps.
absl::StatusOr<LibraryNode> Pick(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = call.op().name().substr(6);
  out.inputs = {OptionalTensor(call, "self")};
  out.outputs = Outputs(g, n);
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  Expr k = 1;
  if (call.Find("k") != nullptr) {
    SMELT_ASSIGN_OR_RETURN(k, call.GetExpr("k"));
  }
  out.ints = {Expr(dim), k};
  return out;
}

// searchsorted(sorted_sequence, self, out_int32, right, side, sorter), bucketize(self, boundaries, out_int32, right)
absl::StatusOr<LibraryNode> SearchSorted(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "searchsorted";
  const bool bucketize = call.op().name() == op::kBucketize;
  out.inputs = {OptionalTensor(call, bucketize ? "boundaries" : "sorted_sequence"), OptionalTensor(call, "self"),
                OptionalTensor(call, "sorter")};
  if (!g.IsLive(out.inputs[0]) || !g.IsLive(out.inputs[1])) return call.Unsupported("a number to search for");
  out.outputs = Outputs(g, n);
  SMELT_ASSIGN_OR_RETURN(bool right, call.GetBoolOr("right", false));
  if (!call.IsNone("side")) {
    SMELT_ASSIGN_OR_RETURN(std::string side, call.GetString("side"));
    right = side == "right";
  }
  out.ints = {Expr(right ? 1 : 0)};
  return out;
}

// _fft_c2c(self, dim, normalization, forward), _fft_r2c(..., onesided), _fft_c2r(..., last_dim_size)
absl::StatusOr<LibraryNode> Fourier(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "fourier";
  out.inputs = {OptionalTensor(call, "self")};
  out.outputs = Outputs(g, n);
  SMELT_ASSIGN_OR_RETURN(TensorType self, call.GetTensor("self"));
  SMELT_ASSIGN_OR_RETURN(int64_t normalization, call.GetInt("normalization"));
  SMELT_ASSIGN_OR_RETURN(bool forward, call.GetBoolOr("forward", call.op().name() == op::kPrivateFftR2c));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dim"));
  if (dims.empty()) return call.Unsupported("a transform along no dim");
  out.ints = {Expr(normalization), Expr(forward ? 1 : 0)};
  for (int64_t d : dims) out.ints.push_back(Expr(d < 0 ? d + self.rank() : d));
  return out;
}

// Result `i` of a node, if anything reads it.
ValueId IfUsed(const Graph& g, NodeId n, int i) {
  const ValueId v = g.node(n).outputs[i];
  return g.value(v).uses.empty() ? ValueId() : v;
}

// linalg_inv_ex(A, check_errors) -> (inverse, info), linalg_solve_ex(A, B, left, check_errors) -> (result, info)
absl::StatusOr<LibraryNode> Solve(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "solve";
  out.inputs = {OptionalTensor(call, "A"), OptionalTensor(call, "B")};
  out.outputs = {g.node(n).outputs[0], IfUsed(g, n, 1)};
  SMELT_ASSIGN_OR_RETURN(bool check, call.GetBoolOr("check_errors", false));
  out.ints = {Expr(0), Expr(0), Expr(check ? 1 : 0)};
  return out;
}

// linalg_solve_triangular(self, B, upper, left, unitriangular)
absl::StatusOr<LibraryNode> SolveTriangular(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "solve";
  out.inputs = {OptionalTensor(call, "self"), OptionalTensor(call, "B")};
  out.outputs = Outputs(g, n);
  SMELT_ASSIGN_OR_RETURN(bool upper, call.GetBool("upper"));
  SMELT_ASSIGN_OR_RETURN(bool unit, call.GetBoolOr("unitriangular", false));
  out.ints = {Expr(upper ? 1 : 2), Expr(unit ? 1 : 0), Expr(0)};
  return out;
}

// linalg_cholesky_ex(self, upper, check_errors) -> (L, info)
absl::StatusOr<LibraryNode> Cholesky(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "cholesky";
  out.inputs = {OptionalTensor(call, "self")};
  out.outputs = {g.node(n).outputs[0], IfUsed(g, n, 1)};
  SMELT_ASSIGN_OR_RETURN(bool upper, call.GetBoolOr("upper", false));
  SMELT_ASSIGN_OR_RETURN(bool check, call.GetBoolOr("check_errors", false));
  out.ints = {Expr(upper ? 1 : 0), Expr(check ? 1 : 0)};
  return out;
}

// _linalg_det(A) -> (result, LU, pivots), _linalg_slogdet(A) -> (sign, logabsdet, LU, pivots)
absl::StatusOr<LibraryNode> Determinant(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "determinant";
  out.inputs = {OptionalTensor(call, "A")};
  out.outputs = Outputs(g, n);
  for (int i = 0; i < 2; ++i, out.outputs.pop_back()) {
    if (!g.value(out.outputs.back()).uses.empty()) return call.Unsupported("the factors of a determinant");
  }
  return out;
}

// linalg_qr(A, mode) -> (Q, R)
absl::StatusOr<LibraryNode> Qr(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "qr";
  out.inputs = {OptionalTensor(call, "A")};
  SMELT_ASSIGN_OR_RETURN(std::string mode, call.GetString("mode"));
  out.outputs = {mode == "r" ? ValueId() : IfUsed(g, n, 0), IfUsed(g, n, 1)};
  if (mode == "r" && IfUsed(g, n, 0).valid()) return call.Unsupported("a Q that is not computed");
  return out;
}

// _linalg_svd(A, full_matrices, compute_uv) -> (U, S, Vh)
absl::StatusOr<LibraryNode> Svd(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "svd";
  out.inputs = {OptionalTensor(call, "A")};
  SMELT_ASSIGN_OR_RETURN(bool vectors, call.GetBoolOr("compute_uv", true));
  out.outputs = {IfUsed(g, n, 1), IfUsed(g, n, 0), IfUsed(g, n, 2)};
  if (!vectors && (out.outputs[1].valid() || out.outputs[2].valid())) {
    return call.Unsupported("vectors that are not computed");
  }
  return out;
}

// _linalg_eigh(A, UPLO, compute_v) -> (eigenvalues, eigenvectors)
absl::StatusOr<LibraryNode> Eigh(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  out.op = "eigh";
  out.inputs = {OptionalTensor(call, "A")};
  SMELT_ASSIGN_OR_RETURN(std::string uplo, call.GetString("UPLO"));
  SMELT_ASSIGN_OR_RETURN(bool vectors, call.GetBoolOr("compute_v", true));
  out.outputs = {IfUsed(g, n, 0), IfUsed(g, n, 1)};
  if (!vectors && out.outputs[1].valid()) return call.Unsupported("vectors that are not computed");
  out.ints = {Expr(uplo == "U" || uplo == "u" ? 1 : 0)};
  return out;
}

absl::StatusOr<LibraryNode> Plain(const Graph& g, NodeId n, const OpCall& call) {
  LibraryNode out;
  // Without the namespace.
  out.op = call.op().name().substr(call.op().name().find("::") + 2);
  out.outputs = Outputs(g, n);
  for (const OpArg& a : call.args()) {
    switch (a.kind) {
      case OpArg::Kind::kTensor:
        out.inputs.push_back(a.value);
        break;
      case OpArg::Kind::kNone:
        out.inputs.push_back(ValueId());
        break;
      case OpArg::Kind::kInt:
      case OpArg::Kind::kBool:
        if (!a.known) return call.Unsupported("a number that only the run knows");
        out.ints.push_back(a.kind == OpArg::Kind::kInt ? a.expr : Expr(a.number != 0 ? 1 : 0));
        break;
      case OpArg::Kind::kFloat:
        if (!a.known) return call.Unsupported("a number that only the run knows");
        out.floats.push_back(a.number);
        break;
      case OpArg::Kind::kIntList:
        if (!a.known) return call.Unsupported("numbers that only the run knows");
        out.ints.insert(out.ints.end(), a.ints.begin(), a.ints.end());
        break;
      default:
        return call.Unsupported("an argument that is neither a tensor nor a number");
    }
  }
  return out;
}

// Lowers smelt's own operators, whose results have the size that an operand gives.
std::optional<LibraryNode> LowerOwnOperator(const Graph& g, NodeId n, LibraryCall call) {
  const Node& node = g.node(n);
  if (node.inputs.empty()) return std::nullopt;
  LibraryNode out;
  out.inputs = {node.inputs[0]};
  out.outputs = Outputs(g, n);
  switch (call) {
    case LibraryCall::kNonzero:
      out.op = "nonzero";
      return out;
    case LibraryCall::kUnique:
    case LibraryCall::kUniqueCount:
      out.op = call == LibraryCall::kUnique ? "unique" : "unique_count";
      out.ints = {Expr(std::get<int64_t>(*node.FindAttribute("consecutive")))};
      return out;
    case LibraryCall::kBincount:
      out.op = "bincount";
      if (node.inputs.size() > 2) out.inputs.push_back(node.inputs[2]);
      return out;
    default:
      return std::nullopt;
  }
}

// Returns the rule for operators of PyTorch that the call computes.
Rule RuleOf(LibraryCall call) {
  switch (call) {
    case LibraryCall::kPlain:
      return Plain;
    case LibraryCall::kMatmul:
      return Matmul;
    case LibraryCall::kMatmulWithBias:
      return MatmulWithBias;
    case LibraryCall::kConvolution:
      return Convolution;
    case LibraryCall::kConvolutionBackward:
      return ConvolutionBackward;
    case LibraryCall::kFourier:
      return Fourier;
    case LibraryCall::kSolve:
      return Solve;
    case LibraryCall::kSolveTriangular:
      return SolveTriangular;
    case LibraryCall::kCholesky:
      return Cholesky;
    case LibraryCall::kQr:
      return Qr;
    case LibraryCall::kSvd:
      return Svd;
    case LibraryCall::kEigh:
      return Eigh;
    case LibraryCall::kDeterminant:
      return Determinant;
    case LibraryCall::kSort:
      return Sort;
    case LibraryCall::kTopK:
      return TopK;
    case LibraryCall::kPick:
      return Pick;
    case LibraryCall::kSearchSorted:
      return SearchSorted;
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<std::optional<LibraryNode>> LowerLibrary(const Graph& g, NodeId n) {
  const LibraryCall library = GetOpTraits(g.node(n).op).library;
  if (std::optional<LibraryNode> own = LowerOwnOperator(g, n, library)) return own;
  const Rule rule = RuleOf(library);
  if (rule == nullptr) return std::optional<LibraryNode>();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  SMELT_ASSIGN_OR_RETURN(LibraryNode out, rule(g, n, call));
  return std::optional<LibraryNode>(std::move(out));
}

absl::StatusOr<std::optional<RandomCall>> LowerRandom(const Graph& g, NodeId n) {
  if (GetOpInfo(g.node(n).op).kind != OpKind::kRandom) return std::optional<RandomCall>();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  const Type& drawn = g.value(g.node(n).outputs[0]).type;
  if (drawn.IsTensor() && drawn.tensor().dtype && IsComplex(*drawn.tensor().dtype))
    return call.Unsupported("random complex numbers");
  RandomCall out;
  switch (GetOpTraits(g.node(n).op).distribution) {
    case Distribution::kNone:
      return call.Unsupported("this distribution");
    case Distribution::kUniform: {
      out.kind = fb::RandomKind::Uniform;
      SMELT_ASSIGN_OR_RETURN(out.p0, call.GetDoubleOr("from", 0));
      SMELT_ASSIGN_OR_RETURN(out.p1, call.GetDoubleOr("to", 1));
      break;
    }
    case Distribution::kNormal: {
      out.kind = fb::RandomKind::Normal;
      SMELT_ASSIGN_OR_RETURN(out.p0, call.GetDoubleOr("mean", 0));
      SMELT_ASSIGN_OR_RETURN(out.p1, call.GetDoubleOr("std", 1));
      break;
    }
    case Distribution::kBernoulli: {
      out.kind = fb::RandomKind::Bernoulli;
      const OpArg* p = call.Find("p");
      if (p != nullptr && p->IsTensor()) {
        out.probabilities = p->value;
      } else if (p == nullptr || p->IsNone()) {
        out.probabilities = OptionalTensor(call, "self");
      } else {
        SMELT_ASSIGN_OR_RETURN(out.p0, call.GetDouble("p"));
      }
      break;
    }
    case Distribution::kExponential: {
      out.kind = fb::RandomKind::Exponential;
      SMELT_ASSIGN_OR_RETURN(out.p0, call.GetDoubleOr("lambd", 1));
      break;
    }
    case Distribution::kRandint: {
      out.kind = fb::RandomKind::Randint;
      SMELT_ASSIGN_OR_RETURN(out.p0, call.GetDoubleOr("low", 0));
      SMELT_ASSIGN_OR_RETURN(out.p1, call.GetDouble("high"));
      break;
    }
    case Distribution::kPermutation:
      out.kind = fb::RandomKind::Permutation;
      break;
  }
  return std::optional<RandomCall>(std::move(out));
}

}  // namespace smelt
