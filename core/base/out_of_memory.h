// Turns failed allocations into an error value.
//
//   absl::Status Executor::RunInto(...) {
//     return CatchOutOfMemory([&] { return Call(...); });   // "out of memory: no memory for 324 bytes"
//   }
//
// smelt throws no other exceptions: if memory is short, the standard library's containers throw std::bad_alloc, and
// code that allocates in another way throws OutOfMemory, which is derived from it. Functions that a host process calls
// catch it.
#ifndef SMELT_CORE_BASE_OUT_OF_MEMORY_H_
#define SMELT_CORE_BASE_OUT_OF_MEMORY_H_

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"

namespace smelt {

// There is not enough memory for this many bytes.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(int64_t bytes) noexcept;
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];
};

// kResourceExhausted with this message; without any message if there is not even memory for it.
absl::Status OutOfMemoryStatus(const char* what) noexcept;

// Runs `body`, which returns an absl::Status or an absl::StatusOr. If memory is short, returns kResourceExhausted. Any
// other exception of a library is a bug: kInternal.
template <typename Body>
auto CatchOutOfMemory(Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const OutOfMemory& e) {
    return OutOfMemoryStatus(e.what());
  } catch (const std::bad_alloc&) {
    return OutOfMemoryStatus("");
  } catch (const std::length_error&) {
    return OutOfMemoryStatus("a list would have more elements than memory can hold");
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_OUT_OF_MEMORY_H_
