// Finds the schema that takes given types.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/schema.h"

namespace smelt {

namespace {

// The type variables bound while one schema is matched. A schema has only a few.
using Bindings = std::vector<std::pair<std::string, Type>>;

bool IsTypeVariable(const Type& formal) {
  if (formal.kind() != TypeKind::kClass) return false;
  const std::string& name = formal.class_name();
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' && name.find('.') == std::string::npos;
}

// Returns whether two types are the same, ignoring what is known about tensors.
bool Same(const Type& a, const Type& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case TypeKind::kTensor:
      return true;
    case TypeKind::kClass:
      return a.class_name() == b.class_name();
    default:
      break;
  }
  if (a.elements().size() != b.elements().size()) return false;
  for (size_t i = 0; i < a.elements().size(); ++i) {
    if (!Same(a.elements()[i], b.elements()[i])) return false;
  }
  return true;
}

// Returns the cost of a match: 0 for the same type, small for subtypes, larger for conversions, nullopt for no match.
constexpr int kSubtype = 1;
constexpr int kVariable = 2;
constexpr int kAnything = 3;
constexpr int kConversion = 100;

class Matcher {
 public:
  explicit Matcher(bool allow_conversions) : allow_conversions_(allow_conversions) {}

  std::optional<int> Match(const Type& actual, const Type& formal) {
    if (formal.kind() == TypeKind::kAny) return kAnything;
    if (IsTypeVariable(formal)) return Bind(formal.class_name(), actual);
    if (formal.kind() == TypeKind::kOptional) {
      if (actual.kind() == TypeKind::kNone) return 0;
      if (actual.kind() == TypeKind::kOptional) return Match(actual.element(), formal.element());
      std::optional<int> inner = Match(actual, formal.element());
      if (inner) return *inner + kSubtype;
      return std::nullopt;
    }
    if (formal.kind() == TypeKind::kUnion) {
      if (actual.kind() == TypeKind::kUnion) return Same(actual, formal) ? std::optional<int>(0) : std::nullopt;
      for (const Type& t : formal.elements()) {
        if (std::optional<int> inner = Match(actual, t)) return *inner + kSubtype;
      }
      return std::nullopt;
    }
    switch (formal.kind()) {
      case TypeKind::kNumber:
        if (actual.kind() == TypeKind::kNumber) return 0;
        if (actual.kind() == TypeKind::kInt || actual.kind() == TypeKind::kFloat ||
            actual.kind() == TypeKind::kComplex) {
          return kSubtype;
        }
        break;
      case TypeKind::kClass: {
        if (Same(actual, formal)) return 0;
        const std::string& name = formal.class_name();
        if (name == "AnyClassType" || name == "AnyEnumType") {
          if (actual.kind() == TypeKind::kClass) return kSubtype;
        }
        break;
      }
      case TypeKind::kList:
      case TypeKind::kDict:
      case TypeKind::kFuture:
      case TypeKind::kTuple: {
        if (actual.kind() != formal.kind() || actual.elements().size() != formal.elements().size()) break;
        bool invariant = formal.kind() == TypeKind::kList || formal.kind() == TypeKind::kDict;
        int cost = 0;
        bool ok = true;
        for (size_t i = 0; i < formal.elements().size() && ok; ++i) {
          const Type &a = actual.elements()[i], &f = formal.elements()[i];
          // A list of ints is not a list of Scalars, although an int is a Scalar: a Scalar written through one would be
          // read as an int through the other.
          std::optional<int> inner = Match(a, f);
          bool exact = !invariant || Same(a, f) || HasVariable(f) || f.kind() == TypeKind::kAny;
          if (inner && !exact) inner = allow_conversions_ ? std::optional<int>(*inner + kConversion) : std::nullopt;
          ok = inner.has_value();
          cost += inner.value_or(0);
        }
        if (ok) return cost;
        break;
      }
      default:
        if (actual.kind() == formal.kind()) return 0;
    }
    return allow_conversions_ ? Convert(actual, formal) : std::nullopt;
  }

 private:
  static bool HasVariable(const Type& t) {
    if (IsTypeVariable(t)) return true;
    if (t.kind() == TypeKind::kTensor || t.kind() == TypeKind::kClass) return false;
    return std::any_of(t.elements().begin(), t.elements().end(), HasVariable);
  }

  std::optional<int> Bind(const std::string& name, const Type& actual) {
    for (const auto& [bound, type] : bindings_) {
      if (bound != name) continue;
      if (Same(type, actual)) return kVariable;
      // None where a T? was seen, and vice versa.
      if (allow_conversions_) return kConversion;
      return std::nullopt;
    }
    bindings_.emplace_back(name, actual);
    return kVariable;
  }

  std::optional<int> Convert(const Type& actual, const Type& formal) {
    auto is = [&](std::initializer_list<TypeKind> kinds) {
      return std::find(kinds.begin(), kinds.end(), actual.kind()) != kinds.end();
    };
    switch (formal.kind()) {
      case TypeKind::kNumber:
        if (is({TypeKind::kBool})) return kConversion;
        break;
      case TypeKind::kInt:
        if (is({TypeKind::kBool})) return kConversion;
        if (is({TypeKind::kNumber})) return 2 * kConversion;
        break;
      case TypeKind::kFloat:
        if (is({TypeKind::kInt})) return kConversion;
        if (is({TypeKind::kBool, TypeKind::kNumber})) return 2 * kConversion;
        break;
      case TypeKind::kComplex:
        if (is({TypeKind::kFloat})) return kConversion;
        if (is({TypeKind::kInt, TypeKind::kBool, TypeKind::kNumber})) return 2 * kConversion;
        break;
      case TypeKind::kBool:
        if (is({TypeKind::kInt})) return 2 * kConversion;
        break;
      case TypeKind::kDevice:
        if (is({TypeKind::kString})) return kConversion;
        break;
      case TypeKind::kList:
        // int[2] accepts an int; the caller must know about other conversions.
        if (actual.kind() == TypeKind::kTuple) {
          for (const Type& t : actual.elements()) {
            if (!Match(t, formal.element())) return std::nullopt;
          }
          return kConversion;
        }
        if (actual.kind() == formal.element().kind() &&
            (actual.kind() == TypeKind::kInt || actual.kind() == TypeKind::kFloat ||
             actual.kind() == TypeKind::kBool)) {
          return kConversion;
        }
        break;
      default:
        break;
    }
    // The caller knew something that the types do not show.
    if (actual.kind() == TypeKind::kOptional) {
      if (std::optional<int> inner = Match(actual.element(), formal)) return *inner + kConversion;
    }
    if (actual.kind() == TypeKind::kAny) return 3 * kConversion;
    if (actual.kind() == TypeKind::kNone && formal.kind() == TypeKind::kTensor) return 3 * kConversion;
    return std::nullopt;
  }

  const bool allow_conversions_;
  Bindings bindings_;
};

std::optional<int> MatchSchema(const FunctionSchema& schema, absl::Span<const Type> types, bool exact_count,
                               bool allow_conversions) {
  size_t count = schema.arguments.size();
  if (types.size() > count && !schema.is_vararg) return std::nullopt;
  if (types.size() < count) {
    if (exact_count) return std::nullopt;
    for (size_t i = types.size(); i < count; ++i) {
      if (!schema.arguments[i].default_value) return std::nullopt;
    }
  }
  Matcher matcher(allow_conversions);
  // A schema that takes any arguments is chosen last.
  int cost = schema.is_vararg ? 10 * kConversion : 0;
  for (size_t i = 0; i < std::min(count, types.size()); ++i) {
    std::optional<int> c = matcher.Match(types[i], schema.arguments[i].type);
    if (!c) return std::nullopt;
    cost += *c;
  }
  return cost;
}

}  // namespace

bool IsSubtype(const Type& actual, const Type& formal) {
  return Matcher(/*allow_conversions=*/false).Match(actual, formal).has_value();
}

bool TakesTypes(const FunctionSchema& schema, absl::Span<const Type> argument_types) {
  return MatchSchema(schema, argument_types, /*exact_count=*/true, /*allow_conversions=*/true).has_value();
}

absl::StatusOr<OpName> ResolveOverload(absl::string_view name, absl::Span<const Type> argument_types) {
  size_t colons = name.rfind("::");
  if (colons != absl::string_view::npos && name.find('.', colons) != absl::string_view::npos) {
    OpName op = OpName::Get(name);
    if (FindSchema(op) == nullptr) return absl::NotFoundError(absl::StrCat("there is no operator ", name));
    return op;
  }
  std::vector<const FunctionSchema*> overloads = FindOverloads(name);
  if (overloads.empty()) return absl::NotFoundError(absl::StrCat("there is no operator ", name));
  // Like PyTorch's parser: the first overload that takes the types as they are.
  for (const FunctionSchema* schema : overloads) {
    if (MatchSchema(*schema, argument_types, /*exact_count=*/true, /*allow_conversions=*/false)) return schema->op;
  }
  // A handwritten text may omit defaults and rely on conversions: the closest overload is chosen.
  for (auto [exact_count, allow_conversions] :
       {std::pair(true, true), std::pair(false, false), std::pair(false, true)}) {
    const FunctionSchema* best = nullptr;
    int best_cost = 0;
    for (const FunctionSchema* schema : overloads) {
      std::optional<int> cost = MatchSchema(*schema, argument_types, exact_count, allow_conversions);
      if (!cost || (best != nullptr && *cost >= best_cost)) continue;
      best = schema;
      best_cost = *cost;
    }
    if (best != nullptr) return best->op;
  }
  std::string message = absl::StrCat("no overload of ", name, " takes (");
  for (size_t i = 0; i < argument_types.size(); ++i) {
    absl::StrAppend(&message, i > 0 ? ", " : "", argument_types[i].ToString());
  }
  message += "); there are";
  for (size_t i = 0; i < overloads.size() && i < 10; ++i)
    absl::StrAppend(&message, i > 0 ? "; " : " ", overloads[i]->ToString());
  if (overloads.size() > 10) absl::StrAppend(&message, "; and ", overloads.size() - 10, " more");
  return absl::InvalidArgumentError(message);
}

}  // namespace smelt
