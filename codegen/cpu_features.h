// The features of an instruction set that change the code of a kernel.
#ifndef SMELT_CODEGEN_CPU_FEATURES_H_
#define SMELT_CODEGEN_CPU_FEATURES_H_

namespace smelt {

// From this bit on, the hints of a machine (fuser/kernel_spec.h) hold the size of its last cache in KiB; 0 if it is not
// known.
inline constexpr int kLastCacheShift = 8;

struct CpuFeatures {
  int vector_bits = 128;
  bool fma = false;
  bool f16c = false;  // float16 is converted by an instruction
  bool bf16 = false;  // float32 is rounded to bfloat16 by an instruction
  bool fp16 = false;  // float16 is added, multiplied, ... by instructions
  // AArch64: there are 32 registers of 128 bits, constants come from registers alone, and the minimum and the maximum of
  // NaN and a number are NaN.
  bool neon = false;
  bool avx2 = false;
  bool avx512 = false;        // F, BW, CD, DQ, VL
  bool non_temporal = false;  // non-temporal stores, ended by x86's fence

  // Returns whether there are 16 registers of 256 bits, where AVX-512 has 32 of 512.
  bool IsAvx2Only() const { return avx2 && !avx512; }
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CPU_FEATURES_H_
