// The identities of the operators on Python's values: numbers, lists, dictionaries, and questions about tensors.
//
//   FindPythonOp("aten::add")      // kAdd
//   FindPythonOp("prim::max")      // kMax, like "aten::max"
//   FindPythonOp("dict::keys")     // kKeys
//
// exec/python.h says what each of them computes. The runtime uses this header too.
#ifndef SMELT_CORE_OP_PYTHON_OP_H_
#define SMELT_CORE_OP_PYTHON_OP_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace smelt {

enum class PythonOp : uint8_t {
  // Numbers. kAdd and kMul take lists too, kMin and kMax a list of numbers, kEq and kNe any values.
  kAdd,
  kSub,
  kMul,
  kTrueDiv,
  kFloorDiv,
  kTruncDiv,  // rounds toward zero
  kRemainder,
  kMathRemainder,  // IEEE's remainder, to the nearest multiple
  kFmod,           // C's remainder, which has the sign of the first number
  kPow,
  kLt,
  kLe,
  kGt,
  kGe,
  kEq,
  kNe,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kLeftShift,
  kRightShift,
  kGcd,
  kAtan2,
  kCopysign,
  kHypot,
  kNeg,
  kAbs,
  kFabs,
  kNot,
  kCeil,
  kFloor,
  kRound,
  kTrunc,
  kIsNan,
  kIsInf,
  kIsFinite,
  kDegrees,
  kRadians,
  kFactorial,
  kSqrt,
  kExp,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kGamma,
  kLgamma,
  // Conversions, of tensors with one element too.
  kToBool,
  kToInt,
  kToFloat,
  kToComplex,
  kItem,
  // Containers.
  kListConstruct,
  kTupleConstruct,
  kDictConstruct,
  kUnpack,
  kLen,
  kGetItem,
  kSetItem,
  kContains,
  kAppend,
  kExtend,
  kInsert,
  kPop,
  kDelete,
  kReverse,
  kSort,
  kSorted,
  kClear,
  kCount,
  kIndex,
  kRemove,
  kCopy,
  kSlice,
  kKeys,
  kValues,
  kItems,
  kGet,
  kSetDefault,
  kUpdate,
  // Tensors.
  kSize,
  kStride,
  kNumel,
  kDim,
  kStorageOffset,
  kIsFloatingPoint,
  kIsComplex,
  kIsSigned,
  kIsNonzero,
  kIsContiguous,
  kDType,
  kLayout,
  kDevice,
  // Ranges, identity, and checks.
  kRangeLength,
  kDeriveIndex,
  kIs,
  kIsNot,
  kUncheckedCast,
  kUnwrapOptional,
  kUninitialized,
  kConstrainRange,
  kConstrainRangeForSize,
  kAssert,
  kAssertTensorMetadata,
  kRaise,
};

// `name` is without an overload, and may be "dict::" with the name of an operator on dictionaries. nullopt if the
// operator is none of these.
std::optional<PythonOp> FindPythonOp(absl::string_view name);

}  // namespace smelt

#endif  // SMELT_CORE_OP_PYTHON_OP_H_
