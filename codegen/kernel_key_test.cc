// Equal keys must mean equal machine code: every change of a spec changes the key.
#include "smelt/codegen/kernel_key.h"

#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/key_difference.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

KernelSpec ParseOrDie(absl::string_view text) {
  absl::StatusOr<KernelSpec> spec = ParseKernelSpec(text);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : KernelSpec();
}

// Together they use every kind of instruction and every field.
constexpr const char* kSpecs[] = {R"(
kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float16 r [zero,unit] alias=2
param float32 w [any,unit] alias=3
scalar float32
scalar int64
%0 = load.p0 float32
%1 = load.p1 float16
%2 = cast float32 %1
%3 = fma float32 %0 %2 %0
%4 = reduce.max float32 %3
%5 = scalar.s0 float32
%6 = load.p0 float32
%7 = sub float32 %6 %4
%8 = mul float32 %7 %5
%9 = scan.sum float32 %8
%10 = store.p2 float32 %9
inner 0 1 2 3 4
inner 5 6 7 8 9 10
)",
                                  R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param int64 r [any,unit] alias=-1
param float32 r [zero,zero] alias=-1
param float32 rw [any,unit] alias=0
%0 = load.p0 int64
%1 = dim_size.d1 int64
%2 = check_index int64 %0 %1
%3 = index.d0 int64
%4 = const int64 3
%5 = lt bool %3 %4
%6 = load.p1 float32 %2 %5 +offset +guard
%7 = const float32 0.5
%8 = mul float32 %6 %7
%9 = store.p2 float32 %8 %5 +guard
outer 0 1 2 3 4 5 6 7 8 9
)"};

// Applies every change of one field to a spec, and reports each result.
template <typename F>
void ForEachMutation(const KernelSpec& base, const F& tell) {
  auto change = [&](const std::string& what, auto f) {
    KernelSpec s = base;
    f(s);
    tell(what, s);
  };
  change("parallel_rank", [](KernelSpec& s) { ++s.parallel_rank; });
  change("reduction_rank", [](KernelSpec& s) { ++s.reduction_rank; });
  change("vector_dim", [](KernelSpec& s) { s.vector_dim = -1; });
  change("sequential", [](KernelSpec& s) { s.sequential = !s.sequential; });
  auto next = [](DType t) { return t == DType::kFloat32 ? DType::kFloat64 : DType::kFloat32; };
  for (size_t i = 0; i < base.params.size(); ++i) {
    auto param = [&](const char* what, auto f) {
      change(absl::StrCat("params[", i, "].", what), [&](KernelSpec& s) { f(s.params[i]); });
    };
    param("dtype", [&](KernelParam& p) { p.dtype = next(p.dtype); });
    param("is_read", [](KernelParam& p) { p.is_read = !p.is_read; });
    param("is_written", [](KernelParam& p) { p.is_written = !p.is_written; });
    param("alias_class", [](KernelParam& p) { p.alias_class += 5; });
    param("strides, one less", [](KernelParam& p) { p.strides.pop_back(); });
    for (size_t d = 0; d < base.params[i].strides.size(); ++d) {
      for (StrideClass c : {StrideClass::kZero, StrideClass::kUnit, StrideClass::kAny, StrideClass::kTwo,
                            StrideClass::kThree, StrideClass::kFour, StrideClass::kBackward}) {
        if (c == base.params[i].strides[d]) continue;
        param("strides", [&](KernelParam& p) { p.strides[d] = c; });
      }
    }
    change("a param less", [&](KernelSpec& s) { s.params.erase(s.params.begin() + static_cast<int64_t>(i)); });
  }
  for (size_t i = 0; i < base.scalars.size(); ++i) {
    change("scalars",
           [&](KernelSpec& s) { s.scalars[i] = s.scalars[i] == DType::kInt32 ? DType::kInt64 : DType::kInt32; });
  }
  change("a scalar more", [](KernelSpec& s) { s.scalars.push_back(DType::kBool); });
  for (size_t i = 0; i < base.instrs.size(); ++i) {
    const KernelInstr& in = base.instrs[i];
    auto instr = [&](const char* what, auto f) {
      change(absl::StrCat("instrs[", i, "].", what), [&](KernelSpec& s) { f(s.instrs[i]); });
    };
    instr("type", [&](KernelInstr& x) { x.type = next(x.type); });
    instr("has_offset", [](KernelInstr& x) { x.has_offset = !x.has_offset; });
    instr("has_guard", [](KernelInstr& x) { x.has_guard = !x.has_guard; });
    instr("op", [](KernelInstr& x) {
      x.op = x.op == KernelOp::kLoad      ? KernelOp::kAtomicAdd
             : x.op == KernelOp::kIndex   ? KernelOp::kDimSize
             : x.op == KernelOp::kDimSize ? KernelOp::kIndex
             : x.op == KernelOp::kReduce  ? KernelOp::kScan
             : x.op == KernelOp::kScan    ? KernelOp::kReduce
                                          : KernelOp::kLoad;
    });
    for (size_t k = 0; k < in.operands.size(); ++k) {
      instr("operands", [&](KernelInstr& x) { x.operands[k] += 1; });
      instr("operands, one less",
            [&](KernelInstr& x) { x.operands.erase(x.operands.begin() + static_cast<int64_t>(k)); });
    }
    if (in.op == KernelOp::kScalar) {
      for (int op = 0; op < static_cast<int>(ScalarOp::kNumOps); ++op) {
        if (op != static_cast<int>(in.scalar))
          instr("scalar", [&](KernelInstr& x) { x.scalar = static_cast<ScalarOp>(op); });
      }
      if (in.scalar == ScalarOp::kConst && IsFloating(in.type)) {
        instr("imm.f", [](KernelInstr& x) { x.imm.f = -x.imm.f; });
        instr("imm.f's last bit", [](KernelInstr& x) { x.imm.f = x.imm.f * (1 + 0x1p-52); });
      } else if (in.scalar == ScalarOp::kConst) {
        instr("imm.i", [](KernelInstr& x) { ++x.imm.i; });
      }
    }
    if (in.op == KernelOp::kLoad || in.op == KernelOp::kStore) instr("param", [](KernelInstr& x) { ++x.param; });
    if (in.op == KernelOp::kIndex || in.op == KernelOp::kDimSize || in.op == KernelOp::kScalarParam)
      instr("dim", [](KernelInstr& x) { x.dim += 3; });
    if (in.op == KernelOp::kReduce || in.op == KernelOp::kScan) {
      for (int kind = 0; kind <= static_cast<int>(ReduceKind::kOr); ++kind) {
        if (kind != static_cast<int>(in.reduce))
          instr("reduce", [&](KernelInstr& x) { x.reduce = static_cast<ReduceKind>(kind); });
      }
    }
  }
  for (size_t i = 0; i < base.phases.size(); ++i) {
    change("phases.inner", [&](KernelSpec& s) { s.phases[i].inner = !s.phases[i].inner; });
    change("phases.instrs, swapped", [&](KernelSpec& s) { std::swap(s.phases[i].instrs[0], s.phases[i].instrs[1]); });
    change("phases.instrs, one less", [&](KernelSpec& s) { s.phases[i].instrs.pop_back(); });
    change("a phase less", [&](KernelSpec& s) { s.phases.erase(s.phases.begin() + static_cast<int64_t>(i)); });
  }
}

// A field that is added must be added to ToString and to the mutations above; then these sizes.
static_assert(sizeof(KernelParam) == 40 && sizeof(KernelInstr) == 64 && sizeof(KernelPhase) == 32 &&
              sizeof(KernelSpec) == 112);

TEST(KernelKeyTest, IsTheDigestOfSpecTargetAndGenerator) {
  const std::string key = ComputeKernelKey("spec", Target::kX86_64_V3);
  EXPECT_EQ(key.size(), 64);
  EXPECT_EQ(key, ComputeKernelKey("spec", Target::kX86_64_V3));
  EXPECT_NE(key, ComputeKernelKey("spec", Target::kX86_64_V4));
  EXPECT_NE(key, ComputeKernelKey("spec ", Target::kX86_64_V3));
  EXPECT_THAT(CodeGeneratorIdentity(Target::kX86_64_V3), HasSubstr("LLVM 22."));
}

TEST(KernelKeyTest, ChangesWithEveryFieldOfASpec) {
  for (const char* text : kSpecs) {
    const KernelSpec base = ParseOrDie(text);
    const std::string key = ComputeKernelKey(base.ToString(), Target::kX86_64_V3);
    int mutations = 0;
    ForEachMutation(base, [&](const std::string& what, const KernelSpec& s) {
      ++mutations;
      EXPECT_NE(ComputeKernelKey(s.ToString(), Target::kX86_64_V3), key) << what;
    });
    EXPECT_GT(mutations, 200);
  }
}

TEST(KernelKeyTest, EveryChangeHasAWord) {
  for (const char* text : kSpecs) {
    const KernelSpec base = ParseOrDie(text);
    const std::string before = KernelKeyText(base.ToString(), Target::kX86_64_V3);
    EXPECT_THAT(CompareKeys(before, before), IsEmpty());
    ForEachMutation(base, [&](const std::string& what, const KernelSpec& s) {
      EXPECT_FALSE(CompareKeys(KernelKeyText(s.ToString(), Target::kX86_64_V3), before).empty()) << what;
    });
  }
}

TEST(KernelKeyTest, EveryTargetHasKeysOfItsOwn) {
  std::set<std::string> keys;
  for (int t = 0; t <= static_cast<int>(kLastTarget); ++t) keys.insert(ComputeKernelKey("x", static_cast<Target>(t)));
  EXPECT_EQ(keys.size(), static_cast<size_t>(kLastTarget) + 1);
}

std::vector<std::string> Words(const std::string& wanted, const std::string& cached) {
  std::vector<std::string> out;
  for (const KeyDifference& d : CompareKeys(wanted, cached)) out.push_back(d.ToString());
  return out;
}

TEST(KeyDifference, NamesThePartThatDiffers) {
  auto text = [](const char* param, const char* op, const char* constant) {
    return KernelKeyText(
        ParseOrDie(absl::StrCat("kernel parallel=1 reduction=0 vector=0 sequential=0\nparam ", param,
                                "\nparam float32 w [unit] alias=-1\n%0 = load.p0 float32\n"
                                "%1 = const float32 ",
                                constant, "\n%2 = ", op, " float32 %0 %1\n%3 = store.p1 float32 %2\nouter 0 1 2 3\n"))
            .ToString(),
        Target::kX86_64_V3);
  };
  const std::string base = text("float32 r [unit] alias=-1", "mul", "2");
  EXPECT_THAT(Words(text("float32 r [any] alias=-1", "mul", "2"), base),
              ElementsAre("stride class of param 0: [any], cached [unit]"));
  EXPECT_THAT(Words(text("float32 r [unit] alias=4", "mul", "2"), base),
              ElementsAre("alias class of param 0: 4, cached -1"));
  EXPECT_THAT(Words(text("float32 r [unit] alias=-1", "add", "2"), base),
              ElementsAre("operation of %2: add, cached mul"));
  EXPECT_THAT(Words(text("float32 r [unit] alias=-1", "mul", "3"), base),
              ElementsAre("constant of %1: float32 3, cached float32 2"));
}

TEST(KeyDifference, NamesTargetAndCodeGenerator) {
  const std::string spec = ParseOrDie(kSpecs[0]).ToString();
  EXPECT_THAT(Words(KernelKeyText(spec, Target::kX86_64_V4), KernelKeyText(spec, Target::kX86_64_V3)),
              ElementsAre("target: x86-64-v4, cached x86-64-v3"));
  EXPECT_THAT(Words(KernelKeyText(spec, Target::kX86_64_V3),
                    absl::StrCat("target x86-64-v3\ngenerator sha256:00 LLVM 21.1.0\nspec\n", spec)),
              ElementsAre(HasSubstr("code generator: sha256:")));
}

TEST(KeyDifference, AnEntryOfAnotherFormatDiffersInItsSpec) {
  const std::string spec = ParseOrDie(kSpecs[0]).ToString();
  EXPECT_THAT(Words(KernelKeyText(spec, Target::kX86_64_V3), KernelKeyText("what is this", Target::kX86_64_V3)),
              ElementsAre(HasSubstr("spec")));
}

}  // namespace
}  // namespace smelt
