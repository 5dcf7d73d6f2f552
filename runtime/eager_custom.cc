#include "smelt/runtime/eager_custom.h"

#include <utility>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/operators.h"

namespace smelt {
namespace {

absl::StatusOr<OperatorValue> ToOperator(const PythonValue& v) {
  OperatorValue out;
  out.is_list = v.IsList();
  if (v.IsList()) {
    for (const PythonValue& e : v.elements()) {
      SMELT_ASSIGN_OR_RETURN(OperatorValue element, ToOperator(e));
      out.list.push_back(std::move(element));
    }
  } else if (v.IsTensor()) {
    out.datum = v.tensor().View(v.tensor().geometry());  // a handle whose geometry nobody else has
  } else {
    SMELT_ASSIGN_OR_RETURN(out.datum, ToDatum(v));
  }
  return out;
}

PythonValue FromOperator(const OperatorValue& v) {
  if (!v.is_list) return FromDatum(v.datum);
  std::vector<PythonValue> elements;
  for (const OperatorValue& e : v.list) elements.push_back(FromOperator(e));
  return PythonValue::List(std::move(elements));
}

absl::Status PrepareWrite(const PythonValue& v, EagerMemory& memory) {
  if (v.IsList()) {
    for (const PythonValue& e : v.elements()) SMELT_RETURN_IF_ERROR(PrepareWrite(e, memory));
  } else if (v.IsTensor()) {
    SMELT_RETURN_IF_ERROR(memory.CheckWritable(v.tensor(), /*uniform=*/true));
    memory.Remember(v.tensor().storage());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunCustomOperator(const fb::EagerInstrT& i, const Executable& program, const ExprValues& sizes,
                               EagerMemory& memory, EagerValues& values) {
  const fb::CustomOperatorT& op = *program.bundle().custom_operators[i.custom];
  std::vector<OperatorValue> args;
  for (size_t k = 0; k < i.inputs.size(); ++k) {
    const PythonValue& v = values[i.inputs[k]];
    if (op.args[k]->writes) SMELT_RETURN_IF_ERROR(PrepareWrite(v, memory));
    SMELT_ASSIGN_OR_RETURN(OperatorValue arg, ToOperator(v));
    args.push_back(std::move(arg));
  }
  StatedSizes stated;
  for (const auto& result : i.stated) {
    stated.emplace_back();
    for (const auto& t : result->tensors) {
      std::vector<int64_t>& of = stated.back().emplace_back();
      // A size that only the data decide is known when the result is.
      for (int e : t->sizes) of.push_back(e >= 0 && sizes.known[e] ? sizes.value[e] : -1);
    }
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<OperatorValue> results,
                         CallOperator(op, *program.custom_operator(i.custom), i, stated, std::move(args)));
  for (size_t k = 0; k < results.size(); ++k) {
    // A result that is an argument is the program's own handle, which has the number already.
    if (!op.results[k]->is_argument) values.SetOutput(i, k, FromOperator(results[k]));
  }
  return absl::OkStatus();
}

}  // namespace smelt
