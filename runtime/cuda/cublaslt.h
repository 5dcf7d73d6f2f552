// Products of matrices by NVIDIA's cuBLASLt, opened when a device first asks for one: smelt neither links it nor needs its
// headers. Internal.
//
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<CublasLt> products, CublasLt::Create(device));
//   SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedProduct> product, products->Prepare(wanted));
//   if (product == nullptr) ...   // there is no cuBLASLt, or it refuses this product
//
// The library is libcublasLt.so.13 or libcublasLt.so.12, whichever the driver is new enough for. SMELT_CUBLASLT names
// another file, or is "off". SMELT_CUBLASLT_LEAST says how many multiplications a product has at least: small ones cost no
// GPU much time, and a library's call costs the host more than a launch.
//
// The sums of float32, float16 and bfloat16 are of float32, without TF32. An algorithm is chosen once for each product and
// alignment, by cuBLASLt's heuristic and not by measurements. It must not add parts of a sum in an order that depends on
// the run.
#ifndef SMELT_RUNTIME_CUDA_CUBLASLT_H_
#define SMELT_RUNTIME_CUDA_CUBLASLT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/runtime/cuda/cublaslt_declarations.h"
#include "smelt/runtime/device/device.h"

namespace smelt::cuda {

class CudaDevice;

// The library on one device. Thread-safe. It lives as long as the device.
class CublasLt {
 public:
  static absl::StatusOr<std::unique_ptr<CublasLt>> Create(const CudaDevice& device);
  // Returns null where there is no library, where the product is small, or where the library refuses it.
  absl::StatusOr<std::shared_ptr<const PreparedProduct>> Prepare(const DeviceProduct& product);

 private:
  class Product;
  explicit CublasLt(const CudaDevice& device) : device_(device) {}
  absl::Status Check(BlasStatus result, absl::string_view step, absl::string_view what) const;

  const CudaDevice& device_;
  int64_t least_work_ = 0;                        // of a product, in multiplications
  const CublasLtFunctions* functions_ = nullptr;  // null: there is no library
  BlasHandle handle_ = nullptr;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, std::weak_ptr<const Product>> products_;  // that are in use
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_CUBLASLT_H_
