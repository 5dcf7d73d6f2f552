#include "smelt/core/eval/run.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/interpreter.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/eval/pointwise.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/core/tensor/written_places.h"
#include "smelt/exec/write_protocol.h"

namespace smelt::eval_internal {

namespace {

const KernelTable& Kernels() {
  static const KernelTable* const kTable = [] {
    auto* t = new KernelTable();
    AddMemoryKernels(*t);
    AddCompositeKernels(*t);
    AddFactoryKernels(*t);
    AddMovementKernels(*t);
    AddIndexKernels(*t);
    AddLinearAlgebraKernels(*t);
    AddPoolingKernels(*t);
    AddSortingKernels(*t);
    AddFourierKernels(*t);
    AddFactorizationKernels(*t);
    AddDetectionKernels(*t);
    AddWeightProductKernels(*t);
    AddScalarKernels(*t);
    AddContainerKernels(*t);
    return t;
  }();
  return *kTable;
}

Kernel FindKernel(OpName op, const FunctionSchema& schema) {
  const KernelTable& table = Kernels();
  if (auto it = table.find(op.full()); it != table.end()) return it->second;
  if (op.full() == "aten::where") return table.at("aten::nonzero_numpy");     // its other overloads are pointwise
  if (schema.IsMutable() && !absl::EndsWith(op.name(), "_")) return nullptr;  // out=, or batch_norm and the like
  auto it = table.find(op.name());
  return it == table.end() ? nullptr : it->second;
}

TensorType TypeOf(const Tensor& t) {
  TensorType type;
  type.dtype = t.dtype();
  type.sizes = std::vector<Expr>(t.sizes().begin(), t.sizes().end());
  type.strides = std::vector<Expr>(t.strides().begin(), t.strides().end());
  return type;
}

OpArg ToArg(const EvalValue& v) {
  if (v.IsTensor()) return v.tensor().defined() ? OpArg::Of(TypeOf(v.tensor())) : OpArg();
  if (v.IsInt()) return OpArg::Int(v.as_int());
  if (v.IsDouble()) return OpArg::Float(v.as_double());
  if (v.IsBool()) return OpArg::Bool(v.as_bool());
  if (v.IsComplex()) return OpArg::Complex(v.as_complex());
  if (v.IsString()) return OpArg::String(v.as_string());
  if (v.IsNone()) return OpArg();
  OpArg a;
  a.kind = OpArg::Kind::kOther;
  if (!v.IsList()) return a;
  const std::vector<EvalValue>& e = v.elements();
  auto all = [&](auto f) { return !e.empty() && std::all_of(e.begin(), e.end(), f); };
  if (all([](const EvalValue& x) { return x.IsInt(); })) {
    std::vector<Expr> ints;
    for (const EvalValue& x : e) ints.push_back(x.as_int());
    return OpArg::Ints(std::move(ints));
  }
  if (all([](const EvalValue& x) { return x.IsBool(); })) {
    a.kind = OpArg::Kind::kBoolList;
    a.known = true;
    for (const EvalValue& x : e) a.bools.push_back(x.as_bool());
    return a;
  }
  if (all([](const EvalValue& x) { return x.IsNumber() && !x.IsComplex(); })) {
    a.kind = OpArg::Kind::kFloatList;
    a.known = true;
    for (const EvalValue& x : e) a.floats.push_back(ToDouble(x));
    return a;
  }
  if (all([](const EvalValue& x) { return x.IsTensor() || x.IsNone(); })) {
    a.kind = OpArg::Kind::kTensorList;
    for (const EvalValue& x : e) a.elements.push_back(ToArg(x));
  }
  return a;
}

// Only the schema shows the kind of an empty list.
OpArg EmptyList(const Type& t) {
  const Type& list = t.kind() == TypeKind::kOptional ? t.element() : t;
  if (list.kind() != TypeKind::kList) return ToArg(EvalValue::List({}));
  OpArg a;
  switch (list.element().kind()) {
    case TypeKind::kInt:
      return OpArg::Ints({});
    case TypeKind::kFloat:
    case TypeKind::kNumber:
      a.kind = OpArg::Kind::kFloatList;
      break;
    case TypeKind::kBool:
      a.kind = OpArg::Kind::kBoolList;
      break;
    default:
      a.kind = OpArg::Kind::kTensorList;
      return a;
  }
  a.known = true;
  return a;
}

// Returns whether the operator, or the operator whose result it writes, is pointwise.
bool IsPointwise(OpName op) {
  return GetOpInfo(OpName::Get(absl::StripSuffix(op.name(), "_"))).kind == OpKind::kPointwise;
}

// Returns whether `v` can be an argument of type `t`.
bool Fits(const EvalValue& v, const Type& t) {
  switch (t.kind()) {
    case TypeKind::kTensor:
      return v.IsTensor() && v.tensor().defined();
    case TypeKind::kInt:
      return v.IsInt() || v.IsBool();
    case TypeKind::kFloat:
      return v.IsNumber() && !v.IsComplex();
    case TypeKind::kBool:
      return v.IsBool() || v.IsInt();
    case TypeKind::kComplex:
    case TypeKind::kNumber:
      return v.IsNumber();
    case TypeKind::kString:
      return v.IsString();
    case TypeKind::kNone:
      return v.IsNone();
    case TypeKind::kOptional:
      return v.IsNone() || Fits(v, t.element());
    case TypeKind::kList:
      // One number may stand for an int[] or float[].
      if (!v.IsList()) return v.IsNumber() && Fits(v, t.element());
      return std::all_of(v.elements().begin(), v.elements().end(),
                         [&](const EvalValue& e) { return Fits(e, t.element()); });
    default:
      return true;
  }
}

absl::StatusOr<int64_t> Constant(const Call& c, const Expr& e) {
  if (!e.IsConstant()) return c.Error("a size is not known");
  return *e.Constant();
}

absl::StatusOr<Geometry> Evaluated(const Call& c, absl::Span<const Expr> sizes, absl::Span<const Expr> strides,
                                   const Expr& offset) {
  Geometry g;
  for (const Expr& e : sizes) {
    SMELT_ASSIGN_OR_RETURN(int64_t v, Constant(c, e));
    g.sizes.push_back(v);
  }
  for (const Expr& e : strides) {
    SMELT_ASSIGN_OR_RETURN(int64_t v, Constant(c, e));
    g.strides.push_back(v);
  }
  SMELT_ASSIGN_OR_RETURN(g.offset, Constant(c, offset));
  return g;
}

// Runs view operators, whose results share the base's storage.
absl::StatusOr<Values> View(Call& c, OpName view) {
  const Tensor base = c.args[0].tensor();
  SymbolicGeometry g;
  g.dtype = base.dtype();
  g.sizes.assign(base.sizes().begin(), base.sizes().end());
  g.strides.assign(base.strides().begin(), base.strides().end());
  g.offset = base.offset();
  const OpCall call = view == c.op.op() ? c.op : OpCall(view, c.op.args());
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildView(call, g, SymbolRanges()));
  Values views;
  for (const SymbolicGeometry& o : m.outputs) {
    SMELT_ASSIGN_OR_RETURN(Geometry geometry, Evaluated(c, o.sizes, o.strides, o.offset));
    Tensor t = base.ViewAs(o.dtype, geometry);
    if (!t.InBounds()) {
      return c.Error(absl::StrCat("the view ", geometry.ToString(), " of ", Name(o.dtype),
                                  " is out of bounds for a storage of ", base.storage()->bytes(), " bytes"));
    }
    views.push_back(EvalValue(t));
  }
  if (m.is_list) return Values{EvalValue::List(std::move(views))};
  return views;
}

absl::StatusOr<Values> InPlaceView(Call& c, OpName view) {
  Tensor self = c.args[0].tensor();
  if (c.name() == "aten::detach_") return Values{c.args[0]};
  SMELT_ASSIGN_OR_RETURN(Values v, View(c, view));
  self.SetGeometry(v[0].tensor().geometry());
  return Values{c.args[0]};
}

// Returns the error of exec/write_protocol.h as the call's own.
absl::Status Named(const Call& c, const absl::Status& status) {
  if (status.ok()) return status;
  return WithCause(absl::IsUnimplemented(status) ? c.Unsupported(status.message()) : c.Error(status.message()),
                   CauseOf(status));
}

// Runs an elementwise write that reads elements it has already written, one element after the other as PyTorch does.
// Returns false, without having done anything, if the operator has no such overlap.
absl::StatusOr<bool> RunInOrder(const Call& c, const Tensor& written, OpName functional,
                                absl::Span<const EvalValue> read) {
  const absl::StatusOr<ElementOrder> order = OrderOfWrite(written, read);
  if (!order.ok()) return Named(c, order.status());
  return WriteInOrder(written, read, [&](const Tensor& element, absl::Span<const EvalValue> elements) {
    absl::StatusOr<Values> result = Run(*c.state, functional, elements);
    return result.ok() ? CopyInto(element, result->front().tensor()) : result.status();
  });
}

// add_(self, other): add(self, other), cast and copied into self.
absl::StatusOr<Values> InPlace(Call& c, OpName functional) {
  const Tensor self = c.args[0].tensor();
  const absl::Status writable = CheckNotExpanded(c, self);
  std::optional<int64_t> values;
  const bool puts = c.name() == "aten::index_put_";
  if (puts) values = c.args[2].tensor().NumElements();
  if (!writable.ok() && FillsSomeElements(c.schema->op, values, puts && ToBool(c.args[3]), self.rank())) {
    SMELT_ASSIGN_OR_RETURN(Values results, Run(*c.state, functional, c.args));
    if (results.empty() || !results[0].IsTensor()) return c.Unsupported("its functional form returns no tensor");
    const Tensor result = results[0].tensor();
    if (result.sizes() != self.sizes() || result.dtype() != self.dtype())
      return c.Unsupported("a write that broadcasts");
    CopyWhatChanged(self, result);
    return Values{c.args[0]};
  }
  if (!WritesExpanded(c.schema->op)) SMELT_RETURN_IF_ERROR(writable);
  for (EvalValue& a : c.args) {
    if (!a.IsDouble() && !a.IsInt()) continue;
    const double given = a.IsInt() ? static_cast<double>(a.as_int()) : a.as_double();
    const double taken = NumberBeside(c.schema->op, self.dtype(), given);
    if (taken != given) a = EvalValue(taken);
  }
  const bool elementwise = GetOpInfo(functional).kind == OpKind::kPointwise;
  for (size_t i = 1; i < c.args.size(); ++i) {
    if (!c.args[i].IsTensor()) continue;
    const OperandSharing rule = OperandSharingOf(c.schema->op, functional, c.schema->arguments[i].name);
    if (elementwise && rule == OperandSharing::kAny) {
      c.args[i] = EvalValue(c.args[i].tensor().Clone());  // PyTorch reads it before it writes anything
    } else if (elementwise || rule == OperandSharing::kNotPartly) {
      SMELT_RETURN_IF_ERROR(CheckOperand(c, self, c.args[i].tensor(), OperandSharing::kNotPartly));
    }
  }
  SMELT_ASSIGN_OR_RETURN(Values results, Run(*c.state, functional, c.args));
  if (elementwise && !WritesExpanded(c.schema->op) && results.size() == 1 && results[0].IsTensor() &&
      (results[0].tensor().dtype() == self.dtype() || results[0].tensor().dtype() == DType::kBool) &&
      results[0].tensor().sizes() == self.sizes()) {
    SMELT_ASSIGN_OR_RETURN(const bool done, RunInOrder(c, self, functional, c.args));
    if (done) return Values{c.args[0]};
  }
  if (results.empty() || !results[0].IsTensor()) return c.Unsupported("its functional form returns no tensor");
  const Tensor result = results[0].tensor();
  if (!std::equal(result.sizes().begin(), result.sizes().end(), self.sizes().begin(), self.sizes().end())) {
    return c.Error(absl::StrCat("output with shape ", Geometry::Contiguous(self.sizes()).ToString(),
                                " doesn't match the broadcast shape ",
                                Geometry::Contiguous(result.sizes()).ToString()));
  }
  if (const std::string refused = RefusedCast(functional, result.dtype(), self.dtype()); !refused.empty())
    return c.Error(refused);
  SMELT_RETURN_IF_ERROR(CopyInto(self, result));
  return Values{c.args[0]};
}

// add(self, other, out=o).
absl::StatusOr<Values> Out(Call& c, OpName functional) {
  const FunctionSchema* f = FindSchema(functional);
  if (f == nullptr) return c.Unsupported("has no functional form");
  Values given;
  std::vector<Tensor> outs;
  for (size_t i = 0; i < c.args.size() && i < c.schema->arguments.size(); ++i) {
    if (IsWritten(c.schema->arguments[i])) outs.push_back(c.args[i].tensor());
  }
  for (const Argument& a : f->arguments) {
    const int i = c.schema->FindArgument(a.name);
    if (a.name == "dtype" && !outs.empty() && (i < 0 || ComputesInDTypeOfOut(c.schema->op))) {
      given.push_back(EvalValue(ScalarTypeOf(outs[0].dtype())));
    } else if (i >= 0) {
      given.push_back(c.args[i]);
    } else {
      given.push_back(None());
    }
  }
  const bool elementwise = GetOpInfo(functional).kind == OpKind::kPointwise;
  for (const Tensor& o : outs) {
    SMELT_RETURN_IF_ERROR(CheckNotExpanded(c, o));
    for (const EvalValue& v : given) {
      if (elementwise && v.IsTensor())
        SMELT_RETURN_IF_ERROR(CheckOperand(c, o, v.tensor(), OperandSharing::kNotPartly));
    }
  }
  SMELT_ASSIGN_OR_RETURN(Values results, Run(*c.state, functional, given));
  if (results.size() != outs.size()) return c.Unsupported("its functional form returns another number of tensors");
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!results[i].IsTensor()) return c.Unsupported("its functional form returns no tensor");
    const std::string refused = RefusedCast(functional, results[i].tensor().dtype(), outs[i].dtype());
    if (!refused.empty()) return c.Error(refused);
  }
  bool done = false;
  if (elementwise && OperandSharingOf(c.schema->op, functional, "") == OperandSharing::kNotPartly && outs.size() == 1 &&
      results[0].IsTensor() &&
      (results[0].tensor().dtype() == outs[0].dtype() || results[0].tensor().dtype() == DType::kBool) &&
      results[0].tensor().sizes() == outs[0].sizes()) {
    SMELT_ASSIGN_OR_RETURN(done, RunInOrder(c, outs[0], functional, given));
  }
  Values returned;
  for (size_t i = 0; i < outs.size(); ++i) {
    const Tensor& r = results[i].tensor();
    if (!std::equal(r.sizes().begin(), r.sizes().end(), outs[i].sizes().begin(), outs[i].sizes().end())) {
      Tensor resized = outs[i];
      for (const EvalValue& v : given) {
        if (!v.IsTensor() || v.tensor().storage() != resized.storage() || v.tensor().geometry() != resized.geometry())
          continue;
        if (elementwise) return c.Error("output with the shape of an operand doesn't match the broadcast shape");
        if (!ComputesBeforeItResizes(c.schema->op)) return c.Unsupported(kResizesItsOperand);
      }
      // A storage that is too small grows.
      Geometry g = ResizesContiguously(c.schema->op) ? Geometry::Contiguous(r.geometry().sizes) : r.geometry();
      g.offset = resized.offset();
      const int64_t need = g.Span().second * ItemSize(resized.dtype());
      if (g.NumElements() > 0) SMELT_RETURN_IF_ERROR(resized.storage()->GrowTo(need));
      resized.SetGeometry(g);
      // PyTorch checked the operands before, and computes now.
      for (size_t k = 0; k < given.size(); ++k) {
        if (!given[k].IsTensor() || given[k].tensor().IsSame(resized)) continue;
        if (OperandSharingOf(c.schema->op, functional, f->arguments[k].name) == OperandSharing::kAny) continue;
        SMELT_RETURN_IF_ERROR(CheckOperand(c, resized, given[k].tensor(), OperandSharing::kWholeOrNone));
      }
    }
    if (!done) SMELT_RETURN_IF_ERROR(CopyInto(outs[i], r));
  }
  for (size_t i = 0; i < c.args.size() && i < c.schema->arguments.size(); ++i) {
    if (IsWritten(c.schema->arguments[i]) && returned.size() < c.schema->returns.size()) returned.push_back(c.args[i]);
  }
  return returned;
}

}  // namespace

// Builds a graph of the node and its arguments, decomposes it, and runs it: the values of the call become inputs on
// the way in, and results on the way out.
absl::StatusOr<Values> RunDecomposed(Call& c) {
  if (c.state->depth > 60) return c.Unsupported("decomposes without end");
  Graph g;
  std::vector<ValueId> node_inputs;
  std::vector<EvalValue> inputs;
  auto input = [&](const Tensor& t) {
    inputs.push_back(EvalValue(t));
    return g.AddInput(absl::StrCat("x", inputs.size()), Type::Tensor(TypeOf(t)));
  };
  const NodeId end = g.block(g.top()).return_node;
  // Inputs come first: a constant precedes its node.
  struct Slot {
    std::vector<ValueId> tensors;
    std::vector<bool> present;
  };
  std::vector<Slot> slots(c.args.size());
  for (size_t i = 0; i < c.args.size(); ++i) {
    const EvalValue& a = c.args[i];
    if (a.IsTensor()) {
      slots[i].tensors.push_back(input(a.tensor()));
    } else if (a.IsList() && c.op.arg(static_cast<int>(i)).kind == OpArg::Kind::kTensorList) {
      for (const EvalValue& e : a.elements()) {
        slots[i].present.push_back(e.IsTensor());
        slots[i].tensors.push_back(e.IsTensor() ? input(e.tensor()) : ValueId());
      }
    }
  }
  for (size_t i = 0; i < c.args.size(); ++i) {
    const EvalValue& a = c.args[i];
    const OpArg& arg = c.op.arg(static_cast<int>(i));
    if (a.IsTensor()) {
      node_inputs.push_back(slots[i].tensors[0]);
      continue;
    }
    ConstantValue value;
    if (a.IsInt()) value = a.as_int();
    if (a.IsDouble()) value = a.as_double();
    if (a.IsBool()) value = a.as_bool();
    if (a.IsComplex()) value = a.as_complex();
    if (a.IsString()) value = a.as_string();
    if (a.IsList()) {
      switch (arg.kind) {
        case OpArg::Kind::kIntList: {
          std::vector<int64_t> v;
          for (const EvalValue& e : a.elements()) v.push_back(ToInt(e));
          value = std::move(v);
          break;
        }
        case OpArg::Kind::kFloatList:
          value = arg.floats;
          break;
        case OpArg::Kind::kBoolList:
          value = arg.bools;
          break;
        case OpArg::Kind::kTensorList: {
          std::vector<ValueId> elements;
          bool all = true;
          for (size_t k = 0; k < slots[i].tensors.size(); ++k) {
            all = all && slots[i].present[k];
            elements.push_back(slots[i].present[k] ? slots[i].tensors[k] : InsertConstant(g, end, std::monostate()));
          }
          const Type element = all ? Type::Tensor() : Type::Optional(Type::Tensor());
          node_inputs.push_back(
              g.node(g.Append(g.top(), OpName::Get("prim::ListConstruct"), elements, {Type::List(element)}))
                  .outputs[0]);
          continue;
        }
        default:
          return c.Unsupported("is not supported with such a list");
      }
    }
    node_inputs.push_back(InsertConstant(g, end, value));
  }
  std::vector<Type> types;
  for (const Argument& r : c.schema->returns) types.push_back(r.type);
  const NodeId n = g.Append(g.top(), c.op.op(), node_inputs, types);
  for (ValueId v : std::vector<ValueId>(g.node(n).outputs.begin(), g.node(n).outputs.end())) g.AddOutput(v);
  SMELT_ASSIGN_OR_RETURN(bool changed, Decompose(g, n));
  if (!changed) return c.Unsupported("is not supported for these arguments");
  ++c.state->depth;
  absl::StatusOr<Values> results = RunGraph(*c.state, g, inputs);
  --c.state->depth;
  // A gradient that was not requested is None.
  const std::vector<int64_t> mask = c.Ints("output_mask");
  for (size_t i = 0; results.ok() && i < mask.size() && i < results->size(); ++i) {
    if (mask[i] == 0) (*results)[i] = None();
  }
  return Annotate(std::move(results), c.op.op().full());
}

const EvalValue& Call::Arg(absl::string_view arg_name) const {
  static const EvalValue* const kNone = new EvalValue();
  const int i = schema->FindArgument(arg_name);
  return i < 0 || i >= static_cast<int>(args.size()) ? *kNone : args[i];
}
Tensor Call::T(absl::string_view n) const {
  const EvalValue& v = Arg(n);
  return v.IsTensor() ? v.tensor() : Tensor();
}
int64_t Call::I(absl::string_view n, int64_t d) const {
  const EvalValue& v = Arg(n);
  return v.IsNumber() ? ToInt(v) : d;
}
double Call::D(absl::string_view n, double d) const {
  const EvalValue& v = Arg(n);
  return v.IsNumber() ? ToDouble(v) : d;
}
bool Call::B(absl::string_view n, bool d) const {
  const EvalValue& v = Arg(n);
  return v.IsNumber() ? ToBool(v) : d;
}
std::vector<int64_t> Call::Ints(absl::string_view n) const {
  const EvalValue& v = Arg(n);
  std::vector<int64_t> out;
  if (v.IsNumber()) out.push_back(ToInt(v));
  if (v.IsList()) {
    for (const EvalValue& e : v.elements()) out.push_back(ToInt(e));
  }
  return out;
}
std::vector<double> Call::Doubles(absl::string_view n) const {
  const EvalValue& v = Arg(n);
  std::vector<double> out;
  if (v.IsNumber()) out.push_back(ToDouble(v));
  if (v.IsList()) {
    for (const EvalValue& e : v.elements()) out.push_back(ToDouble(e));
  }
  return out;
}
std::vector<Tensor> Call::Tensors(absl::string_view n) const {
  const EvalValue& v = Arg(n);
  std::vector<Tensor> out;
  if (v.IsList()) {
    for (const EvalValue& e : v.elements()) out.push_back(e.IsTensor() ? e.tensor() : Tensor());
  }
  return out;
}
std::vector<int64_t> Call::PerDim(absl::string_view n, int dims, int64_t d) const {
  std::vector<int64_t> v = Ints(n);
  if (v.empty()) v.push_back(d);
  while (static_cast<int>(v.size()) < dims) v.push_back(v.back());
  return v;
}

absl::StatusOr<int> Dim(const Call& c, int64_t dim, int rank) {
  absl::StatusOr<int> d = view_rules::WrapDim(dim, rank);
  if (!d.ok()) return c.Error(d.status().message());
  return d;
}

bool IsTooLarge(const Call& c, DType dtype, absl::Span<const int64_t> sizes) {
  int64_t bytes = ItemSize(dtype);
  for (int64_t s : sizes) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(s, 1), &bytes)) return true;
  }
  return bytes > c.state->options.max_tensor_bytes;
}

absl::StatusOr<Tensor> NewTensor(const State& state, DType dtype, absl::Span<const int64_t> sizes,
                                 absl::Span<const int64_t> strides) {
  int64_t bytes = ItemSize(dtype);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0) return absl::InvalidArgumentError(absl::StrCat("a tensor's size is negative: ", sizes[d]));
    if (strides[d] < 0) return absl::InvalidArgumentError(absl::StrCat("a tensor's stride is negative: ", strides[d]));
    int64_t span = 0;
    if (sizes[d] > 0 && (__builtin_mul_overflow(sizes[d], std::max<int64_t>(strides[d], 1), &span) ||
                         __builtin_mul_overflow(span, ItemSize(dtype), &span))) {
      return absl::ResourceExhaustedError("a tensor's size overflows int64");
    }
    bytes = std::max(bytes, span);
  }
  if (bytes > state.options.max_tensor_bytes)
    return absl::ResourceExhaustedError(
        absl::StrCat("a tensor of ", bytes, " bytes is above the limit of ", state.options.max_tensor_bytes));
  Tensor t = Tensor::EmptyStrided(dtype, sizes, strides);
  if (t.storage()->bytes() > 0) std::memset(t.storage()->data(), 0, t.storage()->bytes());
  return t;
}

absl::StatusOr<std::vector<Tensor>> OutputsOf(const Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<InferredOutput> inferred, InferCall(c.op, SymbolRanges()));
  std::vector<Tensor> outputs;
  for (const InferredOutput& o : inferred) {
    if (!o.type.IsTensor()) return c.Unsupported("a result that is no tensor");
    const TensorType& t = o.type.tensor();
    if (!t.dtype || !t.sizes) return c.Unsupported("a result whose sizes inference does not know");
    SMELT_ASSIGN_OR_RETURN(Geometry g, Evaluated(c, *t.sizes, t.strides ? *t.strides : ContiguousStrides(*t.sizes), 0));
    absl::StatusOr<Tensor> out = NewTensor(*c.state, *t.dtype, g.sizes, g.strides);
    if (!out.ok()) return c.Error(out.status().message());
    outputs.push_back(*std::move(out));
  }
  return outputs;
}
absl::StatusOr<Tensor> OutputOf(const Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, OutputsOf(c));
  if (outputs.empty()) return c.Unsupported("has no result");
  return outputs[0];
}

absl::StatusOr<Call> MakeCall(State& state, OpName op, absl::Span<const EvalValue> args) {
  Call c;
  c.state = &state;
  c.schema = FindSchema(op);
  if (c.schema == nullptr) return absl::UnimplementedError(absl::StrCat(op.full(), ": no such operator is known"));
  c.args.assign(args.begin(), args.end());
  const size_t n = c.schema->arguments.size();
  if (c.args.size() > n && !c.schema->is_vararg)
    return absl::InvalidArgumentError(
        absl::StrCat(op.full(), ": ", c.args.size(), " arguments are given, it takes ", n));
  for (size_t i = c.args.size(); i < n; ++i) {
    const Argument& a = c.schema->arguments[i];
    if (!a.default_value)
      return absl::InvalidArgumentError(absl::StrCat(op.full(), ": argument \"", a.name, "\" is missing"));
    c.args.push_back(FromConstant(*a.default_value));
  }
  std::vector<OpArg> op_args;
  for (size_t i = 0; i < c.args.size(); ++i) {
    const EvalValue& v = c.args[i];
    // PyTorch's export writes a number next to a tensor as it is, whatever the overload says.
    const bool beside = i > 0 && i < n && v.IsNumber() && c.schema->arguments[i].type.IsTensor() && IsPointwise(op);
    if (i < n && !beside && !Fits(v, c.schema->arguments[i].type)) {
      return absl::InvalidArgumentError(absl::StrCat(op.full(), ": argument \"", c.schema->arguments[i].name, "\" is ",
                                                     v.ToString(), ", expected ",
                                                     c.schema->arguments[i].type.ToString()));
    }
    if (v.IsTensor() && !v.tensor().InBounds())
      return absl::InvalidArgumentError(absl::StrCat(op.full(), ": argument ", i, " reaches outside its storage"));
    op_args.push_back(i < n && v.IsList() && v.elements().empty() ? EmptyList(c.schema->arguments[i].type) : ToArg(v));
  }
  c.op = OpCall(op, std::move(op_args));
  return c;
}

EvalValue FromConstant(const ConstantValue& v) {
  struct Visitor {
    EvalValue operator()(std::monostate) const { return EvalValue(); }
    EvalValue operator()(int64_t i) const { return EvalValue(i); }
    EvalValue operator()(double d) const { return EvalValue(d); }
    EvalValue operator()(bool b) const { return EvalValue(b); }
    EvalValue operator()(const std::string& s) const { return EvalValue(s); }
    EvalValue operator()(std::complex<double> c) const { return EvalValue(c); }
    EvalValue operator()(const Tensor& t) const {
      return EvalValue(t.storage()->data() == nullptr && t.NumElements() > 0 ? t : CopyWithStrides(t, t.strides()));
    }
    EvalValue operator()(const std::vector<int64_t>& v) const { return EvalValue::Ints(v); }
    EvalValue operator()(const std::vector<double>& v) const {
      Values e;
      for (double d : v) e.push_back(EvalValue(d));
      return EvalValue::List(std::move(e));
    }
    EvalValue operator()(const std::vector<bool>& v) const {
      Values e;
      for (bool b : v) e.push_back(EvalValue(b));
      return EvalValue::List(std::move(e));
    }
  };
  return std::visit(Visitor(), v);
}

namespace {
// Checks operators whose operands must not share memory with the written tensor, or only with all of their elements.
// `held` are operands that share memory with `target`, the written tensor, without PyTorch noticing it. If they do not
// change, the result is the same for every order in which PyTorch computes.
absl::Status CheckOperandsApart(const Call& c, std::vector<Tensor>& held, Tensor& target) {
  if (!c.schema->IsMutable()) return absl::OkStatus();
  const OpName functional = GetOpInfo(c.schema->op).functional;
  for (size_t w = 0; w < c.args.size() && w < c.schema->arguments.size(); ++w) {
    if (!IsWritten(c.schema->arguments[w]) || !c.args[w].IsTensor()) continue;
    const Tensor& written = c.args[w].tensor();
    if (NeedsContiguousOut(c.schema->op) && written.NumElements() > 0 && !written.geometry().IsContiguous()) {
      return c.Unsupported(kNeedsContiguousOut);
    }
    // Windows that overlap: an elementwise operator writes them in order.
    const bool elementwise = functional && GetOpInfo(functional).kind == OpKind::kPointwise;
    if (functional && !elementwise && GetOpInfo(c.schema->op).kind != OpKind::kInplaceView &&
        !WritesExpanded(c.schema->op) && CheckNotExpanded(c, written).ok() &&
        OverlapsItselfConcrete(written.geometry()))
      return c.Unsupported("a write to overlapping windows");
    for (size_t i = 0; i < c.args.size() && i < c.schema->arguments.size(); ++i) {
      if (i == w || IsWritten(c.schema->arguments[i])) continue;
      const OperandSharing rule = OperandSharingOf(c.schema->op, functional, c.schema->arguments[i].name);
      if (rule == OperandSharing::kAny || rule == OperandSharing::kNotPartly) continue;
      std::vector<EvalValue> read = {c.args[i]};
      if (c.args[i].IsList()) read.assign(c.args[i].elements().begin(), c.args[i].elements().end());
      for (const EvalValue& v : read) {
        if (!v.IsTensor()) continue;
        SMELT_RETURN_IF_ERROR(CheckOperand(c, written, v.tensor(), rule));
        if (rule != OperandSharing::kNone || !IsReadWhileWritten(written, v.tensor())) continue;
        held.push_back(v.tensor());
        target = written;
      }
    }
  }
  return absl::OkStatus();
}

// Operands must keep their elements until the end if places are written twice, or emptied first: then no operand may
// contain a place that is written.
absl::Status CheckReadApart(const Call& c, const Tensor& target, const std::vector<Tensor>& held) {
  if (held.empty()) return absl::OkStatus();
  const OpInfo& info = GetOpInfo(c.schema->op);
  if (info.kind != OpKind::kInplace) return WithCause(c.Unsupported(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  SMELT_ASSIGN_OR_RETURN(
      const bool reads, WritesWhereItReads(target, held, [&](int kept, int given) -> absl::StatusOr<Tensor> {
        Values args = c.args;
        for (size_t i = 0; i < args.size(); ++i) {
          if (!args[i].IsTensor() || args[i].tensor().dtype() != target.dtype()) continue;
          args[i] = EvalValue(OneNumber(target.dtype(), args[i].tensor().sizes(), i == 0 ? kept : given));
        }
        return Run1(*c.state, info.functional.full(), std::move(args));
      }));
  return reads ? WithCause(c.Unsupported(kAnswerHangsOnOrder), Cause::kDependsOnOrder) : absl::OkStatus();
}
}  // namespace

namespace {
absl::StatusOr<Values> RunKernel(Call& c, OpName op);
}  // namespace

namespace {
// index_put_ of a single value at the places of one mask is masked_fill_, whose mask may be the written tensor itself.
// Returns nullopt for other calls.
std::optional<Values> AsMaskedFill(OpName op, absl::Span<const EvalValue> args) {
  if (!(op == "aten::index_put_") || args.size() < 3 || !args[0].IsTensor() || !args[1].IsList() || !args[2].IsTensor())
    return std::nullopt;
  const Tensor self = args[0].tensor(), value = args[2].tensor();
  const bool accumulates = args.size() > 3 && ToBool(args[3]);
  if (accumulates || value.NumElements() != 1 || value.dtype() != self.dtype()) return std::nullopt;
  const auto& indices = args[1].elements();
  const int before = static_cast<int>(indices.size()) - 1;
  for (int k = 0; k < before; ++k) {
    if (!indices[k].IsNone()) return std::nullopt;
  }
  if (before < 0 || !indices[before].IsTensor()) return std::nullopt;
  const Tensor mask = indices[before].tensor();
  if (mask.dtype() != DType::kBool && mask.dtype() != DType::kUInt8) return std::nullopt;
  if (before + mask.rank() > self.rank()) return std::nullopt;
  for (int d = 0; d < mask.rank(); ++d) {
    if (mask.sizes()[d] != self.sizes()[before + d]) return std::nullopt;
  }
  Geometry g = mask.geometry();
  g.sizes.resize(self.rank() - before, 1);
  g.strides.resize(self.rank() - before, 1);
  return Values{args[0], EvalValue(mask.View(std::move(g))), EvalValue(value.View({{}, {}, value.offset()}))};
}
}  // namespace

absl::StatusOr<Values> Run(State& state, OpName op, absl::Span<const EvalValue> args) {
  if (std::optional<Values> fill = AsMaskedFill(op, args)) {
    if ((*fill)[1].tensor().dtype() != DType::kBool)
      return absl::FailedPreconditionError(
          "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char");
    return Run(state, OpName::Get("aten::masked_fill_.Tensor"), *fill);
  }
  SMELT_ASSIGN_OR_RETURN(Call c, MakeCall(state, op, args));
  std::vector<Tensor> held;
  Tensor target;
  SMELT_RETURN_IF_ERROR(CheckOperandsApart(c, held, target));
  SMELT_RETURN_IF_ERROR(CheckReadApart(c, target, held));
  return RunKernel(c, op);
}

namespace {
absl::StatusOr<Values> RunKernel(Call& c, OpName op) {
  if (Kernel k = FindKernel(op, *c.schema); k != nullptr) return k(c);
  const OpInfo& info = GetOpInfo(op);
  switch (info.kind) {
    case OpKind::kPointwise:
      return Pointwise(c);
    case OpKind::kReduction:
      return Reduction(c);
    case OpKind::kView:
      return View(c, op);
    case OpKind::kInplaceView:
      return InPlaceView(c, info.functional);
    case OpKind::kInplace:
      return InPlace(c, info.functional);
    case OpKind::kOut:
      return Out(c, info.functional);
    case OpKind::kScalar:
      return Python(c);
    default:
      if (HasDecomposition(op)) return RunDecomposed(c);
      return c.Unsupported("is not supported by the evaluator");
  }
}
}  // namespace

absl::StatusOr<Tensor> Run1(State& state, absl::string_view op, std::vector<EvalValue> args) {
  SMELT_ASSIGN_OR_RETURN(Values v, Run(state, OpName::Get(op), args));
  if (v.empty() || !v[0].IsTensor()) return absl::InternalError(absl::StrCat(op, " returned no tensor"));
  return v[0].tensor();
}

absl::Status CheckNotExpanded(const Call& c, const Tensor& written) {
  return Named(c, smelt::CheckNotExpanded(written));
}

absl::Status CheckOperand(const Call& c, const Tensor& written, const Tensor& read, OperandSharing rule) {
  return Named(c, smelt::CheckOperand(written, read, rule));
}

absl::StatusOr<bool> CopyInOrder(const Call& c, const Tensor& to, const Tensor& from) {
  const EvalValue source(from);
  const absl::StatusOr<ElementOrder> order = OrderOfWrite(to, {&source, 1});
  if (!order.ok()) return Named(c, order.status());
  return WriteInOrder(to, {&source, 1}, [](const Tensor& element, absl::Span<const EvalValue> elements) {
    return CopyInto(element, elements[0].tensor());
  });
}

absl::Status CheckOrder(const Call& c, const Tensor& written, const Tensor& read) {
  const EvalValue operand(read);
  const absl::StatusOr<ElementOrder> order = OrderOfWrite(written, {&operand, 1});
  if (!order.ok()) return Named(c, order.status());
  return order->effect == OrderEffect::kNone ? absl::OkStatus() : Named(c, DependsOnOrderError());
}

}  // namespace smelt::eval_internal
