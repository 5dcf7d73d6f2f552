// Tests that need the CUDA toolkit: libdevice linked in, PTX assembled by ptxas. They are skipped where there is no
// toolkit.
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_tools.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/codegen/kernel_record.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/llvm_cuda.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Target kTargets[] = {Target::kSm75,  Target::kSm80,  Target::kSm86,  Target::kSm87,
                               Target::kSm89,  Target::kSm90,  Target::kSm90a, Target::kSm100,
                               Target::kSm103, Target::kSm110, Target::kSm120};

KernelSpec Unary(absl::string_view op, absl::string_view type) {
  auto spec =
      ParseKernelSpec(absl::StrCat("kernel parallel=1 reduction=0 vector=0 sequential=0\nparam ", type,
                                   " r [unit] alias=-1\nparam ", type, " w [unit] alias=-1\n%0 = load.p0 ", type,
                                   "\n%1 = ", op, " ", type, " %0\n%2 = store.p1 ", type, " %1\nouter 0 1 2\n"));
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

TEST(CudaToolkitTest, FunctionsOfLibdeviceAreInlined) {
  for (const char* op : {"exp", "tanh", "erf", "sin", "lgamma", "erfinv", "log1p", "sigmoid", "digamma"}) {
    for (const char* type : {"float32", "float64"}) {
      auto ptx = CompileToPtx(Unary(op, type), Target::kSm90, "k");
      ASSERT_TRUE(ptx.ok()) << op << ": " << ptx.status();
      EXPECT_THAT(*ptx, Not(HasSubstr("__nv_"))) << op;
      EXPECT_THAT(*ptx, Not(HasSubstr("call"))) << op;
      // Denormals are kept: libdevice's chosen variants do not flush them. (Its approximations use ftz where they need
      // no denormals.)
      EXPECT_THAT(*ptx, Not(HasSubstr(".rn.ftz"))) << op;
    }
  }
}

TEST(CudaToolkitTest, KernelsOfAGraphAreOneCubinForEachArchitecture) {
  for (Target t : kTargets) {
    std::vector<KernelObject> objects;
    // Each sin brings its own table, and the names must not clash.
    for (const KernelSpec& spec :
         {Unary("sin", "float32"), Unary("cos", "float32"), Unary("sin", "float64"), Unary("exp", "float64")}) {
      auto object = CompileKernel(spec, t);
      ASSERT_TRUE(object.ok()) << object.status();
      objects.push_back(*object);
    }
    std::vector<const KernelObject*> pointers;
    for (const KernelObject& o : objects) pointers.push_back(&o);
    auto image = LinkCudaImage(pointers, RunPtxas);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_TRUE(image->is_cubin);
    // The same kernels as PTX, a string that ends in a zero.
    EXPECT_THAT(image->ptx, HasSubstr(absl::StrCat(".target ", Name(t))));
    EXPECT_EQ(image->ptx.find('\0'), image->ptx.size() - 1);
    EXPECT_TRUE(absl::StartsWith(image->image.bytes,
                                 "\x7f"
                                 "ELF"));
    ASSERT_EQ(image->image.entries.size(), 4);
    for (const Image::Entry& e : image->image.entries) EXPECT_GT(e.size, 0);
    EXPECT_EQ(image->image.bytes, LinkCudaImage(pointers, RunPtxas)->image.bytes);
  }
}

// Keeps records as a shared server does.
class Records : public KernelStore {
 public:
  std::optional<std::string> Get(const std::string& key) override {
    auto it = records.find(key);
    return it == records.end() ? std::nullopt : std::optional<std::string>(it->second);
  }
  void Put(const std::string& key, const std::string& record) override { records[key] = record; }
  std::map<std::string, std::string> records;
};

TEST(CudaToolkitTest, ACubinIsAssembledOnceAndThenComesFromTheCache) {
  auto store = std::make_shared<Records>();
  const auto assemble = [&](const std::string& ptx) {
    auto cache = KernelCache::Create({.mode = CacheMode::kOff, .store = store});
    return (*cache)->GetOrAssemble(ptx, Target::kSm90);
  };
  auto ptx = CompileToPtx(Unary("neg", "float32"), Target::kSm90, "k");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_EQ(*assemble(*ptx), *RunPtxas(*ptx, Target::kSm90));
  ASSERT_EQ(store->records.size(), 1);
  // Other bytes under the same key show that the second answer is not ptxas's.
  std::string& record = store->records.begin()->second;
  const std::string key_text(DecodeKernelRecord(record)->key_text);
  record = EncodeKernelRecord(key_text, "from the cache");
  EXPECT_EQ(*assemble(*ptx), "from the cache");
  EXPECT_EQ(*assemble(*ptx + "\n"), *RunPtxas(*ptx, Target::kSm90));
  // Text that ptxas refuses is not kept.
  EXPECT_FALSE(assemble("no PTX").ok());
  EXPECT_EQ(store->records.size(), 2);
}

std::vector<LibraryKernel> EveryLibraryKernel() {
  const DType f32 = DType::kFloat32, bf16 = DType::kBFloat16, f16 = DType::kFloat16, i64 = DType::kInt64;
  return {{kProductKernel, {f32, f32}},
          {kWideProductKernel, {f32, f32}},
          {kProductKernel, {bf16, bf16}},
          {kWideProductKernel, {f16, f32}},
          {kProductKernel, {DType::kInt8, DType::kInt32}},
          {kSplitProductKernel, {bf16, bf16}},
          {kWideConvolutionKernel, {f32, f32}},
          {kAttentionKernel, {f32, DType::kBool}},
          {kTensorAttentionKernel, {bf16, DType::kBool}},
          {kOrderKernel, {f32}},
          {kOrderPiecesKernel, {f32}},
          {kOrderMergeKernel, {}},
          {kOrderTakeKernel, {f32}},
          {kRunsKernel, {bf16}},
          {kWideRunsKernel, {bf16}},
          {kBincountKernel, {i64}},
          {kSearchKernel, {f32, f32, i64}},
          {kNonzeroKernel, {DType::kBool}},
          {kMaskedSelectKernel, {DType::kInt32}},
          {kMaskedSelectKernel, {DType::kComplex128}},
          {kWideNonzeroKernel, {f32}},
          {kWideMaskedSelectKernel, {DType::kComplex128}},
          {kUniformKernel, {f32}},
          {kNormalKernel, {bf16}},
          {kBernoulliKernel, {DType::kBool}},
          {kRandintKernel, {i64}},
          {kExponentialKernel, {DType::kFloat64}}};
}

int CountOf(absl::string_view text, absl::string_view what) {
  int count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(CudaToolkitTest, PtxasTakesEveryLibraryKernel) {
  for (const Target target : {Target::kSm75, Target::kSm90}) {
    std::vector<KernelObject> objects;
    for (const LibraryKernel& kernel : EveryLibraryKernel()) {
      auto object = CompileLibraryKernel(kernel, target);
      const bool lacks_tensor_cores = kernel.base == kTensorAttentionKernel && ComputeCapability(target) < 80;
      EXPECT_EQ(absl::IsUnimplemented(object.status()), lacks_tensor_cores) << object.status();
      if (lacks_tensor_cores) continue;
      ASSERT_TRUE(object.ok()) << kernel.Entry() << ": " << object.status();
      objects.push_back(*std::move(object));
    }
    std::vector<const KernelObject*> pointers;
    for (const KernelObject& o : objects) pointers.push_back(&o);
    auto image = LinkCudaImage(pointers, RunPtxas);
    ASSERT_TRUE(image.ok()) << Name(target) << ": " << image.status();
    EXPECT_TRUE(image->is_cubin);
  }
}

// The inner loop of a step is straight code: the multiply-adds of all elements of a thread, and vectors from shared
// memory.
TEST(CudaToolkitTest, ProductsMultiplyVectorsFromSharedMemory) {
  const LibraryKernel floats = {kProductKernel, {DType::kFloat32, DType::kFloat32}};
  const std::string ptx = CompileLibraryKernel(floats, Target::kSm90)->bytes;
  EXPECT_EQ(CountOf(ptx, "fma.rn.f32"), 256);   // 16 elements, 16 steps
  EXPECT_EQ(CountOf(ptx, "ld.shared.v4"), 32);  // two for each step
  EXPECT_GE(CountOf(ptx, "ld.global.v4"), 2);   // a unit of each operand
  EXPECT_EQ(CountOf(ptx, "ld.local"), 0);
  const LibraryKernel halves = {kWideProductKernel, {DType::kBFloat16, DType::kBFloat16}};
  const std::string mma = CompileLibraryKernel(halves, Target::kSm90)->bytes;
  EXPECT_EQ(CountOf(mma, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 32);
  EXPECT_EQ(CountOf(mma, "ld.local"), 0);
  // Before sm_80 they are multiplied as float32.
  EXPECT_EQ(CountOf(CompileLibraryKernel(halves, Target::kSm75)->bytes, "mma.sync"), 0);
}

// A kernel that goes on with a product is a loop of its own: the multiplications stay as they are, and the function is inlined.
TEST(CudaToolkitTest, AKernelThatGoesOnWithAProductIsPartOfIt) {
  const std::string text =
      "kernel parallel=1 reduction=0 vector=0 sequential=0\nparam float32 r [unit] alias=-1\nparam float32 w [unit] "
      "alias=-1\n%0 = load.p0 float32\n%1 = erf float32 %0\n%2 = store.p1 float32 %1\nouter 0 1 2\n";
  std::vector<KernelObject> objects;
  for (const char* base : {kProductKernel, kSplitProductKernel, kConvolutionKernel}) {
    LibraryKernel kernel = {base, {DType::kFloat32, DType::kFloat32}};
    const auto plain = CompileLibraryKernel(kernel, Target::kSm90);
    ASSERT_TRUE(plain.ok()) << plain.status();
    kernel.epilogue_key = "erf", kernel.epilogue_spec = text, kernel.epilogue_words = 3;
    auto joined = CompileLibraryKernel(kernel, Target::kSm90);
    ASSERT_TRUE(joined.ok()) << kernel.Entry() << ": " << joined.status();
    EXPECT_EQ(CountOf(joined->bytes, "ld.shared.v4"), CountOf(plain->bytes, "ld.shared.v4")) << kernel.Entry();
    EXPECT_GT(CountOf(joined->bytes, "fma.rn.f32"), CountOf(plain->bytes, "fma.rn.f32")) << kernel.Entry();
    EXPECT_EQ(CountOf(joined->bytes, "call"), 0) << kernel.Entry();
    EXPECT_EQ(CountOf(joined->bytes, "ld.local"), 0) << kernel.Entry();
    objects.push_back(*std::move(joined));
  }
  std::vector<const KernelObject*> pointers;
  for (const KernelObject& o : objects) pointers.push_back(&o);
  auto image = LinkCudaImage(pointers, RunPtxas);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(image->is_cubin);
}

// Eight pieces of keys for each of eight steps of the depth, and 16 pieces of columns for each of four steps of keys.
TEST(CudaToolkitTest, AttentionMultipliesOnTensorCores) {
  const LibraryKernel kernel = {kTensorAttentionKernel, {DType::kBFloat16, DType::kBFloat16}};
  const std::string ptx = CompileLibraryKernel(kernel, Target::kSm90)->bytes;
  EXPECT_EQ(CountOf(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 128);
  EXPECT_EQ(CountOf(ptx, "ld.local"), 0);
}

TEST(CudaToolkitTest, PtxasTakesEveryRandomKernel) {
  for (Target t : {Target::kSm75, Target::kSm90, Target::kSm120}) {
    std::vector<KernelObject> objects;
    for (int seed = 1; seed <= 25; ++seed) {
      std::mt19937_64 rng(seed);
      auto object = CompileKernel(MakeRandomCase(rng).spec, t);
      ASSERT_TRUE(object.ok()) << object.status();
      objects.push_back(*object);
    }
    std::vector<const KernelObject*> pointers;
    for (const KernelObject& o : objects) pointers.push_back(&o);
    auto image = LinkCudaImage(pointers, RunPtxas);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_TRUE(image->is_cubin);
  }
}

}  // namespace
}  // namespace smelt
