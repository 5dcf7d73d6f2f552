// The temporary files of this process's OutputFiles, for a program that ends without running destructors.
#ifndef SMELT_CORE_BASE_UNFINISHED_OUTPUTS_H_
#define SMELT_CORE_BASE_UNFINISHED_OUTPUTS_H_

namespace smelt {

// Removes the temporary files that other OutputFiles of this process still write. It allocates nothing and takes no
// lock, so that a handler of exhausted memory may call it; the process ends right after it.
void RemoveUnfinishedOutputs() noexcept;

}  // namespace smelt

#endif  // SMELT_CORE_BASE_UNFINISHED_OUTPUTS_H_
