// Reads a call's arguments: checks them against the model's signature, and takes the values of the size symbols.
// Internal.
//
//   SMELT_RETURN_IF_ERROR(signature.Read(args, states));
//   signature.symbols();    // the key of a bound plan
#ifndef SMELT_RUNTIME_SIGNATURE_H_
#define SMELT_RUNTIME_SIGNATURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/value.h"

namespace smelt {

class StateStore;

// The bytes that an argument reaches.
struct Extent {
  uintptr_t low = 0, high = 0;  // equal: none
  bool tensor = false;
};

class Signature {
 public:
  explicit Signature(const Executable& program);

  // InvalidArgument names the argument that does not fit.
  absl::Status Read(absl::Span<const Datum> args, const StateStore& states);

  // The values of the symbols in this call; those that only data decide are not known at first.
  const std::vector<int64_t>& symbols() const { return symbols_; }
  const std::vector<uint8_t>& symbol_known() const { return symbol_known_; }
  void SetSymbol(int symbol, int64_t value);
  // The expressions of the arguments' sizes and strides.
  const ExprValues& exprs() const { return exprs_; }
  const std::vector<Extent>& extents() const { return extents_; }  // by argument

 private:
  absl::Status ReadArguments(absl::Span<const Datum> args);
  absl::Status ReadSymbols(absl::Span<const Datum> args, const StateStore& states);
  absl::Status CheckSizes(absl::Span<const Datum> args);
  absl::Status OutOfRange(const fb::SymbolDefT& s, int64_t value) const;
  // Returns the sizes that an argument may have. `evaluated`: the expressions have the values of this call.
  std::string ExpectedSizes(int arg, bool evaluated) const;
  const std::string& ArgName(int i) const { return program_.args()[i].path; }

  const Executable& program_;
  const fb::BundleT& bundle_;
  const Device device_;  // where arguments are
  std::vector<int64_t> symbols_;
  std::vector<uint8_t> symbol_known_;
  std::vector<int64_t> key_;  // the symbols for which the expressions have their values
  ExprValues exprs_;
  std::vector<Extent> extents_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_SIGNATURE_H_
