// smelt's C interface for C++17: handles that release themselves, errors as exceptions. Header only; needs smelt.h and
// libsmelt alone.
//
//   smelt::Program program("net.smb");                    // throws smelt::Error
//   smelt::Instance instance(program);
//   std::vector<float> data(12);
//   smelt::Tensor x = smelt::Tensor::Borrow(data.data(), {3, 4});
//   std::vector<smelt::Value> results = instance.Run({x});
//   const float* y = results[0].tensor().data<float>();
//
// The names are those of the C++ API inside smelt (runtime/program.h), which a program cannot use at the same time:
// this header is for programs that link libsmelt. What is said there of sharing memory, of threads and of what the
// caller sees holds here: an argument that the model writes is written, a result that is an argument is that very
// tensor.
#ifndef SMELT_RUNTIME_SMELT_HPP_
#define SMELT_RUNTIME_SMELT_HPP_

#include <complex>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "smelt.h"  // beside this file, wherever that is

namespace smelt {

// What a function of smelt.h reported: its status, and smelt_last_error() as what().
class Error : public std::runtime_error {
 public:
  Error(smelt_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  smelt_status status() const { return status_; }

 private:
  smelt_status status_;
};

namespace detail {

inline void Check(smelt_status status) {
  if (status != SMELT_OK) throw Error(status, smelt_last_error());
}
template <typename T>
T Sized() {
  T out;
  std::memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  return out;
}

// clang-format off
template <typename T> struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr smelt_dtype value = SMELT_BOOL; };
template <> struct DTypeOf<std::uint8_t> { static constexpr smelt_dtype value = SMELT_UINT8; };
template <> struct DTypeOf<std::int8_t> { static constexpr smelt_dtype value = SMELT_INT8; };
template <> struct DTypeOf<std::int16_t> { static constexpr smelt_dtype value = SMELT_INT16; };
template <> struct DTypeOf<std::int32_t> { static constexpr smelt_dtype value = SMELT_INT32; };
template <> struct DTypeOf<std::int64_t> { static constexpr smelt_dtype value = SMELT_INT64; };
template <> struct DTypeOf<float> { static constexpr smelt_dtype value = SMELT_FLOAT32; };
template <> struct DTypeOf<double> { static constexpr smelt_dtype value = SMELT_FLOAT64; };
template <> struct DTypeOf<std::complex<float>> { static constexpr smelt_dtype value = SMELT_COMPLEX64; };
template <> struct DTypeOf<std::complex<double>> { static constexpr smelt_dtype value = SMELT_COMPLEX128; };
// clang-format on

}  // namespace detail

// A tensor, by reference: copies of it are the same tensor.
class Tensor {
 public:
  Tensor() = default;
  // Takes over a handle of smelt.h. Throws if it is null.
  static Tensor Adopt(smelt_tensor* handle) {
    if (handle == nullptr) {
      throw Error(SMELT_INVALID_ARGUMENT, "the tensor reaches outside its memory, or there is no memory for it");
    }
    Tensor out;
    out.handle_ = std::shared_ptr<smelt_tensor>(handle, smelt_tensor_release);
    return out;
  }
  // Over the caller's memory, row-major, which must outlive it and all views of it.
  template <typename T>
  static Tensor Borrow(T* data, const std::vector<std::int64_t>& sizes) {
    return BorrowBytes(data, detail::DTypeOf<T>::value, sizes);
  }
  static Tensor BorrowBytes(void* data, smelt_dtype dtype, const std::vector<std::int64_t>& sizes) {
    std::size_t bytes = smelt_dtype_size(dtype);
    for (std::int64_t n : sizes) bytes *= static_cast<std::size_t>(n);
    return Adopt(smelt_tensor_borrow(data, bytes, dtype, static_cast<int>(sizes.size()), sizes.data(), nullptr, 0));
  }
  // With memory of its own, row-major, uninitialized.
  static Tensor Create(smelt_dtype dtype, const std::vector<std::int64_t>& sizes) {
    return Adopt(smelt_tensor_create(dtype, static_cast<int>(sizes.size()), sizes.data()));
  }
  template <typename T>
  static Tensor Create(const std::vector<std::int64_t>& sizes) {
    return Create(detail::DTypeOf<T>::value, sizes);
  }
  // Owns `managed` from here on; see smelt_tensor_from_dlpack.
  static Tensor FromDLPack(DLManagedTensor* managed) {
    smelt_tensor* out = nullptr;
    detail::Check(smelt_tensor_from_dlpack(managed, &out));
    return Adopt(out);
  }
  // The caller calls its deleter; see smelt_tensor_to_dlpack.
  DLManagedTensor* ToDLPack() const {
    DLManagedTensor* out = nullptr;
    detail::Check(smelt_tensor_to_dlpack(get(), &out));
    return out;
  }
  Tensor View(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
              std::int64_t offset) const {
    if (strides.size() != sizes.size()) throw Error(SMELT_INVALID_ARGUMENT, "as many strides as sizes expected");
    return Adopt(smelt_tensor_view(get(), static_cast<int>(sizes.size()), sizes.data(), strides.data(), offset));
  }

  bool defined() const { return handle_ != nullptr; }
  smelt_tensor* get() const { return handle_.get(); }
  smelt_dtype dtype() const { return smelt_tensor_dtype(get()); }
  int rank() const { return smelt_tensor_rank(get()); }
  std::vector<std::int64_t> sizes() const {
    const std::int64_t* n = smelt_tensor_sizes(get());
    return std::vector<std::int64_t>(n, n + rank());
  }
  std::vector<std::int64_t> strides() const {
    const std::int64_t* n = smelt_tensor_strides(get());
    return std::vector<std::int64_t>(n, n + rank());
  }
  std::int64_t NumElements() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank(); ++d) n *= smelt_tensor_sizes(get())[d];
    return n;
  }
  void* data() const { return smelt_tensor_data(get()); }  // the first element
  // Throws unless the elements are of this type.
  template <typename T>
  T* data() const {
    if (dtype() != detail::DTypeOf<std::remove_const_t<T>>::value) {
      throw Error(SMELT_INVALID_ARGUMENT, std::string("the tensor is of ") + smelt_dtype_name(dtype()));
    }
    return static_cast<T*>(data());
  }
  bool IsSame(const Tensor& other) const { return smelt_tensor_is_same(get(), other.get()) != 0; }
  bool SharesStorage(const Tensor& other) const { return smelt_tensor_shares_storage(get(), other.get()) != 0; }
  bool IsReadOnly() const { return smelt_tensor_is_read_only(get()) != 0; }

 private:
  std::shared_ptr<smelt_tensor> handle_;
};

// An argument or a result: a tensor, a number, a string, or nothing.
class Value {
 public:
  Value() = default;                                                        // None
  Value(Tensor t) : kind_(SMELT_KIND_TENSOR), tensor_(std::move(t)) {}      // NOLINT: implicit
  Value(std::int64_t v) : kind_(SMELT_KIND_INT), integer_(v) {}             // NOLINT
  Value(int v) : Value(std::int64_t{v}) {}                                  // NOLINT
  Value(double v) : kind_(SMELT_KIND_FLOAT), number_(v, 0) {}               // NOLINT
  Value(bool v) : kind_(SMELT_KIND_BOOL), integer_(v) {}                    // NOLINT
  Value(std::complex<double> v) : kind_(SMELT_KIND_COMPLEX), number_(v) {}  // NOLINT
  Value(std::string v) : kind_(SMELT_KIND_STRING), text_(std::move(v)) {}   // NOLINT
  Value(const char* v) : Value(std::string(v)) {}                           // NOLINT

  smelt_kind kind() const { return kind_; }
  bool IsNone() const { return kind_ == SMELT_KIND_NONE; }
  bool IsTensor() const { return kind_ == SMELT_KIND_TENSOR; }
  // Each throws unless the value is of its kind.
  const Tensor& tensor() const { return Expect(SMELT_KIND_TENSOR), tensor_; }
  std::int64_t as_int() const { return Expect(SMELT_KIND_INT), integer_; }
  double as_float() const { return Expect(SMELT_KIND_FLOAT), number_.real(); }
  bool as_bool() const { return Expect(SMELT_KIND_BOOL), integer_ != 0; }
  std::complex<double> as_complex() const { return Expect(SMELT_KIND_COMPLEX), number_; }
  const std::string& as_string() const { return Expect(SMELT_KIND_STRING), text_; }

  // As smelt.h has it: borrows from this value.
  smelt_value ToC() const {
    smelt_value out;
    std::memset(&out, 0, sizeof out);
    out.kind = kind_;
    switch (kind_) {
      case SMELT_KIND_TENSOR:
        out.value.tensor = tensor_.get();
        break;
      case SMELT_KIND_INT:
        out.value.integer = integer_;
        break;
      case SMELT_KIND_BOOL:
        out.value.boolean = integer_ != 0;
        break;
      case SMELT_KIND_FLOAT:
        out.value.real = number_.real();
        break;
      case SMELT_KIND_COMPLEX:
        out.value.cplx.real = number_.real();
        out.value.cplx.imag = number_.imag();
        break;
      case SMELT_KIND_STRING:
        out.value.string.data = text_.data();
        out.value.string.size = text_.size();
        break;
      default:
        break;
    }
    return out;
  }
  // Takes over a result, which becomes None.
  static Value FromC(smelt_value* v) {
    Value out;
    switch (v->kind) {
      case SMELT_KIND_TENSOR: {
        smelt_tensor* handle = v->value.tensor;
        v->kind = SMELT_KIND_NONE;
        return Tensor::Adopt(handle);
      }
      case SMELT_KIND_INT:
        return Value(v->value.integer);
      case SMELT_KIND_BOOL:
        return Value(v->value.boolean != 0);
      case SMELT_KIND_FLOAT:
        return Value(v->value.real);
      case SMELT_KIND_COMPLEX:
        return Value(std::complex<double>(v->value.cplx.real, v->value.cplx.imag));
      case SMELT_KIND_STRING:
        out = Value(std::string(v->value.string.data, v->value.string.size));
        smelt_value_release(v);
        return out;
      default:
        return out;
    }
  }

 private:
  void Expect(smelt_kind kind) const {
    if (kind_ != kind) throw Error(SMELT_INVALID_ARGUMENT, "the value is of another kind");
  }
  smelt_kind kind_ = SMELT_KIND_NONE;
  Tensor tensor_;
  std::int64_t integer_ = 0;
  std::complex<double> number_;
  std::string text_;
};

// A loaded bundle. Copies share it; threads may, too.
class Program {
 public:
  struct Options {
    int threads = 0;              // an instance uses at most so many; 0: one per core
    bool verify_weights = false;  // read all weights and compare their digests
    std::string target;           // "x86-64-v3": that one or an error; empty: the best that this machine runs
  };
  explicit Program(const std::string& path) : Program(path, Options()) {}
  Program(const std::string& path, const Options& options) {
    auto o = detail::Sized<smelt_program_options>();
    o.threads = options.threads;
    o.verify_weights = options.verify_weights;
    o.target = options.target.empty() ? nullptr : options.target.c_str();
    smelt_program* out = nullptr;
    detail::Check(smelt_program_load_with(path.c_str(), &o, &out));
    handle_ = std::shared_ptr<smelt_program>(out, smelt_program_release);
  }
  // From the bytes of a bundle, which are copied.
  static Program FromMemory(const void* bytes, std::size_t size) {
    smelt_program* out = nullptr;
    detail::Check(smelt_program_load_from_memory(bytes, size, &out));
    Program program;
    program.handle_ = std::shared_ptr<smelt_program>(out, smelt_program_release);
    return program;
  }

  smelt_program* get() const { return handle_.get(); }
  // The strings and arrays in these live as long as the program.
  smelt_program_info info() const {
    auto out = detail::Sized<smelt_program_info>();
    detail::Check(smelt_program_describe(get(), &out));
    return out;
  }
  std::vector<smelt_arg_info> args() const { return All<smelt_arg_info>(info().num_args, smelt_program_arg); }
  std::vector<smelt_result_info> results() const {
    return All<smelt_result_info>(info().num_results, smelt_program_result);
  }
  std::vector<smelt_state_info> states() const { return All<smelt_state_info>(info().num_states, smelt_program_state); }

 private:
  Program() = default;
  template <typename Info, typename Describe>
  std::vector<Info> All(std::size_t count, Describe describe) const {
    std::vector<Info> out(count, detail::Sized<Info>());
    for (std::size_t i = 0; i < count; ++i) detail::Check(describe(get(), i, &out[i]));
    return out;
  }
  std::shared_ptr<smelt_program> handle_;
};

// The states and the working memory of one caller at a time.
class Instance {
 public:
  explicit Instance(const Program& program, int threads = 0, std::uint64_t seed = 0)
      : num_results_(smelt_program_num_outputs(program.get())) {
    smelt_instance_options options;
    options.threads = threads;
    options.seed = seed;
    smelt_instance* out = nullptr;
    detail::Check(smelt_instance_create(program.get(), &options, &out));
    handle_.reset(out);
  }

  smelt_instance* get() const { return handle_.get(); }

  // The results in the model's order. Throws as smelt_instance_run fails.
  std::vector<Value> Run(const std::vector<Value>& args) {
    std::vector<smelt_value> in;
    in.reserve(args.size());
    for (const Value& v : args) in.push_back(v.ToC());
    struct Results {  // released whatever happens
      std::vector<smelt_value> values;
      ~Results() {
        for (smelt_value& v : values) smelt_value_release(&v);
      }
    } out{std::vector<smelt_value>(num_results_)};
    std::vector<Value> results;
    results.reserve(num_results_);
    std::size_t count = num_results_;
    detail::Check(smelt_instance_run(get(), in.data(), in.size(), out.values.data(), &count));
    for (smelt_value& v : out.values) results.push_back(Value::FromC(&v));
    return results;
  }
  std::vector<Value> Run(std::initializer_list<Value> args) { return Run(std::vector<Value>(args)); }

  // The parameter or buffer of that name: the very tensor.
  Tensor State(const std::string& name) {
    smelt_tensor* out = nullptr;
    detail::Check(smelt_instance_state(get(), name.c_str(), &out));
    return Tensor::Adopt(out);
  }
  void SetState(const std::string& name, const Tensor& value) {
    detail::Check(smelt_instance_set_state(get(), name.c_str(), value.get()));
  }
  void Reset() { detail::Check(smelt_instance_reset(get())); }
  void SaveStates(const std::string& path) { detail::Check(smelt_instance_save_states(get(), path.c_str())); }
  void LoadStates(const std::string& path) { detail::Check(smelt_instance_load_states(get(), path.c_str())); }
  void Seed(std::uint64_t seed) { smelt_instance_seed(get(), seed); }
  smelt_call_stats LastCall() const {
    smelt_call_stats out;
    smelt_instance_last_call(get(), &out);
    return out;
  }

 private:
  struct Release {
    void operator()(smelt_instance* instance) const { smelt_instance_release(instance); }
  };
  std::size_t num_results_;
  std::unique_ptr<smelt_instance, Release> handle_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_SMELT_HPP_
