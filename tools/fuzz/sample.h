// A program with the arguments of a call: what the fuzzer makes, runs and cuts down, and what is kept of a failure.
//
// As text it is a graph (docs/text_form.md), then the contents of its weights and the call. Numbers are a storage's
// elements; an argument is a storage's number with sizes, strides and offset, an earlier argument once more, or a
// number:
//
//   graph(%x : Float(2, strides=[1]), %y : Float(2, strides=[1]), %n : int):
//     ...
//   call
//     storage float32 1 2 3
//     arg 0 float32 [2] [1] 0
//     arg 0 float32 [2] [1] 1
//     arg int 3
#ifndef SMELT_TOOLS_FUZZ_SAMPLE_H_
#define SMELT_TOOLS_FUZZ_SAMPLE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/value.h"

namespace smelt {

struct CallStorage {
  DType dtype = DType::kFloat32;  // the dtype in which its bytes are printed and compared
  std::string bytes;
};

struct CallArg {
  int storage = -1;  // -1: `number` is the argument
  DType dtype = DType::kFloat32;
  Geometry geometry;
  int same_as = -1;  // the same tensor that an earlier argument is
  Datum number;
};

struct Call {
  std::vector<CallStorage> storages;
  std::vector<CallArg> args;  // by user argument
};

struct Sample {
  std::unique_ptr<Graph> graph;
  Call call;

  Sample Clone() const;
  std::string ToString() const;
  static absl::StatusOr<Sample> Parse(absl::string_view text, const std::string& file_name);
};

// The arguments of one run, in fresh memory each time.
struct MadeCall {
  std::vector<std::shared_ptr<Storage>> storages;  // by Call::storages
  std::vector<Datum> args;
};
MadeCall Make(const Call& call);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_SAMPLE_H_
