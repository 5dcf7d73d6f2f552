// Shared by the files of the C interface: its handles, and how errors get out.
#ifndef SMELT_RUNTIME_SMELT_INTERNAL_H_
#define SMELT_RUNTIME_SMELT_INTERNAL_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "smelt/core/base/out_of_memory.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/smelt.h"

struct smelt_tensor {
  smelt::Tensor tensor;
  bool read_only = false;
  bool may_move = false;  // a state that a call may resize
};

namespace smelt {
namespace c_internal {

// A program's description in C's types. The pointers lead into the program or into this.
struct Description {
  explicit Description(std::shared_ptr<const Program> p);

  std::shared_ptr<const Program> program;
  std::vector<std::vector<smelt_dim>> arg_dims, result_dims;
  std::vector<smelt_node> arg_nodes, result_nodes;
  bool some_state_may_move = false;
};

smelt_status Fail(smelt_status code, std::string message);
smelt_status From(const absl::Status& s) noexcept;

// Runs `body`, which returns a smelt_status. SMELT_RESOURCE_EXHAUSTED if memory is short.
template <typename Body>
smelt_status Guarded(const Body& body) noexcept {
  smelt_status code = SMELT_OK;
  const absl::Status s = CatchOutOfMemory([&] {
    code = body();
    return absl::OkStatus();
  });
  return s.ok() ? code : From(s);
}

// A tensor of this geometry over a storage. Fails unless it lies inside.
bool MakeGeometry(int dtype, int rank, const int64_t* sizes, const int64_t* strides, int64_t offset, int64_t bytes,
                  Geometry* out);
// Returns whether the strides are those that a tensor of these sizes has in memory of its own. A contiguous tensor may
// have others where a size is 0 or 1.
inline bool HasRowMajorStrides(const Tensor& t) {
  int64_t step = 1;
  for (int d = t.rank() - 1; d >= 0; --d) {
    if (t.strides()[d] != step) return false;
    step *= std::max<int64_t>(t.sizes()[d], 1);
  }
  return true;
}

// Fills in what both sides know of a struct that begins with its size.
template <typename T>
smelt_status FillIn(const T& full, T* out) {
  if (out == nullptr || out->struct_size < 2 * sizeof(size_t)) {
    return Fail(SMELT_INVALID_ARGUMENT, "the struct is null, or its struct_size is not set");
  }
  const size_t size = out->struct_size;
  const char* from = reinterpret_cast<const char*>(&full);
  std::copy(from, from + std::min(size, sizeof(T)), reinterpret_cast<char*>(out));
  out->struct_size = size;
  return SMELT_OK;
}

}  // namespace c_internal
}  // namespace smelt

struct smelt_program {
  std::shared_ptr<const smelt::c_internal::Description> description;
  const smelt::Program& program() const { return *description->program; }
};
struct smelt_instance {
  std::shared_ptr<const smelt::c_internal::Description> description;
  std::shared_ptr<smelt::Instance> instance;  // of a method: it keeps the whole instance
  const smelt::Program& program() const { return *description->program; }
};

struct smelt_started {
  smelt::StartedCall call;
};

#endif  // SMELT_RUNTIME_SMELT_INTERNAL_H_
