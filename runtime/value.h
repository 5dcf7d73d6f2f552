// A value that a model takes or returns: a tensor, a number, or nothing. (A Value belongs to a graph: core/ir/graph.h.)
#ifndef SMELT_RUNTIME_VALUE_H_
#define SMELT_RUNTIME_VALUE_H_

#include <complex>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "smelt/core/tensor/tensor.h"

namespace smelt {

class Datum {
 public:
  Datum() = default;                            // None
  Datum(Tensor t) : v_(std::move(t)) {}         // NOLINT: implicit on purpose
  Datum(int64_t v) : v_(v) {}                   // NOLINT
  Datum(int v) : v_(int64_t{v}) {}              // NOLINT
  Datum(double v) : v_(v) {}                    // NOLINT
  Datum(bool v) : v_(v) {}                      // NOLINT
  Datum(std::string v) : v_(std::move(v)) {}    // NOLINT
  Datum(const char* v) : v_(std::string(v)) {}  // NOLINT: else it would be a bool
  Datum(std::complex<double> v) : v_(v) {}      // NOLINT

  bool IsNone() const { return std::holds_alternative<std::monostate>(v_); }
  bool IsTensor() const { return std::holds_alternative<Tensor>(v_); }
  bool IsInt() const { return std::holds_alternative<int64_t>(v_); }
  bool IsFloat() const { return std::holds_alternative<double>(v_); }
  bool IsBool() const { return std::holds_alternative<bool>(v_); }
  bool IsString() const { return std::holds_alternative<std::string>(v_); }
  bool IsComplex() const { return std::holds_alternative<std::complex<double>>(v_); }

  // Each accessor is only for its own kind.
  const Tensor& tensor() const { return std::get<Tensor>(v_); }
  int64_t as_int() const { return std::get<int64_t>(v_); }
  double as_float() const { return std::get<double>(v_); }
  bool as_bool() const { return std::get<bool>(v_); }
  const std::string& as_string() const { return std::get<std::string>(v_); }
  std::complex<double> as_complex() const { return std::get<std::complex<double>>(v_); }

  const char* KindName() const {
    static constexpr const char* kNames[] = {"None",   "a tensor", "an int",   "a float",
                                             "a bool", "a string", "a complex"};
    return kNames[v_.index()];
  }

 private:
  std::variant<std::monostate, Tensor, int64_t, double, bool, std::string, std::complex<double>> v_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_VALUE_H_
