// Reads the recorded answers of PyTorch's operators (testdata/README.md, "Operator answers"). For tests only.
//
//   OpAnswers answers = *OpAnswers::Load("testdata/op_answers.safetensors");
//   for (int i = 0; i < answers.size(); ++i) {
//     Answer a = answers.Get(i);                // storages of its own: the operator may write them
//     ... run a.op on a.args, compare with a.outputs and a.after ...
//   }
#ifndef SMELT_CORE_OP_OP_ANSWERS_H_
#define SMELT_CORE_OP_OP_ANSWERS_H_

#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

struct AnswerValue {
  OpArg::Kind kind = OpArg::Kind::kNone;  // kOther: a device, a string PyTorch alone knows
  Tensor tensor;
  int64_t i = 0;  // kInt, kBool; dtypes, formats and layouts as PyTorch's codes
  double f = 0;
  std::complex<double> c;
  std::string string;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<bool> bools;
  std::vector<AnswerValue> list;  // kTensorList
  int same_as_arg = -1;           // for an output: it is this argument itself

  OpArg ToOpArg() const;
};

struct Answer {
  OpName op;
  std::vector<AnswerValue> args, outputs;
  // The bytes of each argument's storage afterwards, if they change.
  std::vector<std::pair<std::shared_ptr<Storage>, std::string>> after;
  std::vector<std::pair<int, Tensor>> after_args;  // arguments whose geometry changes
  enum class Compare { kBits, kEqual, kClose } compare = Compare::kClose;
  // For a call in overlaps.txt: whether PyTorch refuses it, and the changes of its memory.
  bool refused = false;
  std::string how;
};

class OpAnswers {
 public:
  static absl::StatusOr<OpAnswers> Load(absl::string_view path);
  // Loads the calls of overlaps.txt (testdata/record_overlaps.py), which have no outputs.
  static absl::StatusOr<OpAnswers> LoadOverlaps(absl::string_view path);
  ~OpAnswers();
  OpAnswers(OpAnswers&&) noexcept;
  int size() const;
  Answer Get(int i) const;
  std::string Describe(int i) const;  // "aten::add.Tensor float32[2, 3], 2 (#17)"

 private:
  struct Rep;
  OpAnswers();
  std::unique_ptr<Rep> rep_;
};

// Returns element `index` (row-major) of a tensor as a double, exact up to int64's range; complex: its real part.
double ElementAsDouble(const Tensor& t, int64_t index);
// Returns the first difference between `have` and `want` under the comparison, or "". Sizes and dtypes are compared
// too, and strides if `strides`.
std::string CompareTensors(const Tensor& have, const Tensor& want, Answer::Compare compare, bool strides);

}  // namespace smelt

#endif  // SMELT_CORE_OP_OP_ANSWERS_H_
