// A plan for one set of symbol values: bind.h makes it. Internal.
#ifndef SMELT_RUNTIME_BOUND_PLAN_H_
#define SMELT_RUNTIME_BOUND_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/library/device_library.h"

namespace smelt {

// A view with concrete numbers.
struct BoundView {
  enum State : uint8_t { kUnbound, kGood, kBad };
  State state = kUnbound;
  int rank = 0;
  int64_t* sizes = nullptr;  // `rank` each, elements
  int64_t* strides = nullptr;
  int64_t offset = 0;  // elements
  int64_t elements = 0;
  int64_t low = 0, high = 0;  // bytes that it reaches, from the slot's origin; both 0 if empty
};

// A plan for one set of symbol values.
struct BoundPlan {
  std::vector<int64_t> key;
  ExprValues values;
  std::vector<int64_t> pool;  // of the views' sizes and strides
  std::vector<BoundView> views;
  absl::Status refusal;  // of a prologue check that depends only on sizes

  struct Patch {
    int word;        // in `words`
    int64_t offset;  // bytes
  };
  struct Launch {
    KernelEntry entry = nullptr;
    int first_word = 0, num_words = 0;
    int64_t tiles = 0, chunk = 0, chunks = 0;
    bool slow = false;  // some words or views are known only during the run
    bool sequential = false;
  };
  std::vector<int64_t> words;
  std::vector<std::vector<Patch>> patches;  // by slot: words that hold addresses in it
  struct ArgWord {
    int word, arg;
    bool as_double;
  };
  std::vector<ArgWord> arg_words;
  std::vector<Launch> launches;                                // by step
  std::vector<std::shared_ptr<const PreparedOp>> library_ops;  // by step; null: prepared when it runs
  std::vector<std::unique_ptr<DeviceOp>> device_ops;           // the same, of library calls and draws on a device
  std::vector<std::unique_ptr<DeviceOp>> joined_ops;           // ... that do the next step's launch, too; null: none
  std::vector<int8_t>
      choices;  // by step: a device takes the condition that it reads and the next step itself; -1: unknown
  // By slot: the address of its memory at the last patch of the words, and the bytes that its views reach.
  std::vector<char*> patched;
  std::vector<int64_t> low, high;
  std::vector<int64_t> slot_bytes;  // Arena, Fresh; else -1
  int bad_view = -1;                // a view that is not inside its slot, for every call
  std::vector<int> call_slots;      // slots whose address may change from call to call
  std::vector<int> call_checks;     // prologue checks that need addresses
  int64_t arena_bytes = 0;
  uint64_t generation = 0;               // of the addresses in the arena's and states' words
  std::unique_ptr<LaunchGraphs> graphs;  // of a device
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_BOUND_PLAN_H_
