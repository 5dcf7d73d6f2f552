#include "smelt/runtime/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/cuda/cuda_device.h"
#include "smelt/runtime/cuda/launch_graphs.h"

namespace smelt::cuda {
namespace {

// Memory is aligned to this, or the library learns by how much less.
constexpr int64_t kMostAlignment = 256;
// Launches share one workspace, which the device keeps.
constexpr int64_t kMostWorkspace = int64_t{32} << 20;
// Sizes and distances of lines are numbers of 32 bits.
constexpr int64_t kMostSize = int64_t{1} << 31;
// That of a product of 64 x 64 matrices. No GPU has measured it.
constexpr int64_t kLeastWork = 64 * 64 * 64;
// The library of CUDA 13 needs a driver of CUDA 13.
constexpr int kFirstDriverOf13 = 13000;

absl::StatusOr<const CublasLtFunctions*> Open(const char* name) {
  // It stays open: GPUs may still run its code when the process ends.
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat(name, " cannot be opened (", why != nullptr ? why : "no reason given", ")"));
  }
  auto functions = std::make_unique<CublasLtFunctions>();
#define SMELT_CUBLASLT_LOAD(field, symbol, parameters)                                     \
  functions->field = reinterpret_cast<decltype(functions->field)>(dlsym(library, symbol)); \
  if (functions->field == nullptr) {                                                       \
    return absl::FailedPreconditionError(absl::StrCat(name, " has no function " symbol));  \
  }
  SMELT_CUBLASLT_FUNCTIONS(SMELT_CUBLASLT_LOAD)
#undef SMELT_CUBLASLT_LOAD
  return functions.release();
}

const char* NameOf(BlasStatus status) {
  switch (status) {
    case kBlasNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kBlasAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kBlasInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kBlasArchMismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case kBlasExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kBlasInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kBlasNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "an error of cuBLAS";
  }
}

// Returns whether the library is not for this GPU or this driver, or not for these operands.
bool Refuses(BlasStatus status) {
  return status == kBlasNotSupported || status == kBlasInvalidValue || status == kBlasArchMismatch;
}

int TypeOf(DType t) {
  return t == DType::kFloat32 ? kBlasFloat32 : t == DType::kFloat16 ? kBlasFloat16 : kBlasBFloat16;
}

// A matrix as the library sees it: by columns, `columns` of them, `stride` elements apart.
struct ByColumns {
  int64_t rows = 0, columns = 0, stride = 0, batch = 0;
  bool is_transposed = false;  // it has the wanted matrix's transpose in it
};

// Sets the matrix whose element (row, column) of a wanted one lies at those strides; false if the library has no layout
// for it.
bool LieByColumns(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, int64_t batch,
                  ByColumns* out) {
  // The stride of a dim of size 1 does not matter.
  const auto fits = [](int64_t lines, int64_t length, int64_t within, int64_t between) {
    return (length == 1 || within == 1) && (lines == 1 || (between >= length && between < kMostSize));
  };
  if (fits(columns, rows, row_stride, column_stride)) {
    *out = {rows, columns, columns == 1 ? rows : column_stride, batch, false};
    return true;
  }
  if (fits(rows, columns, column_stride, row_stride)) {
    *out = {columns, rows, rows == 1 ? columns : row_stride, batch, true};
    return true;
  }
  return false;
}

// The bits of an address up to which it is a multiple.
int64_t AlignmentOf(int64_t address) {
  return address == 0 ? kMostAlignment : std::min(kMostAlignment, address & -address);
}

// The words of a product's work: addresses.
enum Word { kA, kB, kC, kBias, kWords };

}  // namespace

absl::Status CublasLt::Check(BlasStatus result, absl::string_view step, absl::string_view what) const {
  if (result == kBlasSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(device_.device().ToString(), ": ", step, step.empty() ? "" : ": ", what,
                                           ": ", NameOf(result), " (", result, ")");
  return result == kBlasAllocFailed ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Create(const CudaDevice& device) {
  auto out = std::unique_ptr<CublasLt>(new CublasLt(device));
  const char* const other = std::getenv("SMELT_CUBLASLT");
  const absl::string_view named = other == nullptr ? "" : other;
  if (named == "off") return out;
  std::vector<const char*> names;
  if (!named.empty()) {
    names = {other};
  } else {
    int version = 0;
    SMELT_RETURN_IF_ERROR(device.Check(device.driver().cuDriverGetVersion(&version), "cuDriverGetVersion"));
    if (version >= kFirstDriverOf13) names.push_back("libcublasLt.so.13");
    names.push_back("libcublasLt.so.12");
  }
  out->least_work_ = kLeastWork;
  if (const char* const least = std::getenv("SMELT_CUBLASLT_LEAST"); least != nullptr && *least != '\0') {
    if (!absl::SimpleAtoi(least, &out->least_work_) || out->least_work_ < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("SMELT_CUBLASLT_LEAST is \"", least, "\", expected a number of multiplications"));
    }
  }
  const CudaDevice::Scope scope(device);
  SMELT_RETURN_IF_ERROR(scope.status());
  for (const char* name : names) {
    const absl::StatusOr<const CublasLtFunctions*> opened = Open(name);
    if (!opened.ok()) {
      if (named.empty()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("SMELT_CUBLASLT: ", opened.status().message(), "; \"off\" does without cuBLASLt"));
    }
    const BlasStatus made = (*opened)->Create(&out->handle_);
    if (made == kBlasNotInitialized || Refuses(made)) continue;
    SMELT_RETURN_IF_ERROR(out->Check(made, "", "cublasLtCreate"));
    out->functions_ = *opened;
    break;
  }
  return out;
}

// A product of one shape, with an algorithm for each alignment that occurred.
class CublasLt::Product {
 public:
  explicit Product(CublasLt& blas) : blas_(blas), f_(*blas.functions_) {}
  ~Product() {
    if (operation_ != nullptr) f_.OperationDestroy(operation_);
    for (BlasLayout layout : layouts_) {
      if (layout != nullptr) f_.LayoutDestroy(layout);
    }
  }
  Product(const Product&) = delete;

  // Returns false if the library has no layout for the operands.
  absl::StatusOr<bool> Init(const DeviceProduct& p);

  // An algorithm, and the work of one step by it.
  struct Algorithm {
    bool is_refused = true;
    BlasAlgorithm algorithm;
    int64_t workspace_bytes = 0;
  };
  absl::StatusOr<const Algorithm*> Find(absl::Span<const int64_t> words, absl::string_view step) const;
  absl::Status Multiply(absl::Span<const int64_t> words, const Algorithm& algorithm, Address workspace, Stream stream,
                        absl::string_view step) const;
  bool has_bias() const { return has_bias_; }
  // The work of one step, which has an algorithm of this product.
  class Work;
  class Step;

 private:
  enum Layout { kLeft, kRight, kAdded, kResult, kLayouts };
  absl::Status MakeLayout(Layout which, DType type, const ByColumns& m, int64_t batches);
  absl::Status SetOperation(int attribute, const void* value, size_t bytes) const {
    return blas_.Check(f_.OperationSet(operation_, attribute, value, bytes), name_, "cublasLtMatmulDescSetAttribute");
  }
  absl::Status SetBias(int64_t address) const {
    const void* const at = reinterpret_cast<const void*>(static_cast<uintptr_t>(address));
    return SetOperation(kBlasBiasPointer, &at, sizeof at);
  }
  absl::Status Choose(const std::array<int64_t, kWords>& alignments, BlasPreference preference, absl::string_view step,
                      Algorithm* out) const;

  CublasLt& blas_;
  const CublasLtFunctions& f_;
  std::string name_;  // of the first step that has it
  BlasOperation operation_ = nullptr;
  BlasLayout layouts_[kLayouts] = {};
  bool has_bias_ = false, adds_vector_ = false;
  float alpha_ = 1, beta_ = 0;
  mutable std::mutex mutex_;  // for the address of a vector that is added, which belongs to the operation
  mutable std::map<std::array<int64_t, kWords>, Algorithm> algorithms_;  // by alignment
};

// A step's product by one algorithm.
class CublasLt::Product::Work final : public LibraryWork {
 public:
  Work(std::shared_ptr<const Product> product, const Algorithm* algorithm, std::string step)
      : product_(std::move(product)), algorithm_(algorithm), step_(std::move(step)) {}
  absl::Status Give(absl::Span<const int64_t> words, Address workspace, Stream stream) const override {
    return product_->Multiply(words, *algorithm_, workspace, stream, step_);
  }
  const Algorithm* algorithm() const { return algorithm_; }

 private:
  const std::shared_ptr<const Product> product_;
  const Algorithm* const algorithm_;
  const std::string step_;
};

class CublasLt::Product::Step final : public PreparedProduct {
 public:
  Step(const CudaDevice& device, std::shared_ptr<const Product> product, std::string name)
      : device_(device), product_(std::move(product)), name_(std::move(name)) {}
  absl::StatusOr<bool> Run(const char* a, const char* b, const char* bias, char* c) const override {
    const auto word = [](const char* p) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p)); };
    const int64_t words[] = {word(a), word(b), word(c), product_->has_bias() ? word(bias) : 0};
    SMELT_ASSIGN_OR_RETURN(const Algorithm* algorithm, product_->Find(words, name_));
    if (algorithm->is_refused) return false;
    std::shared_ptr<const Work> work;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& known : works_) {
        if (known->algorithm() == algorithm) work = known;
      }
      if (work == nullptr) works_.push_back(work = std::make_shared<Work>(product_, algorithm, name_));
    }
    SMELT_RETURN_IF_ERROR(device_.Add(std::move(work), words, algorithm->workspace_bytes));
    device_.CountProduct();
    return true;
  }

 private:
  const CudaDevice& device_;
  const std::shared_ptr<const Product> product_;
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Work>> works_;  // a few: by alignment
};

absl::Status CublasLt::Product::MakeLayout(Layout which, DType type, const ByColumns& m, int64_t batches) {
  SMELT_RETURN_IF_ERROR(blas_.Check(f_.LayoutCreate(&layouts_[which], TypeOf(type), static_cast<uint64_t>(m.rows),
                                                    static_cast<uint64_t>(m.columns), m.stride),
                                    name_, "cublasLtMatrixLayoutCreate"));
  if (batches == 1) return absl::OkStatus();
  const auto count = static_cast<int32_t>(batches);
  SMELT_RETURN_IF_ERROR(blas_.Check(f_.LayoutSet(layouts_[which], kBlasBatchCount, &count, sizeof count), name_,
                                    "cublasLtMatrixLayoutSetAttribute"));
  return blas_.Check(f_.LayoutSet(layouts_[which], kBlasBatchStride, &m.batch, sizeof m.batch), name_,
                     "cublasLtMatrixLayoutSetAttribute");
}

// The library's matrices lie by columns, so that it computes the transpose: b's times a's.
absl::StatusOr<bool> CublasLt::Product::Init(const DeviceProduct& p) {
  name_ = p.name;
  const bool is_half = p.in == DType::kFloat16 || p.in == DType::kBFloat16;
  if (!is_half && p.in != DType::kFloat32) return false;
  if (p.out != p.in && p.out != DType::kFloat32) return false;
  for (const int64_t size : {p.rows, p.columns, p.inner, p.batches}) {
    if (size < 1 || size >= kMostSize) return false;
  }
  ByColumns left, right, result, added;
  if (!LieByColumns(p.columns, p.inner, p.b.column, p.b.row, p.b.batch, &left) ||
      !LieByColumns(p.inner, p.rows, p.a.column, p.a.row, p.a.batch, &right) ||
      !LieByColumns(p.columns, p.rows, p.c.column, p.c.row, p.c.batch, &result) || result.is_transposed)
    return false;
  added = result;
  has_bias_ = p.has_bias;
  alpha_ = static_cast<float>(p.alpha), beta_ = 0;
  if (p.has_bias) {
    // One element for each column, for all rows and batches; or a matrix.
    const bool is_vector = (p.rows == 1 || p.bias.row == 0) && (p.columns == 1 || p.bias.column == 1) &&
                           (p.batches == 1 || p.bias.batch == 0);
    adds_vector_ = is_vector && p.beta == 1;
    if (!adds_vector_) {
      if (p.beta == 0 || !LieByColumns(p.columns, p.rows, p.bias.column, p.bias.row, p.bias.batch, &added) ||
          added.is_transposed)
        return false;
      beta_ = static_cast<float>(p.beta);
    }
  }
  SMELT_RETURN_IF_ERROR(
      blas_.Check(f_.OperationCreate(&operation_, kBlasSumFloat32, kBlasFloat32), name_, "cublasLtMatmulDescCreate"));
  const int of_left = left.is_transposed ? kBlasTransposed : kBlasAsIs;
  const int of_right = right.is_transposed ? kBlasTransposed : kBlasAsIs;
  SMELT_RETURN_IF_ERROR(SetOperation(kBlasTransposeA, &of_left, sizeof of_left));
  SMELT_RETURN_IF_ERROR(SetOperation(kBlasTransposeB, &of_right, sizeof of_right));
  const uint32_t epilogue = adds_vector_ ? kBlasBias : kBlasPlain;
  SMELT_RETURN_IF_ERROR(SetOperation(kBlasEpilogue, &epilogue, sizeof epilogue));
  SMELT_RETURN_IF_ERROR(MakeLayout(kLeft, p.in, left, p.batches));
  SMELT_RETURN_IF_ERROR(MakeLayout(kRight, p.in, right, p.batches));
  SMELT_RETURN_IF_ERROR(MakeLayout(kAdded, p.out, added, p.batches));
  SMELT_RETURN_IF_ERROR(MakeLayout(kResult, p.out, result, p.batches));
  return true;
}

absl::Status CublasLt::Product::Choose(const std::array<int64_t, kWords>& alignments, BlasPreference preference,
                                       absl::string_view step, Algorithm* out) const {
  const auto set = [&](int attribute, const auto& value) {
    return blas_.Check(f_.PreferenceSet(preference, attribute, &value, sizeof value), step,
                       "cublasLtMatmulPreferenceSetAttribute");
  };
  SMELT_RETURN_IF_ERROR(set(kBlasMostWorkspace, uint64_t{kMostWorkspace}));
  SMELT_RETURN_IF_ERROR(set(kBlasReductions, kBlasReductionInFloat32));
  const Word of_operands[] = {kB, kA, adds_vector_ || !has_bias_ ? kC : kBias, kC};
  for (int k = 0; k < kLayouts; ++k) {
    SMELT_RETURN_IF_ERROR(
        set(kBlasAlignmentA + k, static_cast<uint32_t>(alignments[static_cast<size_t>(of_operands[k])])));
  }
  // The address of a vector says how it is aligned.
  if (adds_vector_) SMELT_RETURN_IF_ERROR(SetBias(alignments[kBias]));
  BlasChoice choice;
  int count = 0;
  const BlasStatus chosen = f_.Choose(blas_.handle_, operation_, layouts_[kLeft], layouts_[kRight], layouts_[kAdded],
                                      layouts_[kResult], preference, 1, &choice, &count);
  if (Refuses(chosen)) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(blas_.Check(chosen, step, "cublasLtMatmulAlgoGetHeuristic"));
  out->is_refused =
      count < 1 || choice.state != kBlasSuccess || choice.workspace_bytes > static_cast<size_t>(kMostWorkspace);
  out->algorithm = choice.algorithm;
  out->workspace_bytes = static_cast<int64_t>(choice.workspace_bytes);
  return absl::OkStatus();
}

absl::StatusOr<const CublasLt::Product::Algorithm*> CublasLt::Product::Find(absl::Span<const int64_t> words,
                                                                            absl::string_view step) const {
  std::array<int64_t, kWords> alignments;
  std::transform(words.begin(), words.end(), alignments.begin(), AlignmentOf);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto it = algorithms_.find(alignments); it != algorithms_.end()) return &it->second;
  const CudaDevice::Scope scope(blas_.device_);
  SMELT_RETURN_IF_ERROR(scope.status());
  BlasPreference preference = nullptr;
  SMELT_RETURN_IF_ERROR(blas_.Check(f_.PreferenceCreate(&preference), step, "cublasLtMatmulPreferenceCreate"));
  Algorithm found;
  const absl::Status chosen = Choose(alignments, preference, step, &found);
  f_.PreferenceDestroy(preference);
  SMELT_RETURN_IF_ERROR(chosen);
  return &algorithms_.emplace(alignments, found).first->second;
}

absl::Status CublasLt::Product::Multiply(absl::Span<const int64_t> words, const Algorithm& algorithm, Address workspace,
                                         Stream stream, absl::string_view step) const {
  const auto at = [](auto word) { return reinterpret_cast<void*>(static_cast<uintptr_t>(word)); };
  const std::lock_guard<std::mutex> lock(mutex_);
  if (adds_vector_) SMELT_RETURN_IF_ERROR(SetBias(words[kBias]));
  // Without a matrix that is added, the result stands for it and is not read.
  const void* const added = has_bias_ && !adds_vector_ ? at(words[kBias]) : at(words[kC]);
  return blas_.Check(
      f_.Multiply(blas_.handle_, operation_, &alpha_, at(words[kB]), layouts_[kLeft], at(words[kA]), layouts_[kRight],
                  &beta_, added, layouts_[kAdded], at(words[kC]), layouts_[kResult], &algorithm.algorithm,
                  at(workspace), static_cast<size_t>(algorithm.workspace_bytes), stream),
      step, "cublasLtMatmul");
}

absl::StatusOr<std::shared_ptr<const PreparedProduct>> CublasLt::Prepare(const DeviceProduct& p) {
  if (functions_ == nullptr) return nullptr;
  const double work = static_cast<double>(p.batches) * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                      static_cast<double>(p.inner);
  if (work < static_cast<double>(least_work_)) return nullptr;
  std::vector<int64_t> key = {
      static_cast<int64_t>(p.in), static_cast<int64_t>(p.out), p.rows, p.columns, p.inner, p.batches,
      p.has_bias ? 1 : 0};
  for (const DeviceProduct::Matrix& m : {p.a, p.b, p.c, p.bias}) key.insert(key.end(), {m.row, m.column, m.batch});
  for (const double number : {p.alpha, p.beta}) {
    int64_t bits;
    static_assert(sizeof bits == sizeof number);
    std::memcpy(&bits, &number, sizeof bits);
    key.push_back(bits);
  }
  std::shared_ptr<const Product> product;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = products_.begin(); it != products_.end();) it = it->second.expired() ? products_.erase(it) : ++it;
    std::weak_ptr<const Product>& known = products_[key];
    product = known.lock();
    if (product == nullptr) {
      auto made = std::make_shared<Product>(*this);
      SMELT_ASSIGN_OR_RETURN(const bool has_layouts, made->Init(p));
      if (!has_layouts) return nullptr;
      known = product = std::move(made);
    }
  }
  // Most memory is aligned. Where the library refuses even that, it is not asked again.
  const int64_t aligned[kWords] = {kMostAlignment, kMostAlignment, kMostAlignment, p.has_bias ? kMostAlignment : 0};
  SMELT_ASSIGN_OR_RETURN(const Product::Algorithm* algorithm, product->Find(aligned, p.name));
  if (algorithm->is_refused) return nullptr;
  return std::make_shared<Product::Step>(device_, std::move(product), p.name);
}

}  // namespace smelt::cuda
