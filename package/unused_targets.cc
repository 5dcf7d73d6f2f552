// lld initializes every target that its LLVM was configured with, although it needs one only to compile bitcode, which
// it never gets here. These functions replace those of the targets that smelt does not compile for, so that a static
// link leaves the targets out.

// Each target has five functions.
#define SMELT_UNUSED(target)                   \
  void LLVMInitialize##target##TargetInfo() {} \
  void LLVMInitialize##target##Target() {}     \
  void LLVMInitialize##target##TargetMC() {}   \
  void LLVMInitialize##target##AsmPrinter() {} \
  void LLVMInitialize##target##AsmParser() {}  \
  void LLVMInitialize##target##Disassembler() {}

extern "C" {
// clang-format off
SMELT_UNUSED(AMDGPU)
SMELT_UNUSED(ARM)
SMELT_UNUSED(AVR)
SMELT_UNUSED(BPF)
SMELT_UNUSED(Hexagon)
SMELT_UNUSED(Lanai)
SMELT_UNUSED(LoongArch)
SMELT_UNUSED(M68k)
SMELT_UNUSED(MSP430)
SMELT_UNUSED(Mips)
SMELT_UNUSED(PowerPC)
SMELT_UNUSED(RISCV)
SMELT_UNUSED(SPIRV)
SMELT_UNUSED(Sparc)
SMELT_UNUSED(SystemZ)
SMELT_UNUSED(VE)
SMELT_UNUSED(WebAssembly)
SMELT_UNUSED(XCore)
SMELT_UNUSED(Xtensa)
// clang-format on
}  // extern "C"
