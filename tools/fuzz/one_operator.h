// Models of one operator with one false statement each: the code that reads and compiles models must detect it, or
// work.
//
//   const std::vector<OneOperator> calls = OperatorCalls(answers);   // sound calls, one or more of each operator
//   for (const OperatorLie& lie : LiesAbout(calls[0])) WriteFile(path, lie.bytes);   // lie.what == "self is None"
//
// A false statement about results is an archive (.pt2). One about arguments is both an archive and a text (.ir), which
// leaves the results' types to inference.
#ifndef SMELT_TOOLS_FUZZ_ONE_OPERATOR_H_
#define SMELT_TOOLS_FUZZ_ONE_OPERATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/ir/op_name.h"
#include "smelt/core/ir/type.h"
#include "smelt/core/op/op_info.h"
#include "smelt/tools/fuzz/hostile.h"

namespace smelt {

struct OneOperator {
  OpName op;
  std::vector<OpArg> args;                  // in the schema's order
  std::vector<Type> results;                // as declared
  std::vector<std::vector<Type>> elements;  // of results that are lists of tensors
};

// Returns a call of every operator that has a schema: the first recorded one (testdata/op_answers.safetensors), else
// one with arguments made up from its schema. Sorted by name; the same each time.
std::vector<OneOperator> OperatorCalls(const std::string& answers_path);

struct OperatorLie {
  std::string what;
  std::string extension;  // ".pt2" or ".ir"
  std::string bytes;
};
// The first is the true statement.
std::vector<OperatorLie> LiesAbout(const OneOperator& call);

// All lies about all calls, numbered: those about call k from k * kMost on.
class NumberedLies {
 public:
  explicit NumberedLies(std::vector<OneOperator> calls) : calls_(std::move(calls)) {}

  static constexpr int64_t kMost = 4000;
  int64_t end() const { return static_cast<int64_t>(calls_.size()) * kMost; }
  // nullopt: call k has fewer. Those of one call are made together.
  std::optional<HostileFile> Make(int64_t i);

 private:
  std::vector<OneOperator> calls_;
  int64_t at_ = -1;
  std::vector<OperatorLie> lies_;  // about call at_
};

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_ONE_OPERATOR_H_
