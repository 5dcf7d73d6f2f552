#include "smelt/exec/python.h"

#include <algorithm>
#include <complex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/exec/containers.h"
#include "smelt/exec/number.h"

namespace smelt {
namespace {

using Values = std::vector<PythonValue>;
using Result = absl::StatusOr<Values>;

absl::Status Error(absl::string_view what) { return absl::FailedPreconditionError(what); }

Values One(PythonValue v) { return {std::move(v)}; }

// Sizes or strides, or one of them.
Result SizesOf(PythonOp op, const Tensor& t, absl::Span<const PythonValue> args) {
  const absl::Span<const int64_t> all = op == PythonOp::kSize ? t.sizes() : t.strides();
  if (args.size() < 2 || args[1].IsNone()) return One(PythonValue::Ints(all));
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, args[1].AsInt());
  if (t.rank() == 0) return Error("Dimension specified as 0 but tensor has no dimensions");
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, t.rank()));
  return One(PythonValue(all[d]));
}

Result IsContiguous(const Tensor& t, absl::Span<const PythonValue> args) {
  constexpr int64_t kContiguousFormat = 0, kPreserveFormat = 1;
  int64_t format = kContiguousFormat;
  if (args.size() > 1 && !args[1].IsNone()) {
    SMELT_ASSIGN_OR_RETURN(format, args[1].AsInt());
  }
  if (format == kPreserveFormat) return absl::UnimplementedError("is_contiguous of the preserved memory format");
  ConcreteDecide decide;
  return One(PythonValue(format == kContiguousFormat ? view_rules::IsContiguous(decide, t.geometry())
                                                     : view_rules::IsChannelsLast(decide, t.geometry())));
}

Result RunOnTensor(PythonOp op, absl::Span<const PythonValue> args) {
  const Tensor& t = args[0].tensor();
  switch (op) {
    case PythonOp::kSize:
    case PythonOp::kStride:
      return SizesOf(op, t, args);
    case PythonOp::kNumel:
      return One(PythonValue(t.NumElements()));
    case PythonOp::kDim:
      return One(PythonValue(int64_t{t.rank()}));
    case PythonOp::kStorageOffset:
      return One(PythonValue(t.offset()));
    case PythonOp::kLen:
      if (t.rank() == 0) return Error("len() of a 0-d tensor");
      return One(PythonValue(t.sizes()[0]));
    case PythonOp::kIsFloatingPoint:
      return One(PythonValue(IsFloating(t.dtype())));
    case PythonOp::kIsComplex:
      return One(PythonValue(IsComplex(t.dtype())));
    case PythonOp::kIsSigned:
      return One(PythonValue(IsSigned(t.dtype())));
    case PythonOp::kDType:
      return One(PythonValue(int64_t{ScalarTypeOf(t.dtype())}));
    case PythonOp::kLayout:
      return One(PythonValue(int64_t{0}));  // strided
    case PythonOp::kDevice:
      return One(PythonValue(std::string("cpu")));
    case PythonOp::kIsNonzero: {
      SMELT_ASSIGN_OR_RETURN(const bool truth, TruthOf(args[0]));
      return One(PythonValue(truth));
    }
    case PythonOp::kIsContiguous:
      return IsContiguous(t, args);
    default:
      return absl::UnimplementedError("is not supported on tensors");
  }
}

Result Convert(PythonOp op, absl::Span<const PythonValue> args) {
  const PythonValue& v = args[0];
  if (op == PythonOp::kToComplex && args.size() > 1) {
    SMELT_ASSIGN_OR_RETURN(const double real, v.AsDouble());
    SMELT_ASSIGN_OR_RETURN(const double imaginary, args[1].AsDouble());
    return One(PythonValue(std::complex<double>(real, imaginary)));
  }
  if (v.IsString()) return absl::UnimplementedError("numbers from strings");
  if (op == PythonOp::kToBool || op == PythonOp::kNot) {
    SMELT_ASSIGN_OR_RETURN(const bool truth, TruthOf(v));
    return One(PythonValue(truth == (op == PythonOp::kToBool)));
  }
  if (op == PythonOp::kToInt) {
    SMELT_ASSIGN_OR_RETURN(const int64_t i, ToInteger(v));
    return One(PythonValue(i));
  }
  PythonValue number = v;
  if (v.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(number, ItemOf(v.tensor()));
  }
  if (!number.IsNumber()) return Error(absl::StrCat("a number is expected, not ", v.KindName()));
  if (op == PythonOp::kItem || (op == PythonOp::kToComplex && number.IsComplex())) return One(number);
  SMELT_ASSIGN_OR_RETURN(const double d, number.AsDouble());
  return One(op == PythonOp::kToFloat ? PythonValue(d) : PythonValue(std::complex<double>(d)));
}

bool AreIdentical(const PythonValue& a, const PythonValue& b) {
  if (a.identity() != nullptr || b.identity() != nullptr) return a.identity() == b.identity();
  return AreEqual(a, b);
}

// Compares lists; tensors in them are compared by their elements in PyTorch.
Result Compare(PythonOp op, const PythonValue& a, const PythonValue& b) {
  for (const PythonValue* v : {&a, &b}) {
    if (v->IsList() &&
        std::any_of(v->elements().begin(), v->elements().end(), [](const PythonValue& e) { return e.IsTensor(); }))
      return absl::UnimplementedError("a comparison of lists of tensors");
  }
  return One(PythonValue(AreEqual(a, b) == (op == PythonOp::kEq)));
}

// (low, high, step), or (index, start, step).
Result Range(PythonOp op, absl::Span<const PythonValue> args) {
  if (args.size() != 3) return Error("a range has three numbers");
  int64_t v[3];
  for (int k = 0; k < 3; ++k) {
    SMELT_ASSIGN_OR_RETURN(v[k], args[k].AsInt());
  }
  SMELT_ASSIGN_OR_RETURN(const int64_t r,
                         op == PythonOp::kRangeLength ? RangeLength(v[0], v[1], v[2]) : RangeElement(v[0], v[1], v[2]));
  return One(PythonValue(r));
}

// (size, min, max)
Result ConstrainRange(PythonOp op, absl::Span<const PythonValue> args) {
  SMELT_ASSIGN_OR_RETURN(const int64_t v, args[0].AsInt());
  bool holds = op == PythonOp::kConstrainRange || v >= 0;
  for (size_t k = 1; k < args.size() && k < 3; ++k) {
    if (args[k].IsNone()) continue;
    SMELT_ASSIGN_OR_RETURN(const int64_t bound, args[k].AsInt());
    holds = holds && (k == 1 ? v >= bound : v <= bound);
  }
  return holds ? Result(Values{}) : Error(absl::StrCat("Invalid value range for ", v));
}

Result Assert(absl::Span<const PythonValue> args) {
  SMELT_ASSIGN_OR_RETURN(const bool holds, TruthOf(args[0]));
  if (holds) return Values{};
  return Error(args.size() > 1 && args[1].IsString() ? args[1].as_string() : "Assertion failed");
}

}  // namespace

Result RunPython(PythonOp op, absl::Span<const PythonValue> args) {
  switch (op) {
    case PythonOp::kListConstruct:
      return One(PythonValue::List(Values(args.begin(), args.end())));
    case PythonOp::kTupleConstruct:
      return One(PythonValue::Tuple(Values(args.begin(), args.end())));
    case PythonOp::kDictConstruct:
      return One(MakeDict(args));
    case PythonOp::kUninitialized:
      return One(PythonValue());
    case PythonOp::kRangeLength:
    case PythonOp::kDeriveIndex:
      return Range(op, args);
    case PythonOp::kAssertTensorMetadata:
      return Values{};
    default:
      break;
  }
  if (args.empty()) return Error("arguments are missing");
  switch (op) {
    case PythonOp::kUnpack:
      return args[0].IsList() ? Result(args[0].elements()) : Error("a list is expected");
    case PythonOp::kUncheckedCast:
      return One(args[0]);
    case PythonOp::kUnwrapOptional:
      return args[0].IsNone() ? Result(Error("Unwrapping null optional")) : One(args[0]);
    case PythonOp::kRaise:
      return Error(absl::StrCat("the model raises: ", args[0].IsString() ? args[0].as_string() : ""));
    case PythonOp::kAssert:
      return Assert(args);
    case PythonOp::kConstrainRange:
    case PythonOp::kConstrainRangeForSize:
      return ConstrainRange(op, args);
    case PythonOp::kToBool:
    case PythonOp::kToInt:
    case PythonOp::kToFloat:
    case PythonOp::kToComplex:
    case PythonOp::kItem:
    case PythonOp::kNot:
      return Convert(op, args);
    case PythonOp::kIs:
    case PythonOp::kIsNot:
      if (args.size() < 2) return Error("arguments are missing");
      return One(PythonValue(AreIdentical(args[0], args[1]) == (op == PythonOp::kIs)));
    case PythonOp::kEq:
    case PythonOp::kNe:
      if (args.size() < 2) return Error("arguments are missing");
      return Compare(op, args[0], args[1]);
    case PythonOp::kLen:
      if (args[0].IsString()) return One(PythonValue(static_cast<int64_t>(args[0].as_string().size())));
      break;
    default:
      break;
  }
  if (args[0].IsTensor()) return RunOnTensor(op, args);
  if (args[0].IsList()) return RunOnList(op, args);
  if (args[0].IsDict()) return RunOnDict(op, args);
  SMELT_ASSIGN_OR_RETURN(PythonValue v,
                         args.size() == 1 ? UnaryNumber(op, args[0]) : BinaryNumber(op, args[0], args[1]));
  return One(std::move(v));
}

}  // namespace smelt
