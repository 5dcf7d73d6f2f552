#include "smelt/pipeline/unite_weights.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A graph that only has weights, each an input.
class Weights {
 public:
  Weights() : graph_(std::make_unique<Graph>()) {}
  int Storage(const std::vector<float>& values) {
    Tensor t = Tensor::Empty(DType::kFloat32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data_as<float>());
    graph_->weight_storages.push_back(t.storage());
    return static_cast<int>(graph_->weight_storages.size()) - 1;
  }
  Weight& Add(const std::string& name, int storage, const Geometry& geometry = Geometry::Contiguous({2}),
              Weight::Kind kind = Weight::Kind::kBuffer) {
    Weight w;
    w.name = name;
    w.kind = kind;
    w.storage = storage;
    w.geometry = geometry;
    InputInfo info;
    info.kind = InputInfo::Kind::kWeight;
    info.weight = static_cast<int>(graph_->weights.size());
    graph_->weights.push_back(std::move(w));
    graph_->AddInput(name, Type(), info);
    return graph_->weights.back();
  }
  Graph* graph() { return graph_.get(); }

 private:
  std::unique_ptr<Graph> graph_;
};

absl::Status Unite(Weights& a, Weights& b) { return UniteWeights({{"one", a.graph()}, {"two", b.graph()}}); }

std::vector<std::string> NamesOf(Weights& w) {
  std::vector<std::string> out;
  for (const Weight& weight : w.graph()->weights) out.push_back(weight.name);
  return out;
}

TEST(UniteWeightsTest, AWeightOfOneNameIsOneStateAndEachInputKeepsItsWeight) {
  Weights a, b;
  a.Add("x", a.Storage({1, 2}));
  a.Add("y", a.Storage({3, 4}));
  b.Add("z", b.Storage({5, 6}));
  b.Add("y", b.Storage({3, 4}));
  ASSERT_TRUE(Unite(a, b).ok());
  for (Weights* w : {&a, &b}) EXPECT_THAT(NamesOf(*w), ElementsAre("x", "y", "z"));
  EXPECT_EQ(a.graph()->weight_storages, b.graph()->weight_storages);
  EXPECT_EQ(a.graph()->weight_storages.size(), 3u);
  EXPECT_EQ(a.graph()->input_infos[0].weight, 0);
  EXPECT_EQ(a.graph()->input_infos[1].weight, 1);
  EXPECT_EQ(b.graph()->input_infos[0].weight, 2);
  EXPECT_EQ(b.graph()->input_infos[1].weight, 1);
}

TEST(UniteWeightsTest, StatesOfOneNameThatDifferAreRefusedWithTheMethodsAndTheDifference) {
  const auto why = [](auto change) {
    Weights a, b;
    a.Add("cache", a.Storage({1, 2, 3, 4}), Geometry::Contiguous({2, 2}));
    change(b, b.Add("cache", b.Storage({1, 2, 3, 4}), Geometry::Contiguous({2, 2})));
    const absl::Status s = Unite(a, b);
    EXPECT_TRUE(absl::IsInvalidArgument(s)) << s;
    return std::string(s.message());
  };
  EXPECT_EQ(why([](Weights&, Weight& w) { w.geometry = Geometry::Contiguous({4}); }),
            "the methods \"one\" and \"two\" do not agree on the state \"cache\": its sizes are [2, 2] in the first, "
            "[4] in the second");
  EXPECT_THAT(why([](Weights&, Weight& w) { w.geometry.strides = {1, 2}; }),
              HasSubstr("its strides are [2, 1] in the first, [1, 2] in the second"));
  EXPECT_THAT(why([](Weights&, Weight& w) { w.geometry = {{2, 1}, {2, 1}, 1}; }), HasSubstr("its sizes are"));
  EXPECT_THAT(why([](Weights&, Weight& w) { w.dtype = DType::kInt32; }),
              HasSubstr("its dtype is float32 in the first, int32 in the second"));
  EXPECT_THAT(why([](Weights&, Weight& w) { w.kind = Weight::Kind::kParameter; }),
              HasSubstr("it is a buffer in the first, a parameter in the second"));
  EXPECT_THAT(why([](Weights& b, Weight&) { b.graph()->weight_storages[0]->data()[3] = 0; }),
              HasSubstr("its initial contents differ"));
  EXPECT_THAT(why([](Weights& b, Weight& w) { w.storage = b.Storage({1, 2, 3, 4, 5}); }),
              HasSubstr("its storage has 16 bytes in the first, 20 in the second"));
}

TEST(UniteWeightsTest, WeightsThatShareMemoryDoSoInEveryMethod) {
  Weights a, b;
  const int tied = a.Storage({1, 2});
  a.Add("embed", tied);
  a.Add("head", tied);
  b.Add("head", b.Storage({1, 2}));
  ASSERT_TRUE(Unite(a, b).ok());
  EXPECT_THAT(NamesOf(b), ElementsAre("embed", "head"));
  EXPECT_EQ(b.graph()->weights[0].storage, b.graph()->weights[1].storage);

  Weights c, d;
  const int one = c.Storage({1, 2});
  c.Add("embed", one);
  c.Add("head", one);
  d.Add("embed", d.Storage({1, 2}));
  d.Add("head", d.Storage({1, 2}));
  EXPECT_THAT(std::string(Unite(c, d).message()),
              HasSubstr("\"embed\" and \"head\" have memory of their own in the method \"two\""));
}

TEST(UniteWeightsTest, ConstantsOfOneNameAreOneOnlyWhereTheyAreEqual) {
  Weights a, b;
  const auto constant = Weight::Kind::kConstant;
  a.Add("lifted_0", a.Storage({1, 2}), Geometry::Contiguous({2}), constant);
  a.Add("lifted_1", a.Storage({3, 4}), Geometry::Contiguous({2}), constant);
  b.Add("lifted_0", b.Storage({1, 2}), Geometry::Contiguous({2}), constant);
  b.Add("lifted_1", b.Storage({5, 6}), Geometry::Contiguous({2}), constant);
  ASSERT_TRUE(Unite(a, b).ok());
  EXPECT_THAT(NamesOf(b), ElementsAre("lifted_0", "lifted_1", "two.lifted_1"));
  EXPECT_EQ(b.graph()->input_infos[1].weight, 2);
}

}  // namespace
}  // namespace smelt
