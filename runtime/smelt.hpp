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
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "smelt.h"  // beside this file, wherever that is

namespace smelt {
// The library has classes of its own with such names. A program that links it statically holds both, and functions that the
// compiler did not inline must not be taken for each other.
inline namespace api {

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
    constexpr smelt_dtype expected = detail::DTypeOf<std::remove_const_t<T>>::value;
    if (dtype() != expected) {
      throw Error(SMELT_INVALID_ARGUMENT, std::string("the tensor is of ") + smelt_dtype_name(dtype()) +
                                              ", and data<T>() asks for " + smelt_dtype_name(expected));
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
  // The names of the methods.
  std::vector<std::string> method_names() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < info().num_methods; ++i) out.emplace_back(smelt_program_method(get(), i));
    return out;
  }
  // The program of one method; see smelt_program_find_method.
  Program Method(const std::string& name) const {
    smelt_program* out = nullptr;
    detail::Check(smelt_program_find_method(get(), name.c_str(), &out));
    Program program;
    program.handle_ = std::shared_ptr<smelt_program>(out, smelt_program_release);
    return program;
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
      : program_(program), num_results_(smelt_program_num_outputs(program.get())) {
    smelt_instance_options options;
    options.threads = threads;
    options.seed = seed;
    smelt_instance* out = nullptr;
    detail::Check(smelt_instance_create(program.get(), &options, &out));
    handle_.reset(out);
  }

  smelt_instance* get() const { return handle_.get(); }

  // The part of this instance for one method; see smelt_instance_find_method.
  Instance Method(const std::string& name) {
    smelt_instance* out = nullptr;
    const Program program = program_.Method(name);
    detail::Check(smelt_instance_find_method(get(), name.c_str(), &out));
    return Instance(program, out);
  }

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
  Instance(const Program& program, smelt_instance* handle)
      : program_(program), num_results_(smelt_program_num_outputs(program.get())), handle_(handle) {}
  Program program_;
  std::size_t num_results_;
  std::unique_ptr<smelt_instance, Release> handle_;
};

// --- operators of one's own: docs/custom_operators.md ---
//
//   // mylib::scale_(Tensor(a!) x, float by) -> ()
//   smelt::RegisterOperator("mylib::scale_", [](smelt::Array<float> x, double by) { ... });
//   // mylib::twice(Tensor x) -> Tensor
//   smelt::RegisterOperator("mylib::twice", [](smelt::Array<const float> x, smelt::Output<float> out) {
//     smelt::Array<float> y = out.Create(x.sizes());
//     ...
//   });
//
// An implementation takes the schema's arguments in order, then an Output for each result. A tensor is an Array (of
// const elements unless the schema says that it is written), an int a std::int64_t, a float a double, a string a
// std::string; `T?` is a std::optional and a list a std::vector of these. What an implementation throws ends the run of
// the model with its what(). A call with another dtype than the Array's is such an error.

// A tensor of an operator, over the model's own memory; valid during the call.
template <typename T>
class Array {
 public:
  explicit Array(const smelt_array* array) : array_(array) {}

  int rank() const { return array_->rank; }
  std::int64_t size(int dim) const { return array_->sizes[dim]; }
  std::int64_t stride(int dim) const { return array_->strides[dim]; }  // in elements
  std::vector<std::int64_t> sizes() const { return {array_->sizes, array_->sizes + array_->rank}; }
  std::vector<std::int64_t> strides() const { return {array_->strides, array_->strides + array_->rank}; }
  bool IsRowMajor() const { return (array_->flags & SMELT_ARRAY_ROW_MAJOR) != 0; }
  std::int64_t NumElements() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank(); ++d) n *= size(d);
    return n;
  }
  T* data() const { return static_cast<T*>(array_->data) + array_->offset; }  // the first element
  // The element at an index of each dim.
  template <typename... Index>
  T& operator()(Index... index) const {
    const std::int64_t at[] = {static_cast<std::int64_t>(index)..., 0};
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < sizeof...(index); ++d) offset += at[d] * array_->strides[d];
    return data()[offset];
  }
  // Calls f(element) for each element, in the order of the indices.
  template <typename F>
  void ForEach(F f) const {
    if (NumElements() == 0) return;
    std::vector<std::int64_t> index(static_cast<std::size_t>(rank()), 0);
    T* at = data();
    while (true) {
      f(*at);
      int d = rank() - 1;
      for (; d >= 0; --d) {
        at += stride(d);
        if (++index[static_cast<std::size_t>(d)] < size(d)) break;
        at -= stride(d) * size(d);
        index[static_cast<std::size_t>(d)] = 0;
      }
      if (d < 0) return;
    }
  }
  const smelt_array& raw() const { return *array_; }

 private:
  const smelt_array* array_;
};

// A result of an operator, to be set once.
template <typename T>
class Output {
 public:
  Output(const smelt_operator_api* api, smelt_value* value) : api_(api), value_(value) {}

  // New memory, row-major and uninitialized. The Array is valid during the call.
  Array<T> Create(const std::vector<std::int64_t>& sizes) {
    void* data = api_->new_tensor(value_, detail::DTypeOf<T>::value, static_cast<int>(sizes.size()), sizes.data());
    if (data == nullptr) throw Error(SMELT_RESOURCE_EXHAUSTED, "no memory for a result");
    shape_ = std::make_shared<Shape>();
    shape_->sizes = sizes;
    shape_->strides.resize(sizes.size());
    std::int64_t count = 1;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      shape_->strides[d] = count;
      count *= sizes[d] > 0 ? sizes[d] : 1;
    }
    smelt_array& a = shape_->array;
    std::memset(&a, 0, sizeof a);
    a.data = data;
    a.sizes = shape_->sizes.data();
    a.strides = shape_->strides.data();
    a.dtype = detail::DTypeOf<T>::value;
    a.rank = static_cast<int>(sizes.size());
    a.flags = SMELT_ARRAY_ROW_MAJOR;
    return Array<T>(&a);
  }
  // A view of an argument's memory, where the schema says that the result shares it. Offset and strides are in elements,
  // the offset from the first byte of that memory.
  template <typename U>
  void SetView(const Array<U>& argument, const std::vector<std::int64_t>& sizes,
               const std::vector<std::int64_t>& strides, std::int64_t offset) {
    smelt_array a = argument.raw();
    a.sizes = sizes.data();
    a.strides = strides.data();
    a.rank = static_cast<int>(sizes.size());
    a.offset = offset;
    if (strides.size() != sizes.size() || api_->new_view(value_, &a) != SMELT_OK)
      throw Error(SMELT_INVALID_ARGUMENT, "a view reaches outside its argument's memory");
  }
  // A result that is a number.
  void SetNumber(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      value_->kind = SMELT_KIND_BOOL;
      value_->value.boolean = number;
    } else if constexpr (std::is_integral_v<T>) {
      value_->kind = SMELT_KIND_INT;
      value_->value.integer = number;
    } else {
      value_->kind = SMELT_KIND_FLOAT;
      value_->value.real = number;
    }
  }

 private:
  struct Shape {
    std::vector<std::int64_t> sizes, strides;
    smelt_array array;
  };
  const smelt_operator_api* api_;
  smelt_value* value_;
  std::shared_ptr<Shape> shape_;
};

// A result that is a list of tensors.
template <typename T>
class OutputList {
 public:
  OutputList(const smelt_operator_api* api, smelt_value* value) : api_(api), value_(value) {}
  // The elements, to be set.
  std::vector<Output<T>> Create(std::size_t size) {
    if (api_->new_list(value_, size) != SMELT_OK) throw Error(SMELT_RESOURCE_EXHAUSTED, "no memory for a result");
    std::vector<Output<T>> out;
    for (std::size_t i = 0; i < size; ++i) out.emplace_back(api_, &value_->value.list.items[i]);
    return out;
  }

 private:
  const smelt_operator_api* api_;
  smelt_value* value_;
};

namespace detail {

[[noreturn]] inline void BadValue(std::size_t position, const std::string& expected) {
  throw Error(SMELT_INVALID_ARGUMENT,
              "argument " + std::to_string(position) + " is not " + expected + ", as the implementation expects");
}

// An argument as an implementation's parameter.
template <typename T>
struct ValueOf;
template <typename T>
struct ValueOf<Array<T>> {
  static Array<T> Get(const smelt_value& v, std::size_t position) {
    constexpr smelt_dtype dtype = DTypeOf<std::remove_const_t<T>>::value;
    if (v.kind != SMELT_KIND_ARRAY || v.value.array->dtype != dtype)
      BadValue(position, "a tensor of " + std::string(kNames[dtype]));
    if (!std::is_const_v<T> && (v.value.array->flags & SMELT_ARRAY_READ_ONLY) != 0)
      BadValue(position, "a tensor that the schema lets it write");
    return Array<T>(v.value.array);
  }
  // Not smelt_dtype_name: a library of operators does not link libsmelt.
  static constexpr const char* kNames[] = {"bool",    "uint8",    "int8",    "int16",   "int32",     "int64",
                                           "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
};
template <>
struct ValueOf<std::int64_t> {
  static std::int64_t Get(const smelt_value& v, std::size_t position) {
    if (v.kind != SMELT_KIND_INT) BadValue(position, "an int");
    return v.value.integer;
  }
};
template <>
struct ValueOf<double> {
  static double Get(const smelt_value& v, std::size_t position) {
    if (v.kind == SMELT_KIND_INT) return static_cast<double>(v.value.integer);
    if (v.kind != SMELT_KIND_FLOAT) BadValue(position, "a float");
    return v.value.real;
  }
};
template <>
struct ValueOf<bool> {
  static bool Get(const smelt_value& v, std::size_t position) {
    if (v.kind != SMELT_KIND_BOOL) BadValue(position, "a bool");
    return v.value.boolean != 0;
  }
};
template <>
struct ValueOf<std::string> {
  static std::string Get(const smelt_value& v, std::size_t position) {
    if (v.kind != SMELT_KIND_STRING) BadValue(position, "a string");
    return std::string(v.value.string.data, v.value.string.size);
  }
};
template <typename T>
struct ValueOf<std::optional<T>> {
  static std::optional<T> Get(const smelt_value& v, std::size_t position) {
    if (v.kind == SMELT_KIND_NONE) return std::nullopt;
    return ValueOf<T>::Get(v, position);
  }
};
template <typename T>
struct ValueOf<std::vector<T>> {
  static std::vector<T> Get(const smelt_value& v, std::size_t position) {
    if (v.kind != SMELT_KIND_LIST) BadValue(position, "a list");
    std::vector<T> out;
    for (std::size_t i = 0; i < v.value.list.size; ++i) out.push_back(ValueOf<T>::Get(v.value.list.items[i], position));
    return out;
  }
};

template <typename T>
struct IsOutput : std::false_type {};
template <typename T>
struct IsOutput<Output<T>> : std::true_type {};
template <typename T>
struct IsOutput<OutputList<T>> : std::true_type {};

template <typename T>
T Parameter(smelt_operator_call* call, std::size_t num_args, std::size_t position) {
  if constexpr (IsOutput<T>::value) {
    return T(call->api, &call->results[position - num_args]);
  } else {
    return ValueOf<T>::Get(call->args[position], position);
  }
}

template <typename F, typename... P, std::size_t... I>
void Invoke(F& function, smelt_operator_call* call, std::index_sequence<I...>) {
  constexpr std::size_t outputs = (std::size_t{IsOutput<P>::value} + ... + 0);
  constexpr std::size_t args = sizeof...(P) - outputs;
  constexpr bool is_output[] = {IsOutput<P>::value..., true};
  for (std::size_t i = 0; i < sizeof...(P); ++i) {
    if (is_output[i] != (i >= args)) throw Error(SMELT_INVALID_ARGUMENT, "the implementation's Outputs must come last");
  }
  if (call->num_args != args || call->num_results < outputs) {
    throw Error(SMELT_INVALID_ARGUMENT, "the schema has " + std::to_string(call->num_args) + " arguments and " +
                                            std::to_string(call->num_results) + " results, the implementation takes " +
                                            std::to_string(args) + " and " + std::to_string(outputs));
  }
  function(Parameter<P>(call, args, I)...);
}

template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename R, typename C, typename... P>
struct Signature<R (C::*)(P...) const> {
  template <typename F>
  static void Call(F& function, smelt_operator_call* call) {
    Invoke<F, std::decay_t<P>...>(function, call, std::index_sequence_for<P...>());
  }
};
template <typename R, typename C, typename... P>
struct Signature<R (C::*)(P...)> : Signature<R (C::*)(P...) const> {};
template <typename R, typename... P>
struct Signature<R (*)(P...)> {
  template <typename F>
  static void Call(F& function, smelt_operator_call* call) {
    Invoke<F, std::decay_t<P>...>(function, call, std::index_sequence_for<P...>());
  }
};

inline smelt_status FailCall(smelt_operator_call* call, smelt_status status, const char* what) {
  std::strncpy(call->message, what, call->message_size - 1);
  return status;
}

template <typename F>
smelt_status RunOperator(smelt_operator_call* call) {
  try {
    F& function = *static_cast<F*>(call->user);
    if constexpr (std::is_invocable_v<F&, smelt_operator_call&>) {
      function(*call);
    } else {
      Signature<F>::Call(function, call);
    }
    return SMELT_OK;
  } catch (const Error& e) {
    return FailCall(call, e.status(), e.what());
  } catch (const std::bad_alloc&) {
    return FailCall(call, SMELT_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& e) {
    return FailCall(call, SMELT_FAILED_PRECONDITION, e.what());
  } catch (...) {
    return FailCall(call, SMELT_FAILED_PRECONDITION, "its implementation threw something that is no std::exception");
  }
}

template <typename F>
smelt_status Register(smelt_status (*register_operator)(const char*, smelt_operator_function, void*, void (*)(void*)),
                      const std::string& name, F function) {
  auto owned = std::make_unique<F>(std::move(function));
  const smelt_status status =
      register_operator(name.c_str(), RunOperator<F>, owned.get(), [](void* user) { delete static_cast<F*>(user); });
  if (status == SMELT_OK) (void)owned.release();
  return status;
}

}  // namespace detail

// Registers the implementation of "mylib::f" for this process. A function that takes smelt_operator_call& gets the call
// itself. Throws if there is one already.
template <typename F>
void RegisterOperator(const std::string& name, F function) {
  detail::Check(detail::Register(smelt_operator_register, name, std::move(function)));
}
inline void UnregisterOperator(const std::string& name) { detail::Check(smelt_operator_unregister(name.c_str())); }
// Loads a library that SMELT_OPERATOR_LIBRARY makes.
inline void LoadOperatorLibrary(const std::string& path) { detail::Check(smelt_operator_library_load(path.c_str())); }

// The operators of the program that loads a library of operators. The library does not link libsmelt.
class Operators {
 public:
  explicit Operators(const smelt_operator_api* api) : api_(api) {}
  template <typename F>
  void Register(const std::string& name, F function) {
    const smelt_status status = detail::Register(api_->register_operator, name, std::move(function));
    if (status != SMELT_OK) throw Error(status, name + " cannot be registered");
  }

 private:
  const smelt_operator_api* api_;
};

namespace detail {
inline smelt_status RegisterLibrary(const smelt_operator_api* api, void (*register_all)(Operators&)) {
  if (api->struct_size < sizeof(smelt_operator_api)) return SMELT_UNIMPLEMENTED;  // an older libsmelt
  try {
    Operators operators(api);
    register_all(operators);
    return SMELT_OK;
  } catch (const Error& e) {
    return e.status();
  } catch (...) {
    return SMELT_INTERNAL;
  }
}
}  // namespace detail

}  // namespace api
}  // namespace smelt

// Defines the entry of a library of operators:
//
//   SMELT_OPERATOR_LIBRARY(operators) {
//     operators.Register("mylib::scale_", [](smelt::Array<float> x, double by) { ... });
//   }
#define SMELT_OPERATOR_LIBRARY(operators)                                                     \
  static void SmeltRegisterAll(smelt::Operators& operators);                                  \
  extern "C" SMELT_API smelt_status smelt_register_operators(const smelt_operator_api* api) { \
    return smelt::detail::RegisterLibrary(api, SmeltRegisterAll);                             \
  }                                                                                           \
  static void SmeltRegisterAll(smelt::Operators& operators)

#endif  // SMELT_RUNTIME_SMELT_HPP_
