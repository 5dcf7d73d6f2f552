// The options that compile, convert and kernels share.
#ifndef SMELT_TOOLS_COMPILE_OPTIONS_H_
#define SMELT_TOOLS_COMPILE_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/pipeline/compile.h"
#include "smelt/tools/command_line.h"

namespace smelt {

// Reads what CompileOptionSpecs of the command table names.
absl::Status ReadCompileOptions(const CommandLine& line, CompileOptions& options, KernelCache::Options& cache);

// Returns how many kernels the cache has given out.
int64_t RequestsDone(const KernelCache::Stats& stats);

// Describes the options that a bundle's bytes depend on: "targets x86-64-v3,x86-64-v4 variants auto fuse".
std::string Describe(const CompileOptions& options);

}  // namespace smelt

#endif  // SMELT_TOOLS_COMPILE_OPTIONS_H_
