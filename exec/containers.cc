#include "smelt/exec/containers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/exec/number.h"

namespace smelt {
namespace {

using Values = std::vector<PythonValue>;
using Result = absl::StatusOr<Values>;

constexpr int64_t kLongestList = 1'000'000;

absl::Status Error(absl::string_view what) { return absl::FailedPreconditionError(what); }

absl::Status Need(absl::Span<const PythonValue> args, size_t n) {
  return args.size() >= n ? absl::OkStatus() : Error("arguments are missing");
}

// Returns the place that an index of a list means.
absl::StatusOr<size_t> PlaceOf(const PythonValue& index, size_t size) {
  SMELT_ASSIGN_OR_RETURN(int64_t i, index.AsInt());
  const int64_t n = static_cast<int64_t>(size);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return absl::OutOfRangeError("list index out of range");
  return static_cast<size_t>(i);
}

// Returns the place that a bound of a slice means.
int64_t Clamped(int64_t bound, int64_t n) { return std::clamp<int64_t>(bound < 0 ? bound + n : bound, 0, n); }

// Sorts in TorchScript's order, in which NaN has no place.
absl::Status SortNumbers(Values& list, bool reverse) {
  const bool ints = std::all_of(list.begin(), list.end(), [](const PythonValue& v) { return v.IsInt(); });
  for (const PythonValue& v : list) {
    if (!ints && !v.IsDouble()) return absl::UnimplementedError("sort of a list of other elements than numbers");
    if (!ints && std::isnan(v.as_double())) return absl::UnimplementedError("sort of a list with NaN in it");
  }
  std::sort(list.begin(), list.end(), [&](const PythonValue& x, const PythonValue& y) {
    const PythonValue &a = reverse ? y : x, &b = reverse ? x : y;
    return ints ? a.as_int() < b.as_int() : a.as_double() < b.as_double();
  });
  return absl::OkStatus();
}

Result Slice(const Values& list, absl::Span<const PythonValue> args) {
  const int64_t n = static_cast<int64_t>(list.size());
  int64_t bounds[3] = {0, n, 1};
  for (size_t k = 0; k < 3 && k + 1 < args.size(); ++k) {
    if (args[k + 1].IsNone()) continue;
    SMELT_ASSIGN_OR_RETURN(bounds[k], args[k + 1].AsInt());
  }
  if (bounds[2] < 1) return Error("slice step must be positive");
  Values part;
  const int64_t step = std::min(bounds[2], std::max<int64_t>(n, 1));  // so that no sum overflows
  for (int64_t i = Clamped(bounds[0], n); i < Clamped(bounds[1], n); i += step) part.push_back(list[i]);
  return Values{PythonValue::List(std::move(part))};
}

Result Extreme(PythonOp op, const Values& list) {
  if (list.empty()) return Error(absl::StrCat(op == PythonOp::kMin ? "min" : "max", "() arg is an empty sequence"));
  PythonValue best = list[0];
  for (const PythonValue& v : list) {
    SMELT_ASSIGN_OR_RETURN(best, BinaryNumber(op, best, v));
  }
  return Values{best};
}

Result Repeated(const Values& list, const PythonValue& times) {
  SMELT_ASSIGN_OR_RETURN(const int64_t n, times.AsInt());
  if (n > 0 && static_cast<int64_t>(list.size()) > kLongestList / n)
    return absl::ResourceExhaustedError("a list is too long");
  Values out;
  for (int64_t k = 0; k < n; ++k) out.insert(out.end(), list.begin(), list.end());
  return Values{PythonValue::List(std::move(out))};
}

// Operators that look for an element that is equal to the argument.
Result Find(PythonOp op, Values& list, const PythonValue& wanted) {
  // PyTorch compares the elements of tensors.
  const auto is_tensor = [](const PythonValue& v) { return v.IsTensor(); };
  if (is_tensor(wanted) || std::any_of(list.begin(), list.end(), is_tensor))
    return absl::UnimplementedError("is not supported on lists of tensors");
  const auto equal = [&](const PythonValue& v) { return AreEqual(v, wanted); };
  if (op == PythonOp::kCount) return Values{PythonValue(int64_t{std::count_if(list.begin(), list.end(), equal)})};
  const auto at = std::find_if(list.begin(), list.end(), equal);
  if (op == PythonOp::kContains) return Values{PythonValue(at != list.end())};
  if (at == list.end()) return Error("ValueError: the value is not in the list");
  if (op == PythonOp::kIndex) return Values{PythonValue(int64_t{at - list.begin()})};
  list.erase(at);
  return Values{};
}

// Sets a key of a dictionary.
void SetKey(PythonDict& dict, const PythonValue& key, const PythonValue& value) {
  for (auto& [k, v] : dict.items) {
    if (!AreEqual(k, key)) continue;
    v = value;
    return;
  }
  dict.items.push_back({key, value});
}

}  // namespace

bool AreEqual(const PythonValue& a, const PythonValue& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsComplex() || b.IsComplex()) {
      const auto complex = [](const PythonValue& v) {
        return v.IsComplex() ? v.as_complex() : std::complex<double>(*v.AsDouble());
      };
      return complex(a) == complex(b);
    }
    if (!a.IsDouble() && !b.IsDouble()) return *a.AsInt() == *b.AsInt();
    return *a.AsDouble() == *b.AsDouble();
  }
  if (a.IsString() && b.IsString()) return a.as_string() == b.as_string();
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsList() && b.IsList()) {
    return a.elements().size() == b.elements().size() &&
           std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), AreEqual);
  }
  return a.identity() != nullptr && a.identity() == b.identity();
}

// A case for each operator on lists, a few lines each.
Result RunOnList(PythonOp op, absl::Span<const PythonValue> args) {
  Values& list = args[0].elements();
  const int64_t size = static_cast<int64_t>(list.size());
  switch (op) {
    case PythonOp::kLen:
      return Values{PythonValue(size)};
    case PythonOp::kCopy:
      return Values{PythonValue::List(list)};
    case PythonOp::kClear:
      list.clear();
      return Values{};
    case PythonOp::kReverse:
      std::reverse(list.begin(), list.end());
      return Values{};
    case PythonOp::kMin:
    case PythonOp::kMax:
      if (args.size() == 1) return Extreme(op, list);
      break;
    case PythonOp::kSlice:
      return Slice(list, args);
    case PythonOp::kSort: {
      bool reverse = false;
      if (args.size() > 1) {
        SMELT_ASSIGN_OR_RETURN(reverse, TruthOf(args[1]));
      }
      SMELT_RETURN_IF_ERROR(SortNumbers(list, reverse));
      return Values{};
    }
    case PythonOp::kSorted: {
      Values copy = list;
      SMELT_RETURN_IF_ERROR(SortNumbers(copy, false));
      return Values{PythonValue::List(std::move(copy))};
    }
    case PythonOp::kPop:
    case PythonOp::kDelete: {
      SMELT_ASSIGN_OR_RETURN(const size_t at, PlaceOf(args.size() > 1 ? args[1] : PythonValue(int64_t{-1}), size));
      PythonValue v = std::move(list[at]);
      list.erase(list.begin() + static_cast<int64_t>(at));
      return op == PythonOp::kPop ? Values{std::move(v)} : Values{};
    }
    default:
      break;
  }
  SMELT_RETURN_IF_ERROR(Need(args, 2));
  switch (op) {
    case PythonOp::kAppend:
      list.push_back(args[1]);
      return Values{args[0]};
    case PythonOp::kAdd:
    case PythonOp::kExtend: {
      if (!args[1].IsList()) return Error("a list is expected");
      const Values more = args[1].elements();  // it may be the list itself
      if (op == PythonOp::kExtend) {
        list.insert(list.end(), more.begin(), more.end());
        return Values{};
      }
      Values both = list;
      both.insert(both.end(), more.begin(), more.end());
      return Values{PythonValue::List(std::move(both))};
    }
    case PythonOp::kMul:
      return Repeated(list, args[1]);
    case PythonOp::kIndex:
    case PythonOp::kCount:
    case PythonOp::kRemove:
    case PythonOp::kContains:
      return Find(op, list, args[1]);
    case PythonOp::kGetItem: {
      SMELT_ASSIGN_OR_RETURN(const size_t at, PlaceOf(args[1], size));
      return Values{list[at]};
    }
    case PythonOp::kSetItem: {
      SMELT_RETURN_IF_ERROR(Need(args, 3));
      SMELT_ASSIGN_OR_RETURN(const size_t at, PlaceOf(args[1], size));
      list[at] = args[2];
      return Values{args[0]};
    }
    case PythonOp::kInsert: {
      SMELT_RETURN_IF_ERROR(Need(args, 3));
      SMELT_ASSIGN_OR_RETURN(const int64_t i, args[1].AsInt());
      list.insert(list.begin() + Clamped(i, size), args[2]);
      return Values{};
    }
    default:
      return absl::UnimplementedError("is not supported on lists");
  }
}

Result RunOnDict(PythonOp op, absl::Span<const PythonValue> args) {
  auto& items = args[0].dict().items;
  Values out;
  switch (op) {
    case PythonOp::kLen:
      return Values{PythonValue(static_cast<int64_t>(items.size()))};
    case PythonOp::kKeys:
      for (const auto& item : items) out.push_back(item.first);
      return Values{PythonValue::List(std::move(out))};
    case PythonOp::kValues:
      for (const auto& item : items) out.push_back(item.second);
      return Values{PythonValue::List(std::move(out))};
    case PythonOp::kItems:
      for (const auto& item : items) out.push_back(PythonValue::Tuple({item.first, item.second}));
      return Values{PythonValue::List(std::move(out))};
    case PythonOp::kCopy: {
      PythonValue copy = PythonValue::Dict();
      copy.dict().items = items;
      return Values{std::move(copy)};
    }
    case PythonOp::kClear:
      items.clear();
      return Values{};
    default:
      break;
  }
  SMELT_RETURN_IF_ERROR(Need(args, 2));
  if (op == PythonOp::kUpdate) {
    if (!args[1].IsDict()) return Error("a dictionary is expected");
    const PythonDict from = args[1].dict();  // it may be the dictionary itself
    for (const auto& [key, value] : from.items) SetKey(args[0].dict(), key, value);
    return Values{};
  }
  const auto at = std::find_if(items.begin(), items.end(), [&](const auto& i) { return AreEqual(i.first, args[1]); });
  const bool found = at != items.end();
  const PythonValue fallback = args.size() > 2 ? args[2] : PythonValue();
  const auto missing = [&] { return Error(absl::StrCat("KeyError: ", args[1].ToString())); };
  switch (op) {
    case PythonOp::kContains:
      return Values{PythonValue(found)};
    case PythonOp::kGet:
      return Values{found ? at->second : fallback};
    case PythonOp::kGetItem:
      return found ? Result(Values{at->second}) : missing();
    case PythonOp::kSetDefault:
      if (found) return Values{at->second};
      items.push_back({args[1], fallback});
      return Values{fallback};
    case PythonOp::kSetItem:
      SMELT_RETURN_IF_ERROR(Need(args, 3));
      SetKey(args[0].dict(), args[1], args[2]);
      return Values{};
    case PythonOp::kPop:
    case PythonOp::kDelete: {
      if (!found) return op == PythonOp::kPop && args.size() > 2 ? Result(Values{fallback}) : missing();
      PythonValue value = std::move(at->second);
      items.erase(at);
      return op == PythonOp::kPop ? Values{std::move(value)} : Values{};
    }
    default:
      return absl::UnimplementedError("is not supported on dictionaries");
  }
}

PythonValue MakeDict(absl::Span<const PythonValue> keys_and_values) {
  PythonValue out = PythonValue::Dict();
  for (size_t k = 0; k + 1 < keys_and_values.size(); k += 2)
    SetKey(out.dict(), keys_and_values[k], keys_and_values[k + 1]);
  return out;
}

}  // namespace smelt
