#include <string>

#include "gtest/gtest.h"
#include "lld/Common/Driver.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

LLD_HAS_DRIVER(elf)

namespace {

TEST(LlvmTest, HasBothTargets) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  std::string error;
  EXPECT_NE(llvm::TargetRegistry::lookupTarget(llvm::Triple("x86_64-unknown-linux-gnu"), error), nullptr) << error;
  EXPECT_NE(llvm::TargetRegistry::lookupTarget(llvm::Triple("nvptx64-nvidia-cuda"), error), nullptr) << error;
}

TEST(LlvmTest, LinksInProcess) {
  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  const lld::Result result =
      lld::lldMain({"ld.lld", "--version"}, out_stream, err_stream, {{lld::Gnu, &lld::elf::link}});
  EXPECT_EQ(result.retCode, 0) << err;
  EXPECT_NE(out.find("LLD 22"), std::string::npos) << out;
}

}  // namespace
