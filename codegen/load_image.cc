#include "smelt/codegen/load_image.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {

LoadedImage::~LoadedImage() {
  if (base_) munmap(base_, size_);
}
LoadedImage::LoadedImage(LoadedImage&& other) noexcept { *this = std::move(other); }
LoadedImage& LoadedImage::operator=(LoadedImage&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(offsets_, other.offsets_);
  return *this;
}

KernelEntry LoadedImage::entry(int i) const {
  return reinterpret_cast<KernelEntry>(static_cast<char*>(base_) + offsets_[i]);
}

absl::StatusOr<LoadedImage> LoadImage(const Image& image) {
  LoadedImage out;
  if (image.bytes.empty()) return out;
  out.size_ = image.bytes.size();
  void* base = mmap(nullptr, out.size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("image: mmap: ", strerror(errno)));
  out.base_ = base;
  std::memcpy(base, image.bytes.data(), out.size_);
  __builtin___clear_cache(static_cast<char*>(base), static_cast<char*>(base) + out.size_);
  if (mprotect(base, out.size_, PROT_READ | PROT_EXEC) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("image: mprotect: ", strerror(errno)));
  }
  for (const Image::Entry& e : image.entries) out.offsets_.push_back(e.offset);
  return out;
}

absl::StatusOr<LoadedImage> CompileAndLoad(const KernelSpec& spec, Target target) {
  SMELT_ASSIGN_OR_RETURN(KernelObject object, CompileKernel(spec, target));
  SMELT_ASSIGN_OR_RETURN(Image image, LinkImage({&object}));
  return LoadImage(image);
}

}  // namespace smelt
