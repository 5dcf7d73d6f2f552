// The description of an operator beyond its schema. Functionalization, the fuser, inference and the evaluator all read
// it.
//
//   OpCall call = *OpCall::Of(graph, node);                    // aten::add.Tensor(%x, %y, alpha=1)
//   call.Find("alpha")->expr == Expr(1);
//   const OpInfo& info = GetOpInfo(call.op());
//   if (info.kind == OpKind::kPointwise) {
//     PointwiseMeaning m = *BuildPointwise(call);              // m.fn: (f32, bf16) -> f32, m.operands: its arguments
//   }
//
// A call's arguments may come from a graph (symbolic sizes, unknown values) or be concrete ones of the evaluator. The
// functions here treat both alike.
#ifndef SMELT_CORE_OP_OP_INFO_H_
#define SMELT_CORE_OP_OP_INFO_H_

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/decide.h"

namespace smelt {

enum class OpKind {
  kUnknown,      // not described: unsupported
  kPointwise,    // BuildPointwise
  kReduction,    // BuildReduction; scans (cumsum) too
  kView,         // BuildView: outputs share the storage of one argument. Also alias, detach, lift_fresh...
  kInplace,      // writes its first argument and returns it: functional computes the value, copied in (cast to self's
                 // dtype)
  kOut,          // the same, into the arguments named out: functional computes the values
  kInplaceView,  // changes the geometry of its first argument: functional is the view operator
  kFactory,      // makes a tensor from sizes and scalars
  kMovement,     // selects, places or joins elements: cat, gather, index, pad, repeat, scatter...
  kLibrary,      // computed by a library or its own loop: mm, convolution, sort, pooling...
  kComposite,    // Decompose gives its meaning: softmax, layer_norm, linear, reshape...
  kControl,      // prim::If, prim::Loop, smelt::cond, smelt::while_loop
  kRandom,       // draws from a generator
  kScalar,       // on Python numbers: sizes, integer arithmetic, item
  kContainer,    // lists, tuples, dictionaries
  kOther,        // described by hand where needed: copy_, set_, resize_, smelt::view, constants
};
const char* Name(OpKind kind);

struct OpInfo {
  OpName op;
  OpKind kind = OpKind::kUnknown;
  OpName functional;        // of kInplace, kOut, kInplaceView; invalid else
  bool decomposes = false;  // Decompose (core/op/decompose.h) rewrites it into simpler operators
};
// Never fails: an operator that is not described has kind kUnknown. Thread-safe; the reference lives as long as the
// process.
const OpInfo& GetOpInfo(OpName op);
// Returns every described operator that has a schema, sorted by name.
std::vector<OpName> DescribedOps();

// --- A call ---

struct OpArg {
  enum class Kind {
    kNone,
    kTensor,
    kInt,
    kFloat,
    kBool,
    kComplex,
    kString,
    kIntList,
    kFloatList,
    kBoolList,
    kTensorList,  // `elements`: kTensor or kNone each
    kOther,       // device, generator, class, dictionary...
  };
  Kind kind = Kind::kNone;
  ValueId value;       // in the graph; invalid in a concrete call
  TensorType tensor;   // of kTensor, as far as known
  bool known = false;  // scalars and lists of scalars: the value below is set
  Expr expr;           // kInt
  double number = 0;   // kFloat; kBool: 0 or 1; kInt that is constant: the same number
  std::complex<double> complex;
  std::string string;
  std::vector<Expr> ints;  // kIntList
  std::vector<double> floats;
  std::vector<bool> bools;
  std::vector<OpArg> elements;          // kTensorList; kIntList with unknown elements
  std::vector<ValueId> element_values;  // of a list made by prim::ListConstruct

  bool IsNone() const { return kind == Kind::kNone; }
  bool IsTensor() const { return kind == Kind::kTensor; }
  bool IsScalar() const {
    return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool || kind == Kind::kComplex;
  }
  static OpArg None() { return OpArg(); }
  static OpArg Int(Expr e);
  static OpArg Float(double v);
  static OpArg Bool(bool v);
  static OpArg Complex(std::complex<double> v);
  static OpArg String(std::string v);
  static OpArg Ints(std::vector<Expr> v);
  static OpArg Of(TensorType t, ValueId v = ValueId());
  static OpArg List(std::vector<OpArg> elements);
};

// A node's arguments in the order of its schema.
class OpCall {
 public:
  OpCall() = default;
  // Missing arguments at the end get the schema's defaults.
  OpCall(OpName op, std::vector<OpArg> args);
  static absl::StatusOr<OpCall> Of(const Graph& g, NodeId n);

  OpName op() const { return op_; }
  const std::vector<OpArg>& args() const { return args_; }
  const OpArg& arg(int i) const;  // None if there is no such argument
  // Returns the position of an argument by the schema's name, -1 if there is none.
  int IndexOf(absl::string_view name) const;
  const OpArg* Find(absl::string_view name) const;  // null if there is none
  bool IsNone(absl::string_view name) const;        // absent counts as None

  // Errors name the operator, the argument and its source. The `Or` forms return `d` if the argument is absent or None.
  absl::StatusOr<TensorType> GetTensor(absl::string_view name) const;  // dtype and sizes are known
  absl::StatusOr<Expr> GetExpr(absl::string_view name) const;
  absl::StatusOr<int64_t> GetInt(absl::string_view name) const;  // constant
  absl::StatusOr<int64_t> GetIntOr(absl::string_view name, int64_t d) const;
  absl::StatusOr<double> GetDouble(absl::string_view name) const;  // int, float or bool
  absl::StatusOr<double> GetDoubleOr(absl::string_view name, double d) const;
  absl::StatusOr<bool> GetBool(absl::string_view name) const;
  absl::StatusOr<bool> GetBoolOr(absl::string_view name, bool d) const;
  absl::StatusOr<std::vector<Expr>> GetExprs(absl::string_view name) const;    // an int counts as a list of one
  absl::StatusOr<std::vector<int64_t>> GetInts(absl::string_view name) const;  // constants
  std::optional<DType> GetDType(absl::string_view name) const;  // nullopt: absent, None or not a dtype of smelt
  absl::StatusOr<std::string> GetString(absl::string_view name) const;

  const std::string& source() const { return source_; }  // "model.py:41" or ""
  // "aten::add.Tensor (model.py:41): message"
  absl::Status Error(absl::string_view message) const;
  absl::Status Unsupported(absl::string_view message) const;

 private:
  OpName op_;
  std::vector<OpArg> args_;
  std::vector<std::string> defaulted_;
  std::string source_;
};

// --- Pointwise ---

// An argument of the scalar function.
struct PointwiseOperand {
  int arg = -1;      // argument of the call
  int element = -1;  // of a tensor list (index into elements); -1: the argument itself
  bool is_scalar =
      false;  // a Python number: given at launch, no memory. fn's argument type is kInt64, kFloat64 or kBool
};

// out[i] = fn(operand0[i], operand1[i], ...), with operands broadcast against each other. fn takes each operand in its
// own dtype and contains the promotion, the computation in PyTorch's intermediate dtype and the one rounding at the
// end. Scalars that do not change the code are operands, so that equal code stays equal. Scalars that do (pow(x, 2),
// gelu's approximate, alpha=1) are in fn.
struct PointwiseMeaning {
  ScalarFn fn;
  std::vector<PointwiseOperand> operands;
  std::vector<DType> results;  // dtype of each output
};
absl::StatusOr<PointwiseMeaning> BuildPointwise(const OpCall& call);

// An operand of torch.result_type: a tensor (with dims, or 0-dim) or a number.
struct PromotionOperand {
  DType dtype = DType::kFloat32;  // of a number: kBool, kInt64, kFloat64 or kComplex128
  enum class Category { kDimensioned, kZeroDim, kNumber } category = Category::kDimensioned;
};
DType ResultType(absl::Span<const PromotionOperand> operands);

// --- Reductions and scans ---

enum class Combine : uint8_t { kSum, kProd, kMin, kMax, kArgMin, kArgMax, kAnd, kOr };

// Over the dims of argument `arg`: accumulators start at the identity of `combine`, take pre(element) for each element,
// and post(accumulators..., number of elements as int64, scalars...) is the result.
//   mean of bf16: pre (x: bf16) -> f32, combine {kSum}, post (a: f32, n: i64) -> bf16
//   argmax: combine {kArgMax}; the accumulator is the flat index over the reduced dims (the index along the dim, for
//           one), int64
//   max.dim: combine {kMax, kArgMax}; pre gives the value twice
// Operators that need several passes (softmax, var, logsumexp) are kComposite instead.
struct ReductionMeaning {
  int arg = 0;
  std::vector<int> dims;  // normalized, ascending; all dims for a full reduction
  bool keepdim = false;
  bool is_scan = false;  // cumsum, cumprod...: the running result along dims[0]; output has the input's sizes
  // The result is undefined for an empty reduction (amax, argmax): PyTorch refuses it.
  bool needs_elements = false;
  ScalarFn pre;                    // (x) or (x, scalars...) -> one value per accumulator
  std::vector<Combine> combine;    // one per accumulator; kArgMin/kArgMax compare pre's value
  std::vector<DType> accumulator;  // its type: of kArg*, of the compared value
  ScalarFn post;                   // (accumulators (kArg*: i64)..., n: i64, scalars...) -> results
  std::vector<int> scalars;        // arguments that are scalars at run time, passed to pre and to post after their own
  std::vector<DType> results;
};
absl::StatusOr<ReductionMeaning> BuildReduction(const OpCall& call);

// --- Views ---

// Outputs of a view operator (several for split, chunk, unbind: in order) over the storage of argument `base`.
struct ViewMeaning {
  int base = 0;
  std::vector<SymbolicGeometry> outputs;
  bool is_list = false;  // the operator returns one list of tensors
};
// `base` is the geometry of the base argument: its type's sizes and strides with an offset that the caller knows
// (Expr(0) if none). If an answer depends on symbols that `ranges` does not decide, an error gives the comparison.
absl::StatusOr<ViewMeaning> BuildView(const OpCall& call, const SymbolicGeometry& base, const SymbolRanges& ranges);
// Does the same. The hints of `decide` answer questions that the ranges leave open, and it records its assumptions.
absl::StatusOr<ViewMeaning> BuildView(const OpCall& call, const SymbolicGeometry& base, SymbolicDecide& decide);
// Returns the view that VIEW_scatter(self, src, ...) replaces by src: VIEW(self, ...), where self has the geometry
// `base`; for select, slice, diagonal and as_strided. It is an error if src is known to have other sizes.
absl::StatusOr<ViewMeaning> BuildScatteredView(const OpCall& call, const SymbolicGeometry& base,
                                               SymbolicDecide& decide);
absl::StatusOr<ViewMeaning> BuildScatteredView(const OpCall& call, const SymbolicGeometry& base,
                                               const SymbolRanges& ranges);

// --- Lists ---

// Returns the calls that aten::_foreach_X makes for the elements of its lists, in order: aten::X or, in place,
// aten::X_.
absl::StatusOr<std::vector<OpCall>> ForeachCalls(const OpCall& call);

}  // namespace smelt

#endif  // SMELT_CORE_OP_OP_INFO_H_
