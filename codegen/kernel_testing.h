// For tests: random kernel specs, launches whose buffers end or begin at a guard page, and comparison with the
// interpreter.
#ifndef SMELT_CODEGEN_KERNEL_TESTING_H_
#define SMELT_CODEGEN_KERNEL_TESTING_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "smelt/codegen/compiler.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Parses text that a test holds.
KernelSpec ParseOrDie(absl::string_view text);

using Guard = GuardPages;

// The parameters of a launch of a spec, besides memory.
struct Launch {
  std::vector<int64_t> sizes;                 // of the P+Q dims
  std::vector<std::vector<int64_t>> strides;  // of each param, elements, every dim (0 where the class is zero)
  std::vector<int64_t> elements;              // of each param: how many its buffer has
  std::vector<int64_t> origin;                // of each param: the element that its address names
  std::vector<int64_t> scalars;               // as words
  // Each param's first contents; params of equal bytes start from the same random values.
  std::vector<std::vector<uint8_t>> contents;
};

struct RandomCase {
  KernelSpec spec;
  Launch launch;
  bool zeros_may_differ = false;  // min and max of -0 and 0
};
// Makes specs with every op except functions whose values are approximate; sums are of small integers, so that any
// order gives the same bits.
RandomCase MakeRandomCase(std::mt19937_64& rng);

// Returns words for buffers, which the caller keeps alive.
std::vector<int64_t> MakeWords(const KernelSpec& spec, const Launch& launch,
                               const std::vector<std::shared_ptr<Storage>>& buffers);
std::vector<std::shared_ptr<Storage>> MakeBuffers(const KernelSpec& spec, const Launch& launch, Guard guard);

// Runs the interpreter and the entry, the latter in `parts` ranges of tiles, and returns their first difference; empty
// if there is none.
std::string CompareWithInterpreter(const RandomCase& c, KernelEntry entry, Guard guard, int parts);

// Simple launches for a spec: row-major params over `sizes`, random contents in [-4, 4].
Launch DenseLaunch(const KernelSpec& spec, std::vector<int64_t> sizes, std::mt19937_64& rng);

}  // namespace smelt

#endif  // SMELT_CODEGEN_KERNEL_TESTING_H_
