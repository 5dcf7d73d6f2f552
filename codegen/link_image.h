// Images of many kernels.
//
//   SMELT_ASSIGN_OR_RETURN(Image image, LinkImage({&object, ...}));   // may be mapped anywhere, readable and executable
#ifndef SMELT_CODEGEN_LINK_IMAGE_H_
#define SMELT_CODEGEN_LINK_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/codegen/compiler.h"

namespace smelt {

// Position-independent code without imports. A loader maps it, readable and executable, at a page.
struct Image {
  std::string bytes;  // a multiple of 4096
  struct Entry {
    int64_t offset = 0;  // of the kernel's first instruction
    int64_t size = 0;
  };
  std::vector<Entry> entries;  // as the objects were given
};

// For CPUs. An error names the part of an object that an image cannot have (an undefined symbol, writable data, a
// relocation of an unknown kind). Objects are data here: hostile ones give an error, never a crash.
absl::StatusOr<Image> LinkImage(absl::Span<const KernelObject* const> objects);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LINK_IMAGE_H_
