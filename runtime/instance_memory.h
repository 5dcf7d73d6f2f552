// The parts of an instance that its methods have in common. Internal.
#ifndef SMELT_RUNTIME_INSTANCE_MEMORY_H_
#define SMELT_RUNTIME_INSTANCE_MEMORY_H_

#include <cstdint>

#include "smelt/runtime/arena.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/output_allocator.h"
#include "smelt/runtime/philox.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/state_store.h"
#include "smelt/runtime/thread_pool.h"

namespace smelt {

// One call runs at a time, so they share an arena, too.
struct InstanceMemory {
  InstanceMemory(const Executable& program, GuardPages guard, ThreadPool* pool, int width, uint64_t seed)
      : host(pool, width),
        device(program.device() != nullptr ? program.device() : &host),
        on_host(device->is_host()),
        allocator(guard, device),
        states(program, guard, device, &allocator),
        arena(guard, device) {
    generator.seed = seed;
  }
  HostDevice host;
  const ExecutionDevice* device;  // that runs the program
  const bool on_host;
  Generator generator;
  OutputAllocator allocator;
  StateStore states;
  Arena arena;
  bool in_operator = false;  // an operator of the user's own runs, which must not come back here
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_INSTANCE_MEMORY_H_
