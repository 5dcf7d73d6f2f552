// Assertions about smelt's own code: a failed one prints the source line, the condition and the values, and aborts.
//
//   SMELT_CHECK(index < size()) << "asked for value " << index;
//   SMELT_CHECK_EQ(node.inputs.size(), 2);
//   SMELT_CHECK_OK(graph.Verify());
//
// For bugs of smelt only. Mistakes of a file, a caller or the machine are an absl::Status, never a CHECK. SMELT_DCHECK
// and its siblings are compiled, but cost nothing, where NDEBUG is defined (the default build); they are on in the dbg
// and sanitizer configurations.
#ifndef SMELT_CORE_BASE_CHECK_H_
#define SMELT_CORE_BASE_CHECK_H_

#include <cstddef>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace smelt::check_internal {

// Collects the message; its destructor prints it to standard error and aborts.
class Failure {
 public:
  Failure(const char* file, int line, const char* what);
  Failure(const char* file, int line, const std::string& what) : Failure(file, line, what.c_str()) {}
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  ABSL_ATTRIBUTE_NORETURN ~Failure();

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Turns a stream expression into void, so that a CHECK has type void. `&` binds more loosely than `<<`.
struct Voidify {
  void operator&(std::ostream&) const {}
};

template <typename T>
concept Streamable = requires(std::ostream& out, const T& value) { out << value; };

template <typename T>
void Print(std::ostream& out, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    out << "nullptr";
  } else if constexpr (std::is_same_v<T, unsigned char> || std::is_same_v<T, signed char>) {
    out << static_cast<int>(value);
  } else if constexpr (Streamable<T>) {
    out << value;
  } else if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else {
    out << "?";
  }
}

// Returns the message of a failed comparison, null if it holds.
template <typename Compare, typename A, typename B>
std::unique_ptr<std::string> Compared(const A& a, const B& b, const char* text, Compare compare) {
  if (ABSL_PREDICT_TRUE(compare(a, b))) return nullptr;
  std::ostringstream out;
  out << text << " (";
  Print(out, a);
  out << " and ";
  Print(out, b);
  out << ")";
  return std::make_unique<std::string>(out.str());
}

inline const absl::Status& AsStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& AsStatus(const absl::StatusOr<T>& value) {
  return value.status();
}

std::unique_ptr<std::string> NotOk(const absl::Status& status, const char* text);

}  // namespace smelt::check_internal

#define SMELT_CHECK(condition)           \
  ABSL_PREDICT_TRUE(condition)           \
  ? static_cast<void>(0)                 \
  : ::smelt::check_internal::Voidify() & \
          ::smelt::check_internal::Failure(__FILE__, __LINE__, "check failed: " #condition).stream()

// The loop runs at most once: Failure aborts. A loop, not an if, so that a following else is not caught.
#define SMELT_CHECK_OP_(enabled, a, b, op)                                                                          \
  while (auto smelt_check_failed =                                                                                  \
             !(enabled) ? nullptr                                                                                   \
                        : ::smelt::check_internal::Compared(                                                        \
                              (a), (b), "check failed: " #a " " #op " " #b,                                         \
                              [](const auto& smelt_a, const auto& smelt_b) -> bool { return smelt_a op smelt_b; })) \
  ::smelt::check_internal::Failure(__FILE__, __LINE__, *smelt_check_failed).stream()

#define SMELT_CHECK_EQ(a, b) SMELT_CHECK_OP_(true, a, b, ==)
#define SMELT_CHECK_NE(a, b) SMELT_CHECK_OP_(true, a, b, !=)
#define SMELT_CHECK_LT(a, b) SMELT_CHECK_OP_(true, a, b, <)
#define SMELT_CHECK_LE(a, b) SMELT_CHECK_OP_(true, a, b, <=)
#define SMELT_CHECK_GT(a, b) SMELT_CHECK_OP_(true, a, b, >)
#define SMELT_CHECK_GE(a, b) SMELT_CHECK_OP_(true, a, b, >=)

// For a Status or a StatusOr; the message includes the status's message.
#define SMELT_CHECK_OK(expression)                                                                               \
  while (auto smelt_check_failed = ::smelt::check_internal::NotOk(::smelt::check_internal::AsStatus(expression), \
                                                                  "check failed: " #expression))                 \
  ::smelt::check_internal::Failure(__FILE__, __LINE__, *smelt_check_failed).stream()

// Marks a place that control cannot reach.
#define SMELT_UNREACHABLE() ::smelt::check_internal::Failure(__FILE__, __LINE__, "unreachable").stream()

#ifdef NDEBUG
#define SMELT_DCHECK_ENABLED_ false
#else
#define SMELT_DCHECK_ENABLED_ true
#endif

#define SMELT_DCHECK(condition) SMELT_CHECK(!SMELT_DCHECK_ENABLED_ || (condition))
#define SMELT_DCHECK_EQ(a, b) SMELT_CHECK_OP_(SMELT_DCHECK_ENABLED_, a, b, ==)
#define SMELT_DCHECK_NE(a, b) SMELT_CHECK_OP_(SMELT_DCHECK_ENABLED_, a, b, !=)
#define SMELT_DCHECK_LT(a, b) SMELT_CHECK_OP_(SMELT_DCHECK_ENABLED_, a, b, <)
#define SMELT_DCHECK_LE(a, b) SMELT_CHECK_OP_(SMELT_DCHECK_ENABLED_, a, b, <=)
#define SMELT_DCHECK_GT(a, b) SMELT_CHECK_OP_(SMELT_DCHECK_ENABLED_, a, b, >)
#define SMELT_DCHECK_GE(a, b) SMELT_CHECK_OP_(SMELT_DCHECK_ENABLED_, a, b, >=)

#endif  // SMELT_CORE_BASE_CHECK_H_
