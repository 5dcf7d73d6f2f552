// Tests of many files are cut into slices, one shard of the test each.
#ifndef SMELT_TOOLS_FUZZ_SLICES_H_
#define SMELT_TOOLS_FUZZ_SLICES_H_

#include <algorithm>
#include <cstdlib>

namespace smelt {

// Returns how many files of a slice are read: all `files` of it, or the number that SMELT_HOSTILE_FILES in the environment
// states if that is less. .ci/run states one for sanitized builds, in which a file takes twenty times as long.
inline int FilesOfSlice(int files) {
  const char* most = std::getenv("SMELT_HOSTILE_FILES");
  return most != nullptr ? std::clamp(std::atoi(most), 1, files) : files;
}

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_SLICES_H_
