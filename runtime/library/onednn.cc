// The functions of oneDNN's C interface that this library calls, each under its own name: a call goes on to the library
// that was opened. oneDNN's C++ header is inline code over these.
#include "smelt/runtime/library/onednn.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "oneapi/dnnl/dnnl.h"
#include "smelt/core/base/find_symbol.h"

namespace smelt {
namespace {

// Every function that is called here.
#define SMELT_ONEDNN_FUNCTIONS(X)                        \
  X(dnnl_dilated_convolution_backward_weights_desc_init) \
  X(dnnl_dilated_convolution_forward_desc_init)          \
  X(dnnl_dilated_deconvolution_forward_desc_init)        \
  X(dnnl_engine_create)                                  \
  X(dnnl_engine_destroy)                                 \
  X(dnnl_get_primitive_cache_capacity)                   \
  X(dnnl_matmul_desc_init)                               \
  X(dnnl_memory_create)                                  \
  X(dnnl_memory_desc_equal)                              \
  X(dnnl_memory_desc_get_size)                           \
  X(dnnl_memory_desc_init_by_strides)                    \
  X(dnnl_memory_desc_init_by_tag)                        \
  X(dnnl_memory_destroy)                                 \
  X(dnnl_memory_get_engine)                              \
  X(dnnl_memory_get_memory_desc)                         \
  X(dnnl_memory_set_data_handle)                         \
  X(dnnl_primitive_attr_create)                          \
  X(dnnl_primitive_attr_destroy)                         \
  X(dnnl_primitive_attr_set_scratchpad_mode)             \
  X(dnnl_primitive_create)                               \
  X(dnnl_primitive_desc_destroy)                         \
  X(dnnl_primitive_desc_iterator_create)                 \
  X(dnnl_primitive_desc_iterator_destroy)                \
  X(dnnl_primitive_desc_iterator_fetch)                  \
  X(dnnl_primitive_desc_query)                           \
  X(dnnl_primitive_desc_query_md)                        \
  X(dnnl_primitive_destroy)                              \
  X(dnnl_primitive_execute)                              \
  X(dnnl_reorder_primitive_desc_create)                  \
  X(dnnl_set_primitive_cache_capacity)                   \
  X(dnnl_set_verbose)                                    \
  X(dnnl_stream_create)                                  \
  X(dnnl_stream_destroy)                                 \
  X(dnnl_stream_wait)

struct Functions {
#define SMELT_POINTER(name) decltype(&::name) name = nullptr;
  SMELT_ONEDNN_FUNCTIONS(SMELT_POINTER)
#undef SMELT_POINTER
  decltype(&::dnnl_version) version = nullptr;
  int (*omp_get_max_threads)() = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;
};

#if !defined(__aarch64__)
// The folder of the file that holds this code, with a slash at its end; empty if that is not known.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&HasOnednn), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}
#endif

void* OpenLibrary() {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
  if (const char* named = std::getenv("SMELT_ONEDNN"); named != nullptr && *named != 0) {
    return absl::string_view(named) == "off" ? nullptr : dlopen(named, kFlags);
  }
#if defined(__aarch64__)
  // Distributions build it without the library of vector code that it needs there: it would run reference code.
  return nullptr;
#else
  if (const std::string folder = OwnFolder(); !folder.empty()) {
    for (const char* beside : {"smelt/libdnnl.so.2", "../lib/smelt/libdnnl.so.2"}) {
      if (void* opened = dlopen((folder + beside).c_str(), kFlags)) return opened;
    }
  }
  return dlopen("libdnnl.so.2", kFlags);
#endif
}

// Null if there is no oneDNN. The library stays open as long as the process lives: threads may be inside it.
const Functions* Open() {
  void* library = OpenLibrary();
  if (library == nullptr) return nullptr;
  auto* f = new Functions;
  bool all = FindSymbol(library, "dnnl_version", &f->version) && f->version()->major == DNNL_VERSION_MAJOR &&
             f->version()->minor >= DNNL_VERSION_MINOR;
#define SMELT_FIND(name) all = all && FindSymbol(library, #name, &f->name);
  SMELT_ONEDNN_FUNCTIONS(SMELT_FIND)
#undef SMELT_FIND
  // Functions of the OpenMP library that oneDNN is linked with: a search in a library continues in its dependencies.
  FindSymbol(library, "omp_get_max_threads", &f->omp_get_max_threads);
  FindSymbol(library, "omp_set_num_threads", &f->omp_set_num_threads);
  if (all) return f;
  delete f;
  return nullptr;
}

const Functions* Opened() {
  static const Functions* const kOpened = Open();
  return kOpened;
}

template <typename Result, typename... Args>
Result Call(Result (*Functions::*function)(Args...), std::type_identity_t<Args>... args) {
  if (const Functions* f = Opened()) return (f->*function)(args...);
  if constexpr (std::is_same_v<Result, dnnl_status_t>) return dnnl_unimplemented;
  return Result();
}

}  // namespace

bool HasOnednn() { return Opened() != nullptr; }

int OpenMpThreads() {
  const Functions* f = Opened();
  return f == nullptr || f->omp_get_max_threads == nullptr ? 1 : f->omp_get_max_threads();
}

void SetOpenMpThreads(int threads) {
  const Functions* f = Opened();
  if (f != nullptr && f->omp_set_num_threads != nullptr) f->omp_set_num_threads(threads);
}

}  // namespace smelt

extern "C" {

#if defined(__SANITIZE_THREAD__)
// oneDNN is not instrumented: tsan sees its accesses to memory, but not the locks that order them.
const char* __tsan_default_suppressions() { return "race:libdnnl.so.2\ncalled_from_lib:libdnnl.so.2\n"; }
#endif

dnnl_status_t dnnl_dilated_convolution_backward_weights_desc_init(
    dnnl_convolution_desc_t* a, dnnl_alg_kind_t b, const dnnl_memory_desc_t* c, const dnnl_memory_desc_t* d,
    const dnnl_memory_desc_t* e, const dnnl_memory_desc_t* f, const dnnl_dims_t g, const dnnl_dims_t h,
    const dnnl_dims_t i, const dnnl_dims_t j) {
  return smelt::Call(&smelt::Functions::dnnl_dilated_convolution_backward_weights_desc_init, a, b, c, d, e, f, g, h, i,
                     j);
}
dnnl_status_t dnnl_dilated_convolution_forward_desc_init(dnnl_convolution_desc_t* a, dnnl_prop_kind_t b,
                                                         dnnl_alg_kind_t c, const dnnl_memory_desc_t* d,
                                                         const dnnl_memory_desc_t* e, const dnnl_memory_desc_t* f,
                                                         const dnnl_memory_desc_t* g, const dnnl_dims_t h,
                                                         const dnnl_dims_t i, const dnnl_dims_t j,
                                                         const dnnl_dims_t k) {
  return smelt::Call(&smelt::Functions::dnnl_dilated_convolution_forward_desc_init, a, b, c, d, e, f, g, h, i, j, k);
}
dnnl_status_t dnnl_dilated_deconvolution_forward_desc_init(dnnl_deconvolution_desc_t* a, dnnl_prop_kind_t b,
                                                           dnnl_alg_kind_t c, const dnnl_memory_desc_t* d,
                                                           const dnnl_memory_desc_t* e, const dnnl_memory_desc_t* f,
                                                           const dnnl_memory_desc_t* g, const dnnl_dims_t h,
                                                           const dnnl_dims_t i, const dnnl_dims_t j,
                                                           const dnnl_dims_t k) {
  return smelt::Call(&smelt::Functions::dnnl_dilated_deconvolution_forward_desc_init, a, b, c, d, e, f, g, h, i, j, k);
}
dnnl_status_t dnnl_engine_create(dnnl_engine_t* a, dnnl_engine_kind_t b, size_t c) {
  return smelt::Call(&smelt::Functions::dnnl_engine_create, a, b, c);
}
dnnl_status_t dnnl_engine_destroy(dnnl_engine_t a) { return smelt::Call(&smelt::Functions::dnnl_engine_destroy, a); }
dnnl_status_t dnnl_get_primitive_cache_capacity(int* a) {
  return smelt::Call(&smelt::Functions::dnnl_get_primitive_cache_capacity, a);
}
dnnl_status_t dnnl_matmul_desc_init(dnnl_matmul_desc_t* a, const dnnl_memory_desc_t* b, const dnnl_memory_desc_t* c,
                                    const dnnl_memory_desc_t* d, const dnnl_memory_desc_t* e) {
  return smelt::Call(&smelt::Functions::dnnl_matmul_desc_init, a, b, c, d, e);
}
dnnl_status_t dnnl_memory_create(dnnl_memory_t* a, const dnnl_memory_desc_t* b, dnnl_engine_t c, void* d) {
  return smelt::Call(&smelt::Functions::dnnl_memory_create, a, b, c, d);
}
int dnnl_memory_desc_equal(const dnnl_memory_desc_t* a, const dnnl_memory_desc_t* b) {
  return smelt::Call(&smelt::Functions::dnnl_memory_desc_equal, a, b);
}
size_t dnnl_memory_desc_get_size(const dnnl_memory_desc_t* a) {
  return smelt::Call(&smelt::Functions::dnnl_memory_desc_get_size, a);
}
dnnl_status_t dnnl_memory_desc_init_by_strides(dnnl_memory_desc_t* a, int b, const dnnl_dims_t c, dnnl_data_type_t d,
                                               const dnnl_dims_t e) {
  return smelt::Call(&smelt::Functions::dnnl_memory_desc_init_by_strides, a, b, c, d, e);
}
dnnl_status_t dnnl_memory_desc_init_by_tag(dnnl_memory_desc_t* a, int b, const dnnl_dims_t c, dnnl_data_type_t d,
                                           dnnl_format_tag_t e) {
  return smelt::Call(&smelt::Functions::dnnl_memory_desc_init_by_tag, a, b, c, d, e);
}
dnnl_status_t dnnl_memory_destroy(dnnl_memory_t a) { return smelt::Call(&smelt::Functions::dnnl_memory_destroy, a); }
dnnl_status_t dnnl_memory_get_engine(const_dnnl_memory_t a, dnnl_engine_t* b) {
  return smelt::Call(&smelt::Functions::dnnl_memory_get_engine, a, b);
}
dnnl_status_t dnnl_memory_get_memory_desc(const_dnnl_memory_t a, const dnnl_memory_desc_t** b) {
  return smelt::Call(&smelt::Functions::dnnl_memory_get_memory_desc, a, b);
}
dnnl_status_t dnnl_memory_set_data_handle(dnnl_memory_t a, void* b) {
  return smelt::Call(&smelt::Functions::dnnl_memory_set_data_handle, a, b);
}
dnnl_status_t dnnl_primitive_attr_create(dnnl_primitive_attr_t* a) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_attr_create, a);
}
dnnl_status_t dnnl_primitive_attr_destroy(dnnl_primitive_attr_t a) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_attr_destroy, a);
}
dnnl_status_t dnnl_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t a, dnnl_scratchpad_mode_t b) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_attr_set_scratchpad_mode, a, b);
}
dnnl_status_t dnnl_primitive_create(dnnl_primitive_t* a, const_dnnl_primitive_desc_t b) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_create, a, b);
}
dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t a) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_desc_destroy, a);
}
dnnl_status_t dnnl_primitive_desc_iterator_create(dnnl_primitive_desc_iterator_t* a, const_dnnl_op_desc_t b,
                                                  const_dnnl_primitive_attr_t c, dnnl_engine_t d,
                                                  const_dnnl_primitive_desc_t e) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_desc_iterator_create, a, b, c, d, e);
}
dnnl_status_t dnnl_primitive_desc_iterator_destroy(dnnl_primitive_desc_iterator_t a) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_desc_iterator_destroy, a);
}
dnnl_primitive_desc_t dnnl_primitive_desc_iterator_fetch(const_dnnl_primitive_desc_iterator_t a) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_desc_iterator_fetch, a);
}
dnnl_status_t dnnl_primitive_desc_query(const_dnnl_primitive_desc_t a, dnnl_query_t b, int c, void* d) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_desc_query, a, b, c, d);
}
const dnnl_memory_desc_t* dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t a, dnnl_query_t b, int c) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_desc_query_md, a, b, c);
}
dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t a) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_destroy, a);
}
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t a, dnnl_stream_t b, int c, const dnnl_exec_arg_t* d) {
  return smelt::Call(&smelt::Functions::dnnl_primitive_execute, a, b, c, d);
}
dnnl_status_t dnnl_reorder_primitive_desc_create(dnnl_primitive_desc_t* a, const dnnl_memory_desc_t* b, dnnl_engine_t c,
                                                 const dnnl_memory_desc_t* d, dnnl_engine_t e,
                                                 const_dnnl_primitive_attr_t f) {
  return smelt::Call(&smelt::Functions::dnnl_reorder_primitive_desc_create, a, b, c, d, e, f);
}
dnnl_status_t dnnl_set_primitive_cache_capacity(int a) {
  return smelt::Call(&smelt::Functions::dnnl_set_primitive_cache_capacity, a);
}
dnnl_status_t dnnl_set_verbose(int a) { return smelt::Call(&smelt::Functions::dnnl_set_verbose, a); }
dnnl_status_t dnnl_stream_create(dnnl_stream_t* a, dnnl_engine_t b, unsigned c) {
  return smelt::Call(&smelt::Functions::dnnl_stream_create, a, b, c);
}
dnnl_status_t dnnl_stream_destroy(dnnl_stream_t a) { return smelt::Call(&smelt::Functions::dnnl_stream_destroy, a); }
dnnl_status_t dnnl_stream_wait(dnnl_stream_t a) { return smelt::Call(&smelt::Functions::dnnl_stream_wait, a); }
}  // extern "C"
