// Steps of a plan on a CUDA device that are no launches of the plan's own kernels: library operators and random
// numbers. They use the kernels of schema/library_kernels.h that the program's image holds, and for large products the
// device's library where it has one. Internal.
//
//   DeviceLibrary library(program.image(), &device);
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<DeviceOp> op, library.Prepare(request, source));   // once per set of shapes
//   SMELT_ASSIGN_OR_RETURN(const bool ran, op->Run(device, inputs, outputs, status));
//   if (!ran) ...   // there is no kernel for it: the host computes it
//
// The operands are addresses on the device.
#ifndef SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_
#define SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/runtime/device/device.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/philox.h"
#include "smelt/schema/bundle_generated.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// A step for fixed shapes: launches of which only addresses change from call to call. One thread may use it at a time.
class DeviceOp {
 public:
  // Returns whether the device computes the step, as far as the shapes tell.
  bool has_kernel() const { return !is_on_host_; }
  // ... and neither the operands' addresses nor their contents can change that.
  bool needs_no_host() const { return !is_on_host_ && flag_word_ < 0; }
  // ... and a library of the device does, as a rule.
  bool has_product() const { return product_ != nullptr; }
  // Returns false, and has written nothing that counts, if the host has to compute the step. The kernel reports in
  // `status`, on the device. `epilogue` are the words of the kernel that goes on with the result, if there is one.
  absl::StatusOr<bool> Run(const ExecutionDevice& device, absl::Span<char* const> inputs,
                           absl::Span<char* const> outputs, int64_t* status, absl::Span<const int64_t> epilogue = {});
  // The same for an op of PrepareFill: fills the tensor at `to` with the next draws of the generator, which does not
  // advance. The numbers are those of fb::RandomT.
  absl::StatusOr<bool> Fill(const ExecutionDevice& device, double p0, double p1, const Generator& random, char* to,
                            int64_t* status);

 private:
  friend class DeviceLibrary;
  struct Launch {
    int kernel = 0;
    std::vector<int64_t> words;
  };
  // A word that holds the address of an operand: its number in the inputs or the outputs.
  struct Operand {
    int word = 0, number = 0;
    bool is_output = false;
    size_t launch = 0;
  };
  // A word that holds an address in memory of the op's own, which lives as long as a call.
  struct Room {
    size_t launch = 0;
    int word = 0;
    int64_t offset = 0;
  };
  absl::Status LaunchAll(const ExecutionDevice& device, int64_t* status) const;

  bool is_on_host_ = false;
  const KernelImage* image_ = nullptr;
  std::vector<Launch> launches_;  // in order; none: there is nothing to compute
  std::vector<Operand> operands_;
  std::vector<Room> rooms_;
  int64_t room_bytes_ = 0;
  // A word of the last launch for the address of a number that a kernel sets if only the host has the answer; -1: none.
  // The output may then not be the input.
  int flag_word_ = -1;
  // A product that the device's library computes, and not the launches: unless it refuses the operands' addresses.
  std::shared_ptr<const PreparedProduct> product_;
  int product_a_ = 0, product_b_ = 1;  // their numbers in the inputs
};

class DeviceLibrary {
 public:
  // Either may be null: then nothing is computed by it. They must outlive the ops.
  explicit DeviceLibrary(const KernelImage* image, const ExecutionDevice* device = nullptr)
      : image_(image), device_(device) {}
  // Prepares products and convolutions whose kernels go on with a kernel of the bundle, which outlives this.
  DeviceLibrary(const KernelImage* image, const fb::KernelT& epilogue) : image_(image), epilogue_(&epilogue) {}

  // kInvalidArgument if the operands do not fit each other. Errors of a library of the device name `source`.
  absl::StatusOr<std::unique_ptr<DeviceOp>> Prepare(const LibraryRequest& request, absl::string_view source = {}) const;
  absl::StatusOr<std::unique_ptr<DeviceOp>> PrepareFill(fb::RandomKind kind, DType t, absl::Span<const int64_t> strides,
                                                        absl::Span<const int64_t> sizes) const;

 private:
  // Each makes the op of a request, and returns false if no kernel of the image is for these operands.
  absl::StatusOr<bool> Product(const LibraryRequest& r, absl::string_view source, DeviceOp* op) const;
  absl::StatusOr<bool> Convolution(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Attention(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Order(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Search(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Choose(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Runs(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Bincount(const LibraryRequest& r, DeviceOp* op) const;
  // Pairs of a key and a place, for each element of lines, and room for as many: where they are in an op's memory.
  struct PairsOfLines {
    int64_t keys, places, other_keys, other_places;
  };
  // Adds the launches that sort lines as pairs, whatever their length. `words` are those of an order, and get room for
  // those of a long one. Returns nullopt if the image lacks a kernel.
  absl::StatusOr<std::optional<PairsOfLines>> SortPairs(DType t, int64_t lines, int64_t length,
                                                        std::vector<int64_t>* words, DeviceOp* op) const;
  // Gives the words of a launch the places of pairs.
  static void PlacePairs(const PairsOfLines& pairs, size_t launch, DeviceOp* op);
  // Adds a launch, if the image has the kernel.
  absl::StatusOr<bool> Use(const LibraryKernel& kernel, const std::vector<int64_t>& words, DeviceOp* op) const;

  const KernelImage* image_;
  const ExecutionDevice* device_ = nullptr;
  const fb::KernelT* epilogue_ = nullptr;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_
