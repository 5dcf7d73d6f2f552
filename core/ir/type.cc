#include "smelt/core/ir/type.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/type_parser.h"

namespace smelt {

struct Type::Rep {
  TensorType tensor;
  std::vector<Type> elements;
  std::string name;
};

bool TensorType::IsComplete() const {
  if (!dtype || !sizes || !strides) return false;
  for (const Expr& e : *sizes) {
    if (e.IsPoison()) return false;
  }
  for (const Expr& e : *strides) {
    if (e.IsPoison()) return false;
  }
  return true;
}

std::vector<Expr> ContiguousStrides(absl::Span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr running = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = running;
    // A dimension of size 0 counts as 1, as in PyTorch.
    if (sizes[i].IsConstant()) {
      if (sizes[i] != Expr(0)) running = running * sizes[i];
    } else {
      running = running * sizes[i];
    }
  }
  return strides;
}

Type Type::Tensor(TensorType t) {
  Type type(TypeKind::kTensor);
  if (t.sizes && t.sizes->empty()) t.strides.emplace();
  if (!t.dtype && !t.sizes) return type;
  auto rep = std::make_shared<Rep>();
  rep->tensor = std::move(t);
  type.rep_ = std::move(rep);
  return type;
}

Type Type::Tensor(DType dtype, std::vector<Expr> sizes) {
  TensorType t;
  t.dtype = dtype;
  t.strides = ContiguousStrides(sizes);
  t.sizes = std::move(sizes);
  return Tensor(std::move(t));
}

Type Type::Tensor(DType dtype, std::vector<Expr> sizes, std::vector<Expr> strides) {
  SMELT_CHECK_EQ(sizes.size(), strides.size());
  TensorType t;
  t.dtype = dtype;
  t.sizes = std::move(sizes);
  t.strides = std::move(strides);
  return Tensor(std::move(t));
}

namespace {

const Type& AnyType() {
  static const Type& any = *new Type;
  return any;
}

}  // namespace

Type Type::List(Type element) {
  Type type(TypeKind::kList);
  auto rep = std::make_shared<Rep>();
  rep->elements.push_back(std::move(element));
  type.rep_ = std::move(rep);
  return type;
}

Type Type::Optional(Type element) {
  if (element.kind() == TypeKind::kOptional) return element;
  Type type = List(std::move(element));
  type.kind_ = TypeKind::kOptional;
  return type;
}

Type Type::Future(Type element) {
  Type type = List(std::move(element));
  type.kind_ = TypeKind::kFuture;
  return type;
}

Type Type::Tuple(std::vector<Type> elements) {
  Type type(TypeKind::kTuple);
  auto rep = std::make_shared<Rep>();
  rep->elements = std::move(elements);
  type.rep_ = std::move(rep);
  return type;
}

Type Type::Dict(Type key, Type value) {
  Type type = Tuple({std::move(key), std::move(value)});
  type.kind_ = TypeKind::kDict;
  return type;
}

Type Type::Union(std::vector<Type> elements) {
  Type type = Tuple(std::move(elements));
  type.kind_ = TypeKind::kUnion;
  return type;
}

Type Type::Class(std::string name) {
  Type type(TypeKind::kClass);
  auto rep = std::make_shared<Rep>();
  rep->name = std::move(name);
  type.rep_ = std::move(rep);
  return type;
}

const TensorType& Type::tensor() const {
  SMELT_CHECK(IsTensor()) << ToString();
  static const TensorType& unknown = *new TensorType;
  return rep_ == nullptr ? unknown : rep_->tensor;
}

const Type& Type::element() const {
  SMELT_CHECK(kind_ == TypeKind::kList || kind_ == TypeKind::kOptional || kind_ == TypeKind::kFuture) << ToString();
  return rep_ == nullptr ? AnyType() : rep_->elements[0];
}

absl::Span<const Type> Type::elements() const {
  if (rep_ == nullptr) return {};
  return rep_->elements;
}

const std::string& Type::class_name() const {
  SMELT_CHECK(kind_ == TypeKind::kClass) << ToString();
  static const std::string& none = *new std::string;
  return rep_ == nullptr ? none : rep_->name;
}

namespace {

// Two unknowns count as equal types, although they need not be the same number.
bool SameExprs(const std::optional<std::vector<Expr>>& a, const std::optional<std::vector<Expr>>& b) {
  if (a.has_value() != b.has_value()) return false;
  if (!a) return true;
  if (a->size() != b->size()) return false;
  for (size_t i = 0; i < a->size(); ++i) {
    if ((*a)[i].IsPoison() || (*b)[i].IsPoison()) {
      if ((*a)[i].IsPoison() != (*b)[i].IsPoison()) return false;
    } else if ((*a)[i] != (*b)[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool Type::operator==(const Type& o) const {
  if (kind_ != o.kind_) return false;
  if (rep_ == o.rep_) return true;
  if (kind_ == TypeKind::kTensor) {
    const TensorType &a = tensor(), &b = o.tensor();
    return a.dtype == b.dtype && SameExprs(a.sizes, b.sizes) && SameExprs(a.strides, b.strides);
  }
  if (kind_ == TypeKind::kClass) return class_name() == o.class_name();
  absl::Span<const Type> a = elements(), b = o.elements();
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

namespace {

void AppendExprs(const std::vector<Expr>& exprs, std::string& out) {
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (i > 0) out += ", ";
    out += SizeToText(exprs[i]);
  }
}

void AppendTypes(absl::Span<const Type> types, std::string& out);

// A case for each kind of type.
void AppendType(const Type& type, std::string& out) {
  switch (type.kind()) {
    case TypeKind::kTensor: {
      const TensorType& t = type.tensor();
      if (t.dtype) absl::StrAppend(&out, ScalarTypeName(*t.dtype));
      if (!t.dtype || !t.sizes) out += "Tensor";
      if (t.sizes) {
        out += "(";
        AppendExprs(*t.sizes, out);
        if (t.strides && !t.strides->empty()) {
          out += ", strides=[";
          AppendExprs(*t.strides, out);
          out += "]";
        }
        out += ")";
      }
      return;
    }
    case TypeKind::kInt:
      out += "int";
      return;
    case TypeKind::kFloat:
      out += "float";
      return;
    case TypeKind::kBool:
      out += "bool";
      return;
    case TypeKind::kComplex:
      out += "complex";
      return;
    case TypeKind::kNumber:
      out += "Scalar";
      return;
    case TypeKind::kString:
      out += "str";
      return;
    case TypeKind::kNone:
      out += "NoneType";
      return;
    case TypeKind::kDevice:
      out += "Device";
      return;
    case TypeKind::kGenerator:
      out += "Generator";
      return;
    case TypeKind::kAny:
      out += "Any";
      return;
    case TypeKind::kOptional:
      AppendType(type.element(), out);
      out += "?";
      return;
    case TypeKind::kList:
      AppendType(type.element(), out);
      out += "[]";
      return;
    case TypeKind::kFuture:
      out += "Future[";
      AppendType(type.element(), out);
      out += "]";
      return;
    case TypeKind::kTuple:
      out += "(";
      AppendTypes(type.elements(), out);
      out += ")";
      return;
    case TypeKind::kDict:
      out += "Dict(";
      AppendTypes(type.elements(), out);
      out += ")";
      return;
    case TypeKind::kUnion:
      out += "Union[";
      AppendTypes(type.elements(), out);
      out += "]";
      return;
    case TypeKind::kClass:
      out += type.class_name();
      return;
  }
}

void AppendTypes(absl::Span<const Type> types, std::string& out) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i > 0) out += ", ";
    AppendType(types[i], out);
  }
}

}  // namespace

std::string Type::ToString() const {
  std::string out;
  AppendType(*this, out);
  return out;
}

// --- parsing ---

namespace {

class TypeParser {
 public:
  TypeParser(Cursor& cursor, const TypeParseOptions& options) : c_(cursor), options_(options) {}

  // `alias` is null if annotations are not read.
  absl::StatusOr<Type> Parse(AliasInfo* alias, int depth) {
    if (depth > options_.max_depth) {
      return c_.Error(absl::StrCat("expected types nested at most ", options_.max_depth, " deep"));
    }
    SMELT_ASSIGN_OR_RETURN(Type type, ParseBase(alias, depth));
    // Suffixes nest as well: each makes the type one level deeper.
    for (int suffixes = 0;;) {
      if (c_.Peek() != '[' && c_.Peek() != '?') return type;
      if (depth + ++suffixes > options_.max_depth) {
        return c_.Error(absl::StrCat("expected types nested at most ", options_.max_depth, " deep"));
      }
      if (c_.Peek() == '?') {
        c_.Skip();
        type = Type::Optional(std::move(type));
        // `t(a)?` has its annotation before the mark, `Tensor?(a!)` after it.
        if (alias != nullptr && alias->IsEmpty()) SMELT_RETURN_IF_ERROR(ParseAlias(*alias));
        continue;
      }
      size_t start = c_.pos();
      c_.Skip();
      c_.SkipSpaces();
      if (IsDigit(c_.Peek()))
        SMELT_RETURN_IF_ERROR(c_.Integer());  // int[2]: the length is a hint for the Python binding
      c_.SkipSpaces();
      if (c_.Peek() != ']') {
        c_.Seek(start);
        return type;
      }
      c_.Skip();
      type = Type::List(std::move(type));
      if (alias != nullptr) {
        AliasInfo of_element = std::move(*alias);
        *alias = AliasInfo();
        SMELT_RETURN_IF_ERROR(ParseAlias(*alias));
        if (!of_element.IsEmpty()) alias->contained.push_back(std::move(of_element));
      }
    }
  }

 private:
  absl::StatusOr<Type> ParseBase(AliasInfo* alias, int depth) {
    c_.SkipSpaces();
    size_t start = c_.pos();
    if (c_.Peek() == '(') {
      SMELT_ASSIGN_OR_RETURN(std::vector<Type> elements, ParseList('(', ')', alias, depth));
      if (alias != nullptr) SMELT_RETURN_IF_ERROR(ParseOuterAlias(*alias));
      return Type::Tuple(std::move(elements));
    }
    absl::string_view name = c_.DottedIdentifier();
    if (name.empty()) return c_.Expected("a type");
    char next = c_.Peek();
    bool is_generic = next == '[' && !IsDigit(c_.PeekAt(1)) && c_.PeekAt(1) != ']';
    if (name == "NamedTuple" && next == '(') {
      SMELT_ASSIGN_OR_RETURN(std::vector<Type> elements, ParseList('(', ')', alias, depth, /*named=*/true));
      return Type::Tuple(std::move(elements));
    }
    if ((next == '(' || is_generic) && (name == "Future" || name == "Dict" || name == "Union" || name == "Await" ||
                                        name == "RRef" || name == "List" || name == "Optional" || name == "Tuple")) {
      SMELT_ASSIGN_OR_RETURN(std::vector<Type> elements, ParseList(next, next == '(' ? ')' : ']', alias, depth));
      if (alias != nullptr) SMELT_RETURN_IF_ERROR(ParseOuterAlias(*alias));
      if (name == "Union") return Type::Union(std::move(elements));
      if (name == "Tuple") return Type::Tuple(std::move(elements));
      size_t expected = name == "Dict" ? 2 : 1;
      if (elements.size() != expected) {
        return c_.ErrorAt(
            start, absl::StrCat("expected ", name, " to have ", expected, " type arguments, found ", elements.size()));
      }
      if (name == "Dict") return Type::Dict(std::move(elements[0]), std::move(elements[1]));
      if (name == "List") return Type::List(std::move(elements[0]));
      if (name == "Optional") return Type::Optional(std::move(elements[0]));
      if (name == "Future") return Type::Future(std::move(elements[0]));
      return Type::Class(absl::StrCat(name, "[", elements[0].ToString(), "]"));
    }
    if (std::optional<TensorType> tensor = TensorNamed(name)) {
      if (alias != nullptr) {
        SMELT_RETURN_IF_ERROR(ParseAlias(*alias));
        return Type::Tensor(*std::move(tensor));
      }
      if (next == '(') SMELT_RETURN_IF_ERROR(ParseGeometry(*tensor, start));
      if (c_.LooksAt("[Undefined]")) c_.Skip(11);
      return Type::Tensor(*std::move(tensor));
    }
    Type type = Named(name);
    if (next == '<') {
      // InterfaceType<__torch__.Encoder>, Enum<__torch__.Color>
      while (!c_.AtLineEnd() && c_.Peek() != '>') c_.Skip();
      if (c_.Peek() != '>') return c_.Expected("'>'");
      c_.Skip();
      type = Type::Class(std::string(c_.Since(start)));
    }
    if (alias != nullptr) SMELT_RETURN_IF_ERROR(ParseAlias(*alias));
    return type;
  }

  absl::StatusOr<std::vector<Type>> ParseList(char open, char close, AliasInfo* alias, int depth, bool named = false) {
    std::vector<Type> elements;
    std::vector<AliasInfo> contained;
    bool any_alias = false;
    SMELT_RETURN_IF_ERROR(c_.Consume(absl::string_view(&open, 1)));
    c_.SkipSpaces();
    while (c_.Peek() != close) {
      if (!elements.empty()) SMELT_RETURN_IF_ERROR(c_.Consume(","));
      if (named) {
        if (c_.Identifier().empty()) return c_.Expected("a field's name");
        SMELT_RETURN_IF_ERROR(c_.Consume(":"));
      }
      AliasInfo info;
      SMELT_ASSIGN_OR_RETURN(Type element, Parse(alias == nullptr ? nullptr : &info, depth + 1));
      elements.push_back(std::move(element));
      any_alias = any_alias || !info.IsEmpty();
      contained.push_back(std::move(info));
      c_.SkipSpaces();
      if (elements.size() > 100000) return c_.Error("expected at most 100000 types in a list");
    }
    c_.Skip();
    if (alias != nullptr && any_alias) alias->contained = std::move(contained);
    return elements;
  }

  // After "Float" or "Tensor": "(4, *, 2*s0, strides=[1, 2, 3], requires_grad=0, device=cuda:0)".
  absl::Status ParseGeometry(TensorType& type, size_t start) {
    c_.Skip();
    bool is_ranked = c_.text().substr(start, c_.pos() - 1 - start) == "Tensor" || !EndsInTensor(start);
    bool any_keyword = false;
    std::vector<Expr> sizes;
    for (bool first = true;; first = false) {
      c_.SkipSpaces();
      if (c_.Peek() == ')') break;
      if (!first) SMELT_RETURN_IF_ERROR(c_.Consume(","));
      c_.SkipSpaces();
      if (c_.LooksAt("strides=")) {
        c_.Skip(8);
        any_keyword = true;
        SMELT_RETURN_IF_ERROR(c_.Consume("["));
        std::vector<Expr> strides;
        for (c_.SkipSpaces(); c_.Peek() != ']'; c_.SkipSpaces()) {
          if (!strides.empty()) SMELT_RETURN_IF_ERROR(c_.Consume(","));
          SMELT_ASSIGN_OR_RETURN(Expr e, ParseSizeExpr(c_));
          strides.push_back(std::move(e));
        }
        c_.Skip();
        if (strides.size() != sizes.size()) {
          return c_.ErrorAt(start,
                            absl::StrCat("expected ", sizes.size(), " strides, one a size, found ", strides.size()));
        }
        type.strides = std::move(strides);
      } else if (c_.LooksAt("requires_grad=")) {
        c_.Skip(14);
        any_keyword = true;
        if (c_.Peek() != '0' && c_.Peek() != '1') return c_.Expected("0 or 1");
        c_.Skip();
      } else if (c_.LooksAt("device=")) {
        c_.Skip(7);
        any_keyword = true;
        if (c_.Identifier().empty()) return c_.Expected("a device");
        if (c_.Peek() == ':') {
          c_.Skip();
          SMELT_RETURN_IF_ERROR(c_.Integer());
        }
      } else {
        if (any_keyword) return c_.Expected("')', requires_grad= or device=");
        SMELT_ASSIGN_OR_RETURN(Expr e, ParseSizeExpr(c_));
        sizes.push_back(std::move(e));
        if (sizes.size() > 64) return c_.Error("expected at most 64 dimensions");
      }
    }
    c_.Skip();
    // "Tensor(requires_grad=0)" and "FloatTensor(device=cpu)" do not give the rank; "Float(device=cpu)" has rank 0.
    bool says_rank = !sizes.empty() || (is_ranked && type.dtype.has_value()) || (is_ranked && !any_keyword);
    if (says_rank) type.sizes = std::move(sizes);
    return absl::OkStatus();
  }

  bool EndsInTensor(size_t start) const {
    absl::string_view t = c_.text().substr(start);
    t = t.substr(0, t.find('('));
    return t.size() >= 6 && t.substr(t.size() - 6) == "Tensor";
  }

  // An annotation after a tuple or dictionary must not lose its elements' annotations.
  absl::Status ParseOuterAlias(AliasInfo& alias) {
    AliasInfo outer;
    SMELT_RETURN_IF_ERROR(ParseAlias(outer));
    outer.contained = std::move(alias.contained);
    alias = std::move(outer);
    return absl::OkStatus();
  }

  absl::Status ParseAliasSets(std::vector<std::string>& sets) {
    do {
      c_.SkipSpaces();
      if (c_.Peek() == '*') {
        c_.Skip();
        sets.assign(1, "*");  // whatever else is named, the wildcard includes it
        continue;
      }
      absl::string_view name = c_.Identifier();
      if (name.empty()) return c_.Expected("an alias set");
      if (sets.size() != 1 || sets[0] != "*") sets.emplace_back(name);
    } while (c_.TryConsume("|"));
    return absl::OkStatus();
  }

  // "(a)", "(a!)", "(a|b)", "(a -> *)", "(*)", "!", or nothing.
  absl::Status ParseAlias(AliasInfo& alias) {
    if (c_.Peek() == '!') {
      c_.Skip();
      int number = options_.fresh_sets == nullptr ? 0 : (*options_.fresh_sets)++;
      alias.before.push_back(absl::StrCat("$", number));
      alias.after = alias.before;
      alias.is_write = true;
      return absl::OkStatus();
    }
    if (c_.Peek() != '(') return absl::OkStatus();
    c_.Skip();
    SMELT_RETURN_IF_ERROR(ParseAliasSets(alias.before));
    alias.is_write = c_.TryConsume("!");
    if (c_.TryConsume("->")) {
      SMELT_RETURN_IF_ERROR(ParseAliasSets(alias.after));
    } else {
      alias.after = alias.before;
    }
    return c_.Consume(")");
  }

  static std::optional<TensorType> TensorNamed(absl::string_view name) {
    TensorType type;
    if (name == "Tensor") return type;
    absl::string_view scalar = name;
    if (scalar.size() > 6 && scalar.substr(scalar.size() - 6) == "Tensor") scalar.remove_suffix(6);
    for (int i = 0; i < kNumDTypes; ++i) {
      if (ScalarTypeName(static_cast<DType>(i)) == scalar) {
        type.dtype = static_cast<DType>(i);
        return type;
      }
    }
    // PyTorch's dtypes that have no number here: it is only known to be a tensor.
    for (absl::string_view other :
         {"ComplexHalf", "QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4", "UInt16", "UInt32", "UInt64",
          "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu", "Float4_e2m1fn_x2"}) {
      if (scalar == other) return type;
    }
    return std::nullopt;
  }

  static Type Named(absl::string_view name) {
    if (name == "int" || name == "SymInt" || name == "ScalarType" || name == "MemoryFormat" || name == "Layout" ||
        name == "QScheme") {
      return Type::Int();
    }
    if (name == "float" || name == "SymFloat") return Type::Float();
    if (name == "bool" || name == "SymBool") return Type::Bool();
    if (name == "complex") return Type(TypeKind::kComplex);
    if (name == "Scalar" || name == "number") return Type::Number();
    if (name == "str") return Type::String();
    if (name == "NoneType" || name == "None") return Type::None();
    if (name == "Device") return Type::Device();
    if (name == "Generator") return Type(TypeKind::kGenerator);
    if (name == "Any") return Type();
    return Type::Class(std::string(name));
  }

  Cursor& c_;
  const TypeParseOptions& options_;
};

}  // namespace

absl::StatusOr<Expr> ParseSizeExpr(Cursor& c) {
  c.SkipSpaces();
  size_t start = c.pos();
  int depth = 0;
  while (!c.AtLineEnd()) {
    char ch = c.Peek();
    if (depth == 0 && (ch == ',' || ch == ')' || ch == ']')) break;
    if (ch == '(') ++depth;
    if (ch == ')') --depth;
    c.Skip();
    if (depth > 250 || c.pos() - start > (1 << 20)) return c.ErrorAt(start, "expected a shorter expression");
  }
  absl::string_view text = c.Since(start);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) return c.Expected("a size");
  if (text == "*") return Expr::Poison();
  bool is_number = true;
  for (size_t i = 0; i < text.size(); ++i) is_number = is_number && (IsDigit(text[i]) || (i == 0 && text[i] == '-'));
  if (is_number) {
    size_t end = c.pos();
    c.Seek(start);
    SMELT_ASSIGN_OR_RETURN(int64_t value, c.Integer());
    c.Seek(end);
    return Expr(value);
  }
  // PyTorch's own symbols: SS(-2).
  if (text.substr(0, 3) == "SS(" && text.back() == ')') {
    absl::string_view number = text.substr(3, text.size() - 4);
    if (!number.empty() && number[0] == '-') number.remove_prefix(1);
    for (char ch : number) {
      if (!IsDigit(ch)) return c.ErrorAt(start, "expected a number in SS(...)");
    }
    return Expr::Symbol(absl::StrCat("SS", number));
  }
  absl::StatusOr<Expr> e = Expr::Parse(text);
  if (!e.ok()) return c.ErrorAt(start, absl::StrCat("expected an expression: ", e.status().message()));
  return e;
}

std::string SizeToText(const Expr& e) {
  if (e.IsConstant()) return absl::StrCat(*e.Constant());
  return e.IsPoison() ? "*" : e.ToString();
}

absl::StatusOr<Type> ParseType(Cursor& cursor, const TypeParseOptions& options) {
  return TypeParser(cursor, options).Parse(options.alias, 0);
}

absl::StatusOr<Type> Type::Parse(absl::string_view text) {
  Cursor cursor(text);
  SMELT_ASSIGN_OR_RETURN(Type type, ParseType(cursor));
  cursor.SkipSpaces();
  if (!cursor.AtEnd()) return cursor.Expected("the end of the type");
  return type;
}

}  // namespace smelt
