// Models of one operator, each with one thing in it that is not as it should be: what reads and compiles models must
// find it, or hold.
//
//   const std::vector<OneOperator> calls = OperatorCalls(answers);   // sound calls, one or more of each operator
//   for (const OperatorLie& lie : LiesAbout(calls[0])) WriteFile(path, lie.bytes);   // lie.what == "self is None"
//
// A lie is an archive (.pt2) where it is about what the archive states of results, and both an archive and a text (.ir)
// where it is about arguments, of which the text leaves the results' types to inference.
#ifndef SMELT_TOOLS_FUZZ_ONE_OPERATOR_H_
#define SMELT_TOOLS_FUZZ_ONE_OPERATOR_H_

#include <string>
#include <vector>

#include "smelt/core/ir/op_name.h"
#include "smelt/core/ir/type.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

struct OneOperator {
  OpName op;
  std::vector<OpArg> args;                  // in the schema's order
  std::vector<Type> results;                // as declared
  std::vector<std::vector<Type>> elements;  // of results that are lists of tensors
};

// A call of every operator that has a schema: the first recorded one (testdata/op_answers.safetensors), else one with
// arguments made up from its schema. Sorted by name; the same each time.
std::vector<OneOperator> OperatorCalls(const std::string& answers_path);

struct OperatorLie {
  std::string what;
  std::string extension;  // ".pt2" or ".ir"
  std::string bytes;
};
// The truth first.
std::vector<OperatorLie> LiesAbout(const OneOperator& call);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_ONE_OPERATOR_H_
