#include "smelt/runtime/smelt.h"

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/base/out_of_memory.h"
#include "smelt/runtime/program.h"

struct smelt_program {
  std::shared_ptr<const smelt::Program> program;
};
struct smelt_instance {
  std::shared_ptr<const smelt::Program> program;
  std::unique_ptr<smelt::Instance> instance;
};
struct smelt_tensor {
  smelt::Tensor tensor;
};

namespace {

thread_local std::string g_error;

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

// Runs `body`, which returns a smelt_status. Returns SMELT_RESOURCE_EXHAUSTED if memory is short.
template <typename Body>
smelt_status Guarded(const Body& body) noexcept {
  smelt_status code = SMELT_OK;
  const absl::Status s = smelt::CatchOutOfMemory([&] {
    code = body();
    return absl::OkStatus();
  });
  return s.ok() ? code : From(s);
}

// Runs `body`, which returns a new tensor. Returns null if memory is short.
template <typename Body>
smelt_tensor* NewTensor(const Body& body) noexcept {
  smelt_tensor* made = nullptr;
  smelt::CatchOutOfMemory([&] {
    made = body();
    return absl::OkStatus();
  }).IgnoreError();
  return made;
}

// Makes a geometry from the caller's numbers. Returns false if they are not one, or it reaches outside `bytes`.
bool MakeGeometry(smelt_dtype dtype, int rank, const int64_t* sizes, const int64_t* strides, int64_t offset,
                  int64_t bytes, smelt::Geometry* out) {
  if (dtype < 0 || dtype >= smelt::kNumDTypes || rank < 0 || rank > 64 || (rank > 0 && sizes == nullptr)) return false;
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
  const smelt::Tensor probe(smelt::Storage::Borrow(nullptr, bytes), static_cast<smelt::DType>(dtype), *out);
  return offset >= 0 && probe.InBounds();
}

// Returns false for an unknown kind, or a null tensor.
bool FromC(const smelt_value& v, smelt::Datum* out) {
  switch (v.kind) {
    case SMELT_KIND_NONE:
      *out = smelt::Datum();
      return true;
    case SMELT_KIND_TENSOR:
      if (v.value.tensor == nullptr) return false;
      *out = v.value.tensor->tensor;
      return true;
    case SMELT_KIND_INT:
      *out = v.value.integer;
      return true;
    case SMELT_KIND_FLOAT:
      *out = v.value.real;
      return true;
    case SMELT_KIND_BOOL:
      *out = v.value.boolean != 0;
      return true;
  }
  return false;
}

// Handles for results are made before a call: once it has run, nothing may fail.
using Handles = std::vector<std::unique_ptr<smelt_tensor>>;
Handles MakeHandles(size_t count) {
  Handles out(count);
  for (auto& h : out) h = std::make_unique<smelt_tensor>();
  return out;
}

smelt_value ToC(const smelt::Datum& v, std::unique_ptr<smelt_tensor>& handle) noexcept {
  smelt_value out = {SMELT_KIND_NONE, {nullptr}};
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
  }
  return out;
}

smelt_status ArgsFromC(const smelt_value* args, size_t num_args, std::vector<smelt::Datum>* out) {
  if (num_args > 0 && args == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "args is null");
  out->resize(num_args);
  for (size_t i = 0; i < num_args; ++i) {
    if (!FromC(args[i], &(*out)[i])) {
      return Fail(SMELT_INVALID_ARGUMENT, "argument " + std::to_string(i) + " is a null tensor or of an unknown kind");
    }
  }
  return SMELT_OK;
}

}  // namespace

const char* smelt_last_error(void) { return g_error.c_str(); }

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
    return new smelt_tensor{base->tensor.View(std::move(g))};
  });
}

void smelt_tensor_release(smelt_tensor* tensor) { delete tensor; }

smelt_dtype smelt_tensor_dtype(const smelt_tensor* t) { return static_cast<smelt_dtype>(t->tensor.dtype()); }
int smelt_tensor_rank(const smelt_tensor* t) { return t->tensor.rank(); }
const int64_t* smelt_tensor_sizes(const smelt_tensor* t) { return t->tensor.sizes().data(); }
const int64_t* smelt_tensor_strides(const smelt_tensor* t) { return t->tensor.strides().data(); }
int64_t smelt_tensor_offset(const smelt_tensor* t) { return t->tensor.offset(); }
void* smelt_tensor_data(const smelt_tensor* t) { return t->tensor.data(); }
int smelt_tensor_is_same(const smelt_tensor* a, const smelt_tensor* b) { return a->tensor.IsSame(b->tensor); }
int smelt_tensor_shares_storage(const smelt_tensor* a, const smelt_tensor* b) {
  return a->tensor.storage() == b->tensor.storage();
}

void smelt_value_release(smelt_value* value) {
  if (value == nullptr) return;
  if (value->kind == SMELT_KIND_TENSOR) smelt_tensor_release(value->value.tensor);
  value->kind = SMELT_KIND_NONE;
  value->value.tensor = nullptr;
}

smelt_status smelt_program_load(const char* path, smelt_program** program) {
  return Guarded([&] {
    if (path == nullptr || program == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "path or program is null");
    auto p = smelt::Program::Load(path);
    if (!p.ok()) return From(p.status());
    *program = new smelt_program{*std::move(p)};
    return SMELT_OK;
  });
}

smelt_status smelt_program_load_from_memory(const void* bytes, size_t size, smelt_program** program) {
  return Guarded([&] {
    if ((bytes == nullptr && size > 0) || program == nullptr) {
      return Fail(SMELT_INVALID_ARGUMENT, "bytes or program is null");
    }
    auto p = smelt::Program::LoadFromMemory(absl::Span<const uint8_t>(static_cast<const uint8_t*>(bytes), size));
    if (!p.ok()) return From(p.status());
    *program = new smelt_program{*std::move(p)};
    return SMELT_OK;
  });
}

void smelt_program_release(smelt_program* program) { delete program; }
size_t smelt_program_num_args(const smelt_program* p) { return p->program->args().size(); }
size_t smelt_program_num_outputs(const smelt_program* p) { return p->program->results().size(); }
const char* smelt_program_arg_name(const smelt_program* p, size_t i) {
  return i < p->program->args().size() ? p->program->args()[i].name.c_str() : nullptr;
}
const char* smelt_program_output_name(const smelt_program* p, size_t i) {
  return i < p->program->results().size() ? p->program->results()[i].name.c_str() : nullptr;
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
    auto made = smelt::Instance::Create(program->program, o);
    if (!made.ok()) return From(made.status());
    *instance = new smelt_instance{program->program, *std::move(made)};
    return SMELT_OK;
  });
}

void smelt_instance_release(smelt_instance* instance) { delete instance; }

smelt_status smelt_instance_run(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                smelt_value* outputs, size_t* num_outputs) {
  return Guarded([&] {
    if (instance == nullptr || num_outputs == nullptr)
      return Fail(SMELT_INVALID_ARGUMENT, "instance or num_outputs is null");
    const size_t want = instance->program->results().size();
    if (*num_outputs < want || (want > 0 && outputs == nullptr)) {
      return Fail(SMELT_INVALID_ARGUMENT, "the model has " + std::to_string(want) + " outputs, there is room for " +
                                              std::to_string(*num_outputs));
    }
    std::vector<smelt::Datum> in;
    if (smelt_status s = ArgsFromC(args, num_args, &in); s != SMELT_OK) return s;
    Handles handles = MakeHandles(want);
    auto out = instance->instance->Run(in);
    if (!out.ok()) return From(out.status());
    for (size_t i = 0; i < want; ++i) outputs[i] = ToC((*out)[i], handles[i]);
    *num_outputs = want;
    return SMELT_OK;
  });
}

smelt_status smelt_instance_run_into(smelt_instance* instance, const smelt_value* args, size_t num_args,
                                     smelt_value* outputs, size_t num_outputs) {
  return Guarded([&] {
    if (instance == nullptr || (num_outputs > 0 && outputs == nullptr)) {
      return Fail(SMELT_INVALID_ARGUMENT, "instance or outputs is null");
    }
    if (num_outputs != instance->program->results().size()) {
      return Fail(SMELT_INVALID_ARGUMENT, "the model has " + std::to_string(instance->program->results().size()) +
                                              " outputs, memory for " + std::to_string(num_outputs) + " was given");
    }
    std::vector<smelt::Datum> in, out(num_outputs);
    if (smelt_status s = ArgsFromC(args, num_args, &in); s != SMELT_OK) return s;
    for (size_t i = 0; i < num_outputs; ++i) {
      if (outputs[i].kind != SMELT_KIND_TENSOR) continue;
      if (!FromC(outputs[i], &out[i])) return Fail(SMELT_INVALID_ARGUMENT, "output " + std::to_string(i) + " is null");
    }
    Handles handles = MakeHandles(num_outputs);
    const absl::Status s = instance->instance->RunInto(in, &out);
    if (!s.ok()) return From(s);
    for (size_t i = 0; i < num_outputs; ++i) {
      if (outputs[i].kind != SMELT_KIND_TENSOR) outputs[i] = ToC(out[i], handles[i]);
    }
    return SMELT_OK;
  });
}

smelt_status smelt_instance_state(smelt_instance* instance, const char* name, smelt_tensor** tensor) {
  return Guarded([&] {
    if (instance == nullptr || name == nullptr || tensor == nullptr) {
      return Fail(SMELT_INVALID_ARGUMENT, "instance, name or tensor is null");
    }
    const auto& states = instance->program->states();
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i].name != name) continue;
      *tensor = new smelt_tensor{instance->instance->state(static_cast<int>(i))};
      return SMELT_OK;
    }
    return Fail(SMELT_NOT_FOUND, "the model has no parameter or buffer \"" + std::string(name) + "\"");
  });
}

smelt_status smelt_instance_reset(smelt_instance* instance) {
  return Guarded([&] {
    if (instance == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "instance is null");
    return From(instance->instance->ResetStates());
  });
}

void smelt_instance_seed(smelt_instance* instance, uint64_t seed) {
  if (instance != nullptr) instance->instance->Seed(seed);
}

void smelt_instance_last_call(const smelt_instance* instance, smelt_call_stats* stats) {
  const smelt::CallStats& s = instance->instance->last_call();
  *stats = {smelt::Name(s.variant), s.kernel_launches, s.library_calls, s.bytes_copied_back, s.arena_bytes};
}
