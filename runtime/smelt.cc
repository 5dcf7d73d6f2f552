#include "smelt/runtime/smelt.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/base/out_of_memory.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/smelt_internal.h"

using smelt::c_internal::Fail;
using smelt::c_internal::FillIn;
using smelt::c_internal::From;
using smelt::c_internal::Guarded;
using smelt::c_internal::MakeGeometry;

namespace smelt {
namespace c_internal {
namespace {

thread_local std::string g_error;

std::vector<smelt_dim> DimsOf(const std::vector<DimInfo>& dims) {
  std::vector<smelt_dim> out;
  for (const DimInfo& d : dims) out.push_back({d.size, d.min, d.max, d.expr.c_str()});
  return out;
}

std::vector<smelt_node> NodesOf(const Structure& structure) {
  std::vector<smelt_node> out;
  for (const StructureNode& n : structure) {
    out.push_back({static_cast<smelt_node_kind>(n.kind), static_cast<smelt_key_kind>(n.key_kind), n.key.c_str(),
                   n.type.c_str(), static_cast<size_t>(n.children), n.by_name});
  }
  return out;
}

}  // namespace

Description::Description(std::shared_ptr<const Program> p) : program(std::move(p)) {
  for (const ArgInfo& a : program->args()) arg_dims.push_back(DimsOf(a.dims));
  for (const ResultInfo& r : program->results()) result_dims.push_back(DimsOf(r.dims));
  arg_nodes = NodesOf(program->argument_structure());
  result_nodes = NodesOf(program->result_structure());
  for (const StateInfo& s : program->states()) some_state_may_move = some_state_may_move || s.may_move;
}

smelt_status Fail(smelt_status code, std::string message) {
  g_error = std::move(message);
  return code;
}
smelt_status From(const absl::Status& s) noexcept {
  if (s.ok()) return SMELT_OK;
  try {
    g_error = std::string(s.message());
  } catch (const std::bad_alloc&) {
    g_error.clear();
  }
  if (g_error.empty() && absl::IsResourceExhausted(s)) g_error = "out of memory";  // short enough to need none
  return static_cast<smelt_status>(s.code());
}

bool MakeGeometry(int dtype, int rank, const int64_t* sizes, const int64_t* strides, int64_t offset, int64_t bytes,
                  Geometry* out) {
  if (dtype < 0 || dtype >= kNumDTypes || rank < 0 || rank > 64 || (rank > 0 && sizes == nullptr)) return false;
  out->sizes.assign(sizes, sizes + rank);
  out->offset = offset;
  if (strides != nullptr) {
    out->strides.assign(strides, strides + rank);
  } else {
    out->strides.resize(static_cast<size_t>(rank));
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      out->strides[d] = step;
      if (__builtin_mul_overflow(step, sizes[d] > 0 ? sizes[d] : 1, &step)) return false;
    }
  }
  for (int64_t s : out->sizes) {
    if (s < 0) return false;
  }
  const Tensor probe(Storage::Borrow(nullptr, bytes), static_cast<DType>(dtype), *out);
  return offset >= 0 && probe.InBounds();
}

}  // namespace c_internal
}  // namespace smelt

namespace {

// Runs `body`, which returns a new tensor. Null if memory is short.
template <typename Body>
smelt_tensor* NewTensor(const Body& body) noexcept {
  smelt_tensor* made = nullptr;
  smelt::CatchOutOfMemory([&] {
    made = body();
    return absl::OkStatus();
  }).IgnoreError();
  return made;
}

smelt_status BadArgument(const smelt::Program& program, size_t i, const std::string& what) {
  const std::string who =
      i < program.args().size() ? "argument \"" + program.args()[i].name + "\"" : "argument " + std::to_string(i);
  return Fail(SMELT_INVALID_ARGUMENT, who + " " + what);
}

bool ChangesArgument(const smelt::ArgInfo& a) {
  return a.writes_data || a.changes_geometry || a.replaces_storage || a.resizes;
}

// The arguments of a call: lists flattened, arrays as tensors.
class Arguments {
 public:
  explicit Arguments(const smelt::Program& program) : program_(program) {}

  smelt_status Read(const smelt_value* args, size_t count) {
    if (count > 0 && args == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "args is null");
    data_.reserve(count);
    if (const smelt_status s = Add(args, count, 0); s != SMELT_OK) return s;
    if (arrays_.size() > 1) ShareStorages();
    for (const auto& [array, position] : arrays_) {
      const Place& place = places_[position];
      if (place.same_as >= 0) continue;
      if (const smelt_status s = Borrow(*array, place); s != SMELT_OK) return s;
    }
    for (const auto& [array, position] : arrays_) {
      const int first = places_[position].same_as;
      if (first >= 0) data_[position] = data_[first];
    }
    return SMELT_OK;
  }

  const std::vector<smelt::Datum>& data() const { return data_; }

  // For results: which arguments lie in a storage.
  void IndexStorages() {
    for (size_t i = 0; i < data_.size(); ++i) {
      if (data_[i].IsTensor()) by_storage_.emplace_back(data_[i].tensor().storage().get(), static_cast<int>(i));
    }
    std::sort(by_storage_.begin(), by_storage_.end());
  }
  void Find(const smelt::Tensor& t, int32_t* in_argument, int32_t* same_as_argument) const {
    auto it = std::lower_bound(by_storage_.begin(), by_storage_.end(),
                               std::pair<const smelt::Storage*, int>(t.storage().get(), -1));
    *in_argument = it != by_storage_.end() && it->first == t.storage().get() ? it->second : -1;
    *same_as_argument = -1;
    for (; it != by_storage_.end() && it->first == t.storage().get(); ++it) {
      if (!data_[it->second].tensor().IsSame(t)) continue;
      *same_as_argument = it->second;
      return;
    }
  }
  bool IsInReadOnly(const smelt::Tensor& t) const {
    return std::find(read_only_.begin(), read_only_.end(), t.storage().get()) != read_only_.end();
  }

 private:
  // Where an array's tensor lies: in a storage of these bytes, which arrays that share bytes have in common.
  struct Place {
    int same_as = -1;  // the position of the same array
    std::shared_ptr<smelt::Storage> storage;
  };

  smelt_status Add(const smelt_value* args, size_t count, int depth) {
    if (depth > 100) return Fail(SMELT_INVALID_ARGUMENT, "lists among the arguments are nested too deeply");
    for (size_t i = 0; i < count; ++i) {
      const smelt_value& v = args[i];
      if (v.kind == SMELT_KIND_LIST) {
        if (v.value.list.size > 0 && v.value.list.items == nullptr) return Bad("is a list without items");
        if (const smelt_status s = Add(v.value.list.items, v.value.list.size, depth + 1); s != SMELT_OK) return s;
        continue;
      }
      places_.emplace_back();
      data_.emplace_back();
      smelt::Datum& out = data_.back();
      switch (v.kind) {
        case SMELT_KIND_NONE:
          break;
        case SMELT_KIND_TENSOR:
          if (v.value.tensor == nullptr) return Bad("is a null tensor");
          if (v.value.tensor->read_only) {
            if (const smelt_status s = CheckNotWritten(); s != SMELT_OK) return s;
            read_only_.push_back(v.value.tensor->tensor.storage().get());
          }
          out = v.value.tensor->tensor;
          break;
        case SMELT_KIND_ARRAY:
          if (v.value.array == nullptr) return Bad("is a null array");
          if (v.value.array->flags & SMELT_ARRAY_READ_ONLY) {
            if (const smelt_status s = CheckNotWritten(); s != SMELT_OK) return s;
          }
          arrays_.emplace_back(v.value.array, static_cast<int>(data_.size()) - 1);
          break;
        case SMELT_KIND_INT:
          out = v.value.integer;
          break;
        case SMELT_KIND_FLOAT:
          out = v.value.real;
          break;
        case SMELT_KIND_BOOL:
          out = v.value.boolean != 0;
          break;
        case SMELT_KIND_STRING:
          if (v.value.string.size > 0 && v.value.string.data == nullptr) return Bad("is a null string");
          out = std::string(v.value.string.data, v.value.string.size);
          break;
        case SMELT_KIND_COMPLEX:
          out = std::complex<double>(v.value.cplx.real, v.value.cplx.imag);
          break;
        default:
          return Bad("is of an unknown kind");
      }
    }
    return SMELT_OK;
  }

  smelt_status Bad(const std::string& what) const {
    return BadArgument(program_, data_.empty() ? 0 : data_.size() - 1, what);
  }
  smelt_status CheckNotWritten() const {
    const size_t i = data_.size() - 1;
    if (i >= program_.args().size() || !ChangesArgument(program_.args()[i])) return SMELT_OK;
    return Bad("is read-only, and the model writes it");
  }

  // Gives arrays that share bytes one storage over all of their memory, and finds those that are passed twice.
  void ShareStorages() {
    std::vector<std::pair<const smelt_array*, int>> order = arrays_;
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.first->data != b.first->data ? std::less<>()(a.first->data, b.first->data) : a.second < b.second;
    });
    for (size_t i = 0; i < order.size();) {
      char* begin = static_cast<char*>(order[i].first->data);
      char* end = EndOf(*order[i].first);
      size_t next = i + 1;
      while (next < order.size() && static_cast<char*>(order[next].first->data) < end) {
        end = std::max(end, EndOf(*order[next].first));
        ++next;
      }
      if (next > i + 1) {
        const auto storage = smelt::Storage::Borrow(begin, end - begin);
        for (size_t k = i; k < next; ++k) {
          places_[order[k].second].storage = storage;
          for (size_t m = i; m < k && places_[order[k].second].same_as < 0; ++m) {
            if (order[m].first == order[k].first) places_[order[k].second].same_as = order[m].second;
          }
        }
      }
      i = next;
    }
  }
  static char* EndOf(const smelt_array& a) { return static_cast<char*>(a.data) + std::max<int64_t>(a.bytes, 0); }

  smelt_status Borrow(const smelt_array& a, const Place& place) {
    const int position = static_cast<int>(&place - places_.data());
    smelt::Geometry g;
    if (a.bytes < 0 || (a.data == nullptr && a.bytes > 0) ||
        !MakeGeometry(a.dtype, a.rank, a.sizes, a.strides, a.offset, a.bytes, &g)) {
      return BadArgument(
          program_, static_cast<size_t>(position),
          "is an array of an unknown dtype, or reaches outside its " + std::to_string(a.bytes) + " bytes");
    }
    std::shared_ptr<smelt::Storage> storage = place.storage;
    if (storage != nullptr) {
      const int64_t item = smelt::ItemSize(static_cast<smelt::DType>(a.dtype));
      const int64_t before = static_cast<char*>(a.data) - storage->data();
      if (before % item != 0) {
        return BadArgument(program_, static_cast<size_t>(position),
                           "shares memory with another argument, at a distance that is no multiple of its elements");
      }
      g.offset += before / item;
    } else {
      storage = smelt::Storage::Borrow(a.data, a.bytes);
    }
    if (a.flags & SMELT_ARRAY_READ_ONLY) read_only_.push_back(storage.get());
    data_[position] = smelt::Tensor(std::move(storage), static_cast<smelt::DType>(a.dtype), std::move(g));
    return SMELT_OK;
  }

  const smelt::Program& program_;
  std::vector<smelt::Datum> data_;
  std::vector<Place> places_;                               // by argument
  std::vector<std::pair<const smelt_array*, int>> arrays_;  // and their positions
  std::vector<const smelt::Storage*> read_only_;
  std::vector<std::pair<const smelt::Storage*, int>> by_storage_;  // sorted
};

// Everything that results need beside the values, made before a call: once it has run nothing may fail.
struct ResultMemory {
  std::vector<std::unique_ptr<smelt_tensor>> handles;
  explicit ResultMemory(size_t count) : handles(count) {
    for (auto& h : handles) h = std::make_unique<smelt_tensor>();
  }
};

smelt_value ToC(const smelt::Datum& v, std::unique_ptr<smelt_tensor>& handle) {
  smelt_value out;
  std::memset(&out, 0, sizeof out);
  if (v.IsTensor()) {
    out.kind = SMELT_KIND_TENSOR;
    handle->tensor = v.tensor();
    out.value.tensor = handle.release();
  } else if (v.IsInt()) {
    out.kind = SMELT_KIND_INT;
    out.value.integer = v.as_int();
  } else if (v.IsFloat()) {
    out.kind = SMELT_KIND_FLOAT;
    out.value.real = v.as_float();
  } else if (v.IsBool()) {
    out.kind = SMELT_KIND_BOOL;
    out.value.boolean = v.as_bool();
  } else if (v.IsComplex()) {
    out.kind = SMELT_KIND_COMPLEX;
    out.value.cplx = {v.as_complex().real(), v.as_complex().imag()};
  } else if (v.IsString()) {
    const std::string& text = v.as_string();
    char* copy = new char[text.size() + 1];
    std::memcpy(copy, text.c_str(), text.size() + 1);
    out.kind = SMELT_KIND_STRING;
    out.value.string = {copy, text.size()};
  }
  return out;
}

// A baked-in value: strings are the program's.
smelt_value Borrowed(const smelt::Datum& v) {
  if (!v.IsString()) {
    std::unique_ptr<smelt_tensor> none;
    return v.IsTensor() ? smelt_value() : ToC(v, none);
  }
  smelt_value out;
  std::memset(&out, 0, sizeof out);
  out.kind = SMELT_KIND_STRING;
  out.value.string = {v.as_string().c_str(), v.as_string().size()};
  return out;
}

smelt_array Describe(const smelt_tensor& t) {
  const smelt::Tensor& x = t.tensor;
  return {x.device().is_cpu() ? x.storage()->data() : nullptr,
          x.storage()->bytes(),
          x.sizes().data(),
          x.strides().data(),
          x.offset(),
          static_cast<int32_t>(x.dtype()),
          x.rank(),
          (t.read_only ? SMELT_ARRAY_READ_ONLY : 0) |
              (smelt::c_internal::HasRowMajorStrides(x) ? SMELT_ARRAY_ROW_MAJOR : 0),
          0};
}

// A call must be of one method.
smelt_status CheckMethod(const smelt_instance& instance) {
  const std::vector<std::string>& names = instance.program().method_names();
  if (names.size() == 1) return SMELT_OK;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return Fail(SMELT_INVALID_ARGUMENT, "the program has several methods, and the call names none: " + list);
}

// Calls `run` with the arguments, and gives the results to `give`, which must not fail.
template <typename Run, typename Give>
smelt_status RunAnd(smelt_instance& instance, const smelt_value* args, size_t num_args, size_t num_results,
                    const Run& run, const Give& give) {
  Arguments in(instance.program());
  if (const smelt_status s = in.Read(args, num_args); s != SMELT_OK) return s;
  in.IndexStorages();
  ResultMemory memory(num_results);
  std::vector<smelt_value> values;
  values.reserve(num_results);
  const absl::StatusOr<std::vector<smelt::Datum>> out = run(in.data());
  if (!out.ok()) return From(out.status());
  for (size_t i = 0; i < num_results; ++i) {
    values.push_back(ToC((*out)[i], memory.handles[i]));
    if (values[i].kind == SMELT_KIND_TENSOR) values[i].value.tensor->read_only = in.IsInReadOnly((*out)[i].tensor());
  }
  give(in, values);
  return SMELT_OK;
}

bool LiesInAMovingState(smelt_instance& instance, const smelt::Tensor& t) {
  if (!instance.description->some_state_may_move) return false;
  const std::vector<smelt::StateInfo>& states = instance.program().states();
  for (size_t s = 0; s < states.size(); ++s) {
    if (states[s].may_move && instance.instance->state(static_cast<int>(s)).storage() == t.storage()) return true;
  }
  return false;
}

smelt_status NewProgram(absl::StatusOr<std::shared_ptr<const smelt::Program>> loaded, smelt_program** program) {
  if (!loaded.ok()) return From(loaded.status());
  *program = new smelt_program{std::make_shared<smelt::c_internal::Description>(*std::move(loaded))};
  return SMELT_OK;
}

// Nests results from `next` on as the nodes from `node` on say.
void Nest(const std::vector<smelt_node>& nodes, size_t& node, smelt_value* results, size_t& next,
          std::vector<std::unique_ptr<smelt_value[]>>& lists, size_t& list, smelt_value* out) {
  const smelt_node& n = nodes[node++];
  std::memset(out, 0, sizeof *out);
  if (n.kind == SMELT_NODE_NONE) return;
  if (n.kind == SMELT_NODE_LEAF) {
    *out = results[next];
    results[next].kind = SMELT_KIND_NONE;
    ++next;
    return;
  }
  out->kind = SMELT_KIND_LIST;
  out->value.list = {lists[list++].release(), n.num_children};
  for (size_t i = 0; i < n.num_children; ++i) Nest(nodes, node, results, next, lists, list, &out->value.list.items[i]);
}

}  // namespace

#define SMELT_STRING_OF(x) #x
#define SMELT_VERSION_TEXT(a, b, c) SMELT_STRING_OF(a) "." SMELT_STRING_OF(b) "." SMELT_STRING_OF(c)
const char* smelt_version(void) {
  return SMELT_VERSION_TEXT(SMELT_VERSION_MAJOR, SMELT_VERSION_MINOR, SMELT_VERSION_PATCH);
}

const char* smelt_dtype_name(int dtype) {
  // The names are literals, which end in a NUL.
  return dtype < 0 || dtype >= smelt::kNumDTypes ? nullptr : smelt::Name(static_cast<smelt::DType>(dtype)).data();
}
size_t smelt_dtype_size(int dtype) {
  return dtype < 0 || dtype >= smelt::kNumDTypes ? 0 : smelt::ItemSize(static_cast<smelt::DType>(dtype));
}

const char* smelt_last_error(void) { return smelt::c_internal::g_error.c_str(); }

smelt_tensor* smelt_tensor_borrow(void* data, size_t bytes, smelt_dtype dtype, int rank, const int64_t* sizes,
                                  const int64_t* strides, int64_t offset) {
  return NewTensor([&]() -> smelt_tensor* {
    smelt::Geometry g;
    if (bytes > static_cast<size_t>(INT64_MAX) || (data == nullptr && bytes > 0)) return nullptr;
    if (!MakeGeometry(dtype, rank, sizes, strides, offset, static_cast<int64_t>(bytes), &g)) return nullptr;
    return new smelt_tensor{smelt::Tensor(smelt::Storage::Borrow(data, static_cast<int64_t>(bytes)),
                                          static_cast<smelt::DType>(dtype), std::move(g))};
  });
}

smelt_tensor* smelt_tensor_create(smelt_dtype dtype, int rank, const int64_t* sizes) {
  return NewTensor([&]() -> smelt_tensor* {
    smelt::Geometry g;
    if (!MakeGeometry(dtype, rank, sizes, nullptr, 0, INT64_MAX, &g)) return nullptr;
    int64_t bytes = smelt::ItemSize(static_cast<smelt::DType>(dtype));
    for (int64_t s : g.sizes) {
      if (__builtin_mul_overflow(bytes, s, &bytes)) return nullptr;
    }
    return new smelt_tensor{
        smelt::Tensor(smelt::Storage::Allocate(bytes), static_cast<smelt::DType>(dtype), std::move(g))};
  });
}

smelt_tensor* smelt_tensor_view(const smelt_tensor* base, int rank, const int64_t* sizes, const int64_t* strides,
                                int64_t offset) {
  return NewTensor([&]() -> smelt_tensor* {
    smelt::Geometry g;
    if (base == nullptr || !MakeGeometry(static_cast<smelt_dtype>(base->tensor.dtype()), rank, sizes, strides, offset,
                                         base->tensor.storage()->bytes(), &g)) {
      return nullptr;
    }
    return new smelt_tensor{base->tensor.View(std::move(g)), base->read_only, base->may_move};
  });
}

void smelt_tensor_release(smelt_tensor* tensor) { delete tensor; }

void smelt_tensor_set_read_only(smelt_tensor* tensor) {
  if (tensor != nullptr) tensor->read_only = true;
}
int smelt_tensor_is_read_only(const smelt_tensor* tensor) { return tensor != nullptr && tensor->read_only; }

smelt_status smelt_tensor_describe(const smelt_tensor* tensor, smelt_array* array) {
  if (tensor == nullptr || array == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "tensor or array is null");
  *array = Describe(*tensor);
  return SMELT_OK;
}

smelt_dtype smelt_tensor_dtype(const smelt_tensor* t) {
  return t == nullptr ? SMELT_BOOL : static_cast<smelt_dtype>(t->tensor.dtype());
}
int smelt_tensor_rank(const smelt_tensor* t) { return t == nullptr ? 0 : t->tensor.rank(); }
const int64_t* smelt_tensor_sizes(const smelt_tensor* t) { return t == nullptr ? nullptr : t->tensor.sizes().data(); }
const int64_t* smelt_tensor_strides(const smelt_tensor* t) {
  return t == nullptr ? nullptr : t->tensor.strides().data();
}
int64_t smelt_tensor_offset(const smelt_tensor* t) { return t == nullptr ? 0 : t->tensor.offset(); }
void* smelt_tensor_data(const smelt_tensor* t) {
  return t == nullptr || !t->tensor.device().is_cpu() ? nullptr : t->tensor.data();
}
int smelt_tensor_is_same(const smelt_tensor* a, const smelt_tensor* b) {
  return a != nullptr && b != nullptr && a->tensor.IsSame(b->tensor);
}
int smelt_tensor_shares_storage(const smelt_tensor* a, const smelt_tensor* b) {
  return a != nullptr && b != nullptr && a->tensor.storage() == b->tensor.storage();
}

void smelt_value_release(smelt_value* value) {
  if (value == nullptr) return;
  if (value->kind == SMELT_KIND_TENSOR) smelt_tensor_release(value->value.tensor);
  if (value->kind == SMELT_KIND_STRING) delete[] value->value.string.data;
  if (value->kind == SMELT_KIND_LIST) {
    for (size_t i = 0; i < value->value.list.size; ++i) smelt_value_release(&value->value.list.items[i]);
    delete[] value->value.list.items;
  }
  std::memset(value, 0, sizeof *value);
}

smelt_status smelt_program_load(const char* path, smelt_program** program) {
  return smelt_program_load_with(path, nullptr, program);
}

smelt_status smelt_program_load_with(const char* path, const smelt_program_options* options, smelt_program** program) {
  return Guarded([&] {
    if (path == nullptr || program == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "path or program is null");
    smelt_program_options given = {};
    if (options != nullptr) {
      if (options->struct_size < sizeof(size_t) + sizeof(int))
        return Fail(SMELT_INVALID_ARGUMENT, "the options' struct_size is not set");
      std::memcpy(&given, options, std::min(options->struct_size, sizeof given));
    }
    if (given.threads < 0) return Fail(SMELT_INVALID_ARGUMENT, "threads is negative");
    smelt::ProgramOptions o;
    o.threads = given.threads;
    o.verify_weights = given.verify_weights != 0;
    if (given.target != nullptr) o.target = given.target;
    if (given.device != nullptr) o.device = given.device;
    return NewProgram(smelt::Program::Load(path, o), program);
  });
}

smelt_status smelt_program_load_from_memory(const void* bytes, size_t size, smelt_program** program) {
  return Guarded([&] {
    if ((bytes == nullptr && size > 0) || program == nullptr) {
      return Fail(SMELT_INVALID_ARGUMENT, "bytes or program is null");
    }
    return NewProgram(
        smelt::Program::LoadFromMemory(absl::Span<const uint8_t>(static_cast<const uint8_t*>(bytes), size)), program);
  });
}

void smelt_program_release(smelt_program* program) { delete program; }

smelt_status smelt_program_describe(const smelt_program* program, smelt_program_info* info) {
  if (program == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "program is null");
  const smelt::Program& p = program->program();
  smelt_program_info full = {};
  full.model_name = p.model_name().c_str();
  full.target = p.target().c_str();
  full.bundle_format = p.bundle_format();
  full.num_targets = p.targets().size();
  full.num_methods = p.method_names().size();
  full.num_args = p.args().size();
  full.num_results = p.results().size();
  full.num_states = p.states().size();
  return FillIn(full, info);
}

const char* smelt_program_target(const smelt_program* p, size_t i) {
  return p != nullptr && i < p->program().targets().size() ? p->program().targets()[i].c_str() : nullptr;
}
const char* smelt_program_method(const smelt_program* p, size_t i) {
  return p != nullptr && i < p->program().method_names().size() ? p->program().method_names()[i].c_str() : nullptr;
}
smelt_status smelt_program_find_method(const smelt_program* program, const char* name, smelt_program** method) {
  return Guarded([&] {
    if (program == nullptr || name == nullptr || method == nullptr)
      return Fail(SMELT_INVALID_ARGUMENT, "program, name or method is null");
    return NewProgram(program->program().Method(name), method);
  });
}
size_t smelt_program_num_args(const smelt_program* p) { return p == nullptr ? 0 : p->program().args().size(); }
size_t smelt_program_num_outputs(const smelt_program* p) { return p == nullptr ? 0 : p->program().results().size(); }
const char* smelt_program_arg_name(const smelt_program* p, size_t i) {
  return p != nullptr && i < p->program().args().size() ? p->program().args()[i].name.c_str() : nullptr;
}
const char* smelt_program_output_name(const smelt_program* p, size_t i) {
  return p != nullptr && i < p->program().results().size() ? p->program().results()[i].name.c_str() : nullptr;
}

namespace {

smelt_kind KindOf(smelt::ValueKind kind) {
  switch (kind) {
    case smelt::ValueKind::kTensor:
      return SMELT_KIND_TENSOR;
    case smelt::ValueKind::kInt:
      return SMELT_KIND_INT;
    case smelt::ValueKind::kFloat:
      return SMELT_KIND_FLOAT;
    case smelt::ValueKind::kBool:
      return SMELT_KIND_BOOL;
    case smelt::ValueKind::kNone:
      return SMELT_KIND_NONE;
    case smelt::ValueKind::kString:
      return SMELT_KIND_STRING;
    case smelt::ValueKind::kComplex:
      return SMELT_KIND_COMPLEX;
  }
  return SMELT_KIND_NONE;
}

smelt_status NoSuch(const char* what, size_t i, size_t count) {
  return Fail(SMELT_INVALID_ARGUMENT, std::string("the model has ") + std::to_string(count) + " " + what + ", number " +
                                          std::to_string(i) + " was asked for");
}

}  // namespace

smelt_status smelt_program_arg(const smelt_program* program, size_t i, smelt_arg_info* info) {
  return Guarded([&] {
    if (program == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "program is null");
    const std::vector<smelt::ArgInfo>& args = program->program().args();
    if (i >= args.size()) return NoSuch("arguments", i, args.size());
    const smelt::ArgInfo& a = args[i];
    const bool is_tensor = a.kind == smelt::ValueKind::kTensor;
    smelt_arg_info full = {};
    full.name = a.name.c_str();
    full.path = a.path.c_str();
    full.kind = KindOf(a.kind);
    full.dtype = is_tensor ? static_cast<int>(a.dtype) : -1;
    full.rank = is_tensor ? static_cast<int>(a.dims.size()) : -1;
    full.dims = program->description->arg_dims[i].data();
    full.strides = a.strides.data();
    full.value = {a.value.size, a.value.min, a.value.max, a.value.expr.c_str()};
    full.has_constant = a.has_constant;
    full.constant = Borrowed(a.constant);
    full.effects = (a.writes_data ? SMELT_WRITES_DATA : 0) | (a.changes_geometry ? SMELT_CHANGES_GEOMETRY : 0) |
                   (a.replaces_storage ? SMELT_REPLACES_STORAGE : 0) | (a.resizes ? SMELT_RESIZES : 0);
    return FillIn(full, info);
  });
}

smelt_status smelt_program_result(const smelt_program* program, size_t i, smelt_result_info* info) {
  return Guarded([&] {
    if (program == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "program is null");
    const std::vector<smelt::ResultInfo>& results = program->program().results();
    if (i >= results.size()) return NoSuch("results", i, results.size());
    const smelt::ResultInfo& r = results[i];
    smelt_result_info full = {};
    full.name = r.name.c_str();
    full.node = r.node.c_str();
    full.path = r.path.c_str();
    full.kind = KindOf(r.kind);
    full.dtype = r.has_dtype ? static_cast<int>(r.dtype) : -1;
    full.rank = r.has_sizes ? static_cast<int>(r.dims.size()) : -1;
    full.dims = program->description->result_dims[i].data();
    full.place = static_cast<smelt_place>(r.place);
    full.index = r.index;
    return FillIn(full, info);
  });
}

smelt_status smelt_program_state(const smelt_program* program, size_t i, smelt_state_info* info) {
  return Guarded([&] {
    if (program == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "program is null");
    const std::vector<smelt::StateInfo>& states = program->program().states();
    if (i >= states.size()) return NoSuch("states", i, states.size());
    const smelt::StateInfo& s = states[i];
    smelt_state_info full = {};
    full.name = s.name.c_str();
    full.kind = static_cast<smelt_state_kind>(s.kind);
    full.dtype = static_cast<int>(s.dtype);
    full.rank = s.geometry.rank();
    full.sizes = s.geometry.sizes.data();
    full.strides = s.geometry.strides.data();
    full.offset = s.geometry.offset;
    full.storage = s.storage;
    full.is_mutated = s.is_mutated;
    full.may_move = s.may_move;
    return FillIn(full, info);
  });
}

const smelt_node* smelt_program_arg_structure(const smelt_program* program, size_t* num_nodes) {
  if (program == nullptr || num_nodes == nullptr) return nullptr;
  *num_nodes = program->description->arg_nodes.size();
  return program->description->arg_nodes.data();
}
const smelt_node* smelt_program_result_structure(const smelt_program* program, size_t* num_nodes) {
  if (program == nullptr || num_nodes == nullptr) return nullptr;
  *num_nodes = program->description->result_nodes.size();
  return program->description->result_nodes.data();
}

smelt_status smelt_instance_create(const smelt_program* program, const smelt_instance_options* options,
                                   smelt_instance** instance) {
  return Guarded([&] {
    if (program == nullptr || instance == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "program or instance is null");
    smelt::InstanceOptions o;
    if (options != nullptr) {
      o.threads = options->threads;
      o.seed = options->seed;
    }
    if (o.threads < 0) return Fail(SMELT_INVALID_ARGUMENT, "threads is negative");
    auto made = smelt::Instance::Create(program->description->program, o);
    if (!made.ok()) return From(made.status());
    *instance = new smelt_instance{program->description, *std::move(made)};
    return SMELT_OK;
  });
}

void smelt_instance_release(smelt_instance* instance) { delete instance; }

smelt_status smelt_instance_find_method(smelt_instance* instance, const char* name, smelt_instance** method) {
  return Guarded([&] {
    if (instance == nullptr || name == nullptr || method == nullptr)
      return Fail(SMELT_INVALID_ARGUMENT, "instance, name or method is null");
    auto program = instance->program().Method(name);
    if (!program.ok()) return From(program.status());
    auto part = instance->instance->Method(name);
    if (!part.ok()) return From(part.status());
    auto description = std::make_shared<smelt::c_internal::Description>(*std::move(program));
    *method = new smelt_instance{std::move(description), std::shared_ptr<smelt::Instance>(instance->instance, *part)};
    return SMELT_OK;
  });
}

namespace {

// smelt_instance_run, where `run` calls the instance.
template <typename Run>
smelt_status RunForOutputs(smelt_instance* instance, const smelt_value* args, size_t num_args, smelt_value* outputs,
                           size_t* num_outputs, const Run& run) {
  if (instance == nullptr || num_outputs == nullptr)
    return Fail(SMELT_INVALID_ARGUMENT, "instance or num_outputs is null");
  if (const smelt_status s = CheckMethod(*instance); s != SMELT_OK) return s;
  const size_t want = instance->program().results().size();
  if (*num_outputs < want) {
    return Fail(SMELT_INVALID_ARGUMENT, "the model has " + std::to_string(want) + " outputs, there is room for " +
                                            std::to_string(*num_outputs));
  }
  if (want > 0 && outputs == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "outputs is null");
  return RunAnd(*instance, args, num_args, want, run, [&](const Arguments&, const std::vector<smelt_value>& values) {
    for (size_t i = 0; i < want; ++i) {
      if (values[i].kind == SMELT_KIND_TENSOR)
        values[i].value.tensor->may_move = LiesInAMovingState(*instance, values[i].value.tensor->tensor);
      outputs[i] = values[i];
    }
    *num_outputs = want;
  });
}

}  // namespace

smelt_status smelt_instance_run(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                smelt_value* outputs, size_t* num_outputs) {
  return Guarded([&] {
    return RunForOutputs(instance, args, num_args, outputs, num_outputs,
                         [&](absl::Span<const smelt::Datum> in) { return instance->instance->Run(in); });
  });
}

smelt_status smelt_instance_start(smelt_instance* instance, const smelt_value* args, size_t num_args, uint64_t stream,
                                  smelt_value* outputs, size_t* num_outputs, smelt_started** call) {
  return Guarded([&] {
    if (call == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "call is null");
    auto started = std::make_unique<smelt_started>();
    const auto run = [&](absl::Span<const smelt::Datum> in) -> absl::StatusOr<std::vector<smelt::Datum>> {
      absl::StatusOr<smelt::StartedCall> made = instance->instance->Start(in, stream);
      if (!made.ok()) return made.status();
      started->call = *std::move(made);
      return started->call.outputs();
    };
    const smelt_status s = RunForOutputs(instance, args, num_args, outputs, num_outputs, run);
    if (s == SMELT_OK) *call = started.release();
    return s;
  });
}

smelt_status smelt_instance_call(const smelt_call* call) {
  return Guarded([&] {
    if (call == nullptr || call->struct_size < sizeof(smelt_call) || call->instance == nullptr)
      return Fail(SMELT_INVALID_ARGUMENT, "the call or its instance is null, or its struct_size is not set");
    smelt_instance& instance = *call->instance;
    if (const smelt_status s = CheckMethod(instance); s != SMELT_OK) return s;
    const size_t want = instance.program().results().size();
    if (call->num_results != want) {
      return Fail(SMELT_INVALID_ARGUMENT, "the model has " + std::to_string(want) + " results, there is room for " +
                                              std::to_string(call->num_results));
    }
    if (want > 0 && call->results == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "the call's results are null");
    const auto give = [&](const Arguments& in, const std::vector<smelt_value>& values) {
      for (size_t i = 0; i < want; ++i) {
        smelt_result& r = call->results[i];
        std::memset(&r, 0, sizeof r);
        r.value = values[i];
        r.same_as_argument = r.in_argument = r.same_as_result = r.in_result = -1;
        if (r.value.kind != SMELT_KIND_TENSOR) continue;
        smelt_tensor& handle = *r.value.value.tensor;
        handle.may_move = LiesInAMovingState(instance, handle.tensor);
        r.may_move = handle.may_move;
        r.array = Describe(handle);
        in.Find(handle.tensor, &r.in_argument, &r.same_as_argument);
        for (size_t k = 0; k < i && r.same_as_result < 0; ++k) {
          if (values[k].kind != SMELT_KIND_TENSOR) continue;
          const smelt::Tensor& other = values[k].value.tensor->tensor;
          if (other.IsSame(handle.tensor)) r.same_as_result = static_cast<int32_t>(k);
          if (r.in_result < 0 && other.storage() == handle.tensor.storage()) r.in_result = static_cast<int32_t>(k);
        }
      }
    };
    const auto run = [&](absl::Span<const smelt::Datum> in) { return instance.instance->Run(in); };
    return RunAnd(instance, call->args, call->num_args, want, run, give);
  });
}

smelt_status smelt_program_nest_results(const smelt_program* program, smelt_value* results, size_t count,
                                        smelt_value* nested) {
  return Guarded([&] {
    if (program == nullptr || nested == nullptr || (count > 0 && results == nullptr))
      return Fail(SMELT_INVALID_ARGUMENT, "program, results or nested is null");
    if (count != program->program().results().size())
      return Fail(SMELT_INVALID_ARGUMENT, "the model has " + std::to_string(program->program().results().size()) +
                                              " results, " + std::to_string(count) + " were given");
    std::vector<smelt_node> nodes = program->description->result_nodes;
    if (nodes.empty()) {
      nodes.assign(count + 1, {SMELT_NODE_LEAF, SMELT_KEY_INDEX, "", "", 0, 0});
      nodes[0].kind = SMELT_NODE_TUPLE;
      nodes[0].num_children = count;
    }
    // All that may fail comes first.
    std::vector<std::unique_ptr<smelt_value[]>> lists;
    for (const smelt_node& n : nodes) {
      if (n.kind != SMELT_NODE_LEAF && n.kind != SMELT_NODE_NONE)
        lists.push_back(std::make_unique<smelt_value[]>(n.num_children));
    }
    size_t node = 0, next = 0, list = 0;
    smelt_value out;
    Nest(nodes, node, results, next, lists, list, &out);
    *nested = out;
    return SMELT_OK;
  });
}

smelt_status smelt_instance_run_into(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                     smelt_value* outputs, size_t num_outputs) {
  return Guarded([&] {
    if (instance == nullptr || (num_outputs > 0 && outputs == nullptr)) {
      return Fail(SMELT_INVALID_ARGUMENT, "instance or outputs is null");
    }
    if (const smelt_status s = CheckMethod(*instance); s != SMELT_OK) return s;
    if (num_outputs != instance->program().results().size()) {
      return Fail(SMELT_INVALID_ARGUMENT, "the model has " + std::to_string(instance->program().results().size()) +
                                              " outputs, memory for " + std::to_string(num_outputs) + " was given");
    }
    Arguments in(instance->program());
    if (const smelt_status s = in.Read(args, num_args); s != SMELT_OK) return s;
    std::vector<smelt::Datum> out(num_outputs);
    for (size_t i = 0; i < num_outputs; ++i) {
      if (outputs[i].kind != SMELT_KIND_TENSOR) continue;
      const smelt_tensor* t = outputs[i].value.tensor;
      if (t == nullptr || t->read_only)
        return Fail(SMELT_INVALID_ARGUMENT, "output " + std::to_string(i) + " is null or read-only");
      out[i] = t->tensor;
    }
    ResultMemory memory(num_outputs);
    const absl::Status s = instance->instance->RunInto(in.data(), &out);
    if (!s.ok()) return From(s);
    for (size_t i = 0; i < num_outputs; ++i) {
      if (outputs[i].kind == SMELT_KIND_TENSOR) continue;
      outputs[i] = ToC(out[i], memory.handles[i]);
      if (outputs[i].kind != SMELT_KIND_TENSOR) continue;
      outputs[i].value.tensor->read_only = in.IsInReadOnly(out[i].tensor());
      outputs[i].value.tensor->may_move = LiesInAMovingState(*instance, out[i].tensor());
    }
    return SMELT_OK;
  });
}

void smelt_instance_last_call(const smelt_instance* instance, smelt_call_stats* stats) {
  if (instance == nullptr || stats == nullptr) return;
  const smelt::CallStats& s = instance->instance->last_call();
  *stats = {smelt::Name(s.variant), s.kernel_launches, s.library_calls, s.bytes_copied_back, s.arena_bytes};
}
