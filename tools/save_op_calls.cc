// Writes recorded calls of operators (testdata/op_answers.safetensors) as models and cases, for checks where there is no
// compiler:
//
//   save_op_calls ANSWERS FOLDER COUNT     FOLDER/N.ir and FOLDER/N.case.safetensors of about COUNT calls
//
// They are spread evenly over all calls of deterministic operators that compute new tensors.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/core/op/op_info.h"
#include "smelt/tools/fuzz/sample.h"
#include "smelt/tools/fuzz/sample_case.h"
#include "smelt/tools/op_calls_testing.h"

namespace smelt {
namespace {

bool ComputesNewTensors(const Answer& a) {
  const OpKind kind = GetOpInfo(a.op).kind;
  if (kind != OpKind::kPointwise && kind != OpKind::kReduction && kind != OpKind::kMovement && kind != OpKind::kLibrary)
    return false;
  return a.after.empty() && a.after_args.empty() && !a.outputs.empty() &&
         std::all_of(a.outputs.begin(), a.outputs.end(), [](const AnswerValue& v) {
           return v.kind == OpArg::Kind::kTensor && v.tensor.defined() && v.same_as_arg < 0;
         });
}

// Unimplemented: the call cannot be written into a graph.
absl::Status Save(const Answer& a, const std::string& prefix) {
  SMELT_ASSIGN_OR_RETURN(CallProgram p, ProgramOf(a));
  Sample sample;
  Seen seen;
  for (const Datum& d : p.args) {
    const Tensor& t = d.tensor();
    CallArg arg;
    arg.dtype = t.dtype();
    arg.geometry = t.geometry();
    auto& storages = seen.call.storages;
    const auto known = std::find(storages.begin(), storages.end(), t.storage());
    arg.storage = static_cast<int>(known - storages.begin());
    if (known == storages.end()) {
      storages.push_back(t.storage());
      sample.call.storages.push_back(
          {t.dtype(), std::string(t.storage()->data(), static_cast<size_t>(t.storage()->bytes()))});
    }
    sample.call.args.push_back(std::move(arg));
  }
  seen.call.args = p.args;
  for (const AnswerValue& v : a.outputs) seen.outputs.push_back(Datum(v.tensor));
  sample.graph = std::move(p.graph);
  const std::string model = prefix + ".ir";
  SMELT_RETURN_IF_ERROR(WriteFileAtomically(model, PrintGraph(*sample.graph)));
  return WriteCase(sample, seen, model, prefix + ".case.safetensors");
}

int Main(const std::string& path, const std::string& folder, int count) {
  auto answers = OpAnswers::Load(path);
  if (!answers.ok()) {
    std::fprintf(stderr, "save_op_calls: %s\n", answers.status().ToString().c_str());
    return 1;
  }
  std::vector<int> chosen;
  for (int i = 0; i < answers->size(); ++i) {
    if (ComputesNewTensors(answers->Get(i))) chosen.push_back(i);
  }
  int saved = 0, left_out = 0;
  const auto all = static_cast<int64_t>(chosen.size());
  const int64_t wanted = std::min<int64_t>(count, all);
  for (int64_t k = 0; k < wanted; ++k) {
    const int i = chosen[static_cast<size_t>(k * all / wanted)];
    const absl::Status s = Save(answers->Get(i), absl::StrCat(folder, "/", i));
    if (!s.ok() && !absl::IsUnimplemented(s)) {
      std::fprintf(stderr, "save_op_calls: %s: %s\n", answers->Describe(i).c_str(), s.ToString().c_str());
      return 1;
    }
    ++(s.ok() ? saved : left_out);
  }
  std::printf("%d of %d calls are saved; %d cannot be written as a graph\n", saved, answers->size(), left_out);
  return 0;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "save_op_calls ANSWERS FOLDER COUNT\n");
    return 2;
  }
  return smelt::Main(argv[1], argv[2], std::atoi(argv[3]));
}
