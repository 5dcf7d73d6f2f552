#include "smelt/tools/call_arguments.h"

#include <algorithm>
#include <complex>
#include <random>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/strided.h"
#include "smelt/schema/bundle_signature.h"
#include "smelt/schema/container.h"
#include "smelt/tools/value_text.h"

namespace smelt {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // of a tensor that a text describes
constexpr int64_t kMostUnfitElements = 1 << 20;      // of one whose sizes the model does not take

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", name, "\""); }

// "x", "y" and "z"; the first ten of many.
std::string ListOf(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  std::vector<std::string> quoted;
  for (const std::string& name : names) {
    if (quoted.size() == 10 && names.size() > 11) {
      quoted.push_back(absl::StrCat(names.size() - 10, " more"));
      break;
    }
    quoted.push_back(Quoted(name));
  }
  const std::string last = quoted.back();
  quoted.pop_back();
  return quoted.empty() ? last : absl::StrCat(absl::StrJoin(quoted, ", "), " and ", last);
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& words) {
  const std::string meant = ClosestWord(word, words);
  return meant.empty() ? "" : absl::StrCat("; did you mean ", Quoted(meant), "?");
}

// "3", "s0", "1..4096", "1 or more"
std::string DimText(const DimInfo& dim, bool with_ranges) {
  if (dim.size >= 0) return absl::StrCat(dim.size);
  if (!with_ranges) return dim.expr.empty() ? "?" : dim.expr;
  if (dim.min == dim.max) return absl::StrCat(dim.min);
  return dim.max == INT64_MAX ? absl::StrCat(dim.min, " or more") : absl::StrCat(dim.min, "..", dim.max);
}

// Returns whether some call may have a tensor of these sizes.
bool HasSizes(const ArgInfo& arg, absl::Span<const int64_t> sizes) {
  if (sizes.size() != arg.dims.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const DimInfo& dim = arg.dims[d];
    if (dim.size >= 0 ? sizes[d] != dim.size : sizes[d] < dim.min || sizes[d] > dim.max) return false;
  }
  return true;
}

// The dtypes as --input names them, beside PyTorch's names.
std::optional<DType> ParseShortDType(absl::string_view name) {
  static constexpr std::pair<const char*, DType> kShort[] = {
      {"f16", DType::kFloat16}, {"bf16", DType::kBFloat16}, {"f32", DType::kFloat32},     {"f64", DType::kFloat64},
      {"u8", DType::kUInt8},    {"i8", DType::kInt8},       {"i16", DType::kInt16},       {"i32", DType::kInt32},
      {"i64", DType::kInt64},   {"c64", DType::kComplex64}, {"c128", DType::kComplex128}, {"i1", DType::kBool}};
  for (const auto& [text, dtype] : kShort) {
    if (name == text) return dtype;
  }
  return ParseDType(name);
}

std::optional<bool> ParseBool(absl::string_view text) {
  const std::string word = absl::AsciiStrToLower(text);
  if (word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  return std::nullopt;
}

// A number as Python writes it: 1_000, 1e-3, nan, -inf.
bool ParseFloat(absl::string_view text, double* out) {
  std::string plain;
  for (char c : text) {
    if (c != '_') plain.push_back(c);
  }
  return absl::SimpleAtod(plain, out);
}
bool ParseInt(absl::string_view text, int64_t* out) {
  std::string plain;
  for (char c : text) {
    if (c != '_') plain.push_back(c);
  }
  return absl::SimpleAtoi(plain, out);
}

// "1", "2j", "1+2j", "(1-2e3j)"
bool ParseComplex(absl::string_view text, std::complex<double>* out) {
  if (absl::ConsumePrefix(&text, "(") && !absl::ConsumeSuffix(&text, ")")) return false;
  double real = 0, imag = 0;
  if (!absl::ConsumeSuffix(&text, "j")) {
    if (!ParseFloat(text, &real)) return false;
    *out = real;
    return true;
  }
  // The sign between the parts is the last one that no exponent has.
  size_t at = text.size();
  while (at > 0 && !((text[at - 1] == '+' || text[at - 1] == '-') && (at < 2 || (text[at - 2] | 32) != 'e'))) --at;
  const absl::string_view first = at > 1 ? text.substr(0, at - 1) : absl::string_view();
  absl::string_view second = at > 1 ? text.substr(at - 1) : text;
  if (!first.empty() && !ParseFloat(first, &real)) return false;
  absl::ConsumePrefix(&second, "+");
  if (!ParseFloat(second, &imag)) return false;
  *out = {real, imag};
  return true;
}

// Stores the element that the text says. False if it is no number of the dtype.
bool Store(absl::string_view text, DType dtype, char* to) {
  if (dtype == DType::kBool) {
    const std::optional<bool> b = ParseBool(text);
    if (b) *reinterpret_cast<bool*>(to) = *b;
    return b.has_value();
  }
  if (IsComplex(dtype)) {
    std::complex<double> c;
    if (!ParseComplex(text, &c)) return false;
    if (dtype == DType::kComplex128) *reinterpret_cast<std::complex<double>*>(to) = c;
    if (dtype == DType::kComplex64) *reinterpret_cast<std::complex<float>*>(to) = std::complex<float>(c);
    return true;
  }
  if (IsFloating(dtype)) {
    double v;
    if (!ParseFloat(text, &v)) return false;
    StoreDouble(to, dtype, v);
    return true;
  }
  int64_t v;
  if (!ParseInt(text, &v)) return false;
  StoreInt(to, dtype, v);
  return LoadInt(to, dtype) == v;
}

absl::Status Unfit(const ArgInfo& arg, absl::string_view text, absl::string_view why) {
  const bool tensor = arg.kind == ValueKind::kTensor;
  return absl::InvalidArgumentError(absl::StrCat(
      "--input ", CallerName(arg), "=", text.size() > 60 ? absl::StrCat(text.substr(0, 60), "…") : std::string(text),
      ": ", why, "; \"", CallerName(arg), "\" is ", TypeText(arg, /*with_ranges=*/true),
      tensor ? ": @FILE.npy, or sizes, dtype and numbers expected, as in 2x3xf32=1,2,3,4,5,6" : ""));
}

absl::StatusOr<Datum> ParseTensor(const ArgInfo& arg, absl::string_view text) {
  if (absl::string_view file = text; absl::ConsumePrefix(&file, "@")) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, ReadOneTensor(std::string(file)));
    return Datum(t);
  }
  std::vector<int64_t> sizes;
  DType dtype = arg.dtype;
  absl::string_view numbers = text;
  const size_t equals = text.find('=');
  if (equals != absl::string_view::npos) {
    std::vector<absl::string_view> parts = absl::StrSplit(text.substr(0, equals), 'x');
    const std::optional<DType> named = ParseShortDType(parts.back());
    if (!named) return Unfit(arg, text, absl::StrCat("there is no dtype ", Quoted(parts.back())));
    dtype = *named;
    parts.pop_back();
    for (absl::string_view part : parts) {
      int64_t n = 0;
      if (!absl::SimpleAtoi(part, &n) || n < 0) return Unfit(arg, text, absl::StrCat(Quoted(part), " is no size"));
      sizes.push_back(n);
    }
    numbers = text.substr(equals + 1);
  } else {
    // Numbers alone do where the sizes are the same in every call.
    for (const DimInfo& dim : arg.dims) {
      if (dim.size < 0) return Unfit(arg, text, "its sizes vary");
      sizes.push_back(dim.size);
    }
  }
  int64_t elements = 1;
  for (int64_t n : sizes) {
    if (__builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > kMostElements)
      return Unfit(arg, text, "the sizes are absurd");
  }
  for (int64_t n : sizes) elements = n == 0 ? 0 : elements;
  // An argument that does not fit anyway should not fail for lack of memory.
  if (elements > kMostUnfitElements && !HasSizes(arg, sizes))
    return Unfit(arg, text, absl::StrCat("[", absl::StrJoin(sizes, ", "), "] does not fit"));
  const std::vector<absl::string_view> words = absl::StrSplit(numbers, absl::ByAnyChar(", []\t\n"), absl::SkipEmpty());
  if (words.size() != 1 && static_cast<int64_t>(words.size()) != elements) {
    return Unfit(arg, text,
                 absl::StrCat("[", absl::StrJoin(sizes, ", "), "] is ", elements, " elements, not ", words.size()));
  }
  return CatchOutOfMemory([&]() -> absl::StatusOr<Datum> {
    Tensor t = Tensor::Empty(dtype, sizes);
    char* to = static_cast<char*>(t.data());
    for (int64_t i = 0; i < elements; ++i, to += ItemSize(dtype)) {
      const absl::string_view word = words[words.size() == 1 ? 0 : static_cast<size_t>(i)];
      if (!Store(word, dtype, to)) return Unfit(arg, text, absl::StrCat(Quoted(word), " is no ", Name(dtype)));
    }
    return Datum(t);
  });
}

// The value of an argument that is no tensor, from a tensor of one element.
absl::StatusOr<Datum> AsScalar(const ArgInfo& arg, const Tensor& t, absl::string_view where) {
  const auto unfit = [&] {
    return absl::InvalidArgumentError(absl::StrCat(where, ": \"", CallerName(arg), "\" is ", TypeText(arg, true),
                                                   ": one element of such a kind expected, not ", Name(t.dtype()), " [",
                                                   absl::StrJoin(t.sizes(), ", "), "]"));
  };
  if (t.NumElements() != 1) return unfit();
  const DType d = t.dtype();
  const bool whole = IsIntegral(d) || d == DType::kBool;
  if (arg.kind == ValueKind::kInt && whole) return Datum(LoadInt(t.data(), d));
  if (arg.kind == ValueKind::kBool && d == DType::kBool) return Datum(LoadInt(t.data(), d) != 0);
  if (arg.kind == ValueKind::kFloat && (whole || IsFloating(d))) return Datum(LoadDouble(t.data(), d));
  if (arg.kind == ValueKind::kComplex) return Datum(LoadComplex(t.data(), d));
  return unfit();
}

std::vector<std::string> NamesOf(const std::map<std::string, absl::StatusOr<Tensor>>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

// Returns the number of the argument that a caller calls so: by its place in the caller's structure, else by the graph's name.
int FindArgument(const Program& program, absl::string_view name) {
  for (const bool by_path : {true, false}) {
    for (size_t i = 0; i < program.args().size(); ++i) {
      if ((by_path ? CallerName(program.args()[i]) : program.args()[i].name) == name) return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<std::string> ArgumentNames(const Program& program) {
  std::vector<std::string> names;
  for (const ArgInfo& a : program.args()) names.push_back(CallerName(a));
  return names;
}

// "from 1 to 4096"
std::string RangeText(int64_t min, int64_t max) {
  return max == INT64_MAX ? absl::StrCat("from ", min, " on") : absl::StrCat("from ", min, " to ", max);
}

void FillRandomly(const Tensor& t, std::mt19937_64& random) {
  char* to = static_cast<char*>(t.data());
  const int item = ItemSize(t.dtype());
  const bool floating = IsFloating(t.dtype()) || IsComplex(t.dtype());
  const int64_t numbers = t.NumElements() * (IsComplex(t.dtype()) ? 2 : 1);
  const DType real = RealOf(t.dtype());
  const int bytes = IsComplex(t.dtype()) ? item / 2 : item;
  for (int64_t i = 0; i < numbers; ++i, to += bytes) {
    const uint64_t bits = random();
    if (floating) {
      StoreDouble(to, real, static_cast<double>(bits >> 11) * 0x1p-52 - 1);
    } else {
      StoreInt(to, t.dtype(), static_cast<int64_t>(bits >> 63));
    }
  }
}

}  // namespace

const std::string& CallerName(const ArgInfo& arg) { return arg.path.empty() ? arg.name : arg.path; }

std::string TypeText(const ArgInfo& arg, bool with_ranges) {
  static constexpr const char* kKinds[] = {"tensor", "int", "float", "bool", "None", "string", "complex"};
  if (arg.kind != ValueKind::kTensor) return kKinds[static_cast<int>(arg.kind)];
  std::vector<std::string> sizes;
  for (const DimInfo& dim : arg.dims) sizes.push_back(DimText(dim, with_ranges));
  return absl::StrCat(Name(arg.dtype), " [", absl::StrJoin(sizes, ", "), "]");
}

SymbolSizes ArgumentSource::FirstSizes() const {
  SymbolSizes out;
  for (const auto& [name, values] : sizes) out[name] = values.front();
  return out;
}

absl::StatusOr<std::shared_ptr<const Program>> ChosenMethod(const std::shared_ptr<const Program>& program,
                                                            const CommandLine& line) {
  const std::vector<std::string>& names = program->method_names();
  if (!line.Has("method")) {
    if (names.size() == 1) return program;
    return absl::InvalidArgumentError(
        absl::StrCat("the bundle has the methods ", ListOf(names), ": --method=NAME expected"));
  }
  auto method = program->Method(line.Get("method"));
  if (method.ok()) return method;
  return absl::InvalidArgumentError(absl::StrCat("--method=", line.Get("method"), ": ", method.status().message()));
}

absl::StatusOr<ArgumentSource> ReadArgumentSource(const CommandLine& line) {
  ArgumentSource out;
  out.files = line.GetAll("inputs");
  for (const std::string& text : line.GetAll("input")) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return absl::InvalidArgumentError(absl::StrCat("--input ", text, ": NAME=VALUE expected"));
    out.values.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  if (line.Has("random-inputs")) {
    const std::string text = line.Get("random-inputs");
    uint64_t seed = 0;
    if (text != "true" && !absl::SimpleAtoi(text, &seed))
      return absl::InvalidArgumentError(absl::StrCat("--random-inputs=", text, ": a whole number expected"));
    out.seed = seed;
  }
  for (const std::string& text : line.GetAll("size")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    std::vector<int64_t>& values = out.sizes[parts.first];
    values.clear();
    for (absl::string_view word : absl::StrSplit(parts.second, ',')) {
      int64_t n = 0;
      if (!absl::SimpleAtoi(word, &n))
        return absl::InvalidArgumentError(absl::StrCat("--size ", text, ": SYMBOL=N expected, as in s0=4"));
      values.push_back(n);
    }
  }
  return out;
}

absl::StatusOr<Datum> ParseValue(const ArgInfo& arg, absl::string_view text) {
  switch (arg.kind) {
    case ValueKind::kTensor:
      return ParseTensor(arg, text);
    case ValueKind::kInt: {
      int64_t v;
      if (ParseInt(text, &v)) return Datum(v);
      return Unfit(arg, text, "it is no whole number");
    }
    case ValueKind::kFloat: {
      double v;
      if (ParseFloat(text, &v)) return Datum(v);
      return Unfit(arg, text, "it is no number");
    }
    case ValueKind::kBool: {
      const std::optional<bool> v = ParseBool(text);
      if (v) return Datum(*v);
      return Unfit(arg, text, "it is neither true nor false");
    }
    case ValueKind::kNone:
      if (text == "None") return Datum();
      return Unfit(arg, text, "it is not None");
    case ValueKind::kString:
      return Datum(std::string(text));
    case ValueKind::kComplex: {
      std::complex<double> v;
      if (ParseComplex(text, &v)) return Datum(v);
      return Unfit(arg, text, "it is no complex number such as 1+2j");
    }
  }
  return Unfit(arg, text, "it has an unknown kind");
}

absl::StatusOr<std::unique_ptr<ArgumentMaker>> ArgumentMaker::Create(const std::string& bundle,
                                                                     std::shared_ptr<const Program> program,
                                                                     const ArgumentSource& source) {
  auto maker = std::unique_ptr<ArgumentMaker>(new ArgumentMaker());
  maker->program_ = std::move(program);
  maker->seed_ = source.seed;
  for (const std::string& path : source.files) {
    SMELT_ASSIGN_OR_RETURN(NamedTensors file, ReadTensors(path));
    maker->files_.push_back(std::move(file));
  }
  const std::vector<std::string> names = ArgumentNames(*maker->program_);
  for (const auto& [name, text] : source.values) {
    const int i = FindArgument(*maker->program_, name);
    if (i < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--input ", name, "=…: the model has no argument ", Quoted(name),
                                                     "; it has ", ListOf(names), DidYouMean(name, names)));
    }
    const ArgInfo& arg = maker->program_->args()[i];
    SMELT_ASSIGN_OR_RETURN(Datum value, ParseValue(arg, text));
    if (arg.has_constant && ValueText(value) != ValueText(arg.constant)) {
      return absl::InvalidArgumentError(absl::StrCat("--input ", name, "=", text, ": the export made ", Quoted(name),
                                                     " the constant ", ValueText(arg.constant),
                                                     "; leave it out, or export the model with another value"));
    }
    maker->values_[i] = std::move(value);
  }
  if (source.seed || !source.sizes.empty()) {
    SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<const Container> file, Container::Open(bundle, ContentKind::kBundle));
    SMELT_ASSIGN_OR_RETURN(maker->bundle_, LoadBundle(*file));
    for (std::unique_ptr<fb::BundleT>& m : maker->bundle_->methods) {
      if (m->method != maker->program_->method_names()[0]) continue;
      std::unique_ptr<fb::BundleT> method = std::move(m);
      maker->bundle_ = std::move(method);
      break;
    }
    std::vector<std::string> symbols;
    for (const auto& s : maker->bundle_->symbols) {
      if (s->source == fb::SymbolSource::ArgSize || s->source == fb::SymbolSource::ArgInt) symbols.push_back(s->name);
    }
    for (const auto& [name, values] : source.sizes) {
      const auto& all = maker->bundle_->symbols;
      const auto at = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s->name == name; });
      if (at == all.end() || std::find(symbols.begin(), symbols.end(), name) == symbols.end()) {
        return absl::InvalidArgumentError(absl::StrCat("--size ", name, "=…: the model has no size ", Quoted(name),
                                                       "; it has ", ListOf(symbols), DidYouMean(name, symbols)));
      }
      for (int64_t n : values) {
        if (n >= (*at)->min && n <= (*at)->max) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("--size ", name, "=", n, ": ", name, " is ", RangeText((*at)->min, (*at)->max)));
      }
    }
  }
  SMELT_RETURN_IF_ERROR(maker->CheckNames());
  return maker;
}

absl::Status ArgumentMaker::CheckNames() {
  for (const NamedTensors& file : files_) {
    if (file.is_one_npy) {
      std::vector<std::string> tensors;
      for (const ArgInfo& a : program_->args()) {
        if (a.kind == ValueKind::kTensor) tensors.push_back(CallerName(a));
      }
      if (tensors.size() == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file.path, ": a .npy holds one tensor without a name, and the model takes ",
                       tensors.empty() ? "none" : ListOf(tensors), "; --input NAME=@", file.path, " says which it is"));
    }
    std::vector<std::string> unused;
    for (const auto& [name, tensor] : file.tensors) {
      if (FindArgument(*program_, name) < 0) unused.push_back(name);
    }
    if (!unused.empty()) {
      warnings_.push_back(
          absl::StrCat(file.path, ": not used, since the model has no such arguments: ", ListOf(unused)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Datum>> ArgumentMaker::Given(int arg, size_t call) const {
  const ArgInfo& a = program_->args()[arg];
  if (const auto it = values_.find(arg); it != values_.end()) {
    if (!it->second.IsTensor()) return std::optional<Datum>(it->second);
    return CatchOutOfMemory(
        [&]() -> absl::StatusOr<std::optional<Datum>> { return Datum(it->second.tensor().Clone()); });
  }
  if (!files_.empty()) {
    const NamedTensors& file = files_[call];
    const auto& tensors = file.tensors;
    auto it = tensors.find(CallerName(a));
    if (file.is_one_npy && a.kind == ValueKind::kTensor) it = tensors.begin();
    // The graph's name stands for it unless it is the caller's name of another one.
    if (it == tensors.end() && FindArgument(*program_, a.name) == arg) it = tensors.find(a.name);
    if (it != tensors.end()) {
      SMELT_RETURN_IF_ERROR(it->second.status());
      const Tensor& t = *it->second;
      if (a.kind != ValueKind::kTensor) {
        SMELT_ASSIGN_OR_RETURN(Datum v, AsScalar(a, t, file.path));
        return std::optional<Datum>(std::move(v));
      }
      return CatchOutOfMemory([&]() -> absl::StatusOr<std::optional<Datum>> { return Datum(t.Clone()); });
    }
  }
  if (a.has_constant || a.kind == ValueKind::kNone) return std::optional<Datum>(a.constant);
  return std::optional<Datum>();
}

std::string ArgumentMaker::WhyMissing(int arg, size_t call) const {
  const ArgInfo& a = program_->args()[arg];
  const std::string& name = CallerName(a);
  const std::string type = TypeText(a, /*with_ranges=*/true);
  if (files_.empty() || files_[call].is_one_npy) {
    return absl::StrCat("nothing gives the argument ", Quoted(name), " (", type, "): --inputs=FILE, --input ", name,
                        "=VALUE or --random-inputs expected");
  }
  const std::vector<std::string> names = NamesOf(files_[call].tensors);
  return absl::StrCat(files_[call].path, ": no tensor ", Quoted(name), " (", type, "); the file has ", ListOf(names),
                      DidYouMean(name, names));
}

// Chooses the sizes of all symbols, then makes the arguments that the caller did not give. Each choice narrows the
// next, so they are made in one pass.
absl::Status ArgumentMaker::FillIn(size_t call, const SymbolSizes& sizes,
                                   std::vector<std::optional<Datum>>& args) const {
  fb::BundleT& b = *bundle_;
  using Source = fb::SymbolSource;
  std::vector<std::optional<int64_t>> symbols(b.symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    const fb::SymbolDefT& s = *b.symbols[i];
    if (const auto it = sizes.find(s.name); it != sizes.end()) {
      symbols[i] = it->second;
    } else if (s.source == Source::ArgSize && args[s.arg] && args[s.arg]->IsTensor()) {
      const absl::Span<const int64_t> given = args[s.arg]->tensor().sizes();
      int64_t less;
      if (s.dim >= 0 && s.dim < static_cast<int>(given.size()) && s.scale > 0 &&
          !__builtin_sub_overflow(given[s.dim], s.addend, &less) && less % s.scale == 0)
        symbols[i] = less / s.scale;
    } else if (s.source == Source::ArgInt && args[s.arg] && args[s.arg]->IsInt()) {
      symbols[i] = args[s.arg]->as_int();
    }
  }
  // An expression's range is one value where those of all its symbols are.
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (size_t i = 0; i < symbols.size(); ++i) {
    ranges.emplace_back(b.symbols[i]->min, b.symbols[i]->max);
    if (symbols[i]) b.symbols[i]->min = b.symbols[i]->max = *symbols[i];
  }
  const std::vector<ValueRange> values = RangesOfExprs(b);
  for (size_t i = 0; i < symbols.size(); ++i) std::tie(b.symbols[i]->min, b.symbols[i]->max) = ranges[i];

  const auto unknown = [&](const ArgInfo& a) -> absl::Status {
    std::vector<std::string> wanted;
    for (size_t i = 0; i < symbols.size(); ++i) {
      const fb::SymbolDefT& s = *b.symbols[i];
      if (symbols[i] || (s.source != Source::ArgSize && s.source != Source::ArgInt) || args[s.arg]) continue;
      wanted.push_back(absl::StrCat("--size ", s.name, "=N (", RangeText(s.min, s.max), ")"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("a random ", Quoted(CallerName(a)), " (", TypeText(a, /*with_ranges=*/false), ") needs ",
                     wanted.empty() ? "other sizes than --size can give: --input or --inputs expected"
                                    : absl::StrCat("its sizes: ", absl::StrJoin(wanted, ", "))));
  };
  std::seed_seq sequence{static_cast<uint32_t>(*seed_), static_cast<uint32_t>(*seed_ >> 32),
                         static_cast<uint32_t>(call)};
  std::mt19937_64 random(sequence);
  const auto random_float = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i]) continue;
    const fb::ArgDefT& def = *b.args[i];
    const ArgInfo& a = program_->args()[i];
    switch (a.kind) {
      case ValueKind::kTensor: {
        std::vector<int64_t> extent;
        int64_t elements = 1;
        for (int e : def.sizes) {
          const int64_t n = values[e].min;
          if (n != values[e].max) return unknown(a);
          extent.push_back(n);
          if (n >= 0 && !__builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) &&
              elements <= kMostElements)
            continue;
          return absl::InvalidArgumentError(absl::StrCat("a random ", Quoted(CallerName(a)), " cannot have the sizes [",
                                                         absl::StrJoin(extent, ", "), "]"));
        }
        SMELT_RETURN_IF_ERROR(CatchOutOfMemory([&]() -> absl::Status {
          Tensor t = Tensor::Empty(a.dtype, extent);
          FillRandomly(t, random);
          args[i] = Datum(t);
          return absl::OkStatus();
        }));
        break;
      }
      case ValueKind::kInt: {
        int64_t value = static_cast<int64_t>(random() >> 63);
        for (size_t k = 0; k < symbols.size(); ++k) {
          if (b.symbols[k]->source != Source::ArgInt || b.symbols[k]->arg != static_cast<int>(i)) continue;
          if (!symbols[k]) return unknown(a);
          value = *symbols[k];
        }
        if (def.value >= 0) {
          value = values[def.value].min;
          if (value != values[def.value].max) return unknown(a);
        }
        args[i] = Datum(value);
        break;
      }
      case ValueKind::kBool:
        args[i] = Datum((random() >> 63) != 0);
        break;
      case ValueKind::kFloat:
        args[i] = Datum(random_float());
        break;
      case ValueKind::kComplex:
        args[i] = Datum(std::complex<double>(random_float(), random_float()));
        break;
      case ValueKind::kNone:
      case ValueKind::kString:
        return absl::InvalidArgumentError(WhyMissing(static_cast<int>(i), call));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Datum>> ArgumentMaker::Make(size_t call, const SymbolSizes& sizes) const {
  std::vector<std::optional<Datum>> args(program_->args().size());
  bool missing = false;
  for (size_t i = 0; i < args.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(args[i], Given(static_cast<int>(i), call));
    if (args[i]) continue;
    if (!seed_) return absl::InvalidArgumentError(WhyMissing(static_cast<int>(i), call));
    missing = true;
  }
  if (missing) SMELT_RETURN_IF_ERROR(FillIn(call, sizes, args));
  std::vector<Datum> out;
  for (std::optional<Datum>& a : args) out.push_back(*std::move(a));
  return out;
}

}  // namespace smelt
