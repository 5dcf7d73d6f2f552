// Runs the models of testdata/methods, which have several methods, through every stage, and compares with PyTorch's
// results.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/stats.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "testdata/methods";

// The files of testdata/methods, NAME.METHOD.pt2, by name.
std::map<std::string, std::vector<std::string>> MethodsByModel() {
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& file : ModelNames(kFolder)) {
    const size_t dot = file.find('.');
    out[file.substr(0, dot)].push_back(file.substr(dot + 1));
  }
  return out;
}

absl::StatusOr<CompileStats> CompileMethods(const std::string& model, const std::vector<std::string>& methods,
                                            const std::string& bundle, CompileOptions options = {}) {
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<Method> given;
  for (const std::string& m : methods) {
    Method method{m, nullptr, {}};
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                           ReadModel(absl::StrCat(kFolder, "/", model, ".", m, ".pt2"), true, &method.structure));
    method.graph = graph.get();
    graphs.push_back(std::move(graph));
    given.push_back(std::move(method));
  }
  return CompileMethodsToFile(given, bundle, options);
}

absl::StatusOr<std::shared_ptr<const Program>> Compiled(const std::string& model,
                                                        const std::vector<std::string>& methods) {
  const std::string bundle = Scratch(model + ".smb");
  SMELT_RETURN_IF_ERROR(CompileMethods(model, methods, bundle, {.targets = {kHostTarget}}).status());
  return Program::Load(bundle);
}

class MethodsCaseTest : public ::testing::TestWithParam<std::string> {};

std::string WhyCaseFails(const std::string& model, const std::string& bundle, GuardPages guard) {
  const auto program = Program::Load(bundle);
  if (!program.ok()) return std::string(program.status().message());
  const auto report =
      RunCase(*program, absl::StrCat(kFolder, "/", model, ".case.safetensors"), {.repeat = 2, .guard = guard});
  if (!report.ok()) return std::string(report.status().message());
  if (report->ok) return "";
  const CaseFailure& f = report->failures[0];
  return absl::StrCat("call ", f.call, ": ", f.where, ": ", f.what);
}

TEST_P(MethodsCaseTest, AnswersAsPyTorchDidAndKernelsStayInTheirBuffers) {
  const std::string bundle = Scratch(GetParam() + ".smb");
  const auto stats = CompileMethods(GetParam(), MethodsByModel()[GetParam()], bundle);
  ASSERT_TRUE(stats.ok()) << stats.status();
  for (const GuardPages guard : {GuardPages::kNone, GuardPages::kEnd, GuardPages::kBegin})
    EXPECT_EQ(WhyCaseFails(GetParam(), bundle, guard), "");
}

TEST_P(MethodsCaseTest, AnswersWithoutFusionAndEveryPassKeepsTheMeaning) {
  const std::string bundle = Scratch(GetParam() + "_plain.smb");
  CompileOptions options;
  options.targets = {kHostTarget};
  options.fuse = false;
  ASSERT_TRUE(CompileMethods(GetParam(), MethodsByModel()[GetParam()], bundle, options).ok());
  EXPECT_EQ(WhyCaseFails(GetParam(), bundle, GuardPages::kNone), "");
  options.fuse = options.verify = true;
  const auto verified = CompileMethods(GetParam(), MethodsByModel()[GetParam()], bundle, options);
  EXPECT_TRUE(verified.ok()) << verified.status();
}

INSTANTIATE_TEST_SUITE_P(Testdata, MethodsCaseTest, ::testing::Values("cache", "encoder_decoder", "train_eval"),
                         [](const auto& info) { return info.param; });

TEST(MethodsTest, EveryModelOfTheFolderIsTested) {
  std::vector<std::string> models;
  for (const auto& [model, methods] : MethodsByModel()) models.push_back(model);
  EXPECT_THAT(models, ElementsAre("cache", "encoder_decoder", "train_eval", "turned"));
}

// A method that changes no state's geometry has no plan for states that another method has turned: it says so.
TEST(MethodsTest, AStateThatAnotherMethodHasTurnedIsRefusedByItsName) {
  const std::string bundle = Scratch("turned.smb");
  ASSERT_TRUE(CompileMethods("turned", {"add", "turn"}, bundle, {.targets = {kHostTarget}}).ok());
  EXPECT_THAT(WhyCaseFails("turned", bundle, GuardPages::kNone),
              HasSubstr("call 2: call: refused: an earlier call gave the state \"square\" another geometry"));
}

// Weights, kernels that both methods need, and states are in the bundle once.
TEST(MethodsTest, ABundleHoldsWhatItsMethodsHaveInCommonOnce) {
  const std::string both = Scratch("both.smb");
  const CompileOptions options{.targets = {kHostTarget}};
  ASSERT_TRUE(CompileMethods("encoder_decoder", {"encode", "decode"}, both, options).ok());
  const auto bundle = ReadBundle(both);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  std::vector<std::string> names, keys;
  for (const auto& s : (*bundle)->states) names.push_back(s->name);
  EXPECT_EQ(std::count(names.begin(), names.end(), "embed.weight"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "query.weight"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "encoder.0.weight"), 1);
  for (const auto& k : (*bundle)->kernels) keys.push_back(k->key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  // A method beside itself adds no kernel and no weight.
  const std::string one = Scratch("one.smb"), twice = Scratch("twice.smb");
  auto graph = ReadModel(absl::StrCat(kFolder, "/encoder_decoder.encode.pt2"), true, nullptr);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(CompileMethodsToFile({{"a", graph->get(), {}}}, one, options).ok());
  ASSERT_TRUE(CompileMethodsToFile({{"a", graph->get(), {}}, {"b", graph->get(), {}}}, twice, options).ok());
  const auto of_one = ReadBundle(one), of_two = ReadBundle(twice);
  ASSERT_TRUE(of_one.ok() && of_two.ok());
  EXPECT_EQ((*of_one)->kernels.size(), (*of_two)->kernels.size());
  EXPECT_EQ((*of_one)->storages.size(), (*of_two)->storages.size());
}

TEST(MethodsTest, WeightsOfEqualContentsAreStoredOnceUnderAllTheirNames) {
  auto a = ReadModel(absl::StrCat(kFolder, "/encoder_decoder.encode.pt2"), true, nullptr);
  auto b = ReadModel(absl::StrCat(kFolder, "/encoder_decoder.encode.pt2"), true, nullptr);
  ASSERT_TRUE(a.ok() && b.ok());
  for (Weight& w : (*b)->weights) w.name = "wrapped." + w.name;
  const std::string path = Scratch("wrapped.smb");
  ASSERT_TRUE(CompileMethodsToFile({{"a", a->get(), {}}, {"b", b->get(), {}}}, path, {.targets = {kHostTarget}}).ok());
  const auto bundle = ReadBundle(path);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  std::map<std::string, int64_t> places;
  for (const auto& s : (*bundle)->states) places[s->name] = (*bundle)->storages[s->storage]->segment_offset;
  EXPECT_EQ(places.size(), 2 * (*a)->weights.size());
  for (const Weight& w : (*a)->weights) EXPECT_EQ(places[w.name], places["wrapped." + w.name]) << w.name;
}

TEST(MethodsTest, ABundleOfOneMethodIsThatOfItsModelWithAName) {
  const std::string plain = Scratch("plain.smb"), forward = Scratch("forward.smb"), named = Scratch("named.smb");
  const CompileOptions options{.targets = {kHostTarget}};
  auto graph = ReadModel("testdata/relu_input.pt2", true, nullptr);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(CompileToFile(**graph, plain, options).ok());
  ASSERT_TRUE(CompileMethodsToFile({{"forward", graph->get(), {}}}, forward, options).ok());
  ASSERT_TRUE(CompileMethodsToFile({{"decode", graph->get(), {}}}, named, options).ok());
  EXPECT_EQ(*ReadFile(plain), *ReadFile(forward));
  EXPECT_NE(*ReadFile(plain), *ReadFile(named));
  const auto program = Program::Load(named);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->bundle_format(), 1);
  EXPECT_THAT((*program)->method_names(), ElementsAre("decode"));
}

TEST(MethodsTest, TheSameModelsGiveTheSameBytes) {
  const std::string one = Scratch("first.smb"), two = Scratch("second.smb");
  CompileOptions options{.targets = {kHostTarget}};
  ASSERT_TRUE(CompileMethods("cache", {"prefill", "decode"}, one, options).ok());
  options.threads = 2;
  ASSERT_TRUE(CompileMethods("cache", {"prefill", "decode"}, two, options).ok());
  EXPECT_EQ(*ReadFile(one), *ReadFile(two));
}

TEST(MethodsTest, TheCacheThatOneMethodFillsIsTheOtherOnesMemory) {
  const auto program = Compiled("cache", {"prefill", "decode"});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->bundle_format(), 2);
  const auto instance = Instance::Create(*program);
  ASSERT_TRUE(instance.ok());
  Instance *const prefill = *(*instance)->Method("prefill"), *const decode = *(*instance)->Method("decode");
  int cache = -1;
  for (size_t i = 0; i < (*program)->states().size(); ++i) {
    if ((*program)->states()[i].name == "k_cache") cache = static_cast<int>(i);
  }
  ASSERT_GE(cache, 0);
  const Tensor before = decode->state(cache);
  const auto zeros = [&] {
    const float* data = before.data_as<float>();
    return std::count(data, data + before.NumElements(), 0.0f);
  };
  EXPECT_EQ(zeros(), before.NumElements());
  Tensor prompt = Tensor::Empty(DType::kInt64, {1, 3});
  std::fill_n(prompt.data_as<int64_t>(), 3, 1);
  ASSERT_TRUE(prefill->Run({prompt}).ok());
  // Three of eight positions are filled, in the very tensor that decode reads.
  EXPECT_EQ(zeros(), before.NumElements() * 5 / 8);
  EXPECT_EQ(decode->state(cache).data(), before.data());
  EXPECT_EQ(prefill->last_call().bytes_copied_back, 0);
}

TEST(MethodsTest, ErrorsOfAModelNameItsMethod) {
  auto graph = ReadModel("testdata/relu_input.pt2", true, nullptr);
  ASSERT_TRUE(graph.ok());
  const auto why = [&](const std::vector<Method>& methods) {
    return std::string(CompileMethodsToFile(methods, Scratch("none.smb"), {}).status().message());
  };
  EXPECT_THAT(why({{"a", graph->get(), {}}, {"a", graph->get(), {}}}), HasSubstr("two methods are called \"a\""));
  EXPECT_THAT(why({{"a b", graph->get(), {}}}), HasSubstr("\"a b\" is no name of a method"));
  auto unsupported = ParseModel(R"(graph(%x : Float(4, strides=[1])):
  %y : Float(4, strides=[1]) = aten::relu(%x)
  return (%y))");
  ASSERT_TRUE(unsupported.ok());
  (*unsupported)->weights.push_back({.name = "w", .storage = 0, .geometry = Geometry::Contiguous({4})});
  (*unsupported)->weight_storages.push_back(Storage::Borrow(nullptr, 16));
  EXPECT_THAT(why({{"a", graph->get(), {}}, {"b", unsupported->get(), {}}}),
              HasSubstr("method \"b\": weights without data"));
  EXPECT_FALSE(std::filesystem::exists(Scratch("none.smb")));
}

}  // namespace
}  // namespace smelt
