// Bundles with several methods: how they are loaded and run, and which files are refused.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/runtime/testing/methods_bundle.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<float> Sum(Instance& read) {
  auto out = read.Run({VectorOf({7, 7})});
  if (!out.ok()) ADD_FAILURE() << out.status();
  return out.ok() ? FloatsOf((*out)[0].tensor()) : std::vector<float>();
}

TEST(MethodsTest, AMethodFindsWhatAnotherHasWrittenAndTheStateIsOneTensor) {
  const std::unique_ptr<Instance> instance = FillAndRead().Instantiate();
  Instance *const fill = *instance->Method("fill"), *const read = *instance->Method("read");
  EXPECT_THAT(Sum(*read), ElementsAre(2, 3, 4));
  ASSERT_TRUE(fill->Run({VectorOf({10, 20, 30})}).ok());
  EXPECT_THAT(Sum(*read), ElementsAre(11, 21, 31));
  EXPECT_TRUE(fill->state(0).IsSame(read->state(0)));
  EXPECT_TRUE(instance->state(0).IsSame(read->state(0)));
  ASSERT_TRUE(fill->ResetStates().ok());
  EXPECT_THAT(Sum(*read), ElementsAre(2, 3, 4));
}

TEST(MethodsTest, InstancesDoNotShareStates) {
  const std::shared_ptr<const Program> program = FillAndRead().Load();
  auto a = Instance::Create(program), b = Instance::Create(program);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE((*(*a)->Method("fill"))->Run({VectorOf({10, 20, 30})}).ok());
  EXPECT_THAT(Sum(**(*b)->Method("read")), ElementsAre(2, 3, 4));
}

TEST(MethodsTest, EachMethodHasItsOwnSignatureAndSymbols) {
  const std::shared_ptr<const Program> program = FillAndRead().Load();
  EXPECT_THAT(program->method_names(), ElementsAre("fill", "read"));
  EXPECT_THAT(program->args(), IsEmpty());
  ASSERT_EQ(program->states().size(), 1u);
  const auto read = program->Method("read");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->args()[0].dims[0].expr, "rows");
  EXPECT_THAT((*read)->output_names(), ElementsAre("sum", "rows"));
  EXPECT_THAT((*read)->method_names(), ElementsAre("read"));
  EXPECT_EQ((*read)->states()[0].name, "cache");
  EXPECT_TRUE((*read)->states()[0].is_mutated);
  const std::unique_ptr<Instance> instance = FillAndRead().Instantiate();
  auto out = (*instance->Method("read"))->Run({VectorOf({7, 7, 7, 7, 7})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[1].as_int(), 5);
}

// A method's program outlives the bundle's, and is enough to run that method.
TEST(MethodsTest, AMethodAloneIsAProgramWithAllStates) {
  std::shared_ptr<const Program> read;
  {
    const std::shared_ptr<const Program> program = FillAndRead().Load();
    read = *program->Method("read");
  }
  auto instance = Instance::Create(read);
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_THAT(Sum(**instance), ElementsAre(2, 3, 4));
  EXPECT_EQ(*(*instance)->Method("read"), instance->get());
}

TEST(MethodsTest, AnUnknownMethodIsRefusedWithTheListAndTheOneThatIsMeant) {
  const std::shared_ptr<const Program> program = FillAndRead().Load();
  const std::unique_ptr<Instance> instance = FillAndRead().Instantiate();
  for (const absl::Status& s : {program->Method("raed").status(), instance->Method("raed").status()}) {
    EXPECT_TRUE(absl::IsNotFound(s)) << s;
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("no method \"raed\"; it has \"fill\", \"read\"; did you mean \"read\"?"));
  }
}

TEST(MethodsTest, ACallThatNamesNoMethodIsRefusedWithTheList) {
  const std::unique_ptr<Instance> instance = FillAndRead().Instantiate();
  const absl::Status s = instance->Run({VectorOf({1, 2, 3})}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(s)) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("names none: fill, read"));
}

TEST(MethodsTest, ABundleOfOneProgramIsItsMethodForward) {
  const std::shared_ptr<const Program> program = Fill().Load();
  EXPECT_THAT(program->method_names(), ElementsAre("forward"));
  EXPECT_EQ(*program->Method("forward"), program);
  EXPECT_FALSE(program->Method("fill").ok());
  HandBundle named = Fill();
  named.raw().method = "fill";
  EXPECT_THAT(named.Load()->method_names(), ElementsAre("fill"));
}

// --- files ---

std::string WhyRefused(const std::function<void(fb::BundleT&)>& change) {
  HandBundle b = FillAndRead();
  change(b.raw());
  const auto loaded = b.TryLoad();
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

TEST(MethodsFileTest, OnlyFormat2HasMethodsSoThatOlderReadersRefuseThem) {
  EXPECT_EQ(WhyRefused([](fb::BundleT&) {}), "");
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.format = 1; }), HasSubstr("bundle format 1 and 2 methods"));
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.methods.clear(); }), HasSubstr("bundle format 2 and 0 methods"));
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.methods[1]->format = 2; }),
              HasSubstr("method \"read\": has bundle format 2"));
}

TEST(MethodsFileTest, NamesAreIdentifiersAndEachOnce) {
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.methods[1]->method = "fill"; }),
              HasSubstr("two methods have one name"));
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("1st"), std::string("\xff"), std::string(101, 'a')}) {
    EXPECT_THAT(WhyRefused([&](fb::BundleT& b) { b.methods[0]->method = name; }), HasSubstr("is no identifier"));
  }
}

TEST(MethodsFileTest, AMethodHasNothingOfTheBundleAndTheBundleNoProgram) {
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) {
                b.methods[0]->states.push_back(std::make_unique<fb::StateTensorT>(*b.states[0]));
              }),
              HasSubstr("states or kernels of its own"));
  EXPECT_THAT(
      WhyRefused([](fb::BundleT& b) { b.methods[0]->kernels.push_back(std::make_unique<fb::KernelT>(*b.kernels[0])); }),
      HasSubstr("states or kernels of its own"));
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.args.push_back(std::make_unique<fb::ArgDefT>()); }),
              HasSubstr("methods beside a program"));
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) {
                b.methods[0]->methods.push_back(std::make_unique<fb::BundleT>());
                b.methods[0]->format = 2;
              }),
              HasSubstr("methods inside a method"));
}

TEST(MethodsFileTest, IndicesIntoTheBundlesTablesAreChecked) {
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.methods[0]->plans[0]->slots[1]->index = 1; }),
              HasSubstr("method \"fill\": plan 0: slot 1: storage is 1, of 1"));
  EXPECT_THAT(
      WhyRefused([](fb::BundleT& b) { b.methods[1]->plans[0]->blocks[0]->steps[0]->step.AsLaunch()->kernel = 5; }),
      HasSubstr("kernel is 5, of 5"));
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.methods[0]->plans[0]->convention->mutated->inputs[0]->arg = 1; }),
              HasSubstr("index is 1, of 1"));
  // The bundle says that no call writes the state, and instances share its memory.
  EXPECT_THAT(WhyRefused([](fb::BundleT& b) { b.storages[0]->is_mutated = false; }), HasSubstr("method \"fill\""));
}

TEST(MethodsFileTest, MethodsThatWouldCopyTheStatesWithoutEndAreRefused) {
  HandBundle b;
  for (int i = 0; i < 20000; ++i) b.State(absl::StrCat("s", i), {1}, false);
  for (int i = 0; i < 2000; ++i) b.Method(absl::StrCat("m", i), HandBundle());
  const auto loaded = b.TryLoad();
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("more methods than its states allow"));
}

TEST(MethodsFileTest, EqualStoragesThatNoCallWritesMayLieAtOnePlace) {
  const auto why = [](bool mutated, int64_t bytes) {
    HandBundle b;
    b.State("a", {1, 2}, false);
    b.State("b", {1, 2}, mutated);
    b.raw().storages[1]->segment_offset = 0;
    b.raw().storages[1]->bytes = bytes;
    b.raw().states[1]->sizes = {bytes / 4};
    const auto loaded = b.TryLoad();
    return loaded.ok() ? "" : std::string(loaded.status().message());
  };
  EXPECT_EQ(why(false, 8), "");
  EXPECT_THAT(why(true, 8), HasSubstr("share bytes"));
  EXPECT_THAT(why(false, 4), HasSubstr("share bytes"));
}

}  // namespace
}  // namespace smelt
