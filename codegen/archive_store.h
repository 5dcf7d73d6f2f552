// Files that hold many kernels, one record after the other, as `smelt kernels compile` writes them.
#ifndef SMELT_CODEGEN_ARCHIVE_STORE_H_
#define SMELT_CODEGEN_ARCHIVE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/codegen/kernel_cache.h"

namespace smelt {

// Maps the files. An error names the file that cannot be read or is not such a file.
absl::StatusOr<std::shared_ptr<KernelStore>> OpenArchives(const std::vector<std::string>& paths);

}  // namespace smelt

#endif  // SMELT_CODEGEN_ARCHIVE_STORE_H_
