#include "smelt/runtime/eager_functions.h"

#include <cstring>
#include <utility>

#include "smelt/core/op/scalar_memory.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

constexpr int64_t kMostElements = 16;     // that the function computes: as fast as a launch, or faster
constexpr int64_t kMostCopies = 1 << 12;  // of one value

// An operand of a function: the elements of a tensor, or a number.
struct Operand {
  Tensor tensor;  // broadcast; not defined for a number
  ScalarValue number = {.i = 0};
};

std::optional<ScalarValue> NumberOf(const PythonValue& v, DType type) {
  ScalarValue number;
  if (type == DType::kFloat64) {
    const absl::StatusOr<double> f = v.AsDouble();
    if (!f.ok()) return std::nullopt;
    number.f = *f;
  } else {
    const bool fits = type == DType::kBool ? v.IsBool() : v.IsInt();
    if (!fits) return std::nullopt;
    number.i = v.IsBool() ? v.as_bool() : v.as_int();
  }
  return number;
}

std::optional<Operand> OperandOf(const PythonValue& v, const fb::ArgDefT& arg, DType type,
                                 const std::vector<int64_t>& shape) {
  Operand operand;
  if (arg.kind != fb::ArgKind::Tensor) {
    const std::optional<ScalarValue> number = v.IsTensor() ? std::nullopt : NumberOf(v, type);
    if (!number) return std::nullopt;
    operand.number = *number;
    return operand;
  }
  if (!v.IsTensor() || !v.tensor().defined() || v.tensor().dtype() != type) return std::nullopt;
  if (arg.sizes.empty()) {
    if (v.tensor().rank() != 0) return std::nullopt;
    operand.tensor = v.tensor();
    return operand;
  }
  ConcreteDecide decide;
  absl::StatusOr<Geometry> g = view_rules::Expand(decide, v.tensor().geometry(), shape);
  if (!g.ok() || !decide.status().ok()) return std::nullopt;
  operand.tensor = v.tensor().View(*std::move(g));
  return operand;
}

// Returns the sizes of a call's result if they depend on nothing; nullopt if they do.
std::optional<std::vector<int64_t>> ConstantSizes(const fb::BundleT& call) {
  std::vector<int64_t> sizes;
  for (int e : call.outputs[0]->sizes) {
    if (e < 0 || call.exprs[e].op() != fb::ExprOp::Constant) return std::nullopt;
    sizes.push_back(call.exprs[e].constant());
  }
  return sizes;
}

// Returns the place of the element with this number, in order of indices.
const char* ElementOf(const Tensor& t, int64_t number) {
  int64_t offset = 0;
  for (int d = t.rank(); d-- > 0;) {
    offset += number % t.sizes()[d] * t.strides()[d];
    number /= t.sizes()[d];
  }
  return static_cast<const char*>(t.data()) + offset * ItemSize(t.dtype());
}

// Returns whether a function takes the arguments of a call, and gives its only result.
bool Fits(const ScalarFn& f, const fb::BundleT& call) {
  if (f.arg_types.size() != call.args.size() || f.results.size() != 1) return false;
  for (size_t k = 0; k < f.arg_types.size(); ++k) {
    const fb::ArgDefT& a = *call.args[k];
    const bool fits = a.kind == fb::ArgKind::Tensor  ? f.arg_types[k] == static_cast<DType>(a.dtype)
                      : a.kind == fb::ArgKind::Int   ? f.arg_types[k] == DType::kInt64
                      : a.kind == fb::ArgKind::Float ? f.arg_types[k] == DType::kFloat64
                                                     : a.kind == fb::ArgKind::Bool && f.arg_types[k] == DType::kBool;
    if (!fits) return false;
  }
  return call.outputs.size() == 1 && call.outputs[0]->kind == fb::ArgKind::Tensor && call.outputs[0]->has_type &&
         f.instrs[f.results[0]].type == static_cast<DType>(call.outputs[0]->dtype);
}

std::vector<bool> UsedArguments(const ScalarFn& f) {
  std::vector<bool> used(f.instrs.size()), arguments(f.arg_types.size());
  for (int r : f.results) used[r] = true;
  for (size_t i = f.instrs.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (int o : f.instrs[i].operands) {
      if (o >= 0) used[o] = true;
    }
    if (f.instrs[i].op == ScalarOp::kArg) arguments[f.instrs[i].imm.i] = true;
  }
  return arguments;
}

}  // namespace

EagerFunctions::EagerFunctions(const fb::EagerProgramT& program) : functions_(program.calls.size()) {
  for (const auto& block : program.blocks) {
    for (const auto& i : block->instrs) {
      if (i->call < 0 || i->text.empty() || functions_[i->call]) continue;
      absl::StatusOr<ScalarFn> f = ParseScalarFn(i->text);
      if (!f.ok() || !Fits(*f, *program.calls[i->call])) continue;
      std::vector<bool> uses = UsedArguments(*f);
      functions_[i->call] = Function{*std::move(f), std::move(uses)};
    }
  }
}

std::optional<Tensor> EagerFunctions::Run(int index, const fb::BundleT& call, absl::Span<const PythonValue> inputs,
                                          const std::vector<int64_t>* shape) const {
  if (!Has(index)) return std::nullopt;
  const auto& [f, uses] = *functions_[index];
  bool has_dims = false, differ = false;  // the results' elements
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool here = call.args[k]->kind == fb::ArgKind::Tensor && !call.args[k]->sizes.empty();
    has_dims |= here;
    differ |= here && uses[k];
  }
  if (has_dims && shape == nullptr) return std::nullopt;
  const std::optional<std::vector<int64_t>> sizes = has_dims ? *shape : ConstantSizes(call);
  if (!sizes) return std::nullopt;
  int64_t elements = 1;
  for (int64_t n : *sizes) {
    if (n < 1 || n > (differ ? kMostElements : kMostCopies) / elements) return std::nullopt;
    elements *= n;
  }
  std::vector<Operand> operands(inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!uses[k]) continue;
    std::optional<Operand> operand = OperandOf(inputs[k], *call.args[k], f.arg_types[k], *sizes);
    if (!operand) return std::nullopt;
    operands[k] = *std::move(operand);
  }
  const DType dtype = f.instrs[f.results[0]].type;
  const int64_t item = ItemSize(dtype);
  const Tensor result = Tensor::Empty(dtype, has_dims ? std::vector<int64_t>{elements} : *sizes);
  char* const to = static_cast<char*>(result.data());
  std::vector<ScalarValue> values(operands.size());
  bool divides_by_zero = false;
  for (int64_t n = 0; n < (differ ? elements : 1); ++n) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const Tensor& t = operands[k].tensor;
      values[k] = t.defined() ? LoadScalar(t.dtype(), ElementOf(t, n)) : operands[k].number;
    }
    StoreScalar(dtype, EvaluateScalarFn(f, values, &divides_by_zero)[0], to + n * item);
  }
  for (int64_t n = 1; !differ && n < elements; ++n) std::memcpy(to + n * item, to, item);
  return divides_by_zero ? std::nullopt : std::optional<Tensor>(result);
}

}  // namespace smelt
