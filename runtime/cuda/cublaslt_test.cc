// Products by the tests' cuBLASLt (testing/fake_cublaslt.h) on the device of the tests' driver.
#include "smelt/runtime/cuda/cublaslt.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/cuda/testing/device_calls.h"
#include "smelt/runtime/cuda/testing/fake_cublaslt.h"
#include "smelt/runtime/cuda/testing/native_kernels.h"
#include "smelt/runtime/device/device.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

using testing::HasSubstr;

struct FakeCublasLt {
  decltype(&fake_cublaslt_fail) fail;
  decltype(&fake_cublaslt_launches) launches;
  decltype(&fake_cublaslt_least_alignment) least_alignment;
  decltype(&fake_cublaslt_counts) counts;
};
const FakeCublasLt& Blas() {
  static const auto* const blas = [] {
    void* const library = dlopen(std::getenv("SMELT_CUBLASLT"), RTLD_NOW | RTLD_LOCAL);
    SMELT_CHECK(library != nullptr) << "SMELT_CUBLASLT names no library";
    auto* out = new FakeCublasLt();
    const auto find = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      SMELT_CHECK(function != nullptr) << name;
    };
    find(out->fail, "fake_cublaslt_fail");
    find(out->launches, "fake_cublaslt_launches");
    find(out->least_alignment, "fake_cublaslt_least_alignment");
    find(out->counts, "fake_cublaslt_counts");
    return out;
  }();
  return *blas;
}

const ExecutionDevice& Gpu() { return **ExecutionDevice::Of(Device::Cuda(0)); }

// Memory of the device with elements of a type.
class Elements {
 public:
  Elements(DType type, const std::vector<float>& values, int64_t skipped_bytes = 0)
      : type_(type), count_(values.size()), skipped_(skipped_bytes) {
    std::vector<char> bytes(count_ * static_cast<size_t>(ItemSize(type)));
    for (size_t i = 0; i < count_; ++i) {
      if (type == DType::kFloat32) {
        std::memcpy(&bytes[4 * i], &values[i], 4);
      } else {
        const uint16_t bits = type == DType::kFloat16 ? FloatToHalf(values[i]) : FloatToBFloat16(values[i]);
        std::memcpy(&bytes[2 * i], &bits, 2);
      }
    }
    storage_ = *Gpu().NewStorage(static_cast<int64_t>(bytes.size()) + skipped_);
    SMELT_CHECK_OK(Gpu().FromHost(at(), bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  char* at() const { return storage_->address() + skipped_; }
  std::vector<float> Values() const {
    std::vector<char> bytes(count_ * static_cast<size_t>(ItemSize(type_)));
    SMELT_CHECK_OK(Gpu().ToHost(bytes.data(), at(), static_cast<int64_t>(bytes.size())));
    std::vector<float> out(count_);
    for (size_t i = 0; i < count_; ++i) {
      uint16_t bits = 0;
      if (type_ == DType::kFloat32) {
        std::memcpy(&out[i], &bytes[4 * i], 4);
      } else {
        std::memcpy(&bits, &bytes[2 * i], 2);
        out[i] = type_ == DType::kFloat16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
      }
    }
    return out;
  }

 private:
  const DType type_;
  const size_t count_;
  const int64_t skipped_;
  std::shared_ptr<Storage> storage_;
};

// Small integers: all sums of their products are exact in every type.
std::vector<float> Small(int64_t count, int64_t step) {
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = static_cast<float>(i * step % 5 - 2);
  return out;
}

// Returns the result that a product leaves in dense memory, by its definition.
std::vector<float> Expected(const DeviceProduct& p, const std::vector<float>& a, const std::vector<float>& b,
                            const std::vector<float>& bias) {
  std::vector<float> out(static_cast<size_t>(p.batches * p.rows * p.columns));
  const auto at = [](const std::vector<float>& v, const DeviceProduct::Matrix& m, int64_t z, int64_t r, int64_t c) {
    return static_cast<double>(v[static_cast<size_t>(z * m.batch + r * m.row + c * m.column)]);
  };
  for (int64_t z = 0; z < p.batches; ++z) {
    for (int64_t i = 0; i < p.rows; ++i) {
      for (int64_t j = 0; j < p.columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < p.inner; ++k) sum += at(a, p.a, z, i, k) * at(b, p.b, z, k, j);
        sum = p.alpha * sum + (p.has_bias ? p.beta * at(bias, p.bias, z, i, j) : 0);
        out[static_cast<size_t>(z * p.c.batch + i * p.c.row + j * p.c.column)] = static_cast<float>(sum);
      }
    }
  }
  return out;
}

constexpr int64_t kRows = 3, kColumns = 4, kInner = 5;

// A product of two batches, by rows or by columns.
DeviceProduct Dense(DType in, DType out, bool flip_a, bool flip_b) {
  DeviceProduct p;
  p.in = in, p.out = out;
  p.rows = kRows, p.columns = kColumns, p.inner = kInner, p.batches = 2;
  p.a = {flip_a ? 1 : kInner, flip_a ? kRows : 1, kRows * kInner};
  p.b = {flip_b ? 1 : kColumns, flip_b ? kInner : 1, kInner * kColumns};
  p.c = {kColumns, 1, kRows * kColumns};
  p.name = "model.py:3";
  return p;
}

void ExpectProduct(const DeviceProduct& p, const char* what) {
  auto prepared = Gpu().Prepare(p);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_NE(*prepared, nullptr) << what;
  const std::vector<float> a = Small(p.batches * kRows * kInner, 3), b = Small(p.batches * kInner * kColumns, 7),
                           bias = Small(p.batches * kRows * kColumns, 2);
  const Elements on_a(p.in, a), on_b(p.in, b), on_bias(p.out, bias), on_c(p.out, std::vector<float>(bias.size(), -77));
  const auto ran = (*prepared)->Run(on_a.at(), on_b.at(), p.has_bias ? on_bias.at() : nullptr, on_c.at());
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_TRUE(*ran);
  EXPECT_EQ(on_c.Values(), Expected(p, a, b, bias)) << what;
}

TEST(CublasLtTest, ProductsOfAnyOrderAndTypeAreThoseOfTheirDefinition) {
  for (const auto& [in, out] : {std::pair(DType::kFloat32, DType::kFloat32),
                                {DType::kFloat16, DType::kFloat16},
                                {DType::kBFloat16, DType::kBFloat16},
                                {DType::kBFloat16, DType::kFloat32}}) {
    for (const bool flip_a : {false, true}) {
      for (const bool flip_b : {false, true}) ExpectProduct(Dense(in, out, flip_a, flip_b), "plain");
    }
  }
}

TEST(CublasLtTest, ABiasIsAddedAsARowOrAMatrix) {
  DeviceProduct p = Dense(DType::kBFloat16, DType::kBFloat16, false, true);
  p.alpha = 2;
  p.has_bias = true;
  p.bias = {0, 1, 0};
  ExpectProduct(p, "a row");
  p.beta = -1;
  p.bias = {kColumns, 1, kRows * kColumns};
  ExpectProduct(p, "a matrix");
  p.bias = {kColumns, 1, 0};
  ExpectProduct(p, "a matrix for all batches");
}

TEST(CublasLtTest, OperandsWithoutALayoutOfTheLibraryAreRefused) {
  const auto is_refused = [](const DeviceProduct& p) {
    const auto prepared = Gpu().Prepare(p);
    return prepared.ok() && *prepared == nullptr;
  };
  const DeviceProduct good = Dense(DType::kFloat32, DType::kFloat32, false, false);
  EXPECT_FALSE(is_refused(good));
  DeviceProduct p = good;
  p.in = p.out = DType::kFloat64;
  EXPECT_TRUE(is_refused(p));
  p = good;
  p.a = {2 * kInner, 2, 2 * kRows * kInner};
  EXPECT_TRUE(is_refused(p)) << "gaps within rows and columns";
  p = good;
  p.b.row = 0;
  EXPECT_TRUE(is_refused(p)) << "one row for all";
  p = good;
  p.c = {1, kRows, kRows * kColumns};
  EXPECT_TRUE(is_refused(p)) << "a result by columns is the transposed product";
  p = good;
  p.has_bias = true;
  p.bias = {0, 0, 0};
  EXPECT_TRUE(is_refused(p)) << "one number for all";
  p.bias = {0, 1, 0};
  p.beta = 0;
  EXPECT_TRUE(is_refused(p)) << "NaN times 0 is NaN";
  p = good;
  p.batches = 1;
  EXPECT_TRUE(is_refused(p)) << "60 multiplications, and the environment wants 120";
  p = good;
  p.inner = 0;
  EXPECT_TRUE(is_refused(p)) << "no sum";
}

TEST(CublasLtTest, AnAlgorithmIsChosenOnceForAShapeAndAnAlignment) {
  DeviceProduct p = Dense(DType::kFloat32, DType::kFloat32, false, false);
  p.alpha = 3;
  const int64_t before = Blas().counts().choices;
  const auto first = Gpu().Prepare(p), second = Gpu().Prepare(p);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Blas().counts().choices, before + 1);
  const std::vector<float> a = Small(2 * kRows * kInner, 3), b = Small(2 * kInner * kColumns, 7);
  for (const int64_t skipped : {0, 4, 4, 0}) {
    const Elements on_a(p.in, a, skipped), on_b(p.in, b), on_c(p.out, std::vector<float>(2 * kRows * kColumns));
    const auto ran = (skipped == 0 ? *first : *second)->Run(on_a.at(), on_b.at(), nullptr, on_c.at());
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_EQ(on_c.Values(), Expected(p, a, b, {}));
  }
  EXPECT_EQ(Blas().counts().choices, before + 2);
}

TEST(CublasLtTest, AnAlignmentThatIsRefusedIsNoError) {
  Blas().least_alignment(256);
  const DeviceProduct p = Dense(DType::kFloat32, DType::kFloat32, true, true);
  const auto prepared = Gpu().Prepare(p);
  ASSERT_TRUE(prepared.ok() && *prepared != nullptr);
  const Elements a(p.in, Small(2 * kRows * kInner, 3), 4), b(p.in, Small(2 * kInner * kColumns, 7));
  const Elements c(p.out, std::vector<float>(2 * kRows * kColumns, 7));
  const auto ran = (*prepared)->Run(a.at(), b.at(), nullptr, c.at());
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_FALSE(*ran);
  EXPECT_EQ(c.Values(), std::vector<float>(2 * kRows * kColumns, 7));
  Blas().least_alignment(1);
}

// --- in a call ---

constexpr int64_t kSide = 64;

// Runs the launch that stands for smelt's own product: it must not be needed where cuBLASLt computes it.
int64_t own_products = 0;
void RunOwnProduct(void*, int, const int64_t* words, int64_t, int64_t, int64_t*, void*) {
  ++own_products;
  const auto* a = reinterpret_cast<const float*>(words[product_words::kA]);
  const auto* b = reinterpret_cast<const float*>(words[product_words::kB]);
  auto* c = reinterpret_cast<float*>(words[product_words::kC]);
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < kSide; ++k)
        sum += static_cast<double>(a[i * kSide + k]) * static_cast<double>(b[k * kSide + j]);
      c[i * kSide + j] = static_cast<float>(sum);
    }
  }
}

// f(x): x += 1; return x @ w + 1
std::string AddAndMultiply() {
  const LibraryKernel kernel = {kProductKernel, {DType::kFloat32, DType::kFloat32}};
  const fake_cuda::KernelInfo info = {kernel.NumWords(), true, 256, RunOwnProduct, nullptr};
  GetFakeDriver().add(kernel.Entry().c_str(), &info);
  HandBundle b;
  const int n = b.Const(kSide * kSide), bytes = b.Const(kSide * kSide * 4);
  b.VectorArg("x", n);
  b.State("w", Small(kSide * kSide, 3), /*mutated=*/false);
  b.Output("y");
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n), t = p.Vector(p.ArenaSlot(b.Const(0), bytes), n);
  const int y = p.Vector(p.FreshSlot(bytes), n);
  p.raw().arena_bytes = bytes;
  p.Launch(kAddOne, n, x, x);
  const auto matrix = [&](int view) {
    return p.View(p.raw().views[view]->slot, b.Consts({kSide, kSide}), b.Consts({kSide, 1}));
  };
  const int w = p.View(p.StateSlot(0), b.Consts({kSide, kSide}), b.Consts({kSide, 1}));
  auto* product = p.Step<fb::LibraryCallT>(0, "model.py:7");
  product->op = "matmul";
  product->inputs = {matrix(x), w, -1};
  product->outputs = {matrix(t)};
  p.Launch(kAddOne, n, t, y);
  p.Output(fb::OutputKind::Fresh, -1, y);
  p.raw().written_args = {0};
  return b.Pack();
}

std::vector<float> ProductPlusOne(std::vector<float> x, float added) {
  DeviceProduct p;
  p.rows = p.columns = p.inner = kSide;
  p.a = p.b = p.c = {kSide, 1, 0};
  for (float& v : x) v += added;
  std::vector<float> out = Expected(p, x, Small(kSide * kSide, 3), {});
  for (float& v : out) v += 1;
  return out;
}

TEST(CublasLtTest, AProductIsCapturedAsPartOfTheCallsGraph) {
  auto instance = InstanceOf(AddAndMultiply());
  const FakeDriver& driver = GetFakeDriver();
  const std::vector<float> values = Small(kSide * kSide, 2);
  const Tensor x = OnDevice(values), other = OnDevice(values);
  own_products = 0;
  for (int call = 1; call <= 5; ++call) {
    // Call 4 has other addresses, and cuBLASLt launches more kernels for call 5.
    if (call == 5) Blas().launches(2);
    const fake_cuda::Counts before = driver.counts();
    auto started = instance->Start({call >= 4 ? other : x});
    ASSERT_TRUE(started.ok()) << started.status();
    const CallStats& stats = instance->last_call();
    EXPECT_EQ(stats.cublaslt_products, 1);
    EXPECT_EQ(stats.library_calls, 1);
    EXPECT_EQ(stats.device_waits, 0);
    EXPECT_EQ(stats.graph_launches, call == 1 ? 0 : 1);
    if (call > 1) {
      EXPECT_EQ(driver.counts().launches, before.launches);
    }
    ASSERT_TRUE(started->Wait().ok());
    EXPECT_EQ(Values(started->outputs()[0].tensor()),
              ProductPlusOne(values, static_cast<float>(call >= 4 ? call - 3 : call)))
        << "call " << call;
  }
  // Only with other addresses is it captured anew.
  const std::vector<Datum> args = {other};
  std::vector<Datum> outputs = {OnDevice(values)};
  ASSERT_TRUE(instance->RunInto(args, &outputs).ok());
  const int64_t products = Blas().counts().products;
  ASSERT_TRUE(instance->RunInto(args, &outputs).ok());
  EXPECT_EQ(Blas().counts().products, products);
  EXPECT_EQ(instance->last_call().cublaslt_products, 1);
  Blas().launches(1);
  EXPECT_EQ(own_products, 0);
}

TEST(CublasLtTest, OwnKernelsComputeWhatTheLibraryRefuses) {
  Blas().least_alignment(512);
  auto instance = InstanceOf(AddAndMultiply());
  const std::vector<float> values = Small(kSide * kSide, 2);
  const Tensor x = OnDevice(values);
  own_products = 0;
  auto results = instance->Run({x});
  Blas().least_alignment(1);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(Values((*results)[0].tensor()), ProductPlusOne(values, 1));
  EXPECT_EQ(instance->last_call().cublaslt_products, 0);
  EXPECT_EQ(own_products, 1);
}

// Runs three calls in a new program, of which the second and the third are graphs. Returns their status, and counts those
// that were done.
absl::Status RunThree(const std::string& bundle, const Tensor& x, const Tensor& other, int* done) {
  auto program =
      Program::LoadFromMemory({reinterpret_cast<const uint8_t*>(bundle.data()), bundle.size()}, {.device = "cuda:0"});
  if (!program.ok()) return program.status();
  auto instance = Instance::Create(*program);
  if (!instance.ok()) return instance.status();
  for (int call = 0; call < 3; ++call) {
    auto results = (*instance)->Run({call == 2 ? other : x});
    if (!results.ok()) return results.status();
    if (call < 2) ++*done;
  }
  return absl::OkStatus();
}

// The state before a call that may fail, of which nothing may stay behind.
class BeforeFailure {
 public:
  explicit BeforeFailure(const Tensor& x)
      : x_(x), driver_(GetFakeDriver().counts()), objects_(Blas().counts().objects), had_(Values(x)[0]) {}
  // `done` calls have written to x, and then `s` was returned.
  void Check(const absl::Status& s, int done) const {
    const fake_cuda::Counts after = GetFakeDriver().counts();
    EXPECT_EQ(after.bytes, driver_.bytes);
    EXPECT_EQ(after.graphs, driver_.graphs);
    EXPECT_EQ(Blas().counts().objects, objects_);
    if (s.ok()) return;
    const bool named = s.message().find("may have been written: x") != absl::string_view::npos;
    EXPECT_TRUE(named || Values(x_)[0] == had_ + static_cast<float>(done)) << s;
  }

 private:
  const Tensor x_;
  const fake_cuda::Counts driver_;
  const int64_t objects_;
  const float had_;
};

// Each function of the library fails once: the call fails and says in which step and function, or does without the
// library. The argument is as before or named, and nothing stays.
TEST(CublasLtTest, AFailureOfAnyFunctionNamesStepAndFunctionAndLeavesNothing) {
  const std::string bundle = *WithNativeKernels(AddAndMultiply(), /*words_by_value=*/true);
  const Tensor x = OnDevice(std::vector<float>(kSide * kSide, 0)), other = OnDevice(Values(x));
  int failures = 0, products = 0;
  for (const int status : {cuda::kBlasInternalError, cuda::kBlasAllocFailed}) {
    for (int64_t call = 0;; ++call) {
      ASSERT_LT(call, 1000);
      SCOPED_TRACE(call);
      const BeforeFailure before(x);
      const int64_t first = Blas().counts().calls;
      int done = 0;
      Blas().fail(call, status);
      const absl::Status s = RunThree(bundle, x, other, &done);
      Blas().fail(-1, 0);
      before.Check(s, done);
      if (!s.ok()) {
        ++failures;
        products += s.message().find("cublasLtMatmul:") != absl::string_view::npos ? 1 : 0;
        EXPECT_THAT(s.message(), HasSubstr("model.py:7"));
        EXPECT_THAT(s.message(), HasSubstr("matmul of [64, 64] and [64, 64]: cublasLt"));
        EXPECT_THAT(s.message(), HasSubstr(status == cuda::kBlasInternalError ? "CUBLAS_STATUS_INTERNAL_ERROR (14)"
                                                                              : "CUBLAS_STATUS_ALLOC_FAILED (3)"));
        EXPECT_EQ(s.code(), status == cuda::kBlasInternalError ? absl::StatusCode::kInternal
                                                               : absl::StatusCode::kResourceExhausted);
      }
      if (Blas().counts().calls - first <= call) break;
    }
  }
  EXPECT_GT(failures, 3);
  EXPECT_GT(products, 3);
}

TEST(CublasLtTest, AFailureOfAnyDriverCallAroundAProductLeavesNothing) {
  const std::string bundle = *WithNativeKernels(AddAndMultiply(), /*words_by_value=*/true);
  const Tensor x = OnDevice(std::vector<float>(kSide * kSide, 0)), other = OnDevice(Values(x));
  int failures = 0;
  for (int64_t call = 0;; ++call) {
    ASSERT_LT(call, 1000);
    SCOPED_TRACE(call);
    const BeforeFailure before(x);
    int done = 0;
    const int64_t first = GetFakeDriver().counts().calls;
    GetFakeDriver().fail(call, /*CUDA_ERROR_INVALID_VALUE*/ 1);
    const absl::Status s = RunThree(bundle, x, other, &done);
    GetFakeDriver().fail(-1, 0);
    const int64_t calls = GetFakeDriver().counts().calls - first;
    before.Check(s, done);
    failures += s.ok() ? 0 : 1;
    if (calls <= call) break;
  }
  EXPECT_GT(failures, 20);
}

}  // namespace
}  // namespace smelt
