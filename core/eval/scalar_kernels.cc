// Python's numbers and containers: exec/python.h computes them.
#include <optional>

#include "absl/strings/str_cat.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/op/python_op.h"
#include "smelt/exec/python.h"

namespace smelt::eval_internal {
namespace {

// Converts the number to the schema's result type.
EvalValue AsResult(const Call& c, EvalValue v) {
  if (c.schema->returns.empty() || !v.IsNumber()) return v;
  switch (c.schema->returns[0].type.kind()) {
    case TypeKind::kInt:
      return EvalValue(ToInt(v));
    case TypeKind::kFloat:
      return EvalValue(ToDouble(v));
    case TypeKind::kBool:
      return EvalValue(ToBool(v));
    case TypeKind::kComplex:
      return EvalValue(ToComplex(v));
    default:
      return v;
  }
}

absl::StatusOr<Values> NumToTensor(Call& c) {
  const EvalValue& v = c.args[0];
  const DType t = v.IsBool()      ? DType::kBool
                  : v.IsInt()     ? DType::kInt64
                  : v.IsComplex() ? DType::kComplex128
                                  : DType::kFloat64;
  return Values{EvalValue(ScalarTensor(t, v))};
}

}  // namespace

absl::StatusOr<Values> Python(Call& c) {
  const std::optional<PythonOp> op = FindPythonOp(c.name());
  if (!op) return c.Unsupported("is not supported on these values");
  absl::StatusOr<Values> results = RunPython(*op, c.args);
  if (absl::IsUnimplemented(results.status())) return c.Unsupported(results.status().message());
  if (!results.ok()) return c.Error(results.status().message());
  if (results->size() == 1) results->front() = AsResult(c, results->front());
  return results;
}

void AddScalarKernels(KernelTable& t) {
  for (const char* n : {"item",
                        "_local_scalar_dense",
                        "IntImplicit",
                        "FloatImplicit",
                        "ScalarImplicit",
                        "Bool",
                        "Int",
                        "Float",
                        "Complex",
                        "size",
                        "stride",
                        "sym_size",
                        "sym_stride",
                        "numel",
                        "sym_numel",
                        "dim",
                        "storage_offset",
                        "sym_storage_offset",
                        "is_floating_point",
                        "is_complex",
                        "is_signed",
                        "is_nonzero",
                        "is_contiguous",
                        "__range_length",
                        "__derive_index",
                        "__is__",
                        "__isnot__",
                        "__not__",
                        "floordiv",
                        "__round_to_zero_floordiv",
                        "truediv",
                        "mathremainder",
                        "factorial",
                        "degrees",
                        "radians",
                        "fabs",
                        "__and__.bool",
                        "__or__.bool",
                        "__xor__.bool",
                        "sym_constrain_range",
                        "sym_constrain_range_for_size",
                        "_assert_async",
                        "_assert_scalar",
                        "_assert_tensor_metadata"}) {
    t[absl::StrCat("aten::", n)] = Python;
  }
  t["prim::dtype"] = t["prim::layout"] = t["prim::device"] = Python;
  t["prim::NumToTensor"] = t["prim::NumToTensor.Scalar"] = t["prim::NumToTensor.bool"] = NumToTensor;
  for (const char* n : {"int",        "float",       "float_int",   "int_float",     "complex",
                        "int_int",    "int_list",    "str",         "enum",          "bool_list",
                        "float_list", "str_list",    "bool",        "device",        "Scalar_mode_int",
                        "int_to_int", "int_complex", "complex_int", "float_complex", "complex_float",
                        "int.Scalar"}) {
    for (const char* f :
         {"add",   "sub",   "mul",      "div",      "remainder", "fmod",   "pow",     "lt",         "le",
          "gt",    "ge",    "eq",       "ne",       "neg",       "abs",    "ceil",    "floor",      "round",
          "sqrt",  "exp",   "expm1",    "log",      "log2",      "log10",  "log1p",   "sin",        "cos",
          "tan",   "asin",  "acos",     "atan",     "sinh",      "cosh",   "tanh",    "asinh",      "acosh",
          "atanh", "isnan", "isinf",    "isfinite", "__and__",   "__or__", "__xor__", "__lshift__", "__rshift__",
          "gcd",   "atan2", "copysign", "erf",      "erfc",      "gamma",  "lgamma"}) {
      t[absl::StrCat("aten::", f, ".", n)] = Python;
    }
    t[absl::StrCat("prim::min.", n)] = t[absl::StrCat("prim::max.", n)] = Python;
    t[absl::StrCat("prim::abs.", n)] = Python;
  }
  t["prim::max.self_int"] = t["prim::min.self_int"] = Python;
  t["prim::max.self_float"] = t["prim::min.self_float"] = Python;
}

void AddContainerKernels(KernelTable& t) {
  for (const char* n : {"append",    "extend",       "insert", "pop",         "reverse", "clear",  "__getitem__",
                        "_set_item", "__contains__", "len",    "count",       "keys",    "values", "items",
                        "get",       "setdefault",   "Delete", "__delitem__", "list",    "dict",   "update"}) {
    t[absl::StrCat("aten::", n)] = Python;
  }
  t["prim::TupleIndex"] = t["aten::len.Tensor"] = Python;
  for (const char* n : {"str", "int", "bool", "float"}) t[absl::StrCat("aten::copy.Dict_", n)] = Python;
  for (const char* n : {"sort.int", "sort.float", "sorted.int", "sorted.float"}) t[absl::StrCat("aten::", n)] = Python;
  t["aten::slice.t"] = t["aten::copy.t"] = t["aten::index.list_int"] = t["aten::remove.int"] = Python;
  t["aten::add.t"] = t["aten::mul.left_t"] = t["aten::eq.Tensor_list"] = Python;
}

}  // namespace smelt::eval_internal
