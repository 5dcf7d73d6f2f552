// Operators that a program registers through smelt.h and smelt.hpp. The models and their answers are PyTorch's, or the
// answer is arithmetic.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/smelt.hpp"

namespace {

using smelt::Array;
using smelt::Output;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kShared[] = "testdata/custom/shared/shared.smb";  // clamp_(x, low=0.5); before = y * 1; add_all_([y], x)

// Registers operators and removes them at the end of a test.
class CustomOperatorsTest : public ::testing::Test {
 protected:
  template <typename F>
  void Register(const std::string& name, F function) {
    smelt::RegisterOperator(name, std::move(function));
    registered_.push_back(name);
  }
  void RegisterAdd() {
    Register("testops::add_all_", [](std::vector<Array<float>> xs, Array<const float> y) {
      for (const Array<float>& x : xs) {
        for (int i = 0; i < 2; ++i) {
          for (int j = 0; j < 3; ++j) x(i, j) += y(i, j);
        }
      }
    });
  }
  template <typename F>
  void RegisterClamp(F function) {
    Register("testops::clamp_", std::move(function));
  }
  void TearDown() override {
    for (const std::string& name : registered_) smelt::UnregisterOperator(name);
  }

  std::string FailureOf(smelt::Instance& instance) {
    try {
      instance.Run({smelt::Tensor::Borrow(x_.data(), {2, 3}), smelt::Tensor::Borrow(y_.data(), {2, 3})});
    } catch (const smelt::Error& e) {
      EXPECT_EQ(e.status(), SMELT_FAILED_PRECONDITION);
      return e.what();
    }
    return "";
  }

  std::vector<float> x_ = {-1, 0, 1, 2, 3, 4}, y_ = {1, 1, 1, 1, 1, 1};
  const std::vector<float> before_x_ = x_, before_y_ = y_;
  std::vector<std::string> registered_;
};

void Clamp(Array<float> x, std::optional<double> low, std::optional<double>) {
  x.ForEach([&](float& v) { v = v < *low ? static_cast<float>(*low) : v; });
}

TEST_F(CustomOperatorsTest, AWriteIsSeenThroughAllThatShareTheMemory) {
  RegisterClamp(Clamp);
  RegisterAdd();
  smelt::Instance instance{smelt::Program(kShared)};
  // y is x's last row and what follows.
  std::vector<float> memory = {-1, 0, 1, 2, 3, 4, 5, 6, 7};
  const smelt::Tensor all = smelt::Tensor::Borrow(memory.data(), {9});
  const std::vector<smelt::Value> results = instance.Run({all.View({2, 3}, {3, 1}, 0), all.View({2, 3}, {3, 1}, 3)});
  // clamp_: 0.5 0.5 1 2 3 4 5 6 7; then y += x, element by element as this implementation goes.
  EXPECT_THAT(memory, ElementsAre(0.5, 0.5, 1, 2.5, 3.5, 5, 7.5, 9.5, 12));
  const float* before = results[0].tensor().data<float>();
  EXPECT_THAT(std::vector<float>(before, before + 6), ElementsAre(2, 3, 4, 5, 6, 7));
}

TEST_F(CustomOperatorsTest, OperatorsThatNobodyRegisteredAreNamed) {
  RegisterAdd();
  try {
    smelt::Program program(kShared);
    FAIL() << "it loaded";
  } catch (const smelt::Error& e) {
    EXPECT_EQ(e.status(), SMELT_UNIMPLEMENTED);
    EXPECT_THAT(e.what(), HasSubstr("testops::clamp_(Tensor(a!) x, *, float? low=None, float? high=None)"));
    EXPECT_THAT(e.what(), testing::Not(HasSubstr("testops::add_all_")));
  }
}

TEST_F(CustomOperatorsTest, AnErrorEndsTheCallAndLeavesTheArgumentsAsTheyWere) {
  RegisterAdd();
  RegisterClamp([](Array<float> x, std::optional<double>, std::optional<double>) {
    x(0, 0) = 77;
    throw std::runtime_error("the clamp is broken");
  });
  smelt::Instance instance{smelt::Program(kShared)};
  EXPECT_THAT(FailureOf(instance), HasSubstr("testops::clamp_: the clamp is broken"));
  EXPECT_EQ(x_, before_x_);
  EXPECT_EQ(y_, before_y_);
}

TEST_F(CustomOperatorsTest, AParameterOfAnotherTypeIsAnError) {
  RegisterAdd();
  RegisterClamp([](Array<double>, std::optional<double>, std::optional<double>) {});
  smelt::Instance instance{smelt::Program(kShared)};
  EXPECT_THAT(FailureOf(instance), HasSubstr("argument 0 is not a tensor of float64"));
  smelt::UnregisterOperator("testops::clamp_");
  registered_.pop_back();
  RegisterClamp([](Array<float>, std::optional<double>) {});
  smelt::Instance fewer{smelt::Program(kShared)};
  EXPECT_THAT(FailureOf(fewer),
              HasSubstr("the schema has 3 arguments and 1 results, the implementation takes 2 and 0"));
  EXPECT_EQ(x_, before_x_);
}

TEST_F(CustomOperatorsTest, AResultThatIsNotTheArgumentIsAnError) {
  RegisterAdd();
  RegisterClamp([](Array<float> x, std::optional<double>, std::optional<double>, Output<float> out) {
    x(0, 0) = 77;
    out.Create({2, 3});
  });
  smelt::Instance instance{smelt::Program(kShared)};
  EXPECT_THAT(FailureOf(instance), HasSubstr("result 0 is not argument \"x\", which the schema says it is"));
  EXPECT_EQ(x_, before_x_);
}

TEST_F(CustomOperatorsTest, TwoThreadsCallAnOperatorAtOnce) {
  std::atomic<int> inside{0};
  RegisterAdd();
  RegisterClamp([&](Array<float> x, std::optional<double> low, std::optional<double> high) {
    ++inside;
    while (inside < 2) std::this_thread::yield();  // passes only if both are here
    Clamp(x, low, high);
  });
  const smelt::Program program(kShared);
  std::vector<std::vector<float>> xs(2, x_), ys(2, y_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      smelt::Instance instance(program);
      instance.Run({smelt::Tensor::Borrow(xs[i].data(), {2, 3}), smelt::Tensor::Borrow(ys[i].data(), {2, 3})});
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::vector<float>& y : ys) EXPECT_THAT(y, ElementsAre(1.5, 1.5, 2, 3, 4, 5));
}

TEST_F(CustomOperatorsTest, AnInstanceRefusesToBeRunByItsOwnOperator) {
  RegisterAdd();
  smelt::Instance* running = nullptr;
  std::string inner;
  RegisterClamp([&](Array<float> x, std::optional<double> low, std::optional<double> high) {
    std::vector<float> a(6), b(6);
    try {
      running->Run({smelt::Tensor::Borrow(a.data(), {2, 3}), smelt::Tensor::Borrow(b.data(), {2, 3})});
    } catch (const smelt::Error& e) {
      inner = e.what();
    }
    Clamp(x, low, high);
  });
  smelt::Instance instance{smelt::Program(kShared)};
  running = &instance;
  instance.Run({smelt::Tensor::Borrow(x_.data(), {2, 3}), smelt::Tensor::Borrow(y_.data(), {2, 3})});
  EXPECT_THAT(inner, HasSubstr("an operator runs the instance that is calling it"));
  EXPECT_THAT(y_, ElementsAre(1.5, 1.5, 2, 3, 4, 5));
}

TEST_F(CustomOperatorsTest, AnImplementationLivesAsLongAsAProgramNeedsIt) {
  RegisterAdd();
  auto alive = std::make_shared<int>(0);
  smelt::RegisterOperator("testops::clamp_", [alive](Array<float> x, std::optional<double> low,
                                                     std::optional<double> high) { Clamp(x, low, high); });
  {
    smelt::Instance instance{smelt::Program(kShared)};
    smelt::UnregisterOperator("testops::clamp_");
    EXPECT_EQ(FailureOf(instance), "");
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST_F(CustomOperatorsTest, RegisteringTwiceOrBadlyIsAnError) {
  RegisterAdd();
  EXPECT_THROW(RegisterAdd(), smelt::Error);
  EXPECT_EQ(smelt_operator_register(
                "no_namespace", [](smelt_operator_call*) { return SMELT_OK; }, nullptr, nullptr),
            SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_operator_register(nullptr, nullptr, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_operator_unregister("testops::nobody"), SMELT_NOT_FOUND);
  EXPECT_EQ(smelt_operator_library_load("no_such_library.so"), SMELT_NOT_FOUND);
  EXPECT_EQ(smelt_operator_library_load(kShared), SMELT_INVALID_ARGUMENT);
}

// An implementation in C that does everything wrong that a result can be.
smelt_status WrongResults(smelt_operator_call* call) {
  const int how = *static_cast<int*>(call->user);
  const int64_t sizes[] = {2, 3};
  smelt_array outside = *call->args[0].value.array;
  switch (how) {
    case 0:
      return SMELT_INTERNAL;
    case 1:
      std::memset(call->message, 'x', call->message_size);  // without an end
      return SMELT_INVALID_ARGUMENT;
    case 2:
      call->results[0].kind = static_cast<smelt_kind>(99);
      return SMELT_OK;
    case 3:
      call->results[0].kind = SMELT_KIND_TENSOR;  // null
      return SMELT_OK;
    case 4:
      outside.offset = 1 << 20;
      return call->api->new_view(&call->results[0], &outside) == SMELT_OK ? SMELT_OK : SMELT_INVALID_ARGUMENT;
    case 5:
      call->api->new_tensor(&call->results[0], SMELT_FLOAT64, 2, sizes);
      return SMELT_OK;
    default:
      return call->api->new_list(&call->results[0], 2);
  }
}

TEST_F(CustomOperatorsTest, WhatAnImplementationInCDoesWrongIsAnError) {
  RegisterAdd();
  int how = 0;
  ASSERT_EQ(smelt_operator_register("testops::clamp_", WrongResults, &how, nullptr), SMELT_OK);
  registered_.push_back("testops::clamp_");
  smelt::Instance instance{smelt::Program(kShared)};
  const char* const expected[] = {"failed with status 13",
                                  "testops::clamp_: xxxx",
                                  "a result is of kind 99",
                                  "a result is a null tensor",
                                  "failed with status 3",
                                  "result 0 is float64[2, 3], expected float32[2, 3]",
                                  "result 0 is a list, expected a tensor"};
  for (how = 0; how < 7; ++how) {
    EXPECT_THAT(FailureOf(instance), HasSubstr(expected[how]));
    EXPECT_EQ(x_, before_x_);
  }
}

}  // namespace
