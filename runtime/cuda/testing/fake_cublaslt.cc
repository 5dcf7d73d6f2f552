#include "smelt/runtime/cuda/testing/fake_cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/cuda/cublaslt_declarations.h"
#include "smelt/runtime/cuda/driver.h"
#include "smelt/runtime/cuda/testing/fake_driver.h"

namespace smelt::fake_cuda {
namespace {

using namespace cuda;  // NOLINT: this file stands in for what that one declares

constexpr size_t kWorkspace = 4096;
constexpr int kThreads = 256;

// A descriptor's attributes, and the sizes that it was made with.
struct Object {
  std::map<int, std::vector<char>> attributes = {};
  int type = 0;
  int64_t rows = 0, columns = 0, stride = 0;

  template <typename T>
  T Get(int attribute, T otherwise) const {
    const auto it = attributes.find(attribute);
    if (it == attributes.end() || it->second.size() != sizeof(T)) return otherwise;
    T value;
    std::memcpy(&value, it->second.data(), sizeof value);
    return value;
  }
};

struct State {
  std::mutex mutex;
  std::set<Object*> objects;
  int64_t calls = 0, fail_at = -1, choices = 0, products = 0, least_alignment = 1;
  BlasStatus fail_with = kBlasSuccess;
  int launches = 1;
};
State& Get() {
  static auto* const state = new State();
  return *state;
}

// Counts a call. Returns what it must fail with.
BlasStatus Begin() {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return Get().calls++ == Get().fail_at ? Get().fail_with : kBlasSuccess;
}

#define BEGIN()                              \
  do {                                       \
    const BlasStatus begun = Begin();        \
    if (begun != kBlasSuccess) return begun; \
  } while (false)

template <typename T>
Object* ObjectOf(T handle) {
  auto* object = reinterpret_cast<Object*>(handle);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return Get().objects.count(object) != 0 ? object : nullptr;
}
template <typename T>
void Make(Object made, T* handle) {
  auto* object = new Object(std::move(made));
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().objects.insert(object);
  *handle = reinterpret_cast<T>(object);
}
template <typename T>
BlasStatus Drop(T handle) {
  auto* object = reinterpret_cast<Object*>(handle);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (Get().objects.erase(object) == 0) return kBlasInvalidValue;
  delete object;
  return kBlasSuccess;
}
template <typename T>
BlasStatus Set(T handle, int attribute, const void* value, size_t bytes) {
  BEGIN();
  Object* object = ObjectOf(handle);
  if (object == nullptr) return kBlasInvalidValue;
  const char* begin = static_cast<const char*>(value);
  object->attributes[attribute].assign(begin, begin + bytes);
  return kBlasSuccess;
}

// The driver's function that launches, and the kernels.
struct Kernels {
  decltype(cuda::Driver::cuLaunchKernel) launch = nullptr;
  Function product = nullptr, nothing = nullptr;
};

// The words of the kernel. Matrices lie by columns.
enum ProductWord {
  kA,
  kB,
  kC,
  kD,
  kBiasAt,
  kWorkspaceAt,
  kRows,
  kColumns,
  kInner,
  kFlipA,
  kFlipB,
  kStrideA,
  kStrideB,
  kStrideC,
  kStrideD,
  kBatches,
  kBatchA,
  kBatchB,
  kBatchC,
  kBatchD,
  kIn,
  kOut,
  kAfter,
  kAlpha,
  kBeta,
  kProductWords
};

float Load(int64_t address, int64_t element, int64_t type) {
  const auto* at = reinterpret_cast<const char*>(static_cast<uintptr_t>(address));
  if (type == kBlasFloat32) {
    float value;
    std::memcpy(&value, at + element * 4, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at + element * 2, sizeof bits);
  return type == kBlasFloat16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
}
void Store(float value, int64_t address, int64_t element, int64_t type) {
  auto* at = reinterpret_cast<char*>(static_cast<uintptr_t>(address));
  if (type == kBlasFloat32) {
    std::memcpy(at + element * 4, &value, sizeof value);
    return;
  }
  const uint16_t bits = type == kBlasFloat16 ? FloatToHalf(value) : FloatToBFloat16(value);
  std::memcpy(at + element * 2, &bits, sizeof bits);
}

void RunProduct(void*, int, const int64_t* w, int64_t, int64_t, int64_t*, void*) {
  std::memset(reinterpret_cast<void*>(static_cast<uintptr_t>(w[kWorkspaceAt])), 0, kWorkspace);
  double alpha, beta;
  std::memcpy(&alpha, &w[kAlpha], sizeof alpha);
  std::memcpy(&beta, &w[kBeta], sizeof beta);
  for (int64_t z = 0; z < w[kBatches]; ++z) {
    for (int64_t j = 0; j < w[kColumns]; ++j) {
      for (int64_t i = 0; i < w[kRows]; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < w[kInner]; ++k) {
          const int64_t a = w[kFlipA] != 0 ? k + i * w[kStrideA] : i + k * w[kStrideA];
          const int64_t b = w[kFlipB] != 0 ? j + k * w[kStrideB] : k + j * w[kStrideB];
          sum += static_cast<double>(Load(w[kA], z * w[kBatchA] + a, w[kIn])) *
                 static_cast<double>(Load(w[kB], z * w[kBatchB] + b, w[kIn]));
        }
        sum *= alpha;
        if (beta != 0) sum += beta * static_cast<double>(Load(w[kC], z * w[kBatchC] + i + j * w[kStrideC], w[kOut]));
        if ((w[kAfter] & kBlasBias) != 0) sum += static_cast<double>(Load(w[kBiasAt], i, w[kOut]));
        Store(static_cast<float>(sum), w[kD], z * w[kBatchD] + i + j * w[kStrideD], w[kOut]);
      }
    }
  }
}
void RunNothing(void*, int, const int64_t*, int64_t, int64_t, int64_t*, void*) {}

const Kernels* GetKernels() {
  static const Kernels* const kernels = []() -> const Kernels* {
    const char* const path = std::getenv("SMELT_CUDA_DRIVER");
    void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    const auto get =
        reinterpret_cast<Result (*)(const char*, void**, int, uint64_t)>(dlsym(library, "cuGetProcAddress"));
    const auto add = reinterpret_cast<decltype(&fake_cuda_register)>(dlsym(library, "fake_cuda_register"));
    if (get == nullptr || add == nullptr) return nullptr;
    const KernelInfo product = {kProductWords, true, kThreads, RunProduct, nullptr};
    const KernelInfo nothing = {kProductWords, true, kThreads, RunNothing, nullptr};
    add("fake_cublaslt_product", &product);
    add("fake_cublaslt_nothing", &nothing);
    auto* out = new Kernels();
    decltype(cuda::Driver::cuModuleLoadData) load = nullptr;
    decltype(cuda::Driver::cuModuleGetFunction) find = nullptr;
    const auto fetch = [&](auto& function, const char* name) {
      void* found = nullptr;
      get(name, &found, 13000, 0);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    fetch(load, "cuModuleLoadData");
    fetch(find, "cuModuleGetFunction");
    fetch(out->launch, "cuLaunchKernel");
    Module module = nullptr;
    if (load(&module, "") != kSuccess || find(&out->product, module, "fake_cublaslt_product") != kSuccess ||
        find(&out->nothing, module, "fake_cublaslt_nothing") != kSuccess)
      return nullptr;
    return out;
  }();
  return kernels;
}

}  // namespace
}  // namespace smelt::fake_cuda

using namespace smelt;             // NOLINT: the functions below have no namespace
using namespace smelt::cuda;       // NOLINT
using namespace smelt::fake_cuda;  // NOLINT

extern "C" {

#define SMELT_EXPORT __attribute__((visibility("default")))

SMELT_EXPORT BlasStatus cublasLtCreate(BlasHandle* handle) {
  BEGIN();
  static char only;
  *handle = reinterpret_cast<BlasHandle>(&only);
  return GetKernels() == nullptr ? kBlasNotInitialized : kBlasSuccess;
}
SMELT_EXPORT BlasStatus cublasLtMatmulDescCreate(BlasOperation* operation, int compute, int scale) {
  BEGIN();
  if (compute != kBlasSumFloat32 || scale != kBlasFloat32) return kBlasNotSupported;
  Make({}, operation);
  return kBlasSuccess;
}
SMELT_EXPORT BlasStatus cublasLtMatmulDescDestroy(BlasOperation operation) { return Drop(operation); }
SMELT_EXPORT BlasStatus cublasLtMatmulDescSetAttribute(BlasOperation operation, int attribute, const void* value,
                                                       size_t bytes) {
  return Set(operation, attribute, value, bytes);
}
SMELT_EXPORT BlasStatus cublasLtMatrixLayoutCreate(BlasLayout* layout, int type, uint64_t rows, uint64_t columns,
                                                   int64_t column_stride) {
  BEGIN();
  if (column_stride < static_cast<int64_t>(rows)) return kBlasInvalidValue;
  Make({.type = type,
        .rows = static_cast<int64_t>(rows),
        .columns = static_cast<int64_t>(columns),
        .stride = column_stride},
       layout);
  return kBlasSuccess;
}
SMELT_EXPORT BlasStatus cublasLtMatrixLayoutDestroy(BlasLayout layout) { return Drop(layout); }
SMELT_EXPORT BlasStatus cublasLtMatrixLayoutSetAttribute(BlasLayout layout, int attribute, const void* value,
                                                         size_t bytes) {
  return Set(layout, attribute, value, bytes);
}
SMELT_EXPORT BlasStatus cublasLtMatmulPreferenceCreate(BlasPreference* preference) {
  BEGIN();
  Make({}, preference);
  return kBlasSuccess;
}
SMELT_EXPORT BlasStatus cublasLtMatmulPreferenceDestroy(BlasPreference preference) { return Drop(preference); }
SMELT_EXPORT BlasStatus cublasLtMatmulPreferenceSetAttribute(BlasPreference preference, int attribute,
                                                             const void* value, size_t bytes) {
  return Set(preference, attribute, value, bytes);
}

// An algorithm remembers how the operands are aligned.
SMELT_EXPORT BlasStatus cublasLtMatmulAlgoGetHeuristic(BlasHandle, BlasOperation operation, BlasLayout a, BlasLayout b,
                                                       BlasLayout c, BlasLayout d, BlasPreference preference, int most,
                                                       BlasChoice* choices, int* count) {
  BEGIN();
  const Object *o = ObjectOf(operation), *p = ObjectOf(preference);
  if (o == nullptr || p == nullptr || ObjectOf(a) == nullptr || ObjectOf(b) == nullptr || ObjectOf(c) == nullptr ||
      ObjectOf(d) == nullptr || most < 1)
    return kBlasInvalidValue;
  const std::lock_guard<std::mutex> lock(Get().mutex);
  ++Get().choices;
  *count = 0;
  // Partial sums of other kinds may differ from run to run.
  if (p->Get<uint32_t>(kBlasReductions, 7) != kBlasReductionInFloat32) return kBlasInvalidValue;
  if (p->Get<uint64_t>(kBlasMostWorkspace, 0) < kWorkspace) return kBlasNotSupported;
  for (int k = 0; k < 4; ++k) {
    const int64_t alignment = p->Get<uint32_t>(kBlasAlignmentA + k, 256);
    if (alignment < Get().least_alignment) return kBlasNotSupported;
    choices->algorithm.data[k] = static_cast<uint64_t>(alignment);
  }
  const bool has_vector = (o->Get<uint32_t>(kBlasEpilogue, kBlasPlain) & kBlasBias) != 0;
  if (has_vector && o->Get<uint64_t>(kBlasBiasPointer, 0) == 0) return kBlasInvalidValue;
  choices->workspace_bytes = kWorkspace;
  choices->state = kBlasSuccess;
  *count = 1;
  return kBlasSuccess;
}

SMELT_EXPORT BlasStatus cublasLtMatmul(BlasHandle, BlasOperation operation, const void* alpha, const void* a,
                                       BlasLayout a_layout, const void* b, BlasLayout b_layout, const void* beta,
                                       const void* c, BlasLayout c_layout, void* d, BlasLayout d_layout,
                                       const BlasAlgorithm* algorithm, void* workspace, size_t workspace_bytes,
                                       Stream stream) {
  BEGIN();
  const Object *o = ObjectOf(operation), *la = ObjectOf(a_layout), *lb = ObjectOf(b_layout), *lc = ObjectOf(c_layout),
               *ld = ObjectOf(d_layout);
  if (o == nullptr || la == nullptr || lb == nullptr || lc == nullptr || ld == nullptr) return kBlasInvalidValue;
  const auto word = [](const void* p) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p)); };
  int64_t words[kProductWords] = {word(a), word(b), word(c), word(d)};
  for (int k = 0; k < 4; ++k) {
    if (static_cast<uint64_t>(words[k]) % algorithm->data[k] != 0) return kBlasInvalidValue;
  }
  if (workspace == nullptr || workspace_bytes < kWorkspace) return kBlasInvalidValue;
  const bool flip_a = o->Get(kBlasTransposeA, kBlasAsIs) == kBlasTransposed;
  const bool flip_b = o->Get(kBlasTransposeB, kBlasAsIs) == kBlasTransposed;
  words[kBiasAt] = o->Get<int64_t>(kBlasBiasPointer, 0), words[kWorkspaceAt] = word(workspace);
  words[kRows] = ld->rows, words[kColumns] = ld->columns, words[kInner] = flip_a ? la->rows : la->columns;
  const bool fits = (flip_a ? la->columns : la->rows) == ld->rows && lc->rows == ld->rows &&
                    lc->columns == ld->columns && (flip_b ? lb->rows : lb->columns) == ld->columns &&
                    (flip_b ? lb->columns : lb->rows) == words[kInner] && la->type == lb->type && lc->type == ld->type;
  if (!fits) return kBlasInvalidValue;
  words[kFlipA] = flip_a, words[kFlipB] = flip_b;
  words[kStrideA] = la->stride, words[kStrideB] = lb->stride;
  words[kStrideC] = lc->stride, words[kStrideD] = ld->stride;
  words[kBatches] = ld->Get<int32_t>(kBlasBatchCount, 1);
  const Object* const layouts[] = {la, lb, lc, ld};
  for (int k = 0; k < 4; ++k) {
    if (layouts[k]->Get<int32_t>(kBlasBatchCount, 1) != words[kBatches]) return kBlasInvalidValue;
    words[kBatchA + k] = layouts[k]->Get<int64_t>(kBlasBatchStride, 0);
  }
  words[kIn] = la->type, words[kOut] = ld->type;
  words[kAfter] = static_cast<int64_t>(o->Get<uint32_t>(kBlasEpilogue, kBlasPlain));
  const double factors[] = {static_cast<double>(*static_cast<const float*>(alpha)),
                            static_cast<double>(*static_cast<const float*>(beta))};
  std::memcpy(&words[kAlpha], factors, sizeof factors);
  int launches;
  {
    const std::lock_guard<std::mutex> lock(Get().mutex);
    launches = Get().launches;
    ++Get().products;
  }
  int64_t begin = 0, end = 0;
  Address none = 0;
  void* parameters[] = {words, &begin, &end, &none, &none};
  for (int k = 1; k <= launches; ++k) {
    const Kernels& kernels = *GetKernels();
    if (kernels.launch(k == launches ? kernels.product : kernels.nothing, 1, 1, 1, kThreads, 1, 1, 0, stream,
                       parameters, nullptr) != kSuccess)
      return kBlasExecutionFailed;
  }
  return kBlasSuccess;
}

SMELT_EXPORT void fake_cublaslt_fail(int64_t call, int status) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().fail_at = call < 0 ? -1 : Get().calls + call;
  Get().fail_with = status;
}
SMELT_EXPORT void fake_cublaslt_launches(int count) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().launches = count;
}
SMELT_EXPORT void fake_cublaslt_least_alignment(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().least_alignment = bytes;
}
SMELT_EXPORT BlasCounts fake_cublaslt_counts() {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return {Get().calls, static_cast<int64_t>(Get().objects.size()), Get().choices, Get().products};
}

}  // extern "C"
