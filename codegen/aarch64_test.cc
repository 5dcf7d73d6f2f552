// Disassembles objects and images for AArch64; nothing here runs them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/link_image.h"
#include "smelt/codegen/target.h"
#include "smelt/codegen/test_kernels.h"

namespace smelt {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class Disassembler {
 public:
  // For code of the target: an instruction that it does not require is invalid.
  explicit Disassembler(Target level = Target::kAArch64) {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64Disassembler();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple_, error);
    registers_.reset(target->createMCRegInfo(triple_));
    llvm::MCTargetOptions options;
    info_.reset(target->createMCAsmInfo(*registers_, triple_, options));
    instructions_.reset(target->createMCInstrInfo());
    // Exactly the features that the target requires.
    std::string features = "+neon,+fp-armv8";
    for (const std::string& feature : RequiredFeatures(level)) absl::StrAppend(&features, ",+", feature);
    features_.reset(target->createMCSubtargetInfo(triple_, "generic", features));
    context_ = std::make_unique<llvm::MCContext>(triple_, info_.get(), registers_.get(), features_.get());
    disassembler_.reset(target->createMCDisassembler(*features_, *context_));
    printer_.reset(
        target->createMCInstPrinter(triple_, info_->getAssemblerDialect(), *info_, *instructions_, *registers_));
  }

  // Returns one line per instruction; "?" for an invalid one. Addresses count from `address`.
  std::vector<std::string> Lines(absl::string_view code, uint64_t address) {
    std::vector<std::string> out;
    for (size_t at = 0; at + 4 <= code.size(); at += 4) {
      llvm::MCInst instruction;
      uint64_t size;
      const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(code.data()) + at, 4);
      const bool ok = disassembler_->getInstruction(instruction, size, bytes, address + at, llvm::nulls()) ==
                      llvm::MCDisassembler::Success;
      std::string line;
      llvm::raw_string_ostream stream(line);
      if (ok) printer_->printInst(&instruction, address + at, "", *features_, stream);
      out.push_back(ok ? absl::StrReplaceAll(line, {{"\t", " "}}) : "?");
    }
    return out;
  }

 private:
  llvm::Triple triple_{"aarch64-unknown-linux-gnu"};
  std::unique_ptr<llvm::MCRegisterInfo> registers_;
  std::unique_ptr<llvm::MCAsmInfo> info_;
  std::unique_ptr<llvm::MCInstrInfo> instructions_;
  std::unique_ptr<llvm::MCSubtargetInfo> features_;
  std::unique_ptr<llvm::MCContext> context_;
  std::unique_ptr<llvm::MCDisassembler> disassembler_;
  std::unique_ptr<llvm::MCInstPrinter> printer_;
};

Image ImageOf(const KernelSpec& spec, Target target = Target::kAArch64) {
  absl::StatusOr<KernelObject> object = CompileKernel(spec, target);
  EXPECT_TRUE(object.ok()) << object.status();
  if (!object.ok()) return {};
  absl::StatusOr<Image> image = LinkImage({&*object});
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? *std::move(image) : Image();
}
std::vector<std::string> LinesOf(const Image& image, Target target = Target::kAArch64) {
  const Image::Entry& e = image.entries[0];
  return Disassembler(target).Lines(absl::string_view(image.bytes).substr(e.offset, e.size), e.offset);
}

// Returns the lines of the loop, without one inside of it, that has the most instructions on whole vectors: from the
// target of a branch back to that branch.
std::vector<std::string> HotLoop(const std::vector<std::string>& lines) {
  std::vector<std::string> hottest;
  ptrdiff_t most = 0;
  ptrdiff_t inner_first = -1;  // the latest loop's first line
  for (ptrdiff_t last = 0; last < std::ssize(lines); ++last) {
    const size_t hash = lines[last].rfind('#');
    int64_t bytes;
    if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(lines[last]), "b.") || hash == std::string::npos ||
        !absl::SimpleAtoi(absl::string_view(lines[last]).substr(hash + 1), &bytes) || bytes >= 0) {
      continue;
    }
    const ptrdiff_t first = last + bytes / 4;
    const bool is_innermost = first > inner_first;
    inner_first = first;
    if (first < 0 || !is_innermost) continue;
    const std::vector<std::string> loop(lines.begin() + first, lines.begin() + last + 1);
    const ptrdiff_t vectors = std::count_if(loop.begin(), loop.end(), [](const std::string& line) {
      return absl::StrContains(line, ".4s") || absl::StrContains(line, ".4h") || absl::StrContains(line, ".16b");
    });
    if (vectors <= most) continue;
    most = vectors;
    hottest = loop;
  }
  return hottest;
}

TEST(AArch64Test, AProductAndASumAreVectorInstructionsThatAreNotContracted) {
  const std::vector<std::string> lines = LinesOf(ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = mul float32 %0 %1
%3 = add float32 %2 %1
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)")));
  EXPECT_THAT(lines, Contains(AnyOf(HasSubstr("fmul v"), HasSubstr("fmul.4s"))));
  EXPECT_THAT(lines, Contains(AnyOf(HasSubstr("fadd v"), HasSubstr("fadd.4s"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("fmla"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("fmadd"))));
  EXPECT_THAT(lines, Contains(HasSubstr("ret")));
}

TEST(AArch64Test, AMaximumIsOneInstruction) {
  const std::vector<std::string> loop = HotLoop(LinesOf(ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=0
param float32 w [unit,zero] alias=1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)"))));
  EXPECT_THAT(loop, Contains(HasSubstr("fmax")));
  EXPECT_THAT(loop, Not(Contains(HasSubstr("fcmgt"))));
  EXPECT_THAT(loop, Not(Contains(HasSubstr("bit"))));
}

TEST(AArch64Test, TheConstantsOfAFunctionAreLoadedOutsideOfTheLoop) {
  const std::vector<std::string> loop = HotLoop(LinesOf(ImageOf(ParseOrDie(kTestSoftmaxByProducts))));
  EXPECT_THAT(loop, Contains(HasSubstr("fmla")));
  EXPECT_THAT(loop, Not(Contains(HasSubstr("dup"))));
  EXPECT_THAT(loop, Not(Contains(HasSubstr("adrp"))));
  EXPECT_THAT(loop, Not(Contains(HasSubstr("movk"))));
}

// fmla overwrites its summand: a constant one must be copied first.
TEST(AArch64Test, ALogarithmCopiesFewConstants) {
  const std::vector<std::string> loop = HotLoop(LinesOf(ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = log float32 %0
%2 = store.p1 float32 %1
outer 0 1 2
)"))));
  const auto count = [&](absl::string_view what) {
    return std::count_if(loop.begin(), loop.end(),
                         [&](const std::string& line) { return absl::StrContains(line, what); });
  };
  EXPECT_GT(count("fmla"), 0);
  EXPECT_LE(count(" mov"), count("fmla") / 2);
}

TEST(AArch64Test, TheEndOfARowIsReadAndWrittenInWords) {
  const std::vector<std::string> lines = LinesOf(ImageOf(ParseOrDie(kTestSoftmaxByProducts)));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("ldr s"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("str s"))));
}

constexpr char kHalves[] = R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float16 r [unit] alias=-1
param float16 r [unit] alias=-1
param float16 w [unit] alias=-1
%0 = load.p0 float16
%1 = cast float32 %0
%2 = load.p1 float16
%3 = cast float32 %2
%4 = mul float32 %1 %3
%5 = cast float16 %4
%6 = cast float32 %5
%7 = const float32 0
%8 = max float32 %6 %7
%9 = cast float16 %8
%10 = store.p2 float16 %9
outer 0 1 2 3 4 5 6 7 8 9 10
)";

TEST(AArch64Test, FromArmV8_2OnOneOperationOnFloat16IsOneInstruction) {
  const std::vector<std::string> lines = LinesOf(ImageOf(ParseOrDie(kHalves), Target::kArmV8_2), Target::kArmV8_2);
  EXPECT_THAT(lines, Not(Contains("?")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("fmul"), HasSubstr("4h"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("fcvt"))));
}

// Their bits do not depend on whether a machine computes float16 by itself.
TEST(AArch64Test, BelowArmV8_2Float16IsComputedInFloat32) {
  const std::vector<std::string> lines = LinesOf(ImageOf(ParseOrDie(kHalves)));
  EXPECT_THAT(lines, Contains(HasSubstr("fcvtl")));
  EXPECT_THAT(lines, Contains(HasSubstr("fcvtn")));
}

// A sum of float32 that is rounded to float16 later has more bits in between.
TEST(AArch64Test, Float32StaysFloat32BetweenOperations) {
  const std::vector<std::string> lines = LinesOf(ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float16 r [unit] alias=-1
param float16 w [unit] alias=-1
%0 = load.p0 float16
%1 = cast float32 %0
%2 = mul float32 %1 %1
%3 = add float32 %2 %1
%4 = cast float16 %3
%5 = store.p1 float16 %4
outer 0 1 2 3 4 5
)"),
                                                         Target::kArmV8_2),
                                                 Target::kArmV8_2);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("fmul"), HasSubstr("4s"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("fadd"), HasSubstr("4s"))));
}

TEST(AArch64Test, ArmV8_6RoundsToBFloat16ByAnInstructionAndJoinsPairsByAnother) {
  const std::vector<std::string> loop = HotLoop(LinesOf(ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param bfloat16 r [unit] alias=-1
param bfloat16 r [unit] alias=-1
param bfloat16 w [unit] alias=-1
%0 = load.p0 bfloat16
%1 = cast float32 %0
%2 = load.p1 bfloat16
%3 = cast float32 %2
%4 = add float32 %1 %3
%5 = cast bfloat16 %4
%6 = store.p2 bfloat16 %5
outer 0 1 2 3 4 5 6
)"),
                                                                Target::kArmV8_6),
                                                        Target::kArmV8_6));
  EXPECT_THAT(loop, Contains(HasSubstr("bfcvtn")));
  EXPECT_THAT(loop, Contains(HasSubstr("zip1")));
  EXPECT_THAT(loop, Not(Contains(HasSubstr("orr"))));
}

TEST(AArch64Test, HalvesAreConvertedByTheMachine) {
  EXPECT_THAT(LinesOf(ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float16 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float16
%1 = cast float32 %0
%2 = store.p1 float32 %1
outer 0 1 2
)"))),
              Contains(HasSubstr("fcvtl")));
}

// A page's address in ADRP and the offset in the following load must add up to the constant's address.
TEST(AArch64Test, ReferencesToConstantsAreResolved) {
  const Image image = ImageOf(ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param int64 w [unit] alias=-1
%0 = index.d0 int64
%1 = store.p0 int64 %0
outer 0 1
)"));
  ASSERT_EQ(image.entries.size(), 1);
  const Image::Entry& e = image.entries[0];
  int pairs = 0;
  for (int64_t at = e.offset; at + 4 <= e.offset + e.size; at += 4) {
    uint32_t adrp;
    std::memcpy(&adrp, &image.bytes[at], 4);
    if ((adrp & 0x9f000000) != 0x90000000) continue;
    const int64_t pages = static_cast<int32_t>(((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 11) >> 11;
    const int64_t page = (at & ~int64_t{0xfff}) + pages * 4096;
    // The next instruction that uses the register: an addition, or a load with an unsigned offset.
    for (int64_t next = at + 4; next + 4 <= e.offset + e.size; next += 4) {
      uint32_t use;
      std::memcpy(&use, &image.bytes[next], 4);
      if ((use >> 5 & 31) != (adrp & 31)) continue;
      const bool add = (use & 0xffc00000) == 0x91000000, load = (use & 0x3b400000) == 0x39400000;
      if (!add && !load) continue;
      int scale = add ? 0 : static_cast<int>(use >> 30);
      if (load && (use & 0x04800000) == 0x04800000) scale = 4;
      const int64_t address = page + (static_cast<int64_t>(use >> 10 & 0xfff) << scale);
      // Constants come before the code.
      ASSERT_GE(address, 0);
      ASSERT_LT(address, e.offset);
      // The lanes' numbers, which are added to the index.
      const int64_t lanes[2] = {0, 1};
      pairs += std::memcmp(&image.bytes[address], lanes, sizeof lanes) == 0;
      break;
    }
  }
  EXPECT_GT(pairs, 0) << "the constant is not where the code looks for it";
}

TEST(AArch64Test, EveryRandomKernelIsInstructionsOfTheBaseline) {
  Disassembler disassembler;
  for (int seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 rng(seed);
    const RandomCase c = MakeRandomCase(rng);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", c.spec.ToString()));
    const Image image = ImageOf(c.spec);
    ASSERT_EQ(image.entries.size(), 1);
    const Image::Entry& e = image.entries[0];
    ASSERT_GT(e.size, 0);
    const std::vector<std::string> lines =
        disassembler.Lines(absl::string_view(image.bytes).substr(e.offset, e.size), e.offset);
    EXPECT_THAT(lines, Not(Contains("?")));
    EXPECT_THAT(lines, Contains(HasSubstr("ret")));
    // Imports nothing: no call leaves the image.
    for (absl::string_view line : lines) {
      int64_t distance = 0;
      if (!absl::ConsumePrefix(&line, " bl ")) continue;
      ASSERT_TRUE(absl::ConsumePrefix(&line, "#") && absl::SimpleAtoi(line, &distance)) << line;
      EXPECT_TRUE(distance != 0 && std::abs(distance) < static_cast<int64_t>(image.bytes.size())) << line;
    }
  }
}

TEST(AArch64Test, TheSameBytesTwice) {
  std::mt19937_64 rng(7);
  const RandomCase c = MakeRandomCase(rng);
  EXPECT_EQ(ImageOf(c.spec).bytes, ImageOf(c.spec).bytes);
}

}  // namespace
}  // namespace smelt
