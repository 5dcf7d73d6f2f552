#include "smelt/tools/fuzz/flat_mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace smelt {
namespace {

using Random = std::mt19937_64;

template <typename Value, typename F>
void ForEach(Value& value, const F& f) {
  f(value);
  for (Value& item : value.items) ForEach(item, f);
}

// Returns one of the tree's values in that place of the schema, each with the same probability; null if there is none.
template <typename Value>
Value* OneAt(Value& tree, int slot, Random& random) {
  Value* chosen = nullptr;
  uint64_t seen = 0;
  ForEach(tree, [&](Value& value) {
    if (value.slot == slot && random() % ++seen == 0) chosen = &value;
  });
  return chosen;
}

// Returns the places of the schema in which the tree has values.
std::vector<int> SlotsOf(const FlatSchema& schema, const FlatValue& tree) {
  std::vector<uint8_t> seen(schema.slots(), 0);
  std::vector<int> slots;
  ForEach(tree, [&](const FlatValue& value) {
    if (value.slot < 0 || seen[value.slot]) return;
    seen[value.slot] = 1;
    slots.push_back(value.slot);
  });
  return slots;
}

int64_t Nodes(const FlatValue& value) {
  int64_t n = 1;
  for (const FlatValue& item : value.items) n += Nodes(item);
  return n;
}

uint64_t OddBits(Random& random) {
  static constexpr int64_t kValues[] = {0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        7,
                                        63,
                                        64,
                                        65,
                                        255,
                                        1000,
                                        65536,
                                        1 << 20,
                                        1 << 24,
                                        1 << 30,
                                        INT32_MAX,
                                        INT32_MIN,
                                        INT64_MAX,
                                        INT64_MIN,
                                        1ll << 33,
                                        1ll << 42,
                                        -(1ll << 40),
                                        INT64_MAX / 2,
                                        100'000'000};
  return static_cast<uint64_t>(random() % 3 == 0 ? static_cast<int64_t>(random() % 44) - 3
                                                 : kValues[random() % std::size(kValues)]);
}

void MutateScalar(const FlatSchema& schema, Random& random, FlatValue& v) {
  v.present = true;
  if (v.kind == reflection::Double || v.kind == reflection::Float) {
    static constexpr double kValues[] = {0,
                                         -0.0,
                                         1,
                                         -1,
                                         0.5,
                                         1e300,
                                         -1e-310,
                                         9.3e18,
                                         std::numeric_limits<double>::infinity(),
                                         -std::numeric_limits<double>::infinity(),
                                         std::numeric_limits<double>::quiet_NaN()};
    const double value = kValues[random() % std::size(kValues)];
    std::memcpy(&v.bits, &value, 8);
    return;
  }
  const bool is_enum = v.index >= 0;
  switch (random() % (is_enum ? 3 : 5)) {
    case 0:
      v.bits = is_enum ? random() % (schema.EnumValues(v.index) + 2) : OddBits(random);
      break;
    case 1:
      v.bits += random() % 2 == 0 ? 1 : -1;
      break;
    case 2:
      v.bits = OddBits(random);
      break;
    case 3:
      v.bits ^= uint64_t{1} << random() % (8 * ScalarBytes(v.kind));
      break;
    default:
      v.bits = static_cast<uint64_t>(static_cast<int64_t>(random() % 20) - 2);
  }
}

void MutateText(Random& random, std::string& text) {
  static const char* const kTexts[] = {"",
                                       "\xff",
                                       "\xc3\x28",
                                       "a\xed\xa0\x80",
                                       "</pre><script>",
                                       "\x1b[2J",
                                       "x\n#include <y>\n",
                                       "a\\",
                                       "s0*s1",
                                       "../../x",
                                       "\"",
                                       "%s%n%d",
                                       "\xf0\x9f\x98\x80...",
                                       "aten::view",
                                       "matmul"};
  const size_t at = text.empty() ? 0 : random() % text.size();
  switch (random() % 6) {
    case 0:
      text = kTexts[random() % std::size(kTexts)];
      break;
    case 1:
      text.insert(at, kTexts[random() % std::size(kTexts)]);
      break;
    case 2:
      text.resize(at);
      break;
    case 3:
      if (!text.empty()) text[at] = static_cast<char>(random());
      break;
    case 4:
      text.insert(at, random() % 20'000, static_cast<char>(random() % 4 == 0 ? random() : 'x'));
      break;
    default:
      text.insert(at, 1, '\0');
  }
}

// `other` is a vector of the same slot.
void MutateVector(Random& random, const FlatValue* other, FlatValue& v) {
  v.present = true;
  std::vector<FlatValue>& items = v.items;
  const size_t size = items.size();
  const size_t at = size == 0 ? 0 : random() % size;
  switch (random() % 9) {
    case 0:
      if (size > 0) items.erase(items.begin() + at);
      return;
    case 1:
      if (size > 0) items.insert(items.begin() + at, FlatValue(items[random() % size]));
      return;
    case 2:
      if (size > 0) std::swap(items[at], items[random() % size]);
      return;
    case 3:
      if (size > 0) items.push_back(FlatValue(items[at]));
      return;
    case 4:
      if (size > 0) items[at] = FlatValue(items[random() % size]);
      return;
    case 5:
      if (random() % 4 == 0) items.clear();
      return;
    case 6:
      if (random() % 4 == 0) std::reverse(items.begin(), items.end());
      return;
    case 7: {
      if (size == 0) return;
      const FlatValue repeated = items[at];
      const int64_t most = 20'000 / Nodes(repeated) + 1;
      for (int64_t n = static_cast<int64_t>(random() % std::min<int64_t>(most, 500)); n > 0; --n) {
        items.push_back(repeated);
      }
      return;
    }
    default:
      if (other == nullptr || other->items.empty()) return;
      items.insert(items.begin() + at, FlatValue(other->items[random() % other->items.size()]));
  }
}

}  // namespace

void MutateTree(const FlatSchema& schema, absl::Span<const FlatValue* const> donors, Random& random, FlatValue& tree) {
  const std::vector<int> slots = SlotsOf(schema, tree);
  FlatValue& v = *OneAt(tree, slots[random() % slots.size()], random);
  // Another value that fits here.
  const FlatValue& from = random() % 2 == 0 ? *donors[random() % donors.size()] : tree;
  const FlatValue* other = OneAt(from, v.slot, random);
  if (random() % 5 == 0 && other != nullptr) {
    v = FlatValue(*other);  // `other` may lie in `v`, or `v` in it
    return;
  }
  const bool is_bytes = v.kind == reflection::Vector && v.element == reflection::UByte && v.index < 0;
  if (IsScalar(v.kind)) {
    MutateScalar(schema, random, v);
  } else if (v.kind == reflection::String || is_bytes) {
    v.present = random() % 8 != 0;
    MutateText(random, v.text);
  } else if (v.kind == reflection::Vector) {
    MutateVector(random, other, v);
  } else if (v.present) {
    v.present = random() % 2 == 0;  // of an element: it is written all the same
  } else if (v.kind == reflection::Obj) {
    v.present = true;
    v.items = schema.FieldsOf(v.index);
  }
}

}  // namespace smelt
