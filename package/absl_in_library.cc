// Debian compiled its static Abseil for executables: some of its files use a thread-local storage model that is not
// available in a shared library, or reach objects of libstdc++ that are in another file there. In a shared library the
// functions below replace those of these files. They match the Abseil that the headers declare, 20220623; with any other
// version they do not compile or link. The library is a fifth smaller without what Abseil's own functions would bring
// along: statistics, mutexes, clocks, time zones, symbolization.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "absl/base/internal/sysinfo.h"
#include "absl/base/internal/throw_delegate.h"
#include "absl/container/internal/raw_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/internal/cord_rep_flat.h"
#include "absl/strings/internal/cordz_functions.h"
#include "absl/strings/internal/cordz_info.h"

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
void CordzInfo::MaybeTrackCordImpl(InlineData&, const InlineData&, MethodIdentifier) {}
void CordzInfo::TrackCord(InlineData&, MethodIdentifier) {}
void CordzInfo::Untrack() {}

// The cords below have one flat buffer.
void CordRep::Destroy(CordRep* rep) { CordRepFlat::Delete(rep); }

}  // namespace cord_internal

// The library's cords are the payloads of statuses, which are made of a string: they need no tree of buffers.

void Cord::InlineRep::set_data(const char* data, size_t n) {
  ResetToEmpty();
  std::memcpy(data_.as_chars(), data, n);
  set_inline_size(n);
}

template <typename T, Cord::EnableIfString<T>>
Cord::Cord(T&& src) {
  if (src.size() <= cord_internal::kMaxInline) {
    contents_.set_data(src.data(), src.size());
    return;
  }
  if (src.size() > cord_internal::kMaxFlatLength) throw std::length_error("a cord of more than one buffer");
  contents_.EmplaceTree(cord_internal::CordRepFlat::Create(src), CordzUpdateTracker::kConstructorString);
}
template Cord::Cord(std::string&& src);

void Cord::DestroyCordSlow() { cord_internal::CordRep::Unref(contents_.as_tree()); }
void Cord::InlineRep::UnrefTree() { cord_internal::CordRep::Unref(tree()); }
Cord::operator std::string() const {
  return contents_.is_tree() ? std::string(contents_.tree()->flat()->Data(), size())
                             : std::string(contents_.data(), size());
}
char Cord::operator[](size_t i) const {
  return contents_.is_tree() ? contents_.tree()->flat()->Data()[i] : contents_.data()[i];
}
bool Cord::EqualsImpl(const Cord& rhs, size_t) const { return std::string(*this) == std::string(rhs); }

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

namespace base_internal {

#define SMELT_THROW_STD(Name, name)                                               \
  void ThrowStd##Name(const std::string& what_arg) { throw std::name(what_arg); } \
  void ThrowStd##Name(const char* what_arg) { throw std::name(what_arg); }
SMELT_THROW_STD(LogicError, logic_error)
SMELT_THROW_STD(InvalidArgument, invalid_argument)
SMELT_THROW_STD(DomainError, domain_error)
SMELT_THROW_STD(LengthError, length_error)
SMELT_THROW_STD(OutOfRange, out_of_range)
SMELT_THROW_STD(RuntimeError, runtime_error)
SMELT_THROW_STD(RangeError, range_error)
SMELT_THROW_STD(OverflowError, overflow_error)
SMELT_THROW_STD(UnderflowError, underflow_error)
#undef SMELT_THROW_STD
void ThrowStdBadFunctionCall() { throw std::bad_function_call(); }
void ThrowStdBadAlloc() { throw std::bad_alloc(); }

}  // namespace base_internal

ABSL_NAMESPACE_END
}  // namespace absl
