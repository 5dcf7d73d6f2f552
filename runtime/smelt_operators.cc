// The C interface to operators of the user's own.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/find_symbol.h"
#include "smelt/runtime/operators.h"
#include "smelt/runtime/smelt_internal.h"

namespace smelt {
namespace c_internal {
namespace {

constexpr size_t kMessageBytes = 1024;

// The arguments of a call in C's types. Lists and arrays live as long as this.
class CallArguments {
 public:
  explicit CallArguments(const OperatorCall& call) : values_(call.args.size()) {
    for (size_t i = 0; i < call.args.size(); ++i) values_[i] = ToC(call.args[i], call.writes[i] != 0);
  }

  const std::vector<smelt_value>& values() const { return values_; }
  // Returns the tensor of an array that this made; null if it is another one.
  const Tensor* Find(const smelt_array* array) const {
    for (const auto& a : arrays_) {
      if (&a->array == array) return &a->tensor;
    }
    return nullptr;
  }

 private:
  struct NamedArray {
    smelt_array array;
    Tensor tensor;
  };

  smelt_value ToC(const OperatorValue& v, bool writes) {
    smelt_value out;
    std::memset(&out, 0, sizeof out);
    const Datum& d = v.datum;
    if (v.is_list) {
      auto items = std::make_unique<smelt_value[]>(v.list.size());
      for (size_t i = 0; i < v.list.size(); ++i) items[i] = ToC(v.list[i], writes);
      out.kind = SMELT_KIND_LIST;
      out.value.list = {items.get(), v.list.size()};
      lists_.push_back(std::move(items));
    } else if (d.IsTensor() && d.tensor().defined()) {
      auto named = std::make_unique<NamedArray>();
      named->tensor = d.tensor();
      const Tensor& t = named->tensor;
      smelt_array& a = named->array;
      std::memset(&a, 0, sizeof a);
      a.data = t.storage()->data();
      a.bytes = t.storage()->bytes();
      a.sizes = t.sizes().data();
      a.strides = t.strides().data();
      a.offset = t.offset();
      a.dtype = static_cast<int32_t>(t.dtype());
      a.rank = t.rank();
      a.flags = (writes ? 0 : SMELT_ARRAY_READ_ONLY) | (HasRowMajorStrides(t) ? SMELT_ARRAY_ROW_MAJOR : 0);
      out.kind = SMELT_KIND_ARRAY;
      out.value.array = &a;
      arrays_.push_back(std::move(named));
    } else if (d.IsInt()) {
      out.kind = SMELT_KIND_INT;
      out.value.integer = d.as_int();
    } else if (d.IsFloat()) {
      out.kind = SMELT_KIND_FLOAT;
      out.value.real = d.as_float();
    } else if (d.IsBool()) {
      out.kind = SMELT_KIND_BOOL;
      out.value.boolean = d.as_bool();
    } else if (d.IsComplex()) {
      out.kind = SMELT_KIND_COMPLEX;
      out.value.cplx = {d.as_complex().real(), d.as_complex().imag()};
    } else if (d.IsString()) {
      out.kind = SMELT_KIND_STRING;
      out.value.string = {d.as_string().c_str(), d.as_string().size()};
    }
    return out;
  }

  std::vector<smelt_value> values_;
  std::vector<std::unique_ptr<smelt_value[]>> lists_;
  std::vector<std::unique_ptr<NamedArray>> arrays_;
};

// The results that an implementation has filled in. They are released whatever happens.
struct CallResults {
  std::vector<smelt_value> values;
  explicit CallResults(size_t count) : values(count) { std::memset(values.data(), 0, count * sizeof(smelt_value)); }
  ~CallResults() {
    for (smelt_value& v : values) smelt_value_release(&v);
  }
};

absl::StatusOr<OperatorValue> FromC(const smelt_value& v, int depth) {
  OperatorValue out;
  switch (v.kind) {
    case SMELT_KIND_NONE:
      break;
    case SMELT_KIND_TENSOR:
      if (v.value.tensor == nullptr) return absl::FailedPreconditionError("a result is a null tensor");
      out.datum = v.value.tensor->tensor;
      break;
    case SMELT_KIND_INT:
      out.datum = v.value.integer;
      break;
    case SMELT_KIND_FLOAT:
      out.datum = v.value.real;
      break;
    case SMELT_KIND_BOOL:
      out.datum = v.value.boolean != 0;
      break;
    case SMELT_KIND_LIST:
      if (depth > 0) return absl::FailedPreconditionError("a result is a list of lists");
      out.is_list = true;
      for (size_t i = 0; i < v.value.list.size; ++i) {
        absl::StatusOr<OperatorValue> e = FromC(v.value.list.items[i], depth + 1);
        if (!e.ok()) return e.status();
        out.list.push_back(*std::move(e));
      }
      break;
    default:
      return absl::FailedPreconditionError(
          absl::StrCat("a result is of kind ", static_cast<int>(v.kind), ", which an operator does not return"));
  }
  return out;
}

void* NewTensor(smelt_value* result, smelt_dtype dtype, int rank, const int64_t* sizes) {
  if (result == nullptr) return nullptr;
  smelt_tensor* made = smelt_tensor_create(dtype, rank, sizes);
  if (made == nullptr) return nullptr;
  smelt_value_release(result);
  result->kind = SMELT_KIND_TENSOR;
  result->value.tensor = made;
  return made->tensor.data();
}

smelt_status NewView(smelt_value* result, const smelt_array* array) {
  return Guarded([&] {
    if (result == nullptr || array == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "result or array is null");
    Geometry g;
    if (array->bytes < 0 || (array->data == nullptr && array->bytes > 0) ||
        !MakeGeometry(array->dtype, array->rank, array->sizes, array->strides, array->offset, array->bytes, &g))
      return Fail(SMELT_INVALID_ARGUMENT, "the array is of an unknown dtype, or reaches outside its memory");
    auto made = std::make_unique<smelt_tensor>();
    made->tensor = Tensor(Storage::Borrow(array->data, array->bytes), static_cast<DType>(array->dtype), std::move(g));
    smelt_value_release(result);
    result->kind = SMELT_KIND_TENSOR;
    result->value.tensor = made.release();
    return SMELT_OK;
  });
}

smelt_status NewList(smelt_value* result, size_t size) {
  return Guarded([&] {
    if (result == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "result is null");
    if (size > size_t{1} << 24) return Fail(SMELT_INVALID_ARGUMENT, "a list of " + std::to_string(size) + " values");
    auto* items = new smelt_value[size];
    std::memset(items, 0, size * sizeof(smelt_value));
    smelt_value_release(result);
    result->kind = SMELT_KIND_LIST;
    result->value.list = {items, size};
    return SMELT_OK;
  });
}

smelt_tensor* Keep(const smelt_operator_call* call, const smelt_array* array) {
  smelt_tensor* made = nullptr;
  Guarded([&] {
    const Tensor* t = call == nullptr ? nullptr : static_cast<const CallArguments*>(call->internal)->Find(array);
    if (t == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "the array is no argument of the call");
    auto handle = std::make_unique<smelt_tensor>();
    handle->tensor = *t;
    handle->read_only = (array->flags & SMELT_ARRAY_READ_ONLY) != 0;
    made = handle.release();
    return SMELT_OK;
  });
  return made;
}

const smelt_operator_api* Api() {
  static const smelt_operator_api api = {
      sizeof(smelt_operator_api), smelt_operator_register, NewTensor, NewView, NewList, Keep,
  };
  return &api;
}

// Libraries that have registered their operators.
struct Libraries {
  std::mutex mutex;
  std::set<void*> handles;
};
Libraries& LoadedLibraries() {
  static Libraries& libraries = *new Libraries;
  return libraries;
}

// An implementation in C, and what it was registered with.
struct Implementation {
  smelt_operator_function function;
  void* user;
  void (*release)(void*);
  bool owns = false;  // `user`, once it is registered
  ~Implementation() {
    if (owns && release != nullptr) release(user);
  }

  absl::Status Run(OperatorCall& call) const {
    const CallArguments args(call);
    CallResults results(call.results.size());
    std::string message(kMessageBytes, '\0');
    smelt_operator_call c;
    std::memset(&c, 0, sizeof c);
    c.struct_size = sizeof c;
    c.api = Api();
    c.user = user;
    c.name = call.name.c_str();
    c.args = args.values().data();
    c.num_args = args.values().size();
    c.results = results.values.data();
    c.num_results = results.values.size();
    c.message = message.data();
    c.message_size = message.size();
    c.internal = const_cast<CallArguments*>(&args);
    const smelt_status status = function(&c);
    message.back() = '\0';
    message.resize(std::strlen(message.c_str()));
    if (status != SMELT_OK) {
      if (message.empty()) message = absl::StrCat("its implementation failed with status ", static_cast<int>(status));
      return absl::Status(status == SMELT_RESOURCE_EXHAUSTED ? absl::StatusCode::kResourceExhausted
                                                             : absl::StatusCode::kFailedPrecondition,
                          message);
    }
    for (size_t k = 0; k < results.values.size(); ++k) {
      absl::StatusOr<OperatorValue> r = FromC(results.values[k], 0);
      if (!r.ok()) return r.status();
      call.results[k] = *std::move(r);
    }
    return absl::OkStatus();
  }
};

}  // namespace
}  // namespace c_internal
}  // namespace smelt

using smelt::c_internal::Fail;
using smelt::c_internal::From;
using smelt::c_internal::Guarded;
using smelt::c_internal::Implementation;

smelt_status smelt_operator_register(const char* name, smelt_operator_function function, void* user,
                                     void (*release)(void* user)) {
  return Guarded([&] {
    if (name == nullptr || function == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "name or function is null");
    auto made = std::make_shared<Implementation>(Implementation{function, user, release});
    const absl::Status registered =
        smelt::RegisterOperator(name, [made](smelt::OperatorCall& call) { return made->Run(call); });
    if (absl::IsAlreadyExists(registered)) return Fail(SMELT_FAILED_PRECONDITION, std::string(registered.message()));
    if (!registered.ok()) return From(registered);
    made->owns = true;
    return SMELT_OK;
  });
}

smelt_status smelt_operator_unregister(const char* name) {
  return Guarded([&] {
    if (name == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "name is null");
    if (!smelt::UnregisterOperator(name)) return Fail(SMELT_NOT_FOUND, std::string(name) + " has no implementation");
    return SMELT_OK;
  });
}

smelt_status smelt_operator_library_load(const char* path) {
  return Guarded([&] {
    if (path == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "path is null");
    // A name without a folder would be searched for in the system's.
    const std::string file = std::strchr(path, '/') == nullptr ? std::string("./") + path : path;
    if (access(file.c_str(), F_OK) != 0) return Fail(SMELT_NOT_FOUND, std::string(path) + ": " + std::strerror(errno));
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      return Fail(SMELT_INVALID_ARGUMENT, why == nullptr ? std::string(path) + " cannot be loaded" : why);
    }
    std::lock_guard<std::mutex> lock(smelt::c_internal::LoadedLibraries().mutex);
    std::set<void*>& loaded = smelt::c_internal::LoadedLibraries().handles;
    if (loaded.contains(library)) return SMELT_OK;
    std::remove_pointer_t<smelt_operator_library>* entry = nullptr;
    if (!smelt::FindSymbol(library, SMELT_OPERATOR_LIBRARY_ENTRY, &entry)) {
      return Fail(SMELT_INVALID_ARGUMENT, std::string(path) + ": it has no function " + SMELT_OPERATOR_LIBRARY_ENTRY +
                                              ", which a library of operators exports");
    }
    const smelt_status status = entry(smelt::c_internal::Api());
    if (status != SMELT_OK) return Fail(status, std::string(path) + ": " + smelt_last_error());
    loaded.insert(library);
    return SMELT_OK;
  });
}
