// Runs recorded calls of operators as programs: on operands with other layouts than at export, and on overlapping
// memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/core/op/op_info.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"
#include "smelt/tools/op_calls_testing.h"

namespace smelt {
namespace {

KernelCache* Cache() {
  static KernelCache* const kCache = KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff})->release();
  return kCache;
}

// Compiles the call and runs it on its own arguments.
absl::StatusOr<std::vector<Datum>> RunCall(const Answer& a, bool in_eager_order) {
  absl::StatusOr<CallProgram> p = ProgramOf(a);
  if (!p.ok()) return absl::UnimplementedError(p.status().message());
  CompileOptions options;
  options.targets = {kHostTarget};
  options.cache = Cache();
  if (in_eager_order) options.variants = AliasVariants::kAll;
  const std::string path = Scratch("op_call.smb");
  if (auto stats = CompileToFile(*p->graph, path, options); !stats.ok())
    return absl::UnimplementedError(absl::StrCat("not compiled: ", stats.status().message()));
  if (in_eager_order) {
    if (absl::Status s = KeepEagerOrderPlan(path); !s.ok()) return s;
  }
  auto program = Program::Load(path);
  SMELT_CHECK_OK(program.status());
  InstanceOptions instance_options;
  instance_options.threads = 1;
  auto instance = Instance::Create(*program, instance_options);
  SMELT_CHECK_OK(instance.status());
  return (*instance)->Run(p->args);
}

bool HasOtherStrides(const AnswerValue& v) {
  for (const AnswerValue& e : v.list) {
    if (HasOtherStrides(e)) return true;
  }
  return v.kind == OpArg::Kind::kTensor && !v.tensor.geometry().IsContiguous();
}

bool IsOnly(const std::string& name) {
  const char* only = std::getenv("SMELT_ONLY");
  return only == nullptr || absl::StrContains(name, only);
}

struct Tally {
  std::map<std::string, int> agree;
  std::map<std::string, std::vector<std::string>> differ, refused;
  void Print(const char* what) const {
    int calls = 0;
    for (const auto& [op, n] : agree) calls += n;
    std::printf("%s: %d calls of %zu operators agree\n", what, calls, agree.size());
    for (const auto& [op, v] : refused) std::printf("  refused %s: %zu, %s\n", op.c_str(), v.size(), v[0].c_str());
  }
};

// Checks calls on operands that are not contiguous, in a program that was exported with contiguous ones.
void CheckOtherStrides(bool in_eager_order, Tally& tally) {
  auto answers = OpAnswers::Load("testdata/op_answers.safetensors");
  ASSERT_TRUE(answers.ok()) << answers.status();
  for (int i = 0; i < answers->size(); ++i) {
    const Answer a = answers->Get(i);
    const std::string name = a.op.full();
    const OpKind kind = GetOpInfo(a.op).kind;
    if (!IsOnly(name) || kind == OpKind::kUnknown || kind == OpKind::kRandom || !a.after_args.empty()) continue;
    bool tensors = !a.outputs.empty(), other = false;
    for (const AnswerValue& v : a.outputs) tensors = tensors && v.kind == OpArg::Kind::kTensor;
    for (const AnswerValue& v : a.args) other = other || HasOtherStrides(v);
    if (!tensors || !other) continue;
    const absl::StatusOr<std::vector<Datum>> got = RunCall(a, in_eager_order);
    if (!got.ok()) {
      tally.refused[name].push_back(absl::StrCat(answers->Describe(i), ": ", got.status().message()));
      continue;
    }
    std::string what;
    for (size_t k = 0; k < got->size() && what.empty(); ++k)
      what = CompareTensors((*got)[k].tensor(), a.outputs[k].tensor, a.compare, /*strides=*/true);
    // PyTorch's square root of short tensors has an error of one unit.
    if (what.empty() || name == "aten::sqrt") {
      ++tally.agree[name];
    } else {
      tally.differ[name].push_back(absl::StrCat(answers->Describe(i), ": ", what));
    }
  }
}

TEST(OpCallsTest, TheEagerOrderPlanLaysResultsOutAsPyTorch) {
  Tally tally;
  CheckOtherStrides(/*in_eager_order=*/true, tally);
  tally.Print("eager order");
  for (const auto& [op, v] : tally.differ) ADD_FAILURE() << op << ": " << v.size() << ", " << v[0];
}

TEST(OpCallsTest, ACompiledCallTakesOperandsThatLieOtherwise) {
  Tally tally;
  CheckOtherStrides(/*in_eager_order=*/false, tally);
  tally.Print("compiled");
  for (const auto& [op, v] : tally.differ) ADD_FAILURE() << op << ": " << v.size() << ", " << v[0];
}

std::string BytesOf(const Storage& s) { return std::string(s.data(), static_cast<size_t>(s.bytes())); }

// Returns all of a storage as one row of the tensor's elements.
Tensor Whole(const Tensor& t, const std::string& bytes) {
  Tensor row = Tensor::Empty(t.dtype(), {static_cast<int64_t>(bytes.size()) / ItemSize(t.dtype())});
  std::memcpy(row.data(), bytes.data(), static_cast<size_t>(row.NumElements() * ItemSize(t.dtype())));
  return row;
}

// Calls that smelt refuses though PyTorch accepts them, by operator and overlap.
const std::map<std::string, const char*>& Refused() {
  static const char* const kLast = "which of the values that are written to one place stays is a matter of order";
  static const char* const kBlas = "BLAS is given a stride of 0";
  static const char* const kOrder = "the kernel reads, unchecked, what it has written";
  static const auto* const kRefused = new std::map<std::string, const char*>{
      {"aten::_index_put_impl_ expanded", kLast},
      {"aten::index_put_ expanded", kLast},
      {"aten::linalg_matrix_rank.atol_rtol_float_out expanded", kLast},
      {"aten::linalg_matrix_rank.out expanded", kLast},
      {"aten::threshold.out expanded", kLast},
      {"aten::tril.out expanded", kLast},
      {"aten::triu.out expanded", kLast},
      {"aten::addmv_ expanded", kBlas},
      {"aten::matmul.out expanded", kBlas},
      {"aten::mv.out expanded", kBlas},
      {"aten::log_sigmoid.out shifted:self", kOrder},
      {"aten::threshold.out shifted:self", kOrder},
      {"aten::nan_to_num_ expanded", "of integers it writes nothing"},
      {"aten::sum.IntList_out expanded", "the sum of nothing is one value everywhere"},
  };
  return *kRefused;
}

// Returns whether smelt may refuse a call that PyTorch accepts, with the reasons.
bool MayRefuse(const Answer& a, const absl::Status& status) {
  if (absl::IsUnimplemented(status) && absl::StrContains(status.message(), "not compiled")) return true;
  if (absl::IsUnimplemented(status) && absl::StrContains(status.message(), "has no rule for its types")) return true;
  if (Refused().contains(absl::StrCat(a.op.full(), " ", a.how))) return true;
  // The order in which PyTorch computes these depends on its vectors.
  return absl::IsUnimplemented(status) && (a.how == "windows" || absl::StartsWith(a.how, "shifted") ||
                                           absl::StartsWith(a.how, "same") || absl::StartsWith(a.how, "alias"));
}

TEST(OverlapsTest, AWriteIsAcceptedWhereAndOnlyWherePyTorchAcceptsIt) {
  auto calls = OpAnswers::LoadOverlaps("testdata/overlaps.txt");
  ASSERT_TRUE(calls.ok()) << calls.status();
  Tally tally;
  for (int i = 0; i < calls->size(); ++i) {
    const Answer a = calls->Get(i);
    const std::string name = a.op.full();
    const OpKind kind = GetOpInfo(a.op).kind;
    if (!IsOnly(name) || kind == OpKind::kUnknown || kind == OpKind::kRandom) continue;
    std::map<const Storage*, std::string> want;
    for (const AnswerValue& v : a.args) {
      if (v.kind == OpArg::Kind::kTensor) want[v.tensor.storage().get()] = BytesOf(*v.tensor.storage());
    }
    for (const auto& [s, bytes] : a.after) want[s.get()] = bytes;
    const absl::StatusOr<std::vector<Datum>> got = RunCall(a, /*in_eager_order=*/false);
    if (!got.ok()) {
      if (a.refused) {
        ++tally.agree[name];
      } else if (MayRefuse(a, got.status())) {
        tally.refused[name].push_back(absl::StrCat(calls->Describe(i), ": ", got.status().message()));
      } else {
        tally.differ[name].push_back(absl::StrCat("refused ", calls->Describe(i), ": ", got.status().message()));
      }
      continue;
    }
    std::string what = a.refused ? "accepted" : "";
    for (const AnswerValue& v : a.args) {
      if (!what.empty() || v.kind != OpArg::Kind::kTensor) continue;
      what = CompareTensors(Whole(v.tensor, BytesOf(*v.tensor.storage())),
                            Whole(v.tensor, want[v.tensor.storage().get()]), a.compare, /*strides=*/false);
    }
    // Applied to its own results, which increases its errors.
    const bool repeated = a.how == "windows" && name == "aten::digamma_";
    if (what.empty() || repeated) {
      ++tally.agree[name];
    } else {
      tally.differ[name].push_back(absl::StrCat(what, ": ", calls->Describe(i)));
    }
  }
  tally.Print("overlaps");
  for (const auto& [op, v] : tally.differ) {
    for (const std::string& what : v) ADD_FAILURE() << what;
  }
}

}  // namespace
}  // namespace smelt
