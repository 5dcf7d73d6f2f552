// Tests that need the CUDA toolkit: libdevice linked in, PTX assembled by ptxas. They are skipped where there is no
// toolkit.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_tools.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/llvm_cuda.h"

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
    EXPECT_TRUE(absl::StartsWith(image->image.bytes,
                                 "\x7f"
                                 "ELF"));
    ASSERT_EQ(image->image.entries.size(), 4);
    for (const Image::Entry& e : image->image.entries) EXPECT_GT(e.size, 0);
    EXPECT_EQ(image->image.bytes, LinkCudaImage(pointers, RunPtxas)->image.bytes);
  }
}

TEST(CudaToolkitTest, PtxasTakesEveryRandomKernel) {
  for (Target t : kTargets) {
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
