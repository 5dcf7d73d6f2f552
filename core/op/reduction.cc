// The meaning of reductions and scans.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/check_arguments.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

enum class What {
  kSum,
  kMean,
  kProd,
  kAmax,
  kAmin,
  kMaxAll,
  kMinAll,
  kMaxDim,
  kMinDim,
  kArgMax,
  kArgMin,
  kAny,
  kAll,
  kNorm,
  kNanSum,
  kCountNonzero,
  kCumSum,
  kCumProd,
  kCumMax,
  kCumMin,
  kAminmax,
};

const absl::flat_hash_map<std::string, What>& Table() {
  static const auto* const kTable = new absl::flat_hash_map<std::string, What>{
      {"aten::sum", What::kSum},
      {"aten::sum.dim_IntList", What::kSum},
      {"aten::mean", What::kMean},
      {"aten::mean.dim", What::kMean},
      {"aten::prod", What::kProd},
      {"aten::prod.dim_int", What::kProd},
      {"aten::amax", What::kAmax},
      {"aten::amin", What::kAmin},
      {"aten::max", What::kMaxAll},
      {"aten::min", What::kMinAll},
      {"aten::max.dim", What::kMaxDim},
      {"aten::min.dim", What::kMinDim},
      {"aten::argmax", What::kArgMax},
      {"aten::argmin", What::kArgMin},
      {"aten::any", What::kAny},
      {"aten::any.dim", What::kAny},
      {"aten::any.dims", What::kAny},
      {"aten::all", What::kAll},
      {"aten::all.dim", What::kAll},
      {"aten::all.dims", What::kAll},
      {"aten::norm.Scalar", What::kNorm},
      {"aten::norm.ScalarOpt_dim", What::kNorm},
      {"aten::norm.ScalarOpt_dim_dtype", What::kNorm},
      {"aten::norm.ScalarOpt_dtype", What::kNorm},
      {"aten::linalg_vector_norm", What::kNorm},
      {"aten::nansum", What::kNanSum},
      {"aten::count_nonzero", What::kCountNonzero},
      {"aten::count_nonzero.dim_IntList", What::kCountNonzero},
      {"aten::cumsum", What::kCumSum},
      {"aten::cumprod", What::kCumProd},
      {"aten::cummax", What::kCumMax},
      {"aten::cummin", What::kCumMin},
      {"aten::aminmax", What::kAminmax},
  };
  return *kTable;
}

// Returns the dims that a call names, normalized; all dims if it names none.
absl::StatusOr<std::vector<int>> Dims(const OpCall& call, int rank) {
  std::vector<int> dims;
  std::vector<int64_t> given;
  if (!call.IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(given, call.GetInts("dim"));
  }
  for (int64_t d : given) {
    auto w = view_rules::WrapDim(d, rank);
    if (!w.ok()) return call.Error(w.status().message());
    if (rank == 0) continue;
    if (std::find(dims.begin(), dims.end(), *w) != dims.end()) {
      return call.Error(absl::StrCat("dim ", *w, " appears multiple times in the list of dims"));
    }
    dims.push_back(*w);
  }
  if (given.empty()) {
    for (int i = 0; i < rank; ++i) dims.push_back(i);
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace

namespace op_internal {
bool HasReduction(OpName op) { return Table().contains(op.full()); }
}  // namespace op_internal

// A case for each reduction, which says what it does to an element and to the sum. It is long because there are many,
// with little in common.
absl::StatusOr<ReductionMeaning> BuildReduction(const OpCall& call) {
  auto it = Table().find(call.op().full());
  if (it == Table().end()) return call.Unsupported("is not a reduction");
  const What what = it->second;
  SMELT_ASSIGN_OR_RETURN(TensorType self, call.GetTensor("self"));
  const DType in = *self.dtype;
  if (IsComplex(in)) return call.Unsupported("complex numbers have no scalar function");
  const int rank = self.rank();

  ReductionMeaning m;
  SMELT_ASSIGN_OR_RETURN(m.dims, Dims(call, rank));
  // any.dims and all.dims with an empty list reduce no dim.
  if ((what == What::kAny || what == What::kAll) && call.op().overload() == "dims" && !call.IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> given, call.GetInts("dim"));
    if (given.empty()) m.dims.clear();
  }
  SMELT_ASSIGN_OR_RETURN(m.keepdim, call.GetBoolOr("keepdim", false));
  m.is_scan = what == What::kCumSum || what == What::kCumProd || what == What::kCumMax || what == What::kCumMin;
  if (m.is_scan) m.keepdim = true;
  if ((what == What::kArgMax || what == What::kArgMin) && call.IsNone("dim")) {
    // It reduces the flattened tensor; PyTorch keeps the one dim only on request.
  }

  const std::optional<DType> asked = call.GetDType("dtype");
  const DType math = OpMathType(in);
  ScalarBuilder pre, post;
  const int x = pre.Arg(in);
  std::vector<int> pre_results, post_results;
  auto accumulate = [&](Combine c, DType t, int value) {
    m.combine.push_back(c);
    m.accumulator.push_back(t);
    pre_results.push_back(pre.Cast(value, t));
    return post.Arg(c == Combine::kArgMax || c == Combine::kArgMin ? DType::kInt64 : t);
  };
  auto result = [&](int value, DType t) {
    post_results.push_back(post.Cast(value, t));
    m.results.push_back(t);
  };
  auto count = [&] { return post.Arg(DType::kInt64); };

  switch (what) {
    case What::kSum:
    case What::kNanSum:
    case What::kProd:
    case What::kCumSum:
    case What::kCumProd: {
      // An integer sum is int64; a given dtype converts the elements first.
      const DType out = asked ? *asked : IsFloating(in) ? in : DType::kInt64;
      if (IsComplex(out)) return call.Unsupported("complex numbers have no scalar function");
      const DType acc = OpMathType(out == DType::kBool ? DType::kInt64 : out);
      int v = pre.Cast(pre.Cast(x, out), acc);
      if (what == What::kNanSum && IsFloating(acc)) {
        const int constant = pre.Const(acc, 0);
        v = pre.Op(ScalarOp::kSelect, acc, pre.Op(ScalarOp::kIsNan, DType::kBool, v), constant, v);
      }
      const bool product = what == What::kProd || what == What::kCumProd;
      const int a = accumulate(product ? Combine::kProd : Combine::kSum, acc, v);
      count();
      result(a, out);
      break;
    }
    case What::kMean: {
      const DType out = asked.value_or(in);
      if (IsComplex(out)) return call.Unsupported("complex numbers have no scalar function");
      if (!IsFloating(out))
        return call.Error("mean(): could not infer output dtype. Input dtype must be a floating point type");
      const DType acc = OpMathType(out);
      // A mean of half types is a float mean that is rounded; the elements are not rounded.
      const int a = accumulate(Combine::kSum, acc, pre.Cast(IsHalf(out) ? x : pre.Cast(x, out), acc));
      const int n = count();
      result(post.Op(ScalarOp::kDiv, acc, a, post.Cast(n, acc)), out);
      break;
    }
    case What::kAmax:
    case What::kAmin:
    case What::kMaxAll:
    case What::kMinAll: {
      m.needs_elements = true;
      const bool max = what == What::kAmax || what == What::kMaxAll;
      const int a = accumulate(max ? Combine::kMax : Combine::kMin, math, x);
      count();
      result(a, in);
      break;
    }
    case What::kAminmax: {
      m.needs_elements = true;
      const int low = accumulate(Combine::kMin, math, x), high = accumulate(Combine::kMax, math, x);
      count();
      result(low, in);
      result(high, in);
      break;
    }
    case What::kMaxDim:
    case What::kMinDim:
    case What::kCumMax:
    case What::kCumMin: {
      m.needs_elements = !m.is_scan;
      const bool max = what == What::kMaxDim || what == What::kCumMax;
      const int a = accumulate(max ? Combine::kMax : Combine::kMin, math, x);
      const int i = accumulate(max ? Combine::kArgMax : Combine::kArgMin, math, x);
      count();
      result(a, in);
      result(i, DType::kInt64);
      break;
    }
    case What::kArgMax:
    case What::kArgMin: {
      if (in == DType::kBool) {  // in PyTorch's kernels for a CPU
        return call.Error(what == What::kArgMax ? "argmax(): does not support bool input"
                                                : "argmin(): does not support bool input");
      }
      m.needs_elements = true;
      const int i = accumulate(what == What::kArgMax ? Combine::kArgMax : Combine::kArgMin, math, x);
      count();
      result(i, DType::kInt64);
      break;
    }
    case What::kAny:
    case What::kAll: {
      const int a = accumulate(what == What::kAny ? Combine::kOr : Combine::kAnd, DType::kBool, x);
      count();
      result(a, in == DType::kUInt8 ? DType::kUInt8 : DType::kBool);
      break;
    }
    case What::kCountNonzero: {
      const int a = accumulate(Combine::kSum, DType::kInt64, pre.Cast(x, DType::kBool));
      count();
      result(a, DType::kInt64);
      break;
    }
    case What::kNorm: {
      const char* ord = call.IndexOf("ord") >= 0 ? "ord" : "p";
      SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr(ord, 2));
      if (!IsFloating(in)) return call.Error("a norm takes floating-point elements");
      const DType out = asked.value_or(in);
      const DType acc = OpMathType(out);
      const int v = pre.Op(ScalarOp::kAbs, acc, pre.Cast(pre.Cast(x, out), acc));
      int a;
      if (std::isinf(p)) {
        m.needs_elements = true;
        a = accumulate(p > 0 ? Combine::kMax : Combine::kMin, acc, v);
      } else if (p == 0) {
        const int nonzero = pre.Op(ScalarOp::kNe, DType::kBool, v, pre.Const(acc, 0));
        a = accumulate(Combine::kSum, acc, pre.Cast(nonzero, acc));
      } else if (p == 1) {
        a = accumulate(Combine::kSum, acc, v);
      } else if (p == 2) {
        a = accumulate(Combine::kSum, acc, pre.Op(ScalarOp::kMul, acc, v, v));
        a = post.Op(ScalarOp::kSqrt, acc, a);
      } else {
        a = accumulate(Combine::kSum, acc, pre.Op(ScalarOp::kPow, acc, v, pre.Const(acc, p)));
        a = post.Op(ScalarOp::kPow, acc, a, post.Const(acc, 1 / p));
      }
      count();
      result(a, out);
      break;
    }
  }
  m.pre = pre.Finish(pre_results);
  m.post = post.Finish(post_results);
  SMELT_RETURN_IF_ERROR(op_internal::CheckTypesOf(call, m.pre));
  SMELT_RETURN_IF_ERROR(op_internal::CheckTypesOf(call, m.post));
  return m;
}

}  // namespace smelt
