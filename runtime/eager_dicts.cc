#include "smelt/runtime/eager_dicts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

using Values = std::vector<EagerValue>;

// Returns the place of a key's value, or the end.
size_t ValueOf(const Values& dict, const EagerValue& key) {
  for (size_t k = 0; k + 1 < dict.size(); k += 2) {
    if (SameEagerValue(dict[k], key)) return k + 1;
  }
  return dict.size();
}

void SetItem(Values& dict, const EagerValue& key, const EagerValue& value) {
  const size_t at = ValueOf(dict, key);
  if (at < dict.size()) {
    dict[at] = value;
  } else {
    dict.push_back(key);
    dict.push_back(value);
  }
}

EagerValue EverySecond(const Values& dict, size_t first) {
  Values out;
  for (size_t k = first; k < dict.size(); k += 2) out.push_back(dict[k]);
  return EagerValue::List(std::move(out));
}

EagerValue Items(const Values& dict) {
  Values out;
  for (size_t k = 0; k + 1 < dict.size(); k += 2) out.push_back(EagerValue::List({dict[k], dict[k + 1]}));
  return EagerValue::List(std::move(out));
}

}  // namespace

bool SameEagerValue(const EagerValue& a, const EagerValue& b) {
  if (a.IsList() != b.IsList()) return false;
  if (a.IsList()) {
    return a.list->size() == b.list->size() &&
           std::equal(a.list->begin(), a.list->end(), b.list->begin(), SameEagerValue);
  }
  if (a.IsNumber() && b.IsNumber()) {
    if (!a.datum.IsFloat() && !b.datum.IsFloat()) return *a.AsInt() == *b.AsInt();
    return *a.AsDouble() == *b.AsDouble();
  }
  if (a.datum.IsString() && b.datum.IsString()) return a.datum.as_string() == b.datum.as_string();
  if (a.IsTensor() && b.IsTensor()) return a.datum.tensor().IsSame(b.datum.tensor());
  return a.IsNone() && b.IsNone();
}

absl::StatusOr<std::vector<EagerValue>> EagerDict(absl::string_view op, absl::Span<const EagerValue> args) {
  if (op == "construct") {
    Values dict;
    for (size_t k = 0; k + 1 < args.size(); k += 2) SetItem(dict, args[k], args[k + 1]);
    return Values{EagerValue::List(std::move(dict))};
  }
  if (args.empty() || !args[0].IsList() || args[0].list->size() % 2 != 0)
    return absl::FailedPreconditionError(absl::StrCat("dict::", op, ": a dictionary is expected"));
  Values& dict = *args[0].list;
  if (op == "len") return Values{EagerValue(Datum(static_cast<int64_t>(dict.size() / 2)))};
  if (op == "keys") return Values{EverySecond(dict, 0)};
  if (op == "values") return Values{EverySecond(dict, 1)};
  if (op == "items") return Values{Items(dict)};
  if (op == "copy") return Values{EagerValue::List(dict)};
  if (op == "clear") {
    dict.clear();
    return Values{};
  }
  if (args.size() < 2) return absl::FailedPreconditionError(absl::StrCat("dict::", op, ": arguments are missing"));
  if (op == "update") {
    if (!args[1].IsList() || args[1].list->size() % 2 != 0)
      return absl::FailedPreconditionError("dict::update: a dictionary is expected");
    const Values from = *args[1].list;
    for (size_t k = 0; k < from.size(); k += 2) SetItem(dict, from[k], from[k + 1]);
    return Values{};
  }
  const size_t at = ValueOf(dict, args[1]);
  const bool found = at < dict.size();
  if (op == "__contains__") return Values{EagerValue(Datum(found))};
  if (op == "get") return Values{found ? dict[at] : args.size() > 2 ? args[2] : EagerValue()};
  if (op == "_set_item" || op == "setdefault") {
    if (args.size() < 3) return absl::FailedPreconditionError(absl::StrCat("dict::", op, ": arguments are missing"));
    const EagerValue value = op == "setdefault" && found ? dict[at] : args[2];
    SetItem(dict, args[1], value);
    return Values{value};
  }
  if (!found && op == "pop" && args.size() > 2) return Values{args[2]};
  if (!found) return absl::FailedPreconditionError("KeyError: a dictionary has no such key");
  const EagerValue value = dict[at];
  if (op == "__getitem__") return Values{value};
  if (op != "pop" && op != "Delete") return absl::UnimplementedError(absl::StrCat("dict::", op));
  const auto key = dict.begin() + static_cast<int64_t>(at) - 1;
  dict.erase(key, key + 2);
  return Values{value};
}

}  // namespace smelt
