// A value of a program that runs in eager order: a tensor, a number, a container, or nothing. The reference evaluator
// and the runtime's eager-order plan both compute with it.
//
//   PythonValue list = PythonValue::List({PythonValue(int64_t{3}), PythonValue(tensor)});
//   list.elements()[0].as_int();   // 3
//
// Lists, tuples, dictionaries and tensors are handles, as in Python: a value that is appended under one name is
// visible under every other name of the same list.
#ifndef SMELT_EXEC_VALUE_H_
#define SMELT_EXEC_VALUE_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

class EvalGenerator;  // core/eval/evaluator.h
class PythonValue;

struct PythonList {
  std::vector<PythonValue> elements;
};
struct PythonDict {
  std::vector<std::pair<PythonValue, PythonValue>> items;  // in order of insertion
};

class PythonValue {
 public:
  PythonValue() = default;  // None
  explicit PythonValue(Tensor t) : v_(std::move(t)) {}
  explicit PythonValue(int64_t i) : v_(i) {}
  explicit PythonValue(double d) : v_(d) {}
  explicit PythonValue(bool b) : v_(b) {}
  explicit PythonValue(std::complex<double> c) : v_(c) {}
  explicit PythonValue(std::string s) : v_(std::move(s)) {}
  explicit PythonValue(std::shared_ptr<EvalGenerator> g) : v_(std::move(g)) {}
  static PythonValue List(std::vector<PythonValue> elements);
  static PythonValue Tuple(std::vector<PythonValue> elements);
  static PythonValue Dict();
  static PythonValue Ints(absl::Span<const int64_t> v);

  bool IsNone() const { return std::holds_alternative<std::monostate>(v_); }
  bool IsTensor() const { return std::holds_alternative<Tensor>(v_); }
  bool IsInt() const { return std::holds_alternative<int64_t>(v_); }
  bool IsDouble() const { return std::holds_alternative<double>(v_); }
  bool IsBool() const { return std::holds_alternative<bool>(v_); }
  bool IsComplex() const { return std::holds_alternative<std::complex<double>>(v_); }
  bool IsString() const { return std::holds_alternative<std::string>(v_); }
  bool IsList() const { return std::holds_alternative<std::shared_ptr<PythonList>>(v_); }  // lists and tuples
  bool IsTuple() const { return IsList() && is_tuple_; }
  bool IsDict() const { return std::holds_alternative<std::shared_ptr<PythonDict>>(v_); }
  bool IsGenerator() const { return std::holds_alternative<std::shared_ptr<EvalGenerator>>(v_); }
  bool IsNumber() const { return IsInt() || IsDouble() || IsBool() || IsComplex(); }
  // Returns "a list", "an int" and so on, for messages.
  const char* KindName() const;

  // Each accessor is only for its own kind.
  const Tensor& tensor() const { return std::get<Tensor>(v_); }
  int64_t as_int() const { return std::get<int64_t>(v_); }
  double as_double() const { return std::get<double>(v_); }
  bool as_bool() const { return std::get<bool>(v_); }
  std::complex<double> as_complex() const { return std::get<std::complex<double>>(v_); }
  const std::string& as_string() const { return std::get<std::string>(v_); }
  std::vector<PythonValue>& elements() const { return std::get<std::shared_ptr<PythonList>>(v_)->elements; }
  PythonDict& dict() const { return *std::get<std::shared_ptr<PythonDict>>(v_); }
  const std::shared_ptr<EvalGenerator>& generator() const { return std::get<std::shared_ptr<EvalGenerator>>(v_); }
  const void* identity() const;  // of lists, tuples, dictionaries and tensors; null otherwise

  // Conversions that return FailedPrecondition for a value of another kind. A bool is an integer, and an integer is a
  // float; one integer is a list of one.
  absl::StatusOr<Tensor> AsTensor() const;  // never undefined
  absl::StatusOr<int64_t> AsInt() const;
  absl::StatusOr<double> AsDouble() const;
  absl::StatusOr<std::vector<int64_t>> AsInts() const;

  // Returns "Float[2, 3] {1, 2, 3, ...}", "3", "[1, 2]": for messages.
  std::string ToString() const;

 private:
  std::variant<std::monostate, Tensor, int64_t, double, bool, std::complex<double>, std::string,
               std::shared_ptr<PythonList>, std::shared_ptr<PythonDict>, std::shared_ptr<EvalGenerator>>
      v_;
  bool is_tuple_ = false;
};

}  // namespace smelt

#endif  // SMELT_EXEC_VALUE_H_
