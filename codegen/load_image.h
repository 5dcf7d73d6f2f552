// Makes an image callable in this process: for tests and benchmarks (the runtime maps bundles itself).
#ifndef SMELT_CODEGEN_LOAD_IMAGE_H_
#define SMELT_CODEGEN_LOAD_IMAGE_H_

#include "absl/status/statusor.h"
#include "smelt/codegen/link_image.h"

namespace smelt {

class LoadedImage {
 public:
  LoadedImage() = default;
  ~LoadedImage();
  LoadedImage(LoadedImage&& other) noexcept;
  LoadedImage& operator=(LoadedImage&& other) noexcept;

  KernelEntry entry(int i) const;

 private:
  friend absl::StatusOr<LoadedImage> LoadImage(const Image& image);
  void* base_ = nullptr;
  size_t size_ = 0;
  std::vector<int64_t> offsets_;
};

// Copies the image to fresh pages, read-only and executable.
absl::StatusOr<LoadedImage> LoadImage(const Image& image);

// Compiles, links and loads one kernel.
absl::StatusOr<LoadedImage> CompileAndLoad(const KernelSpec& spec, Target target);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOAD_IMAGE_H_
