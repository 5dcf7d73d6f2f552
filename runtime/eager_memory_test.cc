#include "smelt/runtime/eager_memory.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/exec/write_protocol.h"
#include "smelt/runtime/thread_pool.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

class EagerMemoryTest : public ::testing::Test {
 protected:
  // Makes a state that the model writes itself, or not.
  Tensor AddState(bool is_mutated) {
    auto s = std::make_unique<fb::StateStorageT>();
    s->is_mutated = is_mutated;
    bundle_.storages.push_back(std::move(s));
    const Tensor t = Numbers();
    storages_.push_back(t.storage());
    return t;
  }
  static Tensor Numbers() {
    Tensor t = Tensor::Empty(DType::kInt64, {4});
    for (int i = 0; i < 4; ++i) t.data_as<int64_t>()[i] = i;
    return t;
  }
  static std::vector<int64_t> Elements(const Tensor& t) {
    return std::vector<int64_t>(t.data_as<int64_t>(), t.data_as<int64_t>() + t.NumElements());
  }
  EagerMemory Memory() { return EagerMemory({&bundle_, &storages_, &generation_}, &ThreadPool::Shared(), 1); }

  fb::BundleT bundle_;
  std::vector<std::shared_ptr<Storage>> storages_;
  uint64_t generation_ = 0;
};

TEST_F(EagerMemoryTest, UndoRestoresContentsThatTheCallerSees) {
  const Tensor seen = Numbers(), own = Numbers(), ones = Tensor::Empty(DType::kInt64, {1});
  ones.data_as<int64_t>()[0] = 1;
  EagerMemory memory = Memory();
  memory.AddVisible(seen.storage());
  ASSERT_TRUE(memory.Write(seen, ones).ok());
  ASSERT_TRUE(memory.Write(own, ones).ok());
  EXPECT_EQ(Elements(seen), (std::vector<int64_t>{1, 1, 1, 1}));
  memory.Undo();
  EXPECT_EQ(Elements(seen), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(Elements(own), (std::vector<int64_t>{1, 1, 1, 1}));
}

TEST_F(EagerMemoryTest, UndoRestoresTheGeometryAndTheBytesOfAResizedTensor) {
  const Tensor t = Numbers();
  EagerMemory memory = Memory();
  memory.AddVisible(t.storage());
  ASSERT_TRUE(memory.Resize(t, Geometry::Contiguous({100})).ok());
  EXPECT_EQ(t.NumElements(), 100);
  EXPECT_EQ(t.storage()->bytes(), 800);
  EXPECT_EQ(generation_, 1u);
  memory.Undo();
  EXPECT_EQ(t.NumElements(), 4);
  EXPECT_EQ(t.storage()->bytes(), 32);
  EXPECT_EQ(generation_, 2u);
  EXPECT_EQ(Elements(t), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(EagerMemoryTest, AStateThatTheModelDoesNotWriteIsRefused) {
  const Tensor written = AddState(/*is_mutated=*/true), parameter = AddState(/*is_mutated=*/false);
  EagerMemory memory = Memory();
  EXPECT_TRUE(memory.CheckWritable(written).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(memory.CheckWritable(parameter)));
}

TEST_F(EagerMemoryTest, ExpandedMemoryTakesOnlyOneValue) {
  const Tensor expanded = Numbers().View({{4}, {0}, 0});
  EagerMemory memory = Memory();
  EXPECT_EQ(memory.CheckWritable(expanded).message(), kInternalOverlapMessage);
  EXPECT_TRUE(memory.CheckWritable(expanded, /*uniform=*/true).ok());
}

TEST_F(EagerMemoryTest, ACopyFromOverlappingMemoryReadsAllElementsFirst) {
  const Tensor t = Numbers();
  Memory().CopyElements(t.View({{3}, {1}, 1}), t.View({{3}, {1}, 0}));
  EXPECT_EQ(Elements(t), (std::vector<int64_t>{0, 0, 1, 2}));
}

TEST_F(EagerMemoryTest, SizesThatNoMemoryHoldsAreRefused) {
  const Tensor t = Numbers();
  EagerMemory memory = Memory();
  EXPECT_TRUE(absl::IsFailedPrecondition(memory.Resize(t, Geometry::Contiguous({int64_t{1} << 50}))));
  EXPECT_EQ(t.NumElements(), 4);
}

}  // namespace
}  // namespace smelt
