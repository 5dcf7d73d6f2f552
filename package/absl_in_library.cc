// Debian compiled its static Abseil for executables: three of its files use a thread-local storage model that is not
// available in a shared library. In a shared library the functions below replace those of these files. They match the
// Abseil that the headers declare, 20220623; with any other version they do not compile or link.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "absl/base/internal/sysinfo.h"
#include "absl/container/internal/raw_hash_set.h"
#include "absl/strings/internal/cordz_functions.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

namespace base_internal {

// Abseil's clocks call it where they count cycles, which they do not do on Linux.
double NominalCPUFrequency() { return 1; }
int NumCPUs() { return static_cast<int>(std::thread::hardware_concurrency()); }
pid_t GetTID() { return static_cast<pid_t>(syscall(SYS_gettid)); }
pid_t GetCachedTID() {
  static thread_local const pid_t id = GetTID();
  return id;
}

}  // namespace base_internal

namespace cord_internal {

// The statistics of cords, which are not used: no cord is ever sampled.
ABSL_CONST_INIT thread_local int64_t cordz_next_sample = std::numeric_limits<int64_t>::max();
bool cordz_should_profile_slow() { return false; }
int32_t get_cordz_mean_interval() { return std::numeric_limits<int32_t>::max(); }
void set_cordz_mean_interval(int32_t) {}
void cordz_set_next_sample_for_testing(int64_t) {}

}  // namespace cord_internal

namespace container_internal {

// An empty table: its end mark, and nothing after it.
alignas(16) extern const ctrl_t kEmptyGroup[16] = {
    ctrl_t::kSentinel, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty,
    ctrl_t::kEmpty,    ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty,
    ctrl_t::kEmpty,    ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty,
};

// Only Abseil's debug mode inserts backwards.
bool ShouldInsertBackwards(size_t, const ctrl_t*) { return false; }

void HashTableSizeOverflow() { throw std::length_error("a hash table of more elements than memory has room for"); }

template FindInfo find_first_non_full(const ctrl_t*, size_t, size_t);

void ConvertDeletedToEmptyAndFullToDeleted(ctrl_t* ctrl, size_t capacity) {
  for (ctrl_t* group = ctrl; group < ctrl + capacity; group += Group::kWidth) {
    Group(group).ConvertSpecialToEmptyAndFullToDeleted(group);
  }
  // The first bytes are repeated after the end, where groups that begin near the end read them.
  std::memcpy(ctrl + capacity + 1, ctrl, NumClonedBytes());
  ctrl[capacity] = ctrl_t::kSentinel;
}

}  // namespace container_internal

ABSL_NAMESPACE_END
}  // namespace absl
